"""Arrays in a repository of Icechunk, in a folder and in a bucket 5 ms away: read and written in a session, by zvcore
and by zarr-python.

    pytest bench/test_icechunk.py --benchmark-enable      times
    python -m bench.test_icechunk [word]                  ratios, all taking turns

The arrays are those of `test_buckets`, the server is the small one of `test_objectstore`. Nothing that is written is
committed. How long Icechunk itself takes for a chunk is in all rows.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import icechunk
import numpy as np
import pytest
import zarr

import zvcore
from bench.contest import Contest, entrants, run_alone
from bench.pipelines import PIPELINES, within
from bench.test_buckets import FAR, end, server, upload
from bench.test_patterns import ALL, AT, BOX, stored, values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Calls = dict[str, "Callable[[], Any]"]
KINDS = ("chunks", "shards")
PARTS: dict[str, Any] = {"all": ALL, "a plane": (AT,), "a box": BOX, "an item": (slice(AT, AT + 1),) * 3}
THEIRS = [who for who in PIPELINES if who != "zarrs"]  # which does not know such stores
icechunk.set_logs_filter("error")


@cache
def folder() -> Path:
    """A repository, with a copy of the arrays."""
    place = Path(tempfile.mkdtemp(prefix="zvcore-bench-icechunk-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    session = icechunk.Repository.create(icechunk.local_filesystem_storage(str(place))).writable_session("main")
    for kind in KINDS:
        array = zarr.open_array(stored(kind, "zstd"), mode="r")
        copy = zarr.from_array(session.store, data=array, name=kind, write_data=False)
        copy[...] = array[...]
    session.commit("arrays")
    return place


@cache
def repository(delay: float | None) -> Any:
    if delay is None:
        return icechunk.Repository.open(icechunk.local_filesystem_storage(str(folder())))
    place, options = upload(delay, folder(), "repository"), server(delay).options
    return icechunk.Repository.open(
        icechunk.s3_storage(
            bucket="bucket", prefix=place, region=options["region"], endpoint_url=options["endpoint"],
            access_key_id=options["access_key_id"], secret_access_key=options["secret_access_key"],
            allow_http=True, force_path_style=True,
        )
    )  # fmt: skip


def opened(session: Any, who: str, kind: str, mode: Any) -> Any:
    if who == "zvcore":
        return zvcore.open(session, mode)[kind]
    with zarr.config.set({"codec_pipeline.path": PIPELINES[who]}):
        return zarr.open_array(session.store, path=kind, mode=mode)


def calls(work: dict[str, Callable[[], Any]]) -> Calls:
    return {who: one if who == "zvcore" else within(who, one) for who, one in work.items()}


def reading(delay: float | None, kind: str, key: Any) -> Calls:
    arrays = {who: opened(repository(delay).readonly_session("main"), who, kind, "r") for who in ("zvcore", *THEIRS)}
    made = calls({who: partial(array.__getitem__, key) for who, array in arrays.items()})
    for one in made.values():
        np.testing.assert_array_equal(one(), values(kind)[key])
    return made


def writing(delay: float | None, kind: str, key: Any) -> Calls:
    """Each into a session of its own."""
    given = np.ascontiguousarray(values(kind)[key])
    arrays = {who: opened(repository(delay).writable_session("main"), who, kind, "r+") for who in ("zvcore", *THEIRS)}
    return calls({who: partial(array.__setitem__, key, given) for who, array in arrays.items()})


# Whole arrays are not written: every version of a chunk stays in the repository.
TASKS = [
    *(
        (f"read {part} of {kind}", partial(reading, kind=kind, key=key))
        for kind in KINDS
        for part, key in PARTS.items()
    ),
    *((f"write a box of {kind}", partial(writing, kind=kind, key=BOX)) for kind in KINDS),
]
CONTESTS = [
    Contest(f"{what}{where}", ("zvcore", *THEIRS), partial(make, delay))
    for what, make in TASKS
    for where, delay in {"": None, " in a bucket 5 ms away": FAR}.items()
]


@pytest.fixture(scope="module", autouse=True)
def _server_ends() -> Iterator[None]:
    yield
    repository.cache_clear()
    end()


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_contest(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    try:
        run_alone(CONTESTS)
    finally:
        end()
