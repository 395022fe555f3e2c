"""Whole volumes of Neuroglancer, in each encoding of chunks, beside tensorstore and CloudVolume on the same files.

    pytest bench/test_encodings.py --benchmark-enable      times
    python -m bench.test_encodings [word]                  ratios, the competitors taking turns

Chunks of 64^3 in files of their own, without compression besides the encoding, which is all that tensorstore reads.
CloudVolume uses as many processes as there are processors where that helps it, which is not at this size: it has one.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorstore
from cloudvolume import CloudVolume

import zvcore
from bench.contest import Contest, entrants, run_alone
from bench.data import volume
from bench.scale import pick
from bench.scratch import scratch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SIDE = pick(256, 64)
# What of `bench.data` is written in an encoding, and whether tensorstore knows it.
ENCODINGS = {
    "raw": ("em", True),
    "jpeg": ("em", True),
    "png": ("em", True),
    "compressed_segmentation": ("labels64", True),
    "compresso": ("labels64", False),
    "crackle": ("labels64", False),
    "fpzip": ("floats", False),
}


@cache
def values(kind: str) -> Any:
    """In the order of the files, x fastest; a copy, as libraries take only what they could change."""
    if kind == "floats":
        return values("microscopy").astype("f4", order="F")
    return np.array(volume(kind, (SIDE,) * 3).transpose(2, 1, 0)[..., None], order="F")


def made(who: str, encoding: str) -> Path:
    path = scratch() / f"{who}-{encoding}"
    data = values(ENCODINGS[encoding][0])
    zvcore.create(path, format="precomputed", data=data, chunks=(64, 64, 64), encoding=encoding, codec="raw")
    return path


def by_tensorstore(path: Path) -> Any:
    spec = {
        "driver": "neuroglancer_precomputed",
        "kvstore": {"driver": "file", "path": str(path)},
        "context": {"cache_pool": {"total_bytes_limit": 0}, "file_io_sync": False},
        "recheck_cached_data": "open",
    }
    return tensorstore.open(spec, open=True).result()


def by_cloud_volume(path: Path) -> Any:
    return CloudVolume(f"file://{path}", progress=False, non_aligned_writes=True, compress=False, lru_bytes=0)


def reading(encoding: str) -> dict[str, Callable[[], Any]]:
    path = made("read", encoding)
    ours = zvcore.open(path, scale=0)
    calls: dict[str, Callable[[], Any]] = {"zvcore": lambda: ours[...]}
    if ENCODINGS[encoding][1]:
        theirs = by_tensorstore(path)
        calls["tensorstore"] = lambda: theirs.read(order="F").result()
    cloud = by_cloud_volume(path)
    calls["cloud-volume"] = lambda: cloud[:, :, :]
    return calls


def writing(encoding: str) -> dict[str, Callable[[], Any]]:
    data = values(ENCODINGS[encoding][0])
    ours = zvcore.open(made("zvcore", encoding), mode="r+", scale=0)
    calls: dict[str, Callable[[], Any]] = {"zvcore": partial(ours.__setitem__, ..., data)}
    if ENCODINGS[encoding][1]:
        theirs = by_tensorstore(made("tensorstore", encoding))
        calls["tensorstore"] = lambda: theirs.write(data).result()
    cloud = by_cloud_volume(made("cloud", encoding))
    calls["cloud-volume"] = partial(cloud.__setitem__, (slice(0, SIDE),) * 3, data)
    return calls


CONTESTS = [
    Contest(
        f"{what} a volume, {encoding}",
        ("zvcore", "tensorstore", "cloud-volume") if known else ("zvcore", "cloud-volume"),
        partial(make, encoding),
        writes=make is writing,
    )
    for encoding, (_, known) in ENCODINGS.items()
    for what, make in (("read", reading), ("write", writing))
]


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_contest(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    run_alone(CONTESTS)
