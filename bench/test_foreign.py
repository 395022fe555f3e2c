"""Arrays in stores that another library has opened and zvcore only asks: sessions of Icechunk, file systems of fsspec.

    pytest bench/test_foreign.py --benchmark-enable      times
    python -m bench.test_foreign [word]                  ratios, all taking turns

zvcore is given the store, and so is zarr-python with its pipelines. The arrays are those of `test_buckets`, the server
is the small one of `test_objectstore`. What is written in a session is not committed. What Icechunk itself takes for
a chunk is in all of its rows; the file system is one of a web server that is sent a header, so it is left to fsspec.
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
import xarray
import zarr
from zarr.storage import FsspecStore, StorePath

import zvcore
from bench.contest import Contest, entrants, run_alone
from bench.pipelines import PIPELINES, within
from bench.test_buckets import FAR, end, put, server, upload
from bench.test_opening import MEMBERS
from bench.test_patterns import ALL, AT, BOX, stored, values
from bench.test_xarray import stored as dataset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Calls = dict[str, "Callable[[], Any]"]
# The store of an array, and where in it that is.
Opened = tuple[Any, str]
KINDS = ("chunks", "shards")
PARTS: dict[str, Any] = {"all": ALL, "a plane": (AT,), "a box": BOX, "an item": (slice(AT, AT + 1),) * 3}
THEIRS = [who for who in PIPELINES if who != "zarrs"]  # which knows few stores
HEADERS = {"client_kwargs": {"headers": {"x-from": "bench"}}}
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
    group = zarr.create_group(session.store, path="group")
    for number in range(MEMBERS):
        group.create_array(str(number), shape=(10,), chunks=(10,), dtype="f4")
    xarray.open_zarr(dataset(3)).drop_encoding().to_zarr(
        session.store, group="dataset", consolidated=False, zarr_format=3
    )
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


def in_a_session(delay: float | None, kind: str, mode: str) -> Opened:
    """Each has a session of its own."""
    made = repository(delay)
    session = made.readonly_session("main") if mode == "r" else made.writable_session("main")
    return session.store, kind


def on_the_web(delay: float, kind: str, mode: str) -> Opened:
    place = put(delay, kind, "zstd", "of all")
    return FsspecStore.from_url(f"{server(delay).endpoint}/bucket/{place}", storage_options=HEADERS), ""


def opened(where: Callable[..., Opened], who: str, kind: str, mode: Any) -> Any:
    store, path = where(kind=kind, mode=mode)
    if who == "zvcore":
        return zvcore.open(StorePath(store, path), mode)
    with zarr.config.set({"codec_pipeline.path": PIPELINES[who]}):
        return zarr.open_array(store, path=path, mode=mode)


def calls(work: dict[str, Callable[[], Any]]) -> Calls:
    return {who: one if who == "zvcore" else within(who, one) for who, one in work.items()}


def reading(where: Callable[..., Opened], kind: str, key: Any) -> Calls:
    arrays = {who: opened(where, who, kind, "r") for who in ("zvcore", *THEIRS)}
    made = calls({who: partial(array.__getitem__, key) for who, array in arrays.items()})
    for one in made.values():
        np.testing.assert_array_equal(one(), values(kind)[key])
    return made


def writing(where: Callable[..., Opened], kind: str, key: Any) -> Calls:
    given = np.ascontiguousarray(values(kind)[key])
    arrays = {who: opened(where, who, kind, "r+") for who in ("zvcore", *THEIRS)}
    return calls({who: partial(array.__setitem__, key, given) for who, array in arrays.items()})


def opening(where: Callable[..., Opened], kind: str, key: Any) -> Calls:
    """Both are to find the format out."""
    return calls({who: partial(item_of, where, who, kind, key) for who in ("zvcore", *THEIRS)})


def item_of(where: Callable[..., Opened], who: str, kind: str, key: Any) -> Any:
    return opened(where, who, kind, "r")[key]


def listing(where: Callable[..., Opened]) -> Calls:
    store, path = where(kind="group", mode="r")
    return {
        "zvcore": lambda: [*zvcore.open(store)[path]],
        "zarr": lambda: [*zarr.open_group(store, path=path, mode="r")],
    }


def opening_members(where: Callable[..., Opened]) -> Calls:
    store, path = where(kind="group", mode="r")
    return {
        "zvcore": lambda: [array.shape for array in zvcore.open(store)[path].values()],
        "zarr": lambda: [array.shape for _, array in zarr.open_group(store, path=path, mode="r").arrays()],
    }


def opening_datasets(where: Callable[..., Opened]) -> Calls:
    store, path = where(kind="dataset", mode="r")
    return {
        "zvcore": lambda: xarray.open_dataset(store, engine="zvcore", group=path),
        "zarr": lambda: xarray.open_dataset(store, engine="zarr", group=path, consolidated=False),
    }


GROUPS = {
    f"list a group of {MEMBERS} arrays": listing, f"open {MEMBERS} arrays of a group": opening_members,
    "open a dataset of xarray": opening_datasets,
}  # fmt: skip
SESSIONS: dict[str, Callable[..., Opened]] = {
    "by Icechunk": partial(in_a_session, None), "by Icechunk in a bucket 5 ms away": partial(in_a_session, FAR),
}  # fmt: skip
PLACES: dict[str, Callable[..., Opened]] = {
    **SESSIONS, "by fsspec": partial(on_the_web, 0.0), "by fsspec 5 ms away": partial(on_the_web, FAR),
}  # fmt: skip
# Whole arrays are not written: every version of a chunk stays in the repository.
CONTESTS = [
    Contest(f"{what} {part} of {kind} {how}", ("zvcore", *THEIRS), partial(make, where, kind, PARTS[part]))
    for what, make, parts, places in (
        ("read", reading, tuple(PARTS), PLACES), ("write", writing, ("a box",), SESSIONS),
        ("open and read", opening, ("an item",), PLACES),
    )
    for kind in KINDS
    for part in parts
    for how, where in places.items()
] + [
    Contest(f"{what} {how}", ("zvcore", "zarr"), partial(make, where))
    for what, make in GROUPS.items()
    for how, where in SESSIONS.items()
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _server_ends() -> Iterator[None]:
    yield
    repository.cache_clear()
    end()


@pytest.mark.filterwarnings("ignore:Consolidated metadata")  # of the dataset that is copied
@pytest.mark.parametrize(*entrants(CONTESTS))
def test_contest(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    try:
        run_alone(CONTESTS)
    finally:
        end()
