"""Runs of zeros as a zero and their length, 1 to 255; other bytes as they are."""

from __future__ import annotations

from typing import Any

from zvcore.codecs import Codec, param
from zvcore_zeros import _zeros

__all__ = ["Zeros"]


class Zeros(Codec):
    """`longest` is the longest run that is stored as one."""

    name = "zeros"
    longest: int = param(255, low=1, high=255)
    encoding_only = ("longest",)

    def __zv_codec__(self) -> Any:
        return _zeros.table(self.longest)
