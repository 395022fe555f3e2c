"""The two places of a copy: what is named is found, and that it can be copied there is made sure of."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeAlias

from zvcore.errors import InvalidKeyError, NotFoundError, without_credentials
from zvcore.stores.base import UnlistedError
from zvcore.stores.confined import ConfinedStore, Confinement
from zvcore.stores.opening import ARCHIVE_ENDINGS, open_beside, open_store
from zvcore.stores.overlap import are_same, overlap

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zvcore.care.mirror_questions import MirrorQuestion
    from zvcore.stores import Store
    from zvcore.stores.base import Facts, Refused
    from zvcore.stores.single_file import SingleFileStore

__all__ = ["Listed", "opened"]


class Listed:
    """All that a store has, and what it does not give out."""

    def __init__(self, store: Store) -> None:
        self.refused: list[tuple[str, OSError | InvalidKeyError]] = []
        self.objects = [*store.list_told(lambda key, error: self.refused.append((key, error)))]

    def told(self, refused: Refused) -> Iterator[tuple[str, Facts | None]]:
        """As `Store.list_told` does."""
        for key, error in self.refused:
            refused(key, error)
        return iter(self.objects)


_Found: TypeAlias = "tuple[Store, Listed | None]"


def opened(asked: MirrorQuestion) -> tuple[Store, Store, Listed | None]:
    """What is copied, where to, and what it has where that had to be listed."""
    src, dst, options = asked.src, asked.dst, asked.storage_options
    own = asked.source_options
    # Archives are written on disks of this machine only: elsewhere they are files like others.
    as_files = _is_url(dst) and _is_archive(dst) and _is_archive(src)
    source, listed = _source(src, own if own is not None else options if _is_url(src) else None, as_files)
    options = options if _is_url(dst) else None
    if source.file is not None:
        target: Store | None = open_beside(os.fsdecode(dst), "w", options)
        if target is None:
            raise ValueError(without_credentials(f"{src} is a file, so the destination must name one, not {dst}"))
    else:
        try:
            target = open_store(dst, "r" if asked.dry_run else "w", options)
        except NotFoundError:
            from zvcore.stores.memory import MemoryStore

            target = MemoryStore()  # nothing is there yet, and a dry run makes nothing
    if are_same(source, target):
        raise ValueError(without_credentials(f"{src} and {dst} are the same place"))
    if source.file is None and overlap(source, target):
        raise ValueError(without_credentials(f"one of {src} and {dst} lies in the other"))
    return source, target, listed


def _is_url(path: Any) -> bool:
    return isinstance(path, str) and "://" in path


def _is_archive(path: Any) -> bool:
    return isinstance(path, str | os.PathLike) and os.fsdecode(path).lower().endswith(ARCHIVE_ENDINGS)


def _source(src: Any, options: Mapping[str, Any] | None, archives_are_files: bool) -> _Found:
    if archives_are_files:
        file = open_beside(os.fsdecode(src), "r", options)
        if file is not None and file.exists(str(file.file)):
            return file, None
    if isinstance(src, (str, os.PathLike)):
        text = os.fsdecode(src)
        if "://" not in text and os.path.isdir(text):
            # A folder that others made may have links to anything on this machine.
            return ConfinedStore(Confinement(text)), None
        if "://" not in text and os.path.isfile(text) and not _is_archive(text):
            file = open_beside(text, "r", options)
            if file is not None:
                return file, None
    store = open_store(src, "r", options)
    return _listed_or_file(store, src, options) if _is_url(src) else (store, None)


def _listed_or_file(store: Store, src: str, options: Mapping[str, Any] | None) -> _Found:
    """What lies under an address, or else the one object that it names, which needs no list."""
    unlisted: UnlistedError | None = None
    try:
        listed = Listed(store)
        if listed.objects or listed.refused:
            return store, listed
    except UnlistedError as error:
        unlisted = error
    file = open_beside(src, "r", options)
    if file is not None and not file.exists(str(file.file)):
        file = None
    if unlisted is None or (file is not None and not _is_page(file)):
        if file is None:
            raise NotFoundError("there is nothing here", key=src)
        return file, None
    text = (
        "the web server answers with a page, as for folders"
        if file is not None
        else f"{unlisted.message}, and has no file of this name"
    )
    raise UnlistedError(f"{text}: copy files one by one, or a dataset with zvcore convert", key=src) from None


def _is_page(file: SingleFileStore) -> bool:
    """Whether a web server that lists nothing answers with a page where no page is asked for."""
    name = file.file.lower()
    begin = bytes(file.get(file.file, 0, 32) or b"").lstrip().lower()
    return begin.startswith((b"<!doctype html", b"<html")) and not name.endswith((".html", ".htm"))
