"""Whatever numcodecs' `lzma` can be told to write that `xz` does not; by the standard library."""

from __future__ import annotations

from typing import Any

from zvcore.codecs import Codec, param
from zvcore.errors import CorruptDataError, UnsupportedError
from zvcore_plugins._liblzma import FORMAT_ALONE, FORMAT_RAW, FORMAT_XZ, MEMORY_LIMIT
from zvcore_plugins.without_libraries import damaged, decode_streams, need

__all__ = ["Lzma", "decompress"]


class Lzma(Codec):
    """numcodecs' codec of that name with all its parameters, as zarr 2 wrote it into N5; by the standard library."""

    name = "lzma"
    spellings = {"zarr2": "lzma", "zarr3": "numcodecs.lzma"}

    format: int = param(FORMAT_XZ, choices=(FORMAT_XZ, FORMAT_ALONE, FORMAT_RAW))
    check: int = param(-1, low=-1, high=15)
    preset: int | None = param(None, type=int)
    filters: list[dict[str, int]] | None = param(None, type=list)

    encoding_rate = 2e6

    def to_zarr2(self) -> dict[str, Any]:
        return {"preset": self.preset, "filters": self.filters, **super().to_zarr2()}

    def _encode(self, data: memoryview) -> bytes:
        lzma = need("lzma", "liblzma")
        options = {"format": self.format, "check": self.check, "preset": self.preset, "filters": self.filters}
        try:
            return bytes(lzma.compress(data, **options))
        except (lzma.LZMAError, TypeError, ValueError) as error:
            raise UnsupportedError(f"liblzma refuses the parameters: {error}") from error

    def _decode(self, data: memoryview, max_size: int) -> bytes:
        if self.format != FORMAT_RAW:
            return decompress(data, max_size, {"format": self.format, "memlimit": MEMORY_LIMIT})
        for one in self.filters or ():
            size = one.get("dict_size", 0) if isinstance(one, dict) else 0
            if not isinstance(size, int) or size > MEMORY_LIMIT:
                raise UnsupportedError(
                    "the filters need too much memory", expected=f"at most {MEMORY_LIMIT}", found=size
                )
        return decompress(data, max_size, {"format": self.format, "filters": self.filters})


def decompress(data: memoryview, max_size: int, options: dict[str, Any]) -> bytes:
    """What one stream holds, or the .xz streams that follow each other, with or without padding."""
    lzma = need("lzma", "liblzma")
    faults = (lzma.LZMAError, TypeError, ValueError)

    def explain(error: Exception) -> Exception:
        unsupported = "emory" in str(error) or "nsupported" in str(error)
        return UnsupportedError(str(error)) if unsupported else damaged(error)

    def following(rest: bytes) -> bytes:
        if rest and options["format"] != FORMAT_XZ:
            raise CorruptDataError(f"{len(rest)} bytes after the end of the stream")
        # Padding: zeros, four at a time.
        stripped = rest.lstrip(b"\0")
        if (len(rest) - len(stripped)) % 4:
            raise CorruptDataError("the padding after the stream is not a multiple of four bytes")
        return stripped

    return decode_streams(lambda: lzma.LZMADecompressor(**options), data, max_size, faults, explain, following)
