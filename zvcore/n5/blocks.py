"""Blocks whose values do not fill a box: lists of numbers of any length, strings, and bytes for programs to know."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from zvcore import codecs
from zvcore.engine.chunks import Chunks
from zvcore.engine.fetching import ceiling, encode_many
from zvcore.engine.prepared import Prepared
from zvcore.engine.read import fetch_chunks
from zvcore.engine.sources import Sources
from zvcore.engine.work import Work
from zvcore.errors import CorruptDataError, MetadataError, ZvcoreError
from zvcore.n5._framing import parse_header

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zvcore.codecs import CodecChain
    from zvcore.engine.buffers import Keys

__all__ = ["MODES", "Block", "decode_block", "encode_block", "fills_a_box", "mode_of"]

MODES = ("default", "varlength", "object")
_ITEM_LIMIT = 2**31
# What a string takes in a list, at least.
_STRING_BYTES = 64


@dataclass(frozen=True, eq=False)
class Block:
    """One block in a mode other than the default.

    mode    "varlength" or "object"
    data    a one-dimensional array of numbers; a list of str for dtype "string"; bytes in object mode
    shape   what the block's header says of its extent, in the array's axes; () in object mode. It need not fit the data
    """

    mode: Literal["varlength", "object"]
    data: npt.NDArray[Any] | list[str] | bytes
    shape: tuple[int, ...] = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Block):
            return NotImplemented
        same: bool = (self.mode, self.shape, type(self.data)) == (other.mode, other.shape, type(other.data))
        if same and isinstance(self.data, np.ndarray):
            return bool(self.data.dtype == np.asarray(other.data).dtype and np.array_equal(self.data, other.data))
        return same and bool(self.data == other.data)


def mode_of(data: bytes | memoryview, ndim: int) -> str:
    return MODES[parse_header(data, ndim)[0]]


def fills_a_box(data: bytes | memoryview, ndim: int) -> bool:
    """Whether a block, by its header, has as many numbers as its extent has places."""
    mode, dimensions, items, _ = parse_header(data, ndim)
    return mode == 0 or (mode == 1 and items == math.prod(dimensions))


def most_strings(items: int, stored: int) -> int:
    """How many strings a block may hold that has room for so many items, and takes so many bytes where it is stored.

    It may have more strings than items, but not without end: a stream of a few bytes can stand for any number of them.
    """
    return min(items, codecs.max_decoded_size // _STRING_BYTES) + stored


def decode_block(
    data: bytes | memoryview, ndim: int, data_type: str, chain: CodecChain, keys: Keys, reverse: bool, items: int
) -> Block:
    """A block in varlength or object mode, or one of strings in any, of a dataset whose blocks have so many items."""
    mode, dimensions, count, start = parse_header(data, ndim)
    numeric = data_type not in ("string", "object")
    dtype = np.dtype(data_type) if numeric else np.dtype(np.uint8)
    # Numbers are counted, but of strings and objects the bytes are.
    size = None if count is None else count if mode == 2 else count * dtype.itemsize
    if size is not None and size > _ITEM_LIMIT:
        raise CorruptDataError(
            "the block claims more data than a block may hold",
            offset=start - 4, expected=f"at most {_ITEM_LIMIT} bytes", found=size,
        )  # fmt: skip
    try:
        raw = _decoded(memoryview(data)[start:], chain, keys, size)
    except ZvcoreError as error:
        raise error.located(offset=start)
    shape = dimensions[::-1] if reverse else dimensions
    if mode == 2 or data_type == "object":
        return Block("object", bytes(raw), shape)
    if not numeric:
        return Block("varlength", _texts(bytes(raw), start, items, len(data) - start), shape)
    if len(raw) % dtype.itemsize:
        raise CorruptDataError(
            "the payload is not a whole number of items", offset=start, expected=dtype.itemsize, found=len(raw)
        )
    values = np.frombuffer(raw, dtype.newbyteorder(">")).astype(dtype)
    return Block("varlength", values, shape)


def _decoded(payload: memoryview, chain: CodecChain, keys: Keys, size: int | None) -> bytes | memoryview:
    # The size is only a ceiling: memory grows with what comes.
    found: bytes | memoryview | None = payload
    if len(chain):
        chunks = Chunks(Prepared(None, (chain,)), None, Sources(keys=keys, blobs=[payload]))
        found = fetch_chunks(chunks, Work(), max_size=ceiling(size))[0]
    assert found is not None
    if size is not None and len(found) != size:
        raise CorruptDataError(
            "the decoded data has the wrong size", key=keys[0], expected=f"{size} bytes", found=len(found)
        )
    return found


def _texts(raw: bytes, start: int, items: int, stored: int) -> list[str]:
    """The strings of a block. They are counted before any is made; of too many, empty ones at the end are padding."""
    if not raw:
        return []
    if raw[-1:] != b"\0":
        raise CorruptDataError("the strings do not end with NUL", offset=start)
    count, most, end = raw.count(b"\0"), most_strings(items, stored), len(raw) - 1
    if count > most:
        padding = len(raw) - len(raw.rstrip(b"\0"))
        # The last string that is not empty has a NUL of its own.
        filled = count - padding + (padding < len(raw))
        if filled > most:
            raise CorruptDataError(
                "the block has more strings than can be", offset=start, length=stored, expected=f"at most {most}",
                found=filled,
            )  # fmt: skip
        end -= count - max(filled, min(items, most))
    try:
        return raw[:end].decode().split("\0")
    except UnicodeDecodeError as error:
        raise CorruptDataError(f"a string is not UTF-8: {error}", offset=start) from error


def encode_block(block: Block, ndim: int, data_type: str, chain: CodecChain, reverse: bool, items: int) -> list[Any]:
    """The parts of the object that stores the block, in a dataset whose blocks have so many items."""
    count, raw = _payload(block, data_type)
    payload = encode_many([raw], chain)[0]
    assert payload is not None
    if data_type == "string" and block.mode != "object":
        most = most_strings(items, len(payload))
        if raw.count(b"\0") > most:
            raise MetadataError(
                "the block has more strings than readers take", expected=f"at most {most}", found=raw.count(b"\0")
            )
    if count >= _ITEM_LIMIT or len(raw) >= _ITEM_LIMIT:
        raise MetadataError("a block holds less than 2 GiB", found=len(raw))
    mode = MODES.index(block.mode)
    if mode == 2:
        return [mode.to_bytes(2, "big"), count.to_bytes(4, "big"), payload]
    shape = block.shape[::-1] if reverse else block.shape
    if len(shape) != ndim or any(not 0 <= n < 2**32 for n in shape):
        raise MetadataError("the block's shape has not the dataset's rank", expected=ndim, found=shape)
    numbers = b"".join(int(n).to_bytes(4, "big") for n in (*shape, count))
    return [mode.to_bytes(2, "big") + ndim.to_bytes(2, "big") + numbers, payload]


def _payload(block: Block, data_type: str) -> tuple[int, bytes]:
    """(number of elements as the header has it, the bytes to compress)"""
    data: Any = block.data
    if block.mode == "object":
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"a block in object mode is bytes, not {type(data).__name__}")
        raw = bytes(data)
        return len(raw), raw
    if data_type == "string":
        raw = _joined(data)
        return len(raw), raw
    if data_type == "object":
        raise TypeError("a dataset of objects has blocks in object mode only")
    dtype = np.dtype(data_type)
    values = np.asarray(data)
    if values.ndim != 1:
        raise ValueError(f"a block of variable length has one dimension, not {values.ndim}")
    if values.size and not _fits(values, dtype):
        raise TypeError(f"these values of dtype {values.dtype} do not fit a dataset of {dtype}")
    return len(values), values.astype(dtype.newbyteorder(">")).tobytes()


def _fits(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> bool:
    if dtype.kind == "f" or values.dtype.kind not in "iu":
        return np.can_cast(values.dtype, dtype, "same_kind")
    bounds = np.iinfo(dtype)
    return bool(int(values.min()) >= bounds.min and int(values.max()) <= bounds.max)


def _joined(texts: Sequence[str]) -> bytes:
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise TypeError("a block of strings is a list of str")
    if any("\0" in text for text in texts):
        raise ValueError("NUL ends a string in N5 and cannot be in one")
    return "".join(text + "\0" for text in texts).encode()
