"""Datasets that xarray wrote as Zarr, through zvcore's engine and through xarray's own, with and without Dask.

    pytest bench/test_xarray.py --benchmark-enable      times
    python -m bench.test_xarray [word]                  ratios, the competitors taking turns

Thirty variables over time and two axes of a map, as weather is kept, of 32 bits, with coordinates; documents are
consolidated.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

import dask.array
import numpy as np
import pytest
import tensorstore
import xarray
import zarr

import zvcore
from bench.contest import Contest, entrants, run_alone
from bench.scale import pick
from bench.scratch import scratch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Calls = dict[str, "Callable[[], Any]"]

VARIABLES = pick(30, 3)
TIMES, HEIGHT, WIDTH = pick(40, 8), 200, 300
POINTS = 300
DIMS = ("time", "y", "x")
# As xarray calls them.
ENGINES = {"zvcore": "zvcore", "xarray": "zarr"}


@cache
def stored(version: int) -> Path:
    path = scratch() / f"weather {version}.zarr"
    rng = np.random.default_rng(1)
    shape = (TIMES, HEIGHT, WIDTH)
    values = {f"v{number}": (DIMS, rng.normal(size=shape).cumsum(2).astype("<f4")) for number in range(VARIABLES)}
    days = np.datetime64("2000-01-01", "ns") + np.arange(TIMES) * np.timedelta64(1, "D")
    places = {"time": days, "y": np.arange(float(HEIGHT)), "x": np.arange(float(WIDTH))}
    chunks = {"chunks": (TIMES // 4, HEIGHT // 2, WIDTH // 2)}
    xarray.Dataset(values, places).to_zarr(
        path, zarr_format=version, consolidated=True, encoding=dict.fromkeys(values, chunks)
    )
    return path


def each(version: int, make: Callable[[Callable[..., xarray.Dataset]], Callable[[], Any]]) -> Calls:
    """What `make` makes of how a dataset is opened, for each engine."""
    path = stored(version)
    return {who: make(partial(xarray.open_dataset, path, engine=engine)) for who, engine in ENGINES.items()}


def opening(version: int) -> Calls:
    return each(version, lambda opened: opened)


def loading(version: int, *, everything: bool) -> Calls:
    return each(version, lambda opened: lambda: (opened() if everything else opened()["v1"]).load())


def picking(version: int, **places: Any) -> Calls:
    def make(opened: Callable[..., xarray.Dataset]) -> Callable[[], Any]:
        variable = opened()["v1"]
        return lambda: variable.isel(places).values

    return each(version, make)


def averaging(version: int) -> Calls:
    def make(opened: Callable[..., xarray.Dataset]) -> Callable[[], Any]:
        variable = opened(chunks={})["v1"]
        return lambda: variable.mean().compute()

    return each(version, make)


def adding(version: int) -> Calls:
    path = stored(version) / "v1"
    ours, theirs = zvcore.open(path).to_dask(), dask.array.from_zarr(zarr.open_array(path, mode="r"))
    return {"zvcore": lambda: ours.sum().compute(), "dask": lambda: theirs.sum().compute()}


def storing(sharded: bool) -> Calls:
    """What Dask has computed, a task for each shard or chunk; no competitor has a lock of Dask's."""
    rng = np.random.default_rng(3)
    values = rng.normal(size=(TIMES, HEIGHT, WIDTH)).cumsum(2).astype("<f4")
    chunks = (TIMES // 4, HEIGHT // 4, WIDTH // 4)
    grain = (TIMES // 2, HEIGHT // 2, WIDTH // 2) if sharded else chunks
    given = dask.array.from_array(values, chunks=grain, name=False)
    kind = "shards" if sharded else "chunks"

    options: dict[str, Any] = {"shards": grain} if sharded else {}

    def made(who: str) -> Path:
        path = scratch() / f"dask {kind} {who}"
        zvcore.create(
            path, format="zarr3", shape=values.shape, dtype="f4", chunks=chunks, codec="zstd", overwrite=True,
            **options,
        )  # fmt: skip
        return path

    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(made("tensorstore")), "file_io_sync": False}}
    targets = {
        "zvcore": zvcore.open(made("zvcore"), "r+"),
        "zarr": zarr.open_array(made("zarr"), mode="r+"),
        "tensorstore": tensorstore.open(spec, open=True).result(),
    }
    return {who: partial(dask.array.store, given, target, lock=False) for who, target in targets.items()}


def stations() -> dict[str, Any]:
    rng = np.random.default_rng(2)
    return {
        "y": xarray.Variable("station", rng.integers(0, HEIGHT, POINTS)),
        "x": xarray.Variable("station", rng.integers(0, WIDTH, POINTS)),
    }


TASKS: dict[str, Callable[[int], Calls]] = {
    "open a dataset": opening,
    "open a dataset and load a variable": partial(loading, everything=False),
    "load a dataset": partial(loading, everything=True),
    "read a map": partial(picking, time=5),
    "read a series": partial(picking, y=5, x=7),
    "read series of stations": partial(picking, **stations()),
    "average a variable with Dask": averaging,
}
CONTESTS = [
    *(
        Contest(f"{task}, Zarr v{version}", tuple(ENGINES), partial(make, version))
        for task, make in TASKS.items()
        for version in (2, 3)
    ),
    *(
        Contest(f"add up an array with Dask, Zarr v{version}", ("zvcore", "dask"), partial(adding, version))
        for version in (2, 3)
    ),
    *(
        Contest(
            f"store an array with Dask, {kind}",
            ("zvcore", "zarr", "tensorstore"),
            partial(storing, sharded),
            writes=True,
        )
        for kind, sharded in (("chunks", False), ("shards", True))
    ),
]


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@pytest.mark.parametrize(*entrants(CONTESTS))
def test_contest(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    run_alone(CONTESTS)
