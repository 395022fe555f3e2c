"""How the voxels of one chunk become bytes: encodings, found by entry points of the group `zvcore.chunk_encodings`.

An encoding is a class with a `name`. It reads its own parameters from the members of a scale in `info` and writes them
back, says which data it can hold, and gives the codecs that turn the raw bytes of a chunk of a known shape (x
fastest, channels slowest, little-endian) into stored ones. So a volume knows no encoding by name, and the engine sees
only codecs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self

from zvcore.errors import CodecConflictError, CodecNotFoundError, MetadataError
from zvcore.plugins import Plugins

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from zvcore.codecs import Codec

__all__ = ["GROUP", "ChunkEncoding", "available_encodings", "get_encoding", "register_encoding"]

GROUP = "zvcore.chunk_encodings"
# What to install for encodings that volumes are known to have.
KNOWN = {
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


def _complete(cls: Any, name: str) -> type[ChunkEncoding]:
    if isinstance(cls, type) and issubclass(cls, ChunkEncoding):
        return cls
    raise TypeError(f"{cls!r} is not a chunk encoding")


encodings: Plugins[type[ChunkEncoding]] = Plugins(
    GROUP,
    "chunk encoding",
    "zvcore.precomputed.encodings.register_encoding({name}, cls)",
    complete=_complete,
    broken=CodecNotFoundError,
    conflict=CodecConflictError,
)


def register_encoding(name: str, cls: type[ChunkEncoding]) -> None:
    """Use `cls` for this name from now on, whatever is installed."""
    encodings.register(name, cls)


def available_encodings() -> list[str]:
    """The names of all encodings that are installed or registered."""
    return encodings.names()


def get_encoding(name: str, *, where: str | None = None) -> type[ChunkEncoding]:
    """The encoding of this name; `where` is the document that names it, for errors."""
    advice = f"; {KNOWN[name]}" if name in KNOWN else ""
    try:
        found = encodings.find(name)
    except CodecConflictError as error:
        raise error.located(key=where)
    except CodecNotFoundError as error:
        raise CodecNotFoundError(f"{error}{advice}", key=where) from error.__cause__
    if found is None:
        installed = ", ".join(available_encodings()) or "none; install zvcore itself: pip install [-e] ."
        raise CodecNotFoundError(
            f"no installed chunk encoding is called {name!r}; installed: {installed}{advice}", key=where
        )
    return found


def wrong_data(name: str, what: str, expected: Any, found: Any) -> MetadataError:
    """The error of data that an encoding cannot hold."""
    return MetadataError(f"the chunk encoding {name!r} cannot hold this {what}", expected=expected, found=found)
