"""What encodings have in common whose chunks a helper process decodes: the data that they hold, and their codecs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from zvcore.codecs import Codec, param
from zvcore.errors import CorruptDataError, MetadataError
from zvcore.precomputed.encodings import ChunkEncoding, wrong_data
from zvcore.precomputed.guarded import decode_guarded

if TYPE_CHECKING:
    import struct
    from collections.abc import Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

__all__ = ["GuardedChunk", "GuardedEncoding", "GuardedLabels"]


class GuardedChunk(Codec):
    """A chunk of known shape and type, whose decoder runs in a helper. Subclasses encode, and tell of the header.

    header  its layout, where it stands at a fixed place
    """

    header: ClassVar[struct.Struct | None] = None

    shape: tuple[int, ...] = param((1, 1, 1, 1))
    dtype: str = param("uint8")

    def _check(self) -> None:
        if len(self.shape) != 4 or any(size < 1 for size in self.shape):
            raise MetadataError("a chunk has a shape (x, y, z, channels)", codec=self.name, found=self.shape)

    @property
    def _type(self) -> np.dtype[Any]:
        import numpy as np

        return np.dtype(self.dtype)

    def _voxels(self, data: memoryview) -> npt.NDArray[Any]:
        """The chunk [x, y, z, channel] of raw bytes, in Fortran order."""
        import numpy as np

        values = np.frombuffer(data, self._type.newbyteorder("<"))
        if values.size != int(np.prod(self.shape)):
            raise ValueError(f"{len(data)} bytes are no chunk of shape {self.shape}")
        return np.asfortranarray(values.reshape(self.shape, order="F").astype(self._type))

    def facts(self, members: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """(what the members of a header must say of this chunk, what they say)."""
        raise NotImplementedError

    def check_header(self, data: memoryview) -> None:
        """Raise CorruptDataError where the header is that of another chunk, as far as it says which one it is."""
        if self.header is None:
            return
        if len(data) < self.header.size:
            expected: Any = f"at least {self.header.size} bytes"
            found: Any = len(data)
        else:
            expected, found = self.facts(self.header.unpack_from(data))
        if found != expected:
            raise CorruptDataError("the encoded chunk is another one, by its header", expected=expected, found=found)

    def _decode(self, data: memoryview, max_size: int) -> bytes:
        self.check_header(data)
        return decode_guarded(self.name, data, self.shape, self._type)


class GuardedEncoding(ChunkEncoding):
    """An encoding whose chunks are decoded in a helper.

    chunk  its codec, of whose parameters all but the shape and the type of the data are `parameters`
    kinds  the types of data that it holds, and
    holds  these in words
    """

    chunk: ClassVar[type[GuardedChunk]]
    kinds: ClassVar[str]
    holds: ClassVar[str]

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {}

    def check(self, dtype: np.dtype[Any], channels: int) -> None:
        if dtype.kind not in self.kinds:
            raise wrong_data(self.name, "data type", self.holds, dtype)

    def codecs(self, shape: tuple[int, int, int, int], dtype: np.dtype[Any]) -> Sequence[Codec]:
        return (self.chunk(shape=shape, dtype=dtype.name, **self.parameters),)


class GuardedLabels(GuardedEncoding):
    """One that holds labels: unsigned numbers, in one channel. Others are refused, or come back wrong."""

    kinds = "u"
    holds = "uint8 to uint64"

    def check(self, dtype: np.dtype[Any], channels: int) -> None:
        super().check(dtype, channels)
        if channels != 1:
            raise wrong_data(self.name, "number of channels", 1, channels)
