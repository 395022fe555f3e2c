"""Codecs of a shard's index other than `bytes` and `crc32c`: whatever gives a result of known size.

An index is an array of u64 like any other, so its codecs are those of any chunk: `transpose` and filters before
`bytes`, and behind it the codecs that say by `Codec.encoded_size` how long their result will be.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from zvcore.cached import cached_property
from zvcore.errors import CorruptDataError, UnsupportedError
from zvcore.zarr3.chain import parse_codecs
from zvcore.zarr3.dtypes import data_type_of
from zvcore.zarr3.filtered import Filtered

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from zvcore.documents.members import Place
    from zvcore.zarr3.chain import Pipeline

__all__ = ["GeneralIndexCodecs"]


@dataclass(frozen=True)
class GeneralIndexCodecs:
    """The codecs of indexes of one shape, and how many bytes an index takes."""

    written: tuple[Any, ...]
    pipeline: Pipeline
    size: int

    @classmethod
    def from_json(cls, codecs: list[Any], chunks: tuple[int, ...], place: Place) -> GeneralIndexCodecs:
        pipeline = parse_codecs(codecs, (*chunks, 2), data_type_of("uint64"), place)
        if pipeline.sharding is not None:
            raise UnsupportedError(
                "index codec 'sharding_indexed': an index has a fixed size", key=place.key, member=place.path
            )
        dtype, shape = Filtered(pipeline).encoded_form()
        size: int | None = prod(shape) * dtype.itemsize
        for codec in pipeline.chain.codecs:
            assert size is not None
            size = codec.encoded_size(size)
            if size is None:
                text = f"index codec {codec.name!r}: an index has a fixed size, the result of this codec has not"
                raise UnsupportedError(text, key=place.key, member=place.path)
        assert size is not None
        return cls(tuple(codecs), pipeline, size)

    def __hash__(self) -> int:
        # Codecs as metadata have them are dictionaries.
        return hash((self.pipeline.shape, self.size))

    def to_json(self) -> list[Any]:
        return list(self.written)

    @cached_property
    def _values(self) -> Filtered:
        return Filtered(self.pipeline)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_values"}

    def encode(self, entries: npt.NDArray[np.uint64]) -> bytes:
        data = self._values.encode(entries)
        for codec in self.pipeline.chain.codecs:
            data = codec.encode(data)
        if len(data) != self.size:
            raise UnsupportedError("an index codec whose result is not as long as it says", found=len(data))
        return data

    def decode(self, raw: memoryview) -> npt.NDArray[np.uint64]:
        """u64[..., 2], where the index says that it has as many entries as it must."""
        data: Any = raw
        # Anything longer than a moderate multiple of the index is not an index.
        limit = 2 * self.size + 16 * prod(self.pipeline.shape)
        for codec in reversed(self.pipeline.chain.codecs):
            data = codec.decode(data, max_size=limit)
        values = self._values.decode(memoryview(data).cast("B"), self.pipeline.shape)
        if values.shape != self.pipeline.shape:
            raise CorruptDataError("the index has another shape", expected=self.pipeline.shape, found=values.shape)
        return values
