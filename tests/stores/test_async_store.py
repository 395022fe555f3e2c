"""zvcore's stores as stores of zarr-python, and hundreds of requests at once without a thread for each."""

from __future__ import annotations

import asyncio
import json
import pickle
import re
import subprocess
import sys
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import default_buffer_prototype

import zvcore
from zvcore.errors import ZvcoreError
from zvcore.stores import Store, open_store
from zvcore.zarr3 import AsyncStore

if TYPE_CHECKING:
    from pathlib import Path

    from tests.stores.servers import S3, Proxy

BUFFER = default_buffer_prototype().buffer
AT_ONCE = 400


def test_what_zarr_python_asks_for_is_what_it_gets(store: Store) -> None:
    async def ask() -> None:
        shown = AsyncStore(store)
        await shown.set("a/b", BUFFER.from_bytes(b"0123456789"))
        await shown.set("a/empty", BUFFER.from_bytes(b""))
        for asked, expected in [
            (None, b"0123456789"),
            (RangeByteRequest(2, 5), b"234"),
            (RangeByteRequest(8, 50), b"89"),
            (RangeByteRequest(3, 3), b""),
            (OffsetByteRequest(7), b"789"),
            (OffsetByteRequest(50), b""),
            (SuffixByteRequest(4), b"6789"),
            (SuffixByteRequest(40), b"0123456789"),
            (SuffixByteRequest(0), b""),
        ]:
            found = await shown.get("a/b", default_buffer_prototype(), asked)
            assert found is not None and found.to_bytes() == expected, asked
            assert await shown.get("a/none", default_buffer_prototype(), asked) is None, asked
        empty = await shown.get("a/empty", default_buffer_prototype())
        assert empty is not None and empty.to_bytes() == b""
        assert await shown.exists("a/b") and not await shown.exists("a/none")
        assert await shown.getsize("a/b") == 10
        assert [key async for key in shown.list()] == ["a/b", "a/empty"]
        assert [key async for key in shown.list_prefix("a/e")] == ["a/empty"]
        assert [name async for name in shown.list_dir("")] == ["a"]
        assert [name async for name in shown.list_dir("a")] == ["b", "empty"]
        await shown.delete("a/b")
        await shown.delete("a/b")
        assert not await shown.exists("a/b")
        await shown.delete_dir("a")
        assert [key async for key in shown.list()] == []
        with pytest.raises(ValueError, match="read-only"):
            await shown.with_read_only(True).set("a", BUFFER.from_bytes(b""))
        with pytest.raises(TypeError, match="Buffer"):
            await shown.set("a", b"bytes")  # type: ignore[arg-type]

    asyncio.run(ask())


def test_zarr_python_writes_what_zvcore_reads_and_back(store: Store) -> None:
    values = np.arange(24 * 32 * 40, dtype="u2").reshape(24, 32, 40)
    made = zarr.create_array(AsyncStore(store), shape=values.shape, dtype="u2", chunks=(8, 8, 8), shards=(16, 16, 16))
    made[...] = values
    assert np.array_equal(zvcore.open(store)[...], values)
    there = zarr.open_array(AsyncStore(store, read_only=True), mode="r")
    assert np.array_equal(there[...], values) and np.array_equal(there[3:9, 5, ::2], values[3:9, 5, ::2])


def test_it_can_be_sent_to_another_process(tmp_path: Path) -> None:
    shown = AsyncStore(tmp_path / "a")
    again = pickle.loads(pickle.dumps(shown))
    assert again == shown and hash(again) == hash(shown) and str(tmp_path / "a") in repr(again)
    assert again != AsyncStore(tmp_path / "b") and again.with_read_only(True) != again


def test_hundreds_of_requests_at_once_hold_no_thread_each(s3_process: S3) -> None:
    """All of them wait in the library of the object store, not in threads of Python."""
    url = s3_process.url(f"async-{uuid.uuid4()}")
    store = open_store(url, "w", s3_process.options)
    seen = []

    async def one(shown: AsyncStore, number: int) -> None:
        await shown.set(f"{number}", BUFFER.from_bytes(b"%d" % number * 100))
        seen.append(threading.active_count())
        found = await shown.get(f"{number}", default_buffer_prototype(), RangeByteRequest(0, 4))
        seen.append(threading.active_count())
        assert found is not None and found.to_bytes() == (b"%d" % number * 100)[:4]
        assert await shown.get(f"none-{number}", default_buffer_prototype()) is None

    async def all_at_once() -> None:
        shown = AsyncStore(store)
        await shown.set("first", BUFFER.from_bytes(b"1"))
        before = threading.active_count()
        await asyncio.gather(*(one(shown, number) for number in range(AT_ONCE)))
        assert max(seen) == before

    asyncio.run(all_at_once())
    assert sorted(store.list()) == sorted(["first", *map(str, range(AT_ONCE))])


def test_what_fails_is_the_same_error_as_from_elsewhere(s3: S3, proxy: Proxy) -> None:
    url = s3.url(f"async-{uuid.uuid4()}")
    open_store(url, "w", s3.options).put("a", b"data")
    store = open_store(url, "r", s3.options)
    proxy.spoil = lambda request: 403 if request.path.partition("?")[0].endswith("/a") else None

    def error_of(ask: Any) -> tuple[Any, ...]:
        with pytest.raises(ZvcoreError) as caught:
            ask()
        # How long it took is told, too.
        said = re.sub(r" in [0-9.]+[mµn]?s\b", "", str(caught.value))
        return type(caught.value), caught.value.key, said

    assert error_of(lambda: asyncio.run(store.aget("a"))) == error_of(lambda: store.get("a"))


def test_a_program_ends_well_that_has_awaited_an_object(s3_process: S3) -> None:
    """Of twenty that end right after it, some were aborted: obstore's threads still held objects of Python."""
    url = s3_process.url(f"async-{uuid.uuid4()}")
    open_store(url, "w", s3_process.options).put("a", b"some bytes")
    code = (
        "import asyncio, json, sys; from zvcore.stores import open_store;"
        "store = open_store(sys.argv[1], 'r', json.loads(sys.argv[2]));"
        "print(bytes(asyncio.run(store.aget('a'))))"
    )
    command = [sys.executable, "-c", code, url, json.dumps(s3_process.options)]
    with ThreadPoolExecutor(4) as pool:
        ended = list(pool.map(lambda _: subprocess.run(command, capture_output=True, text=True), range(24)))
    assert {(one.returncode, one.stdout) for one in ended} == {(0, "b'some bytes'\n")}, ended[0].stderr
