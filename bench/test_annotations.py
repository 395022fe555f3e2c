"""Annotations beside neuroglancer's Python package, which writes them, and CloudVolume, which reads points by id.

    pytest bench/test_annotations.py --benchmark-enable      times
    python -m bench.test_annotations [word]                  ratios, the competitors taking turns

neuroglancer writes one cell and a file for each annotation; zvcore writes all indexes, in shards.
"""

from __future__ import annotations

import atexit
import importlib.util
import shutil
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zvcore
from bench.contest import Contest, entrants, run_alone
from bench.scale import pick
from zvcore.precomputed import write_annotations

WRITTEN = pick(20_000, 2000)
STORED = pick(200_000, 5000)
WANTED = 1000
NM = dict.fromkeys("xyz", (1e-9, "m"))
Functions = dict[str, Callable[[], Any]]


@lru_cache
def scratch() -> Path:
    """A folder for this run, in memory where there is such a place."""
    memory = Path("/dev/shm")
    path = Path(tempfile.mkdtemp(prefix="zvcore-bench-", dir=memory if memory.is_dir() else None))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def columns(count: int) -> dict[str, Any]:
    generator = np.random.default_rng(0)
    points = (generator.random((count, 3)) * 1000).astype("f4")
    return {"point": points, "size": points[:, 0], "kind": generator.integers(0, 5, count).astype("u1")}


def write_contest() -> Functions:
    import neuroglancer
    from neuroglancer import write_annotations as writing

    given = columns(WRITTEN)
    space = neuroglancer.CoordinateSpace(names=["x", "y", "z"], units=["nm"] * 3, scales=[1, 1, 1])
    specs = [
        neuroglancer.AnnotationPropertySpec(id=id, type=kind) for id, kind in (("size", "float32"), ("kind", "uint8"))
    ]

    def theirs() -> None:
        writer = writing.AnnotationWriter(space, "point", (), specs)
        for point, size, kind in zip(given["point"], given["size"], given["kind"], strict=True):
            writer.add_point(point, size=size, kind=kind)
        writer.write(scratch() / "theirs")

    def ours() -> None:
        write_annotations(scratch() / "ours", "point", given, dimensions=NM, overwrite=True)

    return {"zvcore": ours, "neuroglancer": theirs}


@lru_cache
def stored() -> Path:
    write_annotations(scratch() / "stored", "point", columns(STORED), dimensions=NM, sharding="advise")
    return scratch() / "stored"


def get_contest() -> Functions:
    from cloudvolume.cloudvolume import from_cloudpath

    wanted = np.random.default_rng(1).choice(STORED, WANTED, replace=False)
    theirs = from_cloudpath(f"precomputed://file://{stored()}", progress=False)
    return {
        "zvcore": lambda: zvcore.open(stored()).get_many(wanted),
        "cloud-volume": lambda: theirs.get_by_id(wanted.tolist()),
    }


CONTESTS = [
    Contest("write points with every index", ("zvcore", "neuroglancer"), write_contest, writes=True),
    Contest("get 1000 annotations by id", ("zvcore", "cloud-volume"), get_contest),
]
PEERS = ("neuroglancer", "cloudvolume")
# Those whose peer is installed.
CONTESTS = [contest for contest, peer in zip(CONTESTS, PEERS, strict=True) if importlib.util.find_spec(peer)]


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_contest(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    run_alone(CONTESTS, seconds=8.0)
