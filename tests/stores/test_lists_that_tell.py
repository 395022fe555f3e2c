"""What a list of a bucket tells is not asked for object by object: requests are counted."""

from __future__ import annotations

import threading
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.errors import NotFoundError
from zvcore.stores import LocalStore, open_store

if TYPE_CHECKING:
    from pathlib import Path

    from tests.stores.servers import S3, Proxy, Request


@pytest.fixture
def url(s3: S3) -> str:
    return s3.url(f"lists-{uuid.uuid4()}")


@pytest.mark.parametrize("may_list", [True, False])
def test_the_sizes_of_many_objects_come_from_a_list(s3: S3, url: str, proxy: Proxy, may_list: bool) -> None:
    store = open_store(url, "w", s3.options)
    sizes = {f"a/{number // 10}/{number}": number for number in range(1, 60)}
    for key, size in sizes.items():
        store.put(key, bytes(size))
    store.put("a/0/empty", b"")
    wanted = {**sizes, "a/0/empty": 0, "a/none": None}
    if s3.name != "versitygw":  # which keeps objects as files, in folders
        store.put("a/0", b"like a folder")
        wanted["a/0"] = 13
    proxy.forget()
    if not may_list:
        proxy.spoil = lambda request: 403 if "list-type" in request.path else None
    assert store.sizes(wanted) == [*wanted.values()]
    assert (len(proxy.seen("HEAD")) < 10) == may_list
    proxy.forget()
    assert store.sizes(["a/0/1", "a/0/2"]) == [1, 2]
    assert not proxy.seen("GET")


@pytest.mark.parametrize("kind", ["zarr3", "n5", "precomputed"])
def test_what_many_chunks_take_is_told_without_asking_for_each(s3: S3, url: str, proxy: Proxy, kind: str) -> None:
    options: dict[str, Any] = {"chunks": (5, 6, 8), "shape": (40, 36, 32), "dtype": np.uint16}
    array = zvcore.create(url, format=kind, storage_options=s3.options, **options)
    array[...] = np.arange(40 * 36 * 32, dtype=np.uint16).reshape(array.shape) + 1
    proxy.forget()
    info = zvcore.inspect(url, storage_options=s3.options)
    assert str(8 * 6 * 4) in repr(info)
    assert len(proxy.seen("HEAD")) < 40
    proxy.forget()
    assert zvcore.verify(url, storage_options=s3.options).ok
    assert len(proxy.seen("HEAD")) < 40


def test_a_copy_asks_for_nothing_that_a_list_tells(s3: S3, url: str, proxy: Proxy, tmp_path: Path) -> None:
    here = LocalStore(tmp_path / "a")
    for number in range(60):
        here.put(f"a/{number}", bytes([number]) * (number + 1))
    options = {"storage_options": s3.options}

    def heads(report: zvcore.Report) -> tuple[int, int]:
        found = len(proxy.seen("HEAD"))
        proxy.forget()
        return report.counts.get("objects copied", 0), found

    copied, asked = heads(zvcore.copy(tmp_path / "a", url, **options))
    assert copied == 60 and asked < 10
    copied, asked = heads(zvcore.sync(tmp_path / "a", url, **options))
    assert copied == 0 and asked < 10
    zvcore.copy(tmp_path / "a", url, **options)
    assert not proxy.seen("PUT")  # the first of them is in the list, too
    proxy.forget()
    copied, asked = heads(zvcore.copy(url, tmp_path / "b", **options))
    assert copied == 60 and asked < 10
    here.put("a/7", b"of eight")
    copied, asked = heads(zvcore.sync(tmp_path / "a", url, **options))
    assert copied == 1 and asked < 10
    assert open_store(url, "r", s3.options).get("a/7") == b"of eight"


def test_what_comes_between_a_list_and_the_copy_is_not_lost(s3: S3, url: str, proxy: Proxy, tmp_path: Path) -> None:
    here = LocalStore(tmp_path / "a")
    for number in range(60):
        here.put(f"a/{number}", b"mine")
    there = open_store(url, "w", s3.options)
    # Not by the way on which everything waits for them.
    elsewhere = open_store(url, "w", replace(s3, port=proxy.target).options)
    others = {"a/3": b"theirs", "a/4": b"mine"}
    first = threading.Lock()

    def meanwhile(request: Request) -> None:
        with first:
            while request.method == "PUT" and others:
                elsewhere.put(*others.popitem())

    proxy.spoil = meanwhile
    report = zvcore.copy(tmp_path / "a", url, storage_options=s3.options, threads=1)
    assert [problem.where for problem in report.problems] == ["a/3"]
    assert report.counts["objects copied"] == 58 and report.counts["objects the same"] == 1
    assert there.get("a/3") == b"theirs"
    assert zvcore.copy(tmp_path / "a", url, storage_options=s3.options, overwrite=True).ok
    assert there.get("a/3") == b"mine"


def test_a_server_that_takes_no_conditions_is_copied_to_all_the_same(
    s3: S3, url: str, proxy: Proxy, tmp_path: Path
) -> None:
    here = LocalStore(tmp_path / "a")
    for number in range(60):
        here.put(f"a/{number}", bytes([number]))
    proxy.spoil = lambda request: 501 if "if-none-match" in request.headers else None
    assert zvcore.copy(tmp_path / "a", url, storage_options=s3.options).ok
    there = open_store(url, "r", s3.options)
    assert [there.get(f"a/{number}") for number in range(60)] == [bytes([number]) for number in range(60)]


def test_nothing_gets_no_manifest(s3: S3, url: str) -> None:
    with pytest.raises(NotFoundError, match="there is nothing here"):
        zvcore.make_manifest(url, storage_options=s3.options)
    assert [*open_store(url, "r", s3.options).list()] == []
