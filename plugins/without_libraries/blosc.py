"""blosc chunks through numcodecs, whose c-blosc believes what headers say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zvcore.errors import CorruptDataError, UnsupportedError
from zvcore_plugins.without_libraries import need, too_long

if TYPE_CHECKING:
    from zvcore_plugins.blosc import Blosc

HEADER = 16
LARGEST = 2**31 - 1 - HEADER


def encode(codec: Blosc, data: memoryview) -> bytes:
    library = need("numcodecs.blosc", "libblosc")
    if len(data) > LARGEST:
        raise UnsupportedError(f"a blosc chunk holds at most {LARGEST} bytes, not {len(data)}")
    if codec.cname not in library.list_compressors():
        raise UnsupportedError(f"numcodecs' c-blosc was built without the compressor {codec.cname!r}")
    arguments = (codec.cname.encode(), codec.clevel, codec.shuffle_number, codec.blocksize, codec.item_size)
    return bytes(library.compress(data, *arguments))


def decode(codec: Blosc, data: memoryview, max_size: int) -> bytes:
    if len(data) < HEADER:
        raise CorruptDataError("too short for a blosc header")
    if data[0] != 2:
        newer = " (blosc2)" if 2 < data[0] < 8 else ""
        raise CorruptDataError(f"not a blosc chunk of format 2, which c-blosc 1 reads, but of {data[0]}{newer}")
    size, block, stored = (int.from_bytes(data[i : i + 4], "little", signed=True) for i in (4, 8, 12))
    if stored != len(data):
        raise CorruptDataError(f"the header says {stored} bytes, but there are {len(data)}")
    item = data[3]
    # numcodecs does not say when fewer bytes came than declared, as from blocks that hold parts of items.
    if not 0 <= size <= LARGEST or (size and (not 0 < block <= size or not item or (block > item and block % item))):
        raise CorruptDataError("impossible sizes in the header")
    if size > max_size:
        raise too_long(max_size, size)
    decoded = bytearray(size)
    if size:
        try:
            need("numcodecs.blosc", "libblosc").decompress(data, decoded)
        except RuntimeError as error:
            raise CorruptDataError(f"damaged chunk: {error}") from error
    return bytes(decoded)
