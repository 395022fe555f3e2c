"""zarr-python with each pipeline of codecs that it can be given, for suites in which it is a peer."""

from __future__ import annotations

import importlib.metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["PIPELINES", "opened", "within"]

PIPELINES = {
    "zarrs": "zarrs.ZarrsCodecPipeline",
    "zarr": "zarr.core.codec_pipeline.BatchedCodecPipeline",
    "zarr-fused": "zarr.core.codec_pipeline.FusedCodecPipeline",
    "zarr+zvcore": "zvcore.zarr3.CodecPipeline",
}
if tuple(map(int, importlib.metadata.version("zarr").split(".")[:2])) < (3, 3):
    del PIPELINES["zarr-fused"]


def opened(path: Path, who: str, mode: Any = "r") -> Any:
    """An array, by one of `PIPELINES`."""
    import zarr

    with zarr.config.set({"codec_pipeline.path": PIPELINES[who]}):
        array = zarr.open_array(path, mode=mode)
        assert type(array._async_array.codec_pipeline).__name__ == PIPELINES[who].rpartition(".")[2]
    return array


def within(who: str, work: Callable[[], Any]) -> Callable[[], Any]:
    """`work`, by one of `PIPELINES`: zarr-python asks for that of inner chunks again whenever it needs one. No other
    suite finds it set.
    """
    import zarr

    config = {"codec_pipeline.path": PIPELINES[who]}

    def run() -> Any:
        with zarr.config.set(config):
            return work()

    return run
