"""File systems of fsspec that say all of where they lead are asked over zvcore's own connections."""

from __future__ import annotations

import uuid
from http.server import SimpleHTTPRequestHandler
from typing import TYPE_CHECKING, Any

import fsspec
import numpy as np
import pytest
import zarr
from fsspec.asyn import AsyncFileSystem
from fsspec.implementations.http import HTTPFileSystem
from zarr.storage import FsspecStore

import zvcore
import zvcore.zarr3
from tests.stores.servers import web_server
from zvcore.stores import open_store
from zvcore.stores.known_file_systems import address_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.stores.servers import S3, Proxy

VALUES = np.random.default_rng(2).integers(0, 200, (20, 30), np.uint8)


class S3FileSystem(AsyncFileSystem):
    """As much of s3fs as zarr-python needs for the metadata of an array: chunks are asked for elsewhere, or in vain."""

    protocol = "s3"
    cachable = False
    # What lies there, in zvcore's words.
    there: Any = None

    async def _cat_file(self, path: str, start: Any = None, end: Any = None, **_: Any) -> bytes:
        name = path.rpartition("/")[2]
        found = self.there.get(name)
        if found is None:
            raise FileNotFoundError(path)
        assert name == "zarr.json"
        return bytes(found)


S3FileSystem.__module__ = "s3fs.core"


@pytest.fixture(autouse=True)
def _pipeline(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_PROFILE",
        "AWS_DEFAULT_REGION",
    ):
        monkeypatch.delenv(name, raising=False)
    with zarr.config.set({"codec_pipeline.path": "zvcore.zarr3.CodecPipeline"}):
        yield


def s3fs(**options: Any) -> S3FileSystem:
    return S3FileSystem(asynchronous=True, skip_instance_cache=True, **options)


def as_s3fs_has_it(s3: S3) -> dict[str, Any]:
    given = s3.options
    client = {"endpoint_url": given["endpoint"], "region_name": given["region"]}
    return {"key": given["access_key_id"], "secret": given["secret_access_key"], "client_kwargs": client}


def test_chunks_of_zarr_python_are_read_and_written_over_own_connections(s3: S3, proxy: Proxy) -> None:
    if s3.scheme != "s3":
        pytest.skip("s3fs speaks to S3")
    place = f"known-{uuid.uuid4()}"
    made = zvcore.create(s3.url(place), format="zarr3", data=VALUES, chunks=(8, 8), storage_options=s3.options)
    filesystem = s3fs(**as_s3fs_has_it(s3))
    filesystem.there = open_store(s3.url(place), "r", s3.options)
    array = zarr.open_array(FsspecStore(filesystem, path=f"{s3.bucket}/{place}"), mode="r+")
    assert zvcore.zarr3.explain(array)["store"] == "remote"
    np.testing.assert_array_equal(array[...], VALUES)
    array[3:17, 5] = VALUES[3:17, 5] + 1
    proxy.forget()
    assert (made[3:17, 5] == VALUES[3:17, 5] + 1).all()
    assert (made[:, 6:] == VALUES[:, 6:]).all()


def test_whoever_opens_such_a_file_system_with_zvcore_has_conditions(s3: S3) -> None:
    if s3.scheme != "s3":
        pytest.skip("s3fs speaks to S3")
    place = f"known-{uuid.uuid4()}"
    mapper = fsspec.FSMap(f"{s3.bucket}/{place}", S3FileSystem(skip_instance_cache=True, **as_s3fs_has_it(s3)))
    array = zvcore.create(mapper, format="zarr3", data=VALUES, chunks=(8, 8))
    assert array.store.creates
    assert (zvcore.open(s3.url(place), storage_options=s3.options)[...] == VALUES).all()


def test_web_servers_are_read_over_own_connections(tmp_path: Path) -> None:
    zvcore.create(tmp_path / "a", format="zarr3", data=VALUES, chunks=(8, 8))
    asked: list[str] = []

    class Noting(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(str(self.headers["User-Agent"]))
            super().do_GET()

    with web_server(tmp_path, Noting) as address:
        array = zarr.open_array(FsspecStore.from_url(f"{address}/a"), mode="r")
        assert zvcore.zarr3.explain(array)["store"] == "remote"
        asked.clear()
        np.testing.assert_array_equal(array[...], VALUES)
        assert asked and not any("aiohttp" in agent for agent in asked)
        mapper = fsspec.filesystem("http").get_mapper(f"{address}/a")
        np.testing.assert_array_equal(zvcore.open(mapper)[...], VALUES)
        # What is said of connections is obeyed by whom it was said to.
        named = HTTPFileSystem(asynchronous=True, client_kwargs={"headers": {"X-Who": "me"}})
        array = zarr.open_array(FsspecStore(named, path=f"{address}/a", read_only=True), mode="r")
        assert zvcore.zarr3.explain(array)["store"] == "bridged"
        np.testing.assert_array_equal(array[...], VALUES)


KEYS = {"key": "a", "secret": "b"}
HERE = {"endpoint_url": "http://127.0.0.1:9"}
FOUND = {"endpoint": "http://127.0.0.1:9", "allow_http": True}
MEANT = {"access_key_id": "a", "secret_access_key": "b"}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({**KEYS, **HERE}, {**FOUND, **MEANT}),
        ({**KEYS, **HERE, "token": "c"}, {**FOUND, **MEANT, "session_token": "c"}),
        ({**KEYS, "client_kwargs": HERE, "max_concurrency": 5, "anon": False}, {**FOUND, **MEANT}),
        ({"anon": True, **HERE}, {**FOUND, "skip_signature": True}),
        (
            {"anon": True, "client_kwargs": {"region_name": "eu-west-1"}},
            {"region": "eu-west-1", "skip_signature": True},
        ),
        # Which region that is botocore finds out, and who asks; the rest is for s3fs alone.
        ({"anon": True}, None),
        (HERE, None),
        ({**HERE, "key": "a"}, None),
        ({**HERE, "token": "c"}, None),
        ({**KEYS, **HERE, "requester_pays": True}, None),
        ({**KEYS, **HERE, "s3_additional_kwargs": {"ServerSideEncryption": "AES256"}}, None),
        ({**KEYS, **HERE, "config_kwargs": {"signature_version": "s3"}}, None),
        ({**KEYS, **HERE, "version_aware": True}, None),
        ({**KEYS, "client_kwargs": {**HERE, "verify": False}}, None),
        ({**KEYS, "client_kwargs": {"region_name": "eu-west-1"}, "use_ssl": False}, None),
    ],
)
def test_what_s3fs_was_told(said: dict[str, Any], expected: dict[str, Any] | None) -> None:
    found = address_of(s3fs(**said), "bucket/a b?")
    assert found == (None if expected is None else ("s3://bucket/a b?", expected))
    for path in ("bucket/a//b", "bucket/../b", "", "/bucket"):
        assert address_of(s3fs(**said), path) is None
    assert address_of(s3fs(**said), "arn:aws:s3:eu-west-1:1:accesspoint/x/y") is None


def test_credentials_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    assert address_of(s3fs(**HERE), "bucket/x") is None
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    assert address_of(s3fs(**HERE), "bucket/x") == ("s3://bucket/x", {**FOUND, **MEANT})
    monkeypatch.setenv("AWS_SESSION_TOKEN", "c")
    assert address_of(s3fs(**HERE), "bucket/x") == ("s3://bucket/x", {**FOUND, **MEANT, "session_token": "c"})
    monkeypatch.setenv("AWS_PROFILE", "me")
    assert address_of(s3fs(**HERE), "bucket/x") is None


@pytest.mark.parametrize(
    "path",
    [
        "http://host/a%20b",
        "http://host/a b",
        "http://host/ä",
        "http://me@host/a",
        "http://host/a//b",
        "http://host/../a",
        "a/b",
    ],
)
def test_addresses_that_may_be_spelled_in_two_ways_are_left_to_fsspec(path: str) -> None:
    assert address_of(HTTPFileSystem(asynchronous=True), path) is None
    assert address_of(HTTPFileSystem(asynchronous=True), "http://host:80/a-b/c_0") == ("http://host:80/a-b/c_0", {})


def test_a_proxy_of_the_environment_is_one_that_fsspec_does_not_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert address_of(HTTPFileSystem(asynchronous=True), "http://host/a") is None


def test_other_kinds_are_none_of_these() -> None:
    class HTTPFileSystem2(HTTPFileSystem): ...

    for one in (fsspec.filesystem("memory"), HTTPFileSystem2(asynchronous=True)):
        assert address_of(one, "http://host/a") is None
