"""The options of new datasets of N5, for type checkers: `zvcore.n5.creating.create_dataset` tells of them."""

from __future__ import annotations

from typing import Literal

from zvcore.options import BoxedCreation, Opening

__all__ = ["DatasetOptions", "OpenOptions"]


class DatasetOptions(BoxedCreation, total=False):
    n5_version: str | None
    order: Literal["C", "F"]
    pad_edges: bool
    strict: bool
    write_empty_blocks: bool


class OpenOptions(Opening, total=False):
    """What arrays that are there are opened with."""

    n5_version: str | None
    order: Literal["C", "F"]
    pad_edges: bool
    strict: bool
    threads: int | None
    write_empty_blocks: bool
