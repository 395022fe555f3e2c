"""bzip2 streams, by libbz2 if it was there at build time, else by the standard library."""

from __future__ import annotations

from typing import Any

from zvcore.codecs import param
from zvcore_plugins._library import LibraryCodec, native_part

_bzip2 = native_part("_bzip2")

__all__ = ["Bzip2"]


class Bzip2(LibraryCodec):
    """One stream is written; several that follow each other are read as one. Anything else after them is an error."""

    name = "bzip2"
    encoding_only = ("block_size",)
    # zarr-python knows it by numcodecs' name, and no other program knows it by any.
    spellings = {"zarr2": "bz2", "zarr3": "numcodecs.bz2"}
    also_read = {"zarr2": {"bz2": {"block_size": 1}}, "zarr3": {"bzip2": {}}}

    block_size: int = param(9, low=1, high=9, n5="blockSize", zarr2="level", zarr3="level", doc="in units of 100 kB")

    encoding_rate = 7e6

    def __zv_codec__(self) -> Any:
        return _bzip2 and _bzip2.codec_table(self.block_size)
