"""Codecs: how chunks become stored bytes. No compression scheme lives here; all come from plugins.

    zvcore.codecs.get("gzip", level=6).encode(data)

A plugin is a class named by an entry point of the group `zvcore.codecs`; `docs/write-a-codec.md` shows one.
"""

from __future__ import annotations

import sys
from types import ModuleType

from zvcore.codecs import limits
from zvcore.codecs.base import Codec
from zvcore.codecs.chain import CodecChain
from zvcore.codecs.offering import offer
from zvcore.codecs.parameters import Parameter, param
from zvcore.codecs.registry import (
    CodecInfo,
    as_codec,
    available,
    from_n5,
    from_neuroglancer,
    from_zarr2,
    from_zarr3,
    get,
    register,
    unregister,
)

__all__ = [
    "Codec",
    "CodecChain",
    "CodecInfo",
    "Parameter",
    "as_codec",
    "available",
    "from_n5",
    "from_neuroglancer",
    "from_zarr2",
    "from_zarr3",
    "get",
    "max_decoded_size",
    "offer",
    "param",
    "register",
    "unregister",
]

# The most bytes that `decode` makes of one stream when the caller does not say how many to expect. May be assigned to.
max_decoded_size: int


class _Assignable(ModuleType):
    """This module, whose `max_decoded_size` is read by rooms below it."""

    @property
    def max_decoded_size(self) -> int:
        return limits.max_decoded_size

    @max_decoded_size.setter
    def max_decoded_size(self, size: int) -> None:
        limits.max_decoded_size = size


sys.modules[__name__].__class__ = _Assignable
