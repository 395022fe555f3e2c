"""No compression: the stored bytes are the chunk's bytes."""

from __future__ import annotations

from typing import Any

from zvcore.codecs import Codec
from zvcore_plugins import _raw

__all__ = ["Raw"]


class Raw(Codec):
    """A copy. N5 and Neuroglancer name it; in Zarr it is the absence of a codec."""

    name = "raw"
    spellings = {"zarr2": None, "zarr3": None, "neuroglancer": "raw"}
    identity = True

    def __zv_codec__(self) -> Any:
        return _raw.codec_table()
