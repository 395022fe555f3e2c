"""What codecs that call a C library share: zvcore may have been built without the library."""

from __future__ import annotations

import importlib
from typing import Any

from zvcore.codecs import Codec

__all__ = ["LibraryCodec", "native_part"]


def native_part(name: str) -> Any:
    """The module with a codec's C table, None if it was not built."""
    try:
        return importlib.import_module(f"zvcore_plugins.{name}")
    except ImportError:
        return None


class LibraryCodec(Codec):
    """A codec that falls back on other Python packages without its C table: more slowly, and one chunk at a time."""

    def _encode(self, data: memoryview) -> Any:
        return self._fallback().encode(self, data)

    def _decode(self, data: memoryview, max_size: int) -> Any:
        return self._fallback().decode(self, data, max_size)

    def _fallback(self) -> Any:
        return importlib.import_module(f"zvcore_plugins.without_libraries.{self.name}")
