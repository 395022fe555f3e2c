"""Which data sets lie below a folder, found without looking into their chunks."""

from __future__ import annotations

import itertools
import os
import stat
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from zvcore.converting.note import KEY, UnfinishedConversion, unfinished_around, unfinished_at
from zvcore.errors import ZvcoreError
from zvcore.format import formats
from zvcore.opening import detect, open_silently, unreadable
from zvcore.pictures.preview import image_of
from zvcore.serving.paths import is_shown
from zvcore.stores import open_store
from zvcore.stores.single_file import SingleFileStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zvcore.format import ViewerSource
    from zvcore.images import Image
    from zvcore.serving.paths import Root
    from zvcore.stores import Store

__all__ = [
    "Catalog",
    "Dataset",
    "dataset_at",
    "find_datasets",
    "is_dataset_file",
    "marks",
    "open_dataset",
    "stored_size",
]

_DEEPEST = 12
_MOST_FOLDERS = 20_000
_MOST_DATASETS = 500
_SECONDS = 5.0
_NOTE = KEY.encode()


@dataclass
class Dataset:
    """Something that can be shown, or that should be and is broken.

    names     the way to it from the root; `path` is the same as text
    store     what lies there
    format    the name of its format
    kind      what it is, in a word or two
    viewer    how Neuroglancer reads it, where that is known without opening it
    unfinished  what there is to say of the conversion into this place, or one above it, that has not ended
    """

    names: list[bytes]
    store: Store
    format: str
    kind: str
    node: Any = None
    pyramid: Image | None = None
    viewer: ViewerSource | None = None
    format_title: str | None = None
    error: str | None = None
    unfinished: str | None = None

    @property
    def path(self) -> str:
        return b"/".join(self.names).decode("utf-8", "backslashreplace")

    @property
    def title(self) -> str:
        name = self.names[-1] if self.names else os.path.basename(os.fsencode(self.store.root))
        return name.decode("utf-8", "backslashreplace")

    @property
    def is_vectors(self) -> bool:
        return self.node is not None and self.node.kind == "vectors"

    @property
    def labels(self) -> bool:
        return self.pyramid is not None and self.pyramid.labels


@dataclass
class Catalog:
    """All data sets that were found; `cut` says what was left out, if something was."""

    datasets: list[Dataset] = field(default_factory=list)
    cut: str | None = None


def find_datasets(root: Root) -> Catalog:
    """Every array, pyramid, volume and set of vectors below the root, sorted by path."""
    catalog = Catalog()
    deadline = time.monotonic() + _SECONDS
    seen = 0
    known, endings = marks(), suffixes()
    # A folder, and what there is to say of the unfinished conversion that it lies in.
    pending: list[tuple[list[bytes], str | None]] = [([], _told(unfinished_around(os.fsdecode(root.path))))]
    while pending:
        names, unfinished = pending.pop()
        seen += 1
        if seen > _MOST_FOLDERS or time.monotonic() > deadline or len(catalog.datasets) >= _MOST_DATASETS:
            catalog.cut = f"The search ended after {seen} folders; serve a smaller folder to see the rest."
            break
        folders: list[bytes] = []
        files: set[bytes] = set()
        try:
            # What links lead to is listed where it is.
            for entry in root.entries(names):
                (folders.append if entry.is_dir(follow_symlinks=False) else files.add)(os.fsencode(entry.name))
        except OSError:
            continue
        if _NOTE in files:
            unfinished = _told(unfinished_at(root.store(names)))
        here = sorted(name for name in files if name.lower().endswith(endings))
        catalog.datasets += itertools.islice(
            _files(root, names, here, deadline), _MOST_DATASETS - len(catalog.datasets)
        )
        if files & known:
            found = open_dataset(root.store(names), names)
            if found is not None:
                found.unfinished = unfinished
                catalog.datasets.append(found)
                if found.kind != "group":
                    continue
                catalog.datasets.pop()
        if len(names) < _DEEPEST:
            pending += [([*names, name], unfinished) for name in sorted(folders, reverse=True) if is_shown(name)]
    catalog.datasets.sort(key=lambda dataset: dataset.names)
    return catalog


def _files(root: Root, names: list[bytes], files: list[bytes], deadline: float) -> Iterator[Dataset]:
    """Data sets that are files of a folder: there may be a stack of thousands."""
    for name in files:
        if time.monotonic() > deadline:
            return
        found = open_dataset(file_store(root, [*names, name]), [*names, name]) if is_shown(name) else None
        if found is not None:
            found.unfinished = _told(unfinished_at(found.store))
            yield found


def _told(found: UnfinishedConversion | None) -> str | None:
    """Not why it failed: that may name what lies elsewhere on this machine."""
    return None if found is None else str(replace(found, failed=None))


def marks() -> set[bytes]:
    """The names of the documents by which data sets are known."""
    return {mark.encode() for one in formats().values() for mark in one.marks}


def suffixes() -> tuple[bytes, ...]:
    """How the names of files end that may be datasets by themselves, in lower case."""
    return tuple(suffix.encode() for one in formats().values() for suffix in one.suffixes)


def is_dataset_file(root: Root, names: list[bytes]) -> bool:
    """Whether this is a file that may be a dataset by itself."""
    if not names or not names[-1].lower().endswith(suffixes()):
        return False
    found = root.look(names)
    return found is not None and stat.S_ISREG(found.st_mode)


def file_store(root: Root, names: list[bytes]) -> Store:
    """The store of a dataset that is a file."""
    return SingleFileStore(root.store(names[:-1]), os.fsdecode(names[-1]))


def dataset_at(root: Root, names: list[bytes]) -> Dataset | None:
    """The data set in a folder, or that a file is; None if there is none of either."""
    if any(root.look([*names, name]) is not None for name in marks()):
        return open_dataset(root.store(names), names)
    if is_dataset_file(root, names):
        return open_dataset(file_store(root, names), names)
    return None


def open_dataset(store: Store, names: list[bytes]) -> Dataset | None:
    """What the documents in this folder describe; None if they describe nothing that is known."""
    format = None
    try:
        format = detect(store)
        if format is None:
            return _unreadable_file(store, names) if isinstance(store, SingleFileStore) else None
        seen = format.glimpse(store)
        if seen is not None:
            name = seen.format or format.name
            return Dataset(names, store, name, seen.kind, viewer=seen.viewer, format_title=seen.title, error=seen.error)
        node = open_silently(open_store(store), format=format.name)
    except (ZvcoreError, ValueError, OSError, RecursionError) as error:
        name = next(iter(formats())) if format is None else format.name
        return Dataset(names, store, name, "broken", error=f"{type(error).__name__}: {error}")
    if node.kind == "vectors":
        return Dataset(names, store, format.name, ", ".join(node.geometry_types) or "vectors", node)
    image = image_of(node)
    if image is None:
        return Dataset(names, store, format.name, node.kind, node)
    kind = node.kind
    if image.convention is not None and kind != "array":
        kind = (image.kind or "image") if kind == "image" else "pyramid"
    return Dataset(names, store, format.name, kind, node, image)


def _unreadable_file(store: SingleFileStore, names: list[bytes]) -> Dataset | None:
    """A file that is called as one of a format, and is none."""
    error = unreadable(store)
    if error is None:
        return None
    name = next(one.name for one in formats().values() if store.file.lower().endswith(tuple(one.suffixes) or "\0"))
    return Dataset(names, store, name, "broken", error=f"{type(error).__name__}: {error}")


def stored_size(root: Root, names: list[bytes], seconds: float) -> tuple[int, int, bool]:
    """(bytes, files, whether all were counted in time) below a folder; links are not followed."""
    deadline = time.monotonic() + seconds
    size = count = 0
    here = root.look(names)
    if here is not None and stat.S_ISREG(here.st_mode):
        return here.st_size, 1, True
    pending = [names]
    while pending:
        folder = pending.pop()
        try:
            for place, entry in enumerate(root.entries(folder)):
                if entry.is_dir(follow_symlinks=False):
                    pending.append([*folder, os.fsencode(entry.name)])
                else:
                    with suppress(FileNotFoundError):
                        size += entry.stat(follow_symlinks=False).st_size
                        count += 1
                if place % 1000 == 999 and time.monotonic() > deadline:
                    return size, count, False
        except OSError:
            continue
        if pending and time.monotonic() > deadline:
            return size, count, False
    return size, count, True
