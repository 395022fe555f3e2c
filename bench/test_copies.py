"""Stores copied as they are, between folders, and to and from a bucket, beside how people copy files.

    pytest bench/test_copies.py --benchmark-enable            times
    python -m bench.test_copies [word]                        ratios, the competitors taking turns

"shutil" is Python's `copytree`; "cp -r" and "rsync" are programs of their own, their start included. A copy that is
there already is compared byte by byte by all. The bucket is of the small server of `test_objectstore`.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import pytest
from obstore.store import S3Store

import zvcore
from bench.contest import Contest, entrants, run_alone
from bench.data import volume
from bench.s3_server import empty
from bench.scale import pick
from bench.scratch import journaled
from bench.test_objectstore import small_server

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from pathlib import Path

    from tests.stores.servers import S3

Calls = dict[str, "Callable[[], Any]"]
SIDE = pick(256, 32)
TASKS = 64
_stack = contextlib.ExitStack()
# What chunks there are, and in shards of how much; of 16 bits.
STORES: dict[str, tuple[int, int | None, str]] = {
    "small chunks": (SIDE // 16, None, "zstd"),
    "chunks": (SIDE // 4, None, "zstd"),
    "shards": (SIDE // 8, SIDE // 2, "raw"),
}


@cache
def source(kind: str) -> Path:
    chunk, shard, codec = STORES[kind]
    path = journaled() / f"copied {kind}.zarr"
    values = volume("em", (SIDE,) * 3).astype("u2") * 16
    shards: dict[str, Any] = {} if shard is None else {"shards": (shard,) * 3}
    array = zvcore.create(
        path, format="zarr3", shape=values.shape, dtype="u2", chunks=(chunk,) * 3, codec=codec, **shards
    )
    array[...] = values
    return path


def targets() -> Path:
    return journaled() / "targets"


def clear() -> None:
    """All copies, of whomever: who makes one pays for no removal."""
    shutil.rmtree(targets(), ignore_errors=True)
    targets().mkdir()


def by_zvcore(here: Path, there: Path) -> None:
    assert zvcore.copy(here, there).ok


def by_cp(here: Path, there: Path) -> None:
    subprocess.run(["cp", "-r", here, there], check=True)


WAYS: dict[str, Callable[[Path, Path], Any]] = {"zvcore": by_zvcore, "cp -r": by_cp, "shutil": shutil.copytree}


def copying(kind: str) -> Calls:
    here = source(kind)
    return {who: partial(way, here, targets() / who) for who, way in WAYS.items()}


def compared_by_zvcore(here: Path, there: Path) -> None:
    report = zvcore.sync(here, there)
    assert report.ok
    assert "objects copied" not in report.counts


def compared_by_diff(here: Path, there: Path) -> None:
    subprocess.run(["diff", "-rq", here, there], check=True)


def compared_by_rsync(here: Path, there: Path) -> None:
    subprocess.run(["rsync", "-rc", f"{here}/", there], check=True)


COMPARING: dict[str, Callable[[Path, Path], Any]] = {"zvcore": compared_by_zvcore, "diff -rq": compared_by_diff}
if shutil.which("rsync"):
    COMPARING["rsync -rc"] = compared_by_rsync


def comparing(kind: str) -> Calls:
    here = source(kind)
    there = here.with_suffix(".there")
    by_zvcore(here, there)
    return {who: partial(way, here, there) for who, way in COMPARING.items()}


@cache
def server(delay: float) -> S3:
    return _stack.enter_context(small_server(delay, tells_md5=True))


def bucket(delay: float) -> S3Store:
    """For obstore, as it is used where much is to be under way: by tasks of an event loop."""
    secrets = server(delay).options
    return S3Store(
        "bucket", endpoint=secrets["endpoint"], region=secrets["region"], access_key_id=secrets["access_key_id"],
        secret_access_key=secrets["secret_access_key"], client_options={"allow_http": True},
    )  # fmt: skip


async def all_of(tasks: Iterable[Coroutine[Any, Any, Any]]) -> None:
    room = asyncio.Semaphore(TASKS)

    async def one(task: Coroutine[Any, Any, Any]) -> None:
        async with room:
            await task

    await asyncio.gather(*map(one, tasks))


def uploading(kind: str, delay: float) -> Calls:
    here, options, store = source(kind), server(delay).options, bucket(delay)
    names = [str(path.relative_to(here)) for path in here.rglob("*") if path.is_file()]

    def ours() -> None:
        assert zvcore.copy(here, "s3://bucket/targets/ours", storage_options=options).ok

    async def put(name: str) -> None:
        await store.put_async(f"targets/theirs/{name}", (here / name).read_bytes())

    return {"zvcore": ours, "obstore": lambda: asyncio.run(all_of(map(put, names)))}


def downloading(kind: str, delay: float) -> Calls:
    options, store = server(delay).options, bucket(delay)
    there, place = targets() / "theirs", kind.replace(" ", "-")
    assert zvcore.copy(source(kind), f"s3://bucket/{place}", overwrite=True, storage_options=options).ok

    def ours() -> None:
        assert zvcore.copy(f"s3://bucket/{place}", targets() / "ours", storage_options=options).ok

    async def get(name: str) -> None:
        path = there / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(await (await store.get_async(name)).bytes_async())

    def theirs() -> None:
        names = [one["path"] for page in store.list(place) for one in page]
        asyncio.run(all_of(map(get, names)))

    return {"zvcore": ours, "obstore": theirs}


def clear_far(delay: float) -> None:
    clear()
    empty(server(delay).endpoint, "targets")


PLACES = {"a bucket": 0.0, "a bucket 5 ms away": 0.005}
FAR = {"to": uploading, "from": downloading}

CONTESTS = [
    *(
        Contest(f"copy a folder of {kind}", tuple(WAYS), partial(copying, kind), writes=True, clearing=clear)
        for kind in STORES
    ),
    *(
        Contest(f"find that a copy of {kind} is the same", tuple(COMPARING), partial(comparing, kind))
        for kind in STORES
    ),
    *(
        Contest(
            f"copy a folder of {kind} {way} {where}",
            ("zvcore", "obstore"),
            partial(prepare, kind, delay),
            writes=True,
            clearing=partial(clear_far, delay),
        )
        for kind in ("small chunks", "chunks")
        for way, prepare in FAR.items()
        for where, delay in PLACES.items()
    ),
]


@pytest.fixture(scope="module", autouse=True)
def _servers_end() -> Any:
    yield
    end()


def end() -> None:
    _stack.close()
    server.cache_clear()


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_contest(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    try:
        run_alone(CONTESTS)
    finally:
        end()
