"""What a format tells the engine about one array: where each chunk's bytes live, and how they become values.

A format is its metadata plus a subclass of `Layout`. Everything else (selections, threads, codecs, clipping, byte
order, partial chunks) is the engine's and `Array`'s work and is the same for all formats.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from zvcore.codecs import CodecChain
    from zvcore.engine import EncodedChunks, Keys
    from zvcore.stores import Store

__all__ = ["ABSENT", "ChunkForm", "Layout", "Sources", "ValueCodec"]

# The length of a chunk that is not there (it reads as the fill value), and the size of one that need not be stored.
ABSENT = 2**64 - 1


@dataclass(frozen=True)
class ChunkForm:
    """How the decoded bytes of a chunk lie.

    shape     of a whole chunk, in the array's axes
    dtype     of the array, in native byte order
    swapped   whether stored values have the other byte order
    axes      the array's axes from slowest to fastest as the bytes lie: (0, 1, 2) is C order, (2, 1, 0) Fortran order
    edge      chunks that reach over the array's end are stored whole ("full"), cut at the end ("cropped"), or say
              themselves how large they are ("framed")
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    swapped: bool = False
    axes: tuple[int, ...] = ()
    edge: Literal["full", "cropped", "framed"] = "full"


@dataclass
class Sources:
    """Where the stored bytes of some chunks are; row i of each column belongs to the i-th chunk asked for.

    keys      the objects; each named once
    key       int32[n], which of `keys`; None: row i is object i
    offset    uint64[n], and
    length    uint64[n], the byte range, ABSENT length for a chunk that is not stored; both None: whole objects, and an
              object that does not exist is an absent chunk
    blobs     bytes that are at hand already, instead of objects: `key` then indexes this list
    chain     uint8[n], which of the layout's codec chains; None: the first
    """

    keys: Keys
    key: npt.NDArray[np.int32] | None = None
    offset: npt.NDArray[np.uint64] | None = None
    length: npt.NDArray[np.uint64] | None = None
    blobs: Sequence[memoryview] | None = None
    chain: npt.NDArray[np.uint8] | None = None


class ValueCodec(Protocol):
    """Turns one chunk's bytes into an array and back where a `ChunkForm` cannot say how: strings, pictures, filters.

    It runs in Python under the GIL; the bytes codecs of the chain have been undone before `decode` and follow `encode`.
    """

    def decode(self, data: memoryview, shape: tuple[int, ...]) -> npt.NDArray[Any]: ...

    def encode(self, values: npt.NDArray[Any]) -> bytes: ...


class Layout(ABC):
    """One array as a format stores it. Grid positions are int64[n, ndim] arrays throughout."""

    store: Store
    shape: tuple[int, ...]
    form: ChunkForm
    fill_value: Any
    chains: tuple[CodecChain, ...]
    shard_shape: tuple[int, ...] | None = None
    # A capsule of C functions that read and write a chunk's own header (`zvcore/include/zv_framing.h`).
    framing: object | None = None
    value_codec: ValueCodec | None = None
    # Whether chunks that hold nothing but the fill value are stored all the same.
    store_empty: bool = False

    @abstractmethod
    def locate(self, positions: npt.NDArray[np.int64]) -> Sources:
        """Where the bytes of these chunks are now. A shard's index is read here, through the store's index cache."""

    @abstractmethod
    def chunk_name(self, position: tuple[int, ...]) -> str:
        """What errors call the object that holds this chunk: its key in the store."""

    def keys(self, positions: npt.NDArray[np.int64]) -> Keys:
        """One object per chunk: the keys to write. Only for layouts without shards."""
        raise TypeError(f"{type(self).__name__} stores several chunks in one object")

    def shards(self, positions: npt.NDArray[np.int64]) -> list[tuple[str, npt.NDArray[np.intp]]]:
        """Which objects hold these chunks: (key, rows of `positions`) per shard. Only for layouts with shards."""
        raise TypeError(f"{type(self).__name__} has no shards")

    def update(self, key: str, positions: npt.NDArray[np.int64], chunks: EncodedChunks) -> None:
        """Put these encoded chunks into a shard, keep its other chunks as they are. Called under the lock of the key.

        A chunk whose size is ABSENT is taken out. `positions` and `chunks` have the same order.
        """
        raise TypeError(f"{type(self).__name__} has no shards")
