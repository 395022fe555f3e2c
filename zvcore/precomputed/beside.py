"""Annotations that lie in the folder of a volume, for viewers: they are shown as layers of one view with it."""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import TYPE_CHECKING

from zvcore.errors import ZvcoreError
from zvcore.precomputed.annotation_info import AnnotationInfo
from zvcore.precomputed.annotation_values import IndexValues
from zvcore.precomputed.kinds import ANNOTATIONS, kind_of
from zvcore.precomputed.metadata import INFO, read_info
from zvcore.stores.base import UnlistedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zvcore.stores import Store

__all__ = ["annotations_in", "related_segments"]

# How many folders are looked into, and how many sets are shown.
_MOST_FOLDERS, _MOST_SETS = 64, 8


def annotations_in(store: Store) -> dict[str, list[str]]:
    """The folders of annotations that lie directly in a folder, with the names of their relationships."""
    return {name: [one.name for one in info.relationships] for name, info in _sets(store)}


def _sets(store: Store) -> Iterator[tuple[str, AnnotationInfo]]:
    return itertools.islice(_all_sets(store), _MOST_SETS)


def _all_sets(store: Store) -> Iterator[tuple[str, AnnotationInfo]]:
    try:
        folders = store.list_dir()[0]
    except UnlistedError:  # the volume itself can be shown all the same
        return
    for name in sorted(folders)[:_MOST_FOLDERS]:
        # What is broken is told where it is looked at, and most folders have no document.
        with suppress(ZvcoreError):
            info = read_info(store, f"{name}/{INFO}")
            if kind_of(info, INFO) == ANNOTATIONS:
                yield name, AnnotationInfo.from_json(info, f"{name}/{INFO}")


def related_segments(store: Store, count: int) -> list[int]:
    """Some segments that the annotations in a folder are related to."""
    for name, info in _sets(store):
        for index in info.relationships:
            with suppress(ZvcoreError):
                for ids in IndexValues(store.child(name), index).batches():
                    if len(ids):
                        return [int(id) for id in ids[:count]]
    return []
