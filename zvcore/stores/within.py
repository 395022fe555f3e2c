"""Objects that lie in one file of this machine, which threads can read by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zvcore.stores.base import Stamp

__all__ = ["Inside", "Within"]


class Inside(NamedTuple):
    """Where an object lies in a file, and the CRC-32 of its bytes."""

    begin: int
    size: int
    crc32: int


class Within(NamedTuple):
    """A file of this machine, in `folder`, and where objects lie in it, None for those that are not there."""

    folder: bytes
    file: str
    stamp: Stamp
    objects: Sequence[Inside | None]
