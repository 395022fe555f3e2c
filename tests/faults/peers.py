"""Other programs that read what a writer has left, and know nothing of our notes."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["by_tensorstore", "by_zarr_python", "needs_peers"]

needs_peers = pytest.mark.skipif(find_spec("zarr") is None or find_spec("tensorstore") is None, reason="no peers")


def by_zarr_python(path: Path) -> Any:
    import zarr

    return zarr.open_array(path, mode="r")[...]


def by_tensorstore(path: Path) -> Any:
    import tensorstore

    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}}
    return tensorstore.open(spec).result()[...].read().result()
