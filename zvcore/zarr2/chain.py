"""Filters and compressor of an array: what the engine's chains do, and what only Python can."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import zvcore.codecs
from zvcore.cached import cached_property
from zvcore.casting import as_dtype, in_native_order
from zvcore.codecs import CodecChain
from zvcore.codecs.filters import plainly_filtered
from zvcore.codecs.unfit import check_of_values
from zvcore.codecs.variable_items import VariableItems
from zvcore.errors import CorruptDataError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zvcore.codecs import Codec
    from zvcore.layout import ValueCodec
    from zvcore.zarr2.dtypes import DataType

__all__ = ["Pipeline"]


@dataclass(frozen=True)
class Pipeline:
    """What becomes of a chunk's values, in the order of writing.

    axes    the array's axes from slowest to fastest as chunks lie
    codecs  the filters and, behind them, the compressor, as the document has them
    """

    data_type: DataType
    axes: tuple[int, ...]
    codecs: tuple[Mapping[str, Any], ...]
    where: str

    @cached_property
    def _made(self) -> list[Codec]:
        """The codecs themselves, made when they are first needed: opening an array needs none of them."""
        return [zvcore.codecs.from_zarr2(one, where=self.where) for one in self.codecs]

    @property
    def filters(self) -> list[Codec]:
        """The codecs of arrays, and those that stand before one."""
        kinds = [codec.kind for codec in self._made]
        return self._made[: max((number + 1 for number, kind in enumerate(kinds) if kind != "bytes"), default=0)]

    @cached_property
    def _steps(self) -> tuple[list[Codec], list[Codec]]:
        """What only Python can run, and the codecs of bytes behind it.

        A filter of arrays is among the latter if it can be done to bytes, and so can all behind it.
        """
        python: list[Codec] = []
        native: list[Codec] = []
        for number, (codec, dtype) in enumerate(zip(self._made, self._entering(), strict=True), 1):
            as_bytes = codec.for_dtype(dtype) if codec.kind == "bytes" else self._as_bytes(codec, dtype)
            if number > 1 and check_of_values(codec, in_native_order(dtype)) is not None:
                as_bytes = None  # only values that are assigned are looked at elsewhere
            if as_bytes is None:
                python, native = self._made[:number], []
            else:
                native.append(as_bytes)
        return python, native

    def _as_bytes(self, codec: Codec, dtype: np.dtype[Any]) -> Codec | None:
        if self.data_type.kind != "fixed" or (self.axes != tuple(range(len(self.axes))) and _keeps_no_order(codec)):
            return None
        return codec.as_bytes(dtype)

    def _entering(self) -> list[np.dtype[Any]]:
        """The type of the items that each codec gets: blosc shuffles them."""
        dtype = self.data_type.stored
        types = []
        behind_bytes = False
        for codec in self._made:
            if behind_bytes and codec.kind != "bytes":
                dtype = np.dtype("u1")
            types.append(dtype if not dtype.hasobject and dtype.kind != "T" else np.dtype("u1"))
            form = getattr(codec, "encoded_form", None)
            behind_bytes = codec.kind == "bytes"
            if codec.kind != "bytes":
                dtype = form(dtype, (1,))[0] if codec.kind == "array" and form is not None else np.dtype("u1")
        return types

    @cached_property
    def chain(self) -> CodecChain:
        """The codecs of bytes behind what only Python can run."""
        return CodecChain(self._steps[1])

    @cached_property
    def value_codec(self) -> ValueCodec | None:
        """What turns the bytes that the chain has decoded into values where the engine does not."""
        python, _ = self._steps
        if self.data_type.kind in ("text", "bytes") and len(python) == 1:
            return VariableItems(self.data_type.dtype, self.axes)
        return Filtered(self.data_type, self.axes, python) if python else None

    def __getstate__(self) -> dict[str, Any]:
        made = ("_made", "_steps", "chain", "value_codec")
        return {name: value for name, value in vars(self).items() if name not in made}


class Filtered:
    """The value codec of chunks behind filters that only Python can run.

    Filters get the items as they lie in memory, which is why their order of axes makes a difference to them.
    """

    def __init__(self, data_type: DataType, axes: Sequence[int], codecs: Sequence[Codec]) -> None:
        self.data_type = data_type
        self.axes = tuple(axes)
        self.codecs = tuple(codecs)

    def decode(self, data: memoryview, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        buffer: Any = data
        for codec in reversed(self.codecs):
            buffer = _decoded(codec, buffer)
        stored = tuple(shape[axis] for axis in self.axes)
        return self._values(buffer, stored).reshape(stored).transpose(np.argsort(self.axes))

    @property
    def alike(self) -> Any:
        """Equal for codecs that make the same bytes of the same values; None where that is not known."""
        if self.data_type.swapped or self.data_type.kind != "fixed":
            return None
        said = plainly_filtered(self.codecs, self.data_type.dtype)
        return None if said is None else (self.axes, said)

    def _values(self, buffer: Any, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        """What the filters have made, as the array's items one after the other."""
        dtype, stored = self.data_type.dtype, self.data_type.stored
        count = math.prod(shape)
        values = buffer if isinstance(buffer, np.ndarray) else np.frombuffer(buffer, np.uint8)
        if dtype.hasobject:
            return _counted(values.reshape(-1), count).astype(dtype, copy=False)
        if values.dtype.hasobject:
            raise CorruptDataError("the filters give objects, and no numbers", codec=self.codecs[0].name)
        flat = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        if len(flat) != count * stored.itemsize:
            raise CorruptDataError(
                "the decoded chunk has a wrong size", expected=count * stored.itemsize, found=len(flat)
            )
        items = flat.view(stored)
        return items if stored == dtype else as_dtype(items, dtype)

    def encode(self, values: npt.NDArray[Any]) -> bytes:
        stored = self.data_type.stored
        buffer: Any = np.ascontiguousarray(values.transpose(self.axes))
        if stored != self.data_type.dtype:
            buffer = as_dtype(buffer, stored)
        if self.axes != tuple(range(len(self.axes))):
            # As a Fortran-ordered array, which is what others give to filters.
            buffer = buffer.transpose(np.argsort(self.axes))
            _check_order(self.codecs)
        for number, codec in enumerate(self.codecs):
            if number:
                _refuse_unfit(codec, buffer)
            buffer = _encoded(codec, buffer)
        return _as_bytes(buffer)


def _counted(values: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
    if len(values) != count:
        raise CorruptDataError("the chunk holds another number of items", expected=count, found=len(values))
    return values


def _keeps_no_order(codec: Codec) -> bool:
    """numcodecs' bitround answers in C order, and then nobody reads the values that were written."""
    return codec.name == "numcodecs.bitround"


def _check_order(codecs: Sequence[Codec]) -> None:
    if any(map(_keeps_no_order, codecs)):
        raise UnsupportedError(
            "bitround changes the order of items in chunks of order F, so that other values are read back",
            codec="numcodecs.bitround",
        )  # fmt: skip


def _decoded(codec: Codec, buffer: Any) -> Any:
    decode = getattr(codec, "decode_buffer", None)
    if decode is not None:
        return decode(buffer)
    if codec.kind != "bytes":
        raise UnsupportedError("a filter of arrays that does not work on buffers", codec=codec.name)
    return codec.decode(_as_bytes(buffer) if isinstance(buffer, np.ndarray) else buffer)


def _encoded(codec: Codec, buffer: Any) -> Any:
    encode = getattr(codec, "encode_buffer", None)
    if encode is not None:
        return encode(buffer)
    if codec.kind != "bytes":
        raise UnsupportedError("a filter of arrays that does not work on buffers", codec=codec.name)
    return codec.encode(_as_bytes(buffer))


def _refuse_unfit(codec: Codec, buffer: Any) -> None:
    """Refuse what others than the first filter cannot hold: what that gets is looked at when it is assigned."""
    check = check_of_values(codec, in_native_order(buffer.dtype)) if isinstance(buffer, np.ndarray) else None
    if check is not None:
        check(buffer)


def _as_bytes(buffer: Any) -> bytes:
    """The bytes of a buffer as they lie in memory."""
    return buffer.tobytes(order="A") if isinstance(buffer, np.ndarray) else bytes(buffer)
