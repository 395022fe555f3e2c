"""How the voxels of one chunk become bytes: encodings, found by entry points of the group `zvcore.chunk_encodings`.

An encoding is a class with a `name`. It reads its own parameters from the members of a scale in `info` and writes them
back, says which data it can hold, and gives the codecs that turn the raw bytes of a chunk of a known shape (x
fastest, channels slowest, little-endian) into stored ones. So a volume knows no encoding by name, and the engine sees
only codecs.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from importlib import metadata
from typing import TYPE_CHECKING, Any, ClassVar, Self

from zvcore.errors import CodecConflictError, CodecNotFoundError, MetadataError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from zvcore.codecs import Codec

__all__ = ["GROUP", "ChunkEncoding", "available_encodings", "get_encoding", "register_encoding"]

GROUP = "zvcore.chunk_encodings"
# What to install for encodings that volumes are known to have.
KNOWN = {
    "jpeg": "pip install zvcore[images]",
    "png": "pip install zvcore[images]",
    "jxl": "pip install zvcore[images]",
    "compresso": "pip install zvcore[compresso]",
    "crackle": "pip install zvcore[crackle]",
    "fpzip": "pip install zvcore[fpzip]",
    "kempressed": "pip install zvcore[fpzip]",
    "zfpc": "pip install zvcore[zfpc]",
}


class ChunkEncoding(ABC):
    """One encoding with its parameters. A subclass gives its `name`, and the members of a scale that are its own."""

    name: ClassVar[str] = ""
    members: ClassVar[tuple[str, ...]] = ()
    # Those of them that a scale must have, for new scales that do not say otherwise.
    defaults: ClassVar[Mapping[str, Any]] = {}
    # Those of them, with their values, by which nothing is lost, where it would be otherwise.
    lossless_members: ClassVar[Mapping[str, Any]] = {}
    # Whether compressing its result again is useless.
    compressed: ClassVar[bool] = False

    @property
    def lossy(self) -> bool:
        """Whether values do not come back exactly."""
        return False

    @classmethod
    def from_scale(cls, scale: Mapping[str, Any]) -> Self:
        """The encoding with the parameters that a scale of an `info` file gives."""
        return cls()

    def to_scale(self) -> dict[str, Any]:
        """The members of a scale that say these parameters."""
        return {}

    def check(self, dtype: np.dtype[Any], channels: int) -> None:
        """Raise MetadataError when it cannot hold such data."""

    @abstractmethod
    def codecs(self, shape: tuple[int, int, int, int], dtype: np.dtype[Any]) -> Sequence[Codec]:
        """What turns the raw bytes of a chunk of this shape, (x, y, z, channels), into its encoded bytes, in order."""


_lock = threading.Lock()
_registered: dict[str, type[ChunkEncoding]] = {}


def register_encoding(name: str, cls: type[ChunkEncoding]) -> None:
    """Use `cls` for this name from now on, whatever is installed."""
    with _lock:
        _registered[name] = cls


def available_encodings() -> list[str]:
    """The names of all encodings that are installed or registered."""
    return sorted({*(point.name for point in metadata.entry_points(group=GROUP)), *_registered})


def get_encoding(name: str, *, where: str | None = None) -> type[ChunkEncoding]:
    """The encoding of this name; `where` is the document that names it, for errors."""
    with _lock:
        found = _registered.get(name)
    if found is not None:
        return found
    points = {(point.value, _owner(point)): point for point in metadata.entry_points(group=GROUP, name=name)}
    if len({value for value, _ in points}) > 1:
        sides = " and ".join(f"{owner} ({value})" for value, owner in points)
        raise CodecConflictError(
            f"the chunk encoding {name!r} is provided by {sides}; uninstall one of them", key=where
        )
    if not points:
        installed = ", ".join(available_encodings()) or "none; install zvcore itself: pip install [-e] ."
        advice = f"; {KNOWN[name]}" if name in KNOWN else ""
        raise CodecNotFoundError(
            f"no installed chunk encoding is called {name!r}; installed: {installed}{advice}", key=where
        )
    point = next(iter(points.values()))
    try:
        cls = point.load()
    except Exception as error:
        advice = f"; {KNOWN[name]}" if name in KNOWN else ""
        raise CodecNotFoundError(
            f"the chunk encoding {name!r} of {_owner(point)} cannot be loaded: {type(error).__name__}: {error}{advice}",
            key=where,
        ) from error
    if not (isinstance(cls, type) and issubclass(cls, ChunkEncoding)):
        raise CodecNotFoundError(f"{point.value} of {_owner(point)} is not a chunk encoding", key=where)
    with _lock:
        return _registered.setdefault(name, cls)


def _owner(point: metadata.EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "an unknown distribution"


def wrong_data(name: str, what: str, expected: Any, found: Any) -> MetadataError:
    """The error of data that an encoding cannot hold."""
    return MetadataError(f"the chunk encoding {name!r} cannot hold this {what}", expected=expected, found=found)
