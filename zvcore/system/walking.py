"""All folders below one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, AnyStr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["walk"]


def walk(
    top: AnyStr, on_error: Callable[[OSError], object] | None = None
) -> Iterator[tuple[AnyStr, list[AnyStr], list[AnyStr]]]:
    """As `os.walk`, which calls itself for each level before Python 3.12: a thousand of them are too many."""
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        below: list[AnyStr] = []
        names: list[AnyStr] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    (below if _is_folder(entry) else names).append(entry.name)
        except OSError as error:
            if on_error is not None:
                on_error(error)
            continue
        yield folder, below, names
        paths = [os.path.join(folder, name) for name in reversed(below)]
        waiting += [path for path in paths if not os.path.islink(path)]


def _is_folder(entry: os.DirEntry[AnyStr]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # links in a circle
        return False
