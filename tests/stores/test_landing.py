"""Conversions to a place in an object store where nothing is: documents that were made in memory are put at once."""

from __future__ import annotations

import re
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.converting.note import FINISHED, KEY
from zvcore.errors import ConflictError, ZvcoreError
from zvcore.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.stores.servers import S3, Proxy, Request

VALUES = np.random.default_rng(5).integers(1, 200, (12, 10, 8)).astype("u1")
# (format, options, documents)
MADE: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "zarr3": ("zarr3", {"levels": 1}, ["0/zarr.json", "1/zarr.json", "zarr.json"]),
    "zarr3, one array": ("zarr3", {"shards": (8, 8, 8)}, ["zarr.json"]),
    "zarr2": ("zarr2", {"levels": 1}, ["0/.zarray", "1/.zarray", ".zattrs", ".zgroup"]),
    "n5": ("n5", {"levels": 1}, ["attributes.json", "s0/attributes.json", "s1/attributes.json"]),
    "precomputed": ("precomputed", {"levels": 1}, ["info"]),
}  # fmt: skip


@pytest.fixture
def url(s3: S3) -> Iterator[str]:
    place = s3.url(f"landing-{uuid.uuid4()}")
    yield place
    # Who lists the bucket is told of what is unfinished in it.
    open_store(place, "w", s3.options).delete_prefix("")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    array = zvcore.create(tmp_path / "source", format="zarr3", shape=VALUES.shape, dtype="u1", chunks=(4, 4, 4))
    array[...] = VALUES
    return tmp_path / "source"


def finest(url: str, s3: S3) -> Any:
    found = zvcore.open(url, storage_options=s3.options)
    if isinstance(found, zvcore.Array):
        return found
    return found[next(name for name in ("0", "s0", *found) if name in found)]


def values_at(url: str, s3: S3) -> Any:
    array = finest(url, s3)
    found = array[...].reshape([n for n in array.shape if n > 1])
    return found if found.shape == VALUES.shape else found.T


@pytest.mark.parametrize("what", MADE)
def test_documents_are_put_at_once_and_nothing_is_asked_again(
    s3: S3, url: str, source: Path, proxy: Proxy, what: str
) -> None:
    format, options, documents = MADE[what]
    proxy.forget()
    zvcore.convert(source, url, format=format, storage_options=s3.options, **options)
    names = [one.key.rpartition(url.rpartition("/")[2] + "/")[2] for one in proxy.requests]
    methods = [one.method for one in proxy.requests]
    wanted = [place for place, (method, name) in enumerate(zip(methods, names, strict=True))
              if method == "PUT" and name in documents]  # fmt: skip
    assert sorted(names[place] for place in wanted) == sorted(documents)
    if s3.scheme == "s3":  # whose answers say what is stored
        # A list and the note before them, and no other question before the first chunk.
        assert names[wanted[0] - 1] == KEY and methods[: wanted[0]].count("PUT") == 1
        before = [method for method, name in zip(methods[: wanted[-1]], names, strict=False) if name not in documents]
        assert before.count("HEAD") == 0 and before.count("GET") == 1
    assert (values_at(url, s3) == VALUES).all()
    assert zvcore.verify(url, storage_options=s3.options).problems == []
    assert not open_store(url, "r", s3.options).exists(KEY)


@pytest.mark.parametrize("what", [what for what in MADE if what != "precomputed"])  # whose files are called otherwise
def test_what_is_made_is_what_is_made_in_a_folder(s3: S3, url: str, source: Path, tmp_path: Path, what: str) -> None:
    format, options, _ = MADE[what]
    there = tmp_path / url.rpartition("/")[2]
    zvcore.convert(source, url, format=format, storage_options=s3.options, **options)
    zvcore.convert(source, there, format=format, **options)
    far, near = open_store(url, "r", s3.options), open_store(str(there), "r")
    assert [*far.list()] == [*near.list()]
    assert {key: far.get(key) for key in far.list()} == {key: near.get(key) for key in near.list()}


def meanwhile(proxy: Proxy, when: Callable[[Request], bool], what: Callable[[], Any]) -> None:
    """Do something when the first request of a kind comes, before it is answered."""

    def spoil(request: Request) -> None:
        if proxy.spoil is spoil and when(request):
            proxy.spoil = None
            what()

    proxy.spoil = spoil


@pytest.mark.parametrize("name", [KEY, "1/zarr.json", "zarr.json"])
def test_what_another_puts_there_meanwhile_is_kept(s3: S3, url: str, source: Path, proxy: Proxy, name: str) -> None:
    other, place = open_store(url, "w", s3.options), url.rpartition("/")[2]
    meanwhile(
        proxy, lambda one: one.method == "PUT" and one.key.endswith(f"{place}/{name}"), lambda: other.put(name, b"{}")
    )
    with pytest.raises(ConflictError, match="meanwhile"):
        zvcore.convert(source, url, format="zarr3", levels=1, storage_options=s3.options)
    assert proxy.spoil is None
    assert bytes(other.get(name) or b"") == b"{}"


def test_what_is_there_is_not_taken_for_nothing(s3: S3, url: str, source: Path) -> None:
    open_store(url, "w", s3.options).put("a/b/c/0/0/0", b"left behind")
    zvcore.create(f"{url}/other", format="zarr3", shape=(4,), dtype="u1", storage_options=s3.options)
    for name in ("a/b", "other"):
        with pytest.raises(ConflictError):
            zvcore.convert(source, f"{url}/{name}", format="zarr3", storage_options=s3.options)
    assert bytes(open_store(url, "r", s3.options).get("a/b/c/0/0/0") or b"") == b"left behind"


def test_who_may_not_list_converts_as_before(s3: S3, url: str, source: Path, proxy: Proxy) -> None:
    """Nobody says then that nothing is there: each document is asked for."""
    proxy.spoil = lambda request: 403 if re.search("list-type=|comp=list|prefix=", str(request)) else None
    with suppress(ZvcoreError):  # some formats have to list
        zvcore.convert(source, url, format="zarr3", storage_options=s3.options)
    proxy.spoil = None
    assert any(one.method in ("HEAD", "GET") and one.key.endswith(".zarray") for one in proxy.requests)


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5", "precomputed"])
@pytest.mark.parametrize("far", [False, True])
def test_options_that_no_document_tells_hold_also_when_it_is_resumed(
    s3: S3, url: str, tmp_path: Path, format: str, far: bool
) -> None:
    array = zvcore.create(tmp_path / "empty", format="zarr3", shape=(12, 8, 8), dtype="u1", chunks=(4, 8, 8))
    array[:4] = 7
    there: Any = url if far else tmp_path / "made"
    option = {"write_empty_blocks" if format == "n5" else "write_empty_chunks": True}
    options = {"storage_options": s3.options} if far else {}

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        zvcore.convert(tmp_path / "empty", there, format=format, memory=300, progress=stop, **option, **options)
    zvcore.convert(tmp_path / "empty", there, format=format, memory=300, **option, **options)
    store = open_store(str(there), "r", s3.options if far else None)
    documents = ("zarr.json", ".zarray", "attributes.json", "info", FINISHED)
    assert len([key for key in store.list() if not key.endswith(documents)]) == 3


def test_replacing_puts_the_documents_at_once_too(s3: S3, url: str, source: Path, proxy: Proxy) -> None:
    for _ in range(2):
        proxy.forget()
        zvcore.convert(source, url, format="zarr3", levels=1, overwrite=True, storage_options=s3.options)
    puts = [one.key.rpartition("/")[2] for one in proxy.requests if one.method == "PUT"]
    first = puts.index("zarr.json")
    assert puts[first : first + 3] == ["zarr.json"] * 3
    assert (values_at(url, s3) == VALUES).all()
    assert zvcore.verify(url, storage_options=s3.options).problems == []
