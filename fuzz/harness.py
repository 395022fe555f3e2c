"""What a target is, and what it may do: the functions themselves are in `targets.py` and `file_targets.py`."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zvcore.errors import (
    CodecNotFoundError,
    CorruptDataError,
    InvalidKeyError,
    MetadataError,
    NotFoundError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["REFUSALS", "ROOM", "Target", "all_targets", "attempt", "look_at", "target"]

# What stored bytes may lead to.
REFUSALS = (CorruptDataError, MetadataError, UnsupportedError, CodecNotFoundError, NotFoundError, InvalidKeyError)
ROOM = 1 << 16


@dataclass(frozen=True)
class Target:
    """A function that must survive any bytes, and bytes to begin with.

    needs  the library of others that makes these, or reads with zvcore
    """

    name: str
    run: Callable[[bytes], Any]
    seeds: Callable[[], Iterable[bytes]]
    needs: str = ""


_targets: dict[str, Target] = {}


def target(name: str, seeds: Callable[[], Iterable[bytes]], needs: str = "") -> Callable[[Callable[[bytes], Any]], Any]:
    def add(run: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
        _targets[name] = Target(name, run, seeds, needs)
        return run

    return add


def all_targets() -> dict[str, Target]:
    import fuzz.file_targets
    import fuzz.targets  # noqa: F401 - each adds its own

    return _targets


def attempt(target: Target, data: bytes) -> bool:
    """Whether the target takes these bytes. Anything but a refusal is a fault and is passed on to the caller."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            target.run(data)
        except REFUSALS as error:
            str(error)
            return False
    return True


def look_at(array: Any) -> None:
    """Describe an array, and read its first corner."""
    repr(array)
    if hasattr(array, "shape") and array.shape and 0 not in array.shape:
        corner = tuple(slice(0, 1) for _ in array.shape)
        array.read(corner, threads=1)
        array.block_exists((0,) * len(array.shape))
