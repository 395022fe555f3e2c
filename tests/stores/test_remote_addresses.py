"""How addresses and options become stores: web servers, fsspec, credentials, what is not installed."""

from __future__ import annotations

import asyncio
import http.server
import importlib.util
import pickle
import re
import subprocess
import sys
import threading
import time
import uuid
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec
import numpy as np
import pytest

import zvcore
from tests.stores.servers import KEY, ROOT, SECRET, free_port, web_server
from zvcore.errors import ConflictError, CorruptDataError, InvalidKeyError, NotFoundError, StoreError, UnsupportedError
from zvcore.stores import addresses, open_store
from zvcore.stores.late_writes import settle

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.stores.servers import S3

DATA = np.random.default_rng(0).integers(1, 200, (40, 36, 32), np.uint16)


class Ranges(http.server.SimpleHTTPRequestHandler):
    """A plain web server that knows ranges and, as some do, no entity tags."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        wanted = self.headers.get("Range", "").removeprefix("bytes=")
        if not wanted or not path.is_file():
            super().do_GET()
            return
        data = path.read_bytes()
        first, _, last = wanted.partition("-")
        start = int(first) if first else max(0, len(data) - int(last))
        stop = min(int(last) + 1, len(data)) if first and last else len(data)
        if start >= stop:
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(data)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(data)}")
        self.send_header("Content-Length", str(stop - start))
        self.send_header("Last-Modified", self.date_time_string(path.stat().st_mtime))
        self.end_headers()
        self.wfile.write(data[start:stop])


class NoFolders(Ranges):
    """To be asked for a list is nothing special to it, and folders are not there."""

    def do_PROPFIND(self) -> None:
        self.send_error(404)


class Listing(Ranges):
    """Lists folders, as WebDAV has it."""

    def do_PROPFIND(self) -> None:
        folder = Path(self.translate_path(self.path))
        if not folder.is_dir():
            self.send_error(404)
            return
        here = "/" + self.path.strip("/")
        answers = [self._answer(here, True, 0)]
        deep = self.headers.get("Depth") != "1"
        for one in sorted(folder.rglob("*") if deep else folder.iterdir()):
            name = f"{here.rstrip('/')}/{one.relative_to(folder)}"
            answers.append(self._answer(name, one.is_dir(), one.stat().st_size))
        text = f'<?xml version="1.0"?><D:multistatus xmlns:D="DAV:">{"".join(answers)}</D:multistatus>'.encode()
        self.send_response(207)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _answer(self, name: str, is_folder: bool, size: int) -> str:
        kind = "<D:collection/>" if is_folder else ""
        return (
            f"<D:response><D:href>{name}</D:href><D:propstat><D:prop><D:resourcetype>{kind}</D:resourcetype>"
            f"<D:getcontentlength>{size}</D:getcontentlength>"
            "<D:getlastmodified>Sat, 01 Nov 2025 10:00:00 GMT</D:getlastmodified>"
            "</D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>"
        )


def test_a_web_server_that_lists(tmp_path: Path) -> None:
    make(tmp_path / "data")
    (tmp_path / "data" / "empty").mkdir()
    with web_server(tmp_path, Listing) as address:
        store = open_store(f"{address}/data")
        for name in ("nothing", "empty", "zarr/nothing/more"):
            assert store.list_dir(name) == ([], [])
            assert list(store.list(name)) == []
            assert store.some_objects(name, 5) == []
        assert "zarr.json" in store.list_dir("zarr")[1]
        assert sorted(store.list("zarr")) == sorted(open_store(tmp_path / "data").list("zarr"))


def make(folder: Path) -> None:
    """The same volume in every format."""
    for name, format, options in (
        ("zarr", "zarr3", {"chunks": (16, 16, 16), "shards": (32, 32, 32)}),
        ("n5", "n5", {"chunks": (16, 16, 16)}),
        ("precomputed", "precomputed", {"chunks": (16, 16, 16), "sharding": "advise"}),
    ):
        array = zvcore.create(folder / name, format=format, shape=DATA.shape, dtype=DATA.dtype, **options)
        array[...] = DATA.reshape(array.shape)


@pytest.mark.parametrize(
    "server", [Ranges, http.server.SimpleHTTPRequestHandler, NoFolders], ids=["ranges", "no-ranges", "no-folders"]
)
@pytest.mark.parametrize("through", ["obstore", "fsspec"])
def test_web_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Any, through: str) -> None:
    if through == "fsspec":
        hide(monkeypatch, "obstore")
    make(tmp_path / "a folder")
    with web_server(tmp_path, server) as address:
        root = f"{address}/a%20folder"
        for name in ("zarr", "n5", "precomputed"):
            found = zvcore.open(f"{root}/{name}")
            array = found if isinstance(found, zvcore.Array) else found[0]
            assert np.array_equal(np.asarray(array[...]).squeeze(), DATA), name
            assert np.array_equal(np.asarray(array[20:30, 3:5, 7:9]).squeeze(), DATA[20:30, 3:5, 7:9])
        with pytest.raises(NotFoundError, match="nothing here"):
            zvcore.open(f"{root}/nothing")
        for mode in ("r+", "w"):
            with pytest.raises(UnsupportedError, match="only read"):
                open_store(f"{root}/zarr", mode)
        store = open_store(root)
        assert store.get("zarr/zarr.json", 10**9, 5) == b""
        if through == "obstore":
            with pytest.raises(UnsupportedError, match="does not list"):
                list(store.list())
            with pytest.raises(UnsupportedError, match="no folder of objects"):
                open_store(f"{root}/zarr?token=1")
    options = {"retry_config": {"max_retries": 0}} if through == "obstore" else {}
    with pytest.raises(StoreError):
        zvcore.open(f"http://127.0.0.1:{free_port()}/zarr", storage_options=options)


def hide(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """As if these were not installed."""
    find = importlib.util.find_spec
    monkeypatch.setattr(addresses.importlib.util, "find_spec", lambda name: None if name in names else find(name))


class WithoutHeads(http.server.SimpleHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self.send_error(405)


def test_what_a_web_server_tells_by_its_objects_only_is_not_absent(tmp_path: Path) -> None:
    """It was: chunks of a volume read as zeros, and files were not found."""
    values = np.arange(1, 65, dtype="u1").reshape(4, 4, 4)
    zvcore.create(tmp_path / "volume", format="precomputed", shape=(4, 4, 4), dtype="u1", chunks=(2, 2, 2))[...] = (
        values[..., None]
    )
    settle()
    assert all(path.suffix == ".gz" for path in (tmp_path / "volume" / "1_1_1").iterdir())
    np.save(tmp_path / "a.npy", values)
    with web_server(tmp_path, WithoutHeads) as address:
        np.testing.assert_array_equal(zvcore.open(f"{address}/volume")[0][..., 0], values)
        np.testing.assert_array_equal(zvcore.open(f"{address}/a.npy")[...], values)
        store = open_store(address, "r")
        assert store.size("a.npy") == (tmp_path / "a.npy").stat().st_size
        assert store.size("b.npy") is None and store.stamp("a.npy") is not None


@pytest.mark.parametrize("header", ["ETag", "Last-Modified"])
@pytest.mark.parametrize("method", ["HEAD", "GET"])
def test_what_a_server_tells_by_one_method_only_is_no_change(tmp_path: Path, header: str, method: str) -> None:
    """Files and archives were refused: "the objects are being replaced faster than they can be read"."""

    class OneMethod(Ranges):
        tag = '"first"'

        def send_header(self, keyword: str, value: str) -> None:
            is_other = keyword == "Last-Modified" and header == "ETag"
            if not is_other and (keyword != header or self.command == method):
                super().send_header(keyword, value)

        def end_headers(self) -> None:
            if header == "ETag":
                self.send_header("ETag", OneMethod.tag)
            super().end_headers()

    np.save(tmp_path / "a.npy", DATA)
    zvcore.create(tmp_path / "a.zip", format="zarr3", shape=DATA.shape, dtype=DATA.dtype, chunks=(16, 16, 16))[...] = (
        DATA
    )
    settle()
    with web_server(tmp_path, OneMethod) as address:
        array = zvcore.open(f"{address}/a.npy")
        np.testing.assert_array_equal(array[...], DATA)
        np.testing.assert_array_equal(zvcore.open(f"{address}/a.zip")[...], DATA)
        if (header, method) == ("ETag", "GET"):
            # What has been replaced is told as ever.
            OneMethod.tag = '"second"'
            with pytest.raises(CorruptDataError, match="another one by now"):
                array[...]


def test_encodings_of_content_that_nothing_unpacks_are_refused_by_name(tmp_path: Path) -> None:
    """Their bytes were taken for those of the object, which was told to be damaged."""

    class Packed(Ranges):
        def end_headers(self) -> None:
            self.send_header("Content-Encoding", "br")
            super().end_headers()

    for name in ("a", "a.br"):
        (tmp_path / name).write_bytes(b"\x0b\x02\x80hello\x03")
    with web_server(tmp_path, Packed) as address:
        store = open_store(address, "r")
        for read in (store.get, lambda key: store.get(key, 1, 2), lambda key: asyncio.run(store.aget(key))):
            with pytest.raises(UnsupportedError, match="Content-Encoding: br") as caught:
                read("a")
            assert caught.value.key == "a"
        # CloudVolume's files tell by their names what they are, and are unpacked.
        assert bytes(store.get("a.br") or b"") == (tmp_path / "a.br").read_bytes()


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "always"])
def test_an_answer_with_fewer_bytes_than_it_says_is_no_damage(tmp_path: Path, lasting: bool) -> None:
    """It was told to be: a repair leaves out what is damaged."""
    answers = 0

    class Short(Ranges):
        def send_header(self, keyword: str, value: str) -> None:
            nonlocal answers
            if keyword == "Content-Length" and self.headers.get("Range") and self.command == "GET":
                answers += 1
                if lasting or answers == 1:
                    value = str(int(value) - 1)
                    self.close_connection = True
            super().send_header(keyword, value)

    make(tmp_path)
    with web_server(tmp_path, Short) as address:
        array = zvcore.open(f"{address}/zarr")
        if not lasting:
            np.testing.assert_array_equal(array[20, 3:5, 7:9], DATA[20, 3:5, 7:9])
            return
        with pytest.raises(StoreError, match=r"as many bytes as it says \(expected 132, found 131\)") as caught:
            array[20, 3:5, 7:9]
        assert caught.value.key == "zarr/c/0/0/0"


def test_what_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnsupportedError, match=r"nothing.*no-such-scheme:"):
        zvcore.open("no-such-scheme://a/b")
    hide(monkeypatch, "obstore", "fsspec")
    for url in ("s3://bucket/a", "gs://bucket/a", "az://container/a", "https://example.org/a"):
        with pytest.raises(UnsupportedError, match=r'need obstore: pip install "zvcore\[remote\]"'):
            zvcore.open(url)
    with pytest.raises(UnsupportedError, match=r"zvcore\[fsspec\]"):
        zvcore.open("sftp://host/a")


def test_without_remote_addresses_nothing_of_them_is_loaded(tmp_path: Path) -> None:
    code = (
        f"import sys, zvcore; zvcore.create({str(tmp_path / 'a')!r}, format='zarr3', shape=(3,), dtype='u1')[...] = 1;"
        "print([name for name in ('obstore', 'fsspec', 'asyncio', 'zvcore.stores.remote') if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert out.strip() == "[]"


def test_stores_of_other_services_are_made() -> None:
    """Without asking them anything."""
    key = "c2VjcmV0"
    for url, options, root in (
        ("gs://bucket/a/b", {"skip_signature": True}, "gs://bucket/a/b"),
        ("az://container/a", {"account_name": "one", "account_key": key}, "az://container/a"),
        ("abfs://container@one.dfs.core.windows.net/a", {"account_key": key}, None),
        ("s3://bucket", {"skip_signature": True, "region": "us-east-1"}, "s3://bucket"),
    ):
        store = open_store(url, "w", options)
        assert store.root == (root or url)
        assert store.remote
        assert pickle.loads(pickle.dumps(store)).object_id("x") == store.object_id("x")
        assert store.child("b").root == f"{store.root}/b"


@pytest.mark.parametrize(
    ("url", "options", "error", "words"),
    [
        ("s3:///a", {}, ValueError, "names no bucket"),
        ("http:///a", {}, ValueError, "names no host"),
        ("s3://bucket/a/../b", {}, InvalidKeyError, "bucket"),
        ("s3://bucket/a", {"no_such_option": 1}, ValueError, "no_such_option"),
        ("s3://bucket/a", {"endpoint": "http://example.org"}, ValueError, "allow_http=True"),
        ("s3://bucket/a", {"profile": "no-such-profile"}, ValueError, "no-such-profile"),
    ],
)
def test_wrong_options(url: str, options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        zvcore.open(url, storage_options=options)


def test_storage_options_are_for_object_stores(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="are for object stores"):
        zvcore.create(tmp_path, format="n5", shape=(3,), dtype="u1", storage_options={"region": "x"})


# --- fsspec


def test_fsspec_reads_and_writes(tmp_path: Path) -> None:
    """A file system that obstore does not know: files below a folder of this machine."""
    url = f"local://{tmp_path}/data"
    array = zvcore.create(url, format="zarr3", shape=DATA.shape, dtype=DATA.dtype, chunks=(16,) * 3, shards=(32,) * 3)
    array[...] = DATA
    array[1, 1, 1] = 0
    expected = DATA.copy()
    expected[1, 1, 1] = 0
    assert np.array_equal(zvcore.open(url)[...], expected)
    assert np.array_equal(zvcore.open(tmp_path / "data")[...], expected)
    store = open_store(url, "r+")
    assert sorted(store.list()) == sorted(open_store(tmp_path / "data").list())
    assert store.list_dir("c")[0] == ["0", "1"]
    stamp = store.stamp("zarr.json")
    store.put_if_unchanged("zarr.json", bytes(store.get("zarr.json") or b""), stamp)
    with pytest.raises(ConflictError):
        store.put_if_unchanged("zarr.json", b"{}", stamp)
    with pytest.raises(ConflictError):
        store.get("zarr.json", stamp=stamp)
    with pytest.raises(ConflictError):
        store.put_if_unchanged("zarr.json", b"{}", None)
    assert store.delete("c/0/0/0") and not store.delete("c/0/0/0")
    assert store.delete_prefix("c") == 3
    assert np.array_equal(zvcore.open(url)[...], np.zeros_like(DATA))


def test_fsspec_reads_archives(tmp_path: Path) -> None:
    make(tmp_path)
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for path in tmp_path.rglob("*"):
            if path.is_file() and path.suffix != ".zip":
                archive.write(path, path.relative_to(tmp_path))
    for name in ("zarr", "n5"):
        assert np.array_equal(zvcore.open(f"zip://{name}::file://{tmp_path}/all.zip")[...], DATA)


def test_file_systems_that_are_not_asynchronous_are_used_by_one_thread_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path)
    with zipfile.ZipFile(tmp_path / "n5.zip", "w") as archive:
        for path in (tmp_path / "n5").rglob("*"):
            if path.is_file():
                archive.write(path, path.relative_to(tmp_path))
    kind = fsspec.get_filesystem_class("zip")
    inside: list[int] = []
    most = []

    def watched(name: str) -> Callable[..., Any]:
        plain = getattr(kind, name)

        def call(*arguments: Any, **options: Any) -> Any:
            me = threading.get_ident()
            inside.append(me)
            most.append(len(set(inside)))
            time.sleep(0.001)
            try:
                return plain(*arguments, **options)
            finally:
                inside.remove(me)

        return call

    for name in ("cat_file", "info", "ls", "find"):
        monkeypatch.setattr(kind, name, watched(name))
    address = f"zip://n5::file://{tmp_path}/n5.zip"
    # fsspec gives both the same file system, and so the same open file.
    first, second = (open_store(address, "r") for _ in range(2))
    results: list[Any] = []
    threads = [
        threading.Thread(target=lambda store=store: results.append(zvcore.open(store)[...]))
        for store in (first, second)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 2
    assert all(np.array_equal(result, DATA) for result in results)
    assert max(most) == 1
    assert len(most) > 50


@pytest.mark.parametrize("fail", [PermissionError("no"), RuntimeError("odd"), OSError("gone")])
def test_errors_of_fsspec_become_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fail: Exception) -> None:
    url = f"local://{tmp_path}/data"
    zvcore.create(url, format="zarr3", shape=(4,), dtype="u1", chunks=(4,))[...] = 1
    array = zvcore.open(url)

    def failing(*_: Any, **__: Any) -> bytes:
        raise fail

    monkeypatch.setattr(fsspec.get_filesystem_class("local"), "cat_file", failing)
    with pytest.raises(StoreError, match=type(fail).__name__):
        array[...]


def test_the_code_of_the_page_runs(s3_process: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "object-stores.md").read_text()
    place = s3_process.url(f"page-{uuid.uuid4()}")
    for old, new in (
        ("http://localhost:9000", s3_process.endpoint), ("my-key", KEY), ("my-secret", SECRET), ("s3://bucket", place),
    ):  # fmt: skip
        assert old in page
        page = page.replace(old, new)
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        exec(compile(block, "object-stores.md", "exec"), names)


def test_vectors_and_conversions_between_stores(s3_process: S3, tmp_path: Path) -> None:
    root = open_store(s3_process.url(f"between-{uuid.uuid4()}"), "w", s3_process.options)
    lines = [np.random.default_rng(i).random((9, 3)).astype(np.float32) * 100 for i in range(20)]
    zvcore.zvf.write_polylines(root.child("lines"), lines, chunk_shape=(50, 50, 50))
    read = zvcore.open(root.child("lines")).level(0)
    assert np.array_equal(read.read_object(3), lines[3])
    assert zvcore.verify(root.child("lines")).ok
    make(tmp_path)
    zvcore.convert(tmp_path / "zarr", root.child("n5"), format="n5")
    zvcore.convert(root.child("n5"), root.child("again"), format="zarr3", shards=(32, 32, 32), chunks=(16, 16, 16))
    assert np.array_equal(np.asarray(zvcore.open(root.child("again"))[...]), DATA)
    assert zvcore.verify(root.child("again")).ok


def test_single_files_in_chains_of_addresses(tmp_path: Path) -> None:
    """Where the path ends differs: of an archive, the first address has it."""
    values = np.arange(6)
    np.save(tmp_path / "a.npy", values)
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for name in ("a.npy", "sub/a.npy"):
            archive.write(tmp_path / "a.npy", name)
    here = tmp_path.as_uri()
    inner = f"zip://sub/a.npy::{here}/x.zip"
    for number, url in enumerate(
        (f"simplecache::{here}/a.npy", f"zip://a.npy::{here}/x.zip", inner, f"filecache::{inner}")
    ):
        assert (zvcore.open(url)[...] == values).all()
        assert zvcore.verify(url).ok
        assert zvcore.copy(url, tmp_path / f"{number}.npy").counts["objects copied"] == 1
    for url in (f"zip://sub/b.npy::{here}/x.zip", f"zip://::{here}/y.zip", f"zip://a.npy::{here}/y.zip"):
        for function in (zvcore.open, zvcore.verify, lambda url: zvcore.copy(url, tmp_path / "copy")):
            with pytest.raises(NotFoundError):
                function(url)


def test_two_colons_in_a_path_are_part_of_a_name(tmp_path: Path) -> None:
    for path in ("a::b", "zip::x.npy", "x::y.zip/c::d", "x.zip/c::d"):
        if path.endswith(".npy"):
            zvcore.convert(np.arange(6), tmp_path / path)
        else:
            zvcore.create(tmp_path / path, format="zarr3", data=np.arange(6), chunks=(4,))
        assert zvcore.open(tmp_path / path)[5] == 5
        assert zvcore.open(f"{tmp_path}/{path}")[5] == 5


@pytest.mark.parametrize("url", ["nonsense://x/y", "nonsense::file:///x", "zip://"])
def test_what_cannot_be_opened_is_not_damaged(url: str) -> None:
    report = zvcore.verify(url)
    assert report.status == "unsupported"
    assert [problem.damage for problem in report.problems] == [False]
