"""An object store that is served: the same answers as from a folder, few requests, and nothing beside it."""

from __future__ import annotations

import gzip
import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import tensorstore

import zvcore
from tests.serving.conftest import Client, image, served
from tests.stores.servers import S3, SECRET, Proxy, best_server, s3_server, service, web_server
from zvcore.converting import note
from zvcore.serving import make_server
from zvcore.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def s3_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with s3_server(best_server(), tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="module")
def uploaded(s3_process: S3, shelf: Path) -> S3:
    """The bucket with the shelf below data/, and beside it what nobody shall see."""
    # Other tests add to the shelf what cannot be copied, such as pipes.
    for name in ("a.zarr", "b.n5", "c", "lines.zarrvectors", "points.zarrvectors", "broken.zarr"):
        assert zvcore.copy(str(shelf / name), s3_process.url(f"data/{name}"), storage_options=s3_process.options).ok
    around = open_store(s3_process.url("data"), "w", s3_process.options)
    around.put("plain.txt", (shelf / "plain.txt").read_bytes())
    around.put("packed.gz", gzip.compress(b"unpacked " * 100))
    around.put(".hidden", b"hidden")
    around.put("empty", b"")
    open_store(s3_process.url(""), "w", s3_process.options).put("secret", b"secret")
    return s3_process


@pytest.fixture
def proxy(uploaded: S3) -> Iterator[Proxy]:
    with Proxy(uploaded.port).running() as proxy:
        yield proxy


@pytest.fixture
def remote(uploaded: S3, proxy: Proxy) -> Iterator[Client]:
    seen = service(uploaded.name, proxy.port)
    with served(seen.url("data"), seen.options) as client:
        yield client


def listed(client: Client) -> dict[str, dict[str, object]]:
    found = json.loads(client.ask("/.zvcore/datasets.json").body)
    assert found["incomplete"] is None
    return {one["path"]: one for one in found["datasets"]}


def test_the_page_lists_what_that_of_the_folder_lists(remote: Client, client: Client) -> None:
    far, near = listed(remote), listed(client)
    assert far.keys() == {
        "a.zarr",
        "b.n5/gzip",
        "b.n5/lz4",
        "c",
        "lines.zarrvectors",
        "points.zarrvectors",
        "broken.zarr",
    }
    for path, one in ((path, near[path]) for path in far):
        for fact in ("format", "kind", "title", "shape", "chunks", "levels", "preview", "why", "unfinished"):
            assert far[path].get(fact) == one.get(fact), (path, fact)
        assert (one["error"] is None) == (far[path]["error"] is None)
    assert remote.ask("/").status == 200
    assert b"stored" not in remote.ask("/").body


def test_pictures_and_decoded_views_are_those_of_the_folder(remote: Client, client: Client) -> None:
    for path in ("/.zvcore/preview/a.zarr/picture.png", "/.zvcore/view/b.n5/lz4/-/info",
                 "/.zvcore/view/points.zarrvectors/-/all/0_0_0"):  # fmt: skip
        near, far = client.ask(path), remote.ask(path)
        assert (near.status, far.status) == (200, 200)
        assert far.body == near.body


def test_files_and_ranges_are_those_of_the_folder(remote: Client) -> None:
    content = bytes(range(256)) * 4
    whole = remote.ask("/plain.txt")
    assert (whole.status, whole.body) == (200, content)
    part = remote.ask("/plain.txt", Range="bytes=10-19")
    assert (part.status, part.body, part.headers["Content-Range"]) == (206, content[10:20], "bytes 10-19/1024")
    assert remote.ask("/plain.txt", Range="bytes=-7").body == content[-7:]
    several = remote.ask("/plain.txt", Range="bytes=0-3, 100-109")
    assert several.status == 206
    assert content[100:110] in several.body
    assert remote.ask("/plain.txt", Range="bytes=2000-").status == 416
    head = remote.ask("/plain.txt", "HEAD")
    assert (head.status, head.headers["Content-Length"], head.body) == (200, "1024", b"")
    assert part.headers["ETag"] == whole.headers["ETag"] == head.headers["ETag"]
    assert remote.ask("/plain.txt", If_None_Match=whole.headers["ETag"]).status == 304
    assert remote.ask("/plain.txt", If_Match='"another"').status == 412
    assert (remote.ask("/empty").status, remote.ask("/empty").body) == (200, b"")


def test_packed_files_are_given_as_they_are_or_unpacked(remote: Client) -> None:
    packed = remote.ask("/packed", Accept_Encoding="gzip")
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.body) == b"unpacked " * 100
    assert remote.ask("/packed").body == b"unpacked " * 100
    assert remote.ask("/packed", Range="bytes=9-17").body == b"unpacked "


def test_tensorstore_reads_a_bucket_through_the_server(remote: Client) -> None:
    url = f"http://127.0.0.1:{remote.server.server_port}/a.zarr/"
    array = tensorstore.open({"driver": "zarr3", "kvstore": {"driver": "http", "base_url": url}}).result()
    np.testing.assert_array_equal(array[...].read().result(), image())


@pytest.mark.parametrize(
    "path",
    ["/../secret", "/%2e%2e/secret", "/a.zarr/../../secret", "/..%2fsecret", "/.hidden", "/%2Ehidden", "/secret",
     "//secret", "/a.zarr/%ff", "/.zvcore/preview/../secret/picture.png", "/.zvcore/view/%2e%2e/-/info"],
)  # fmt: skip
def test_nothing_beside_the_address_or_hidden_is_given_out(remote: Client, path: str) -> None:
    answer = remote.ask(path)
    assert answer.status == 404
    assert b"hidden" not in answer.body


def test_hidden_names_are_in_no_folder_page(remote: Client) -> None:
    page = remote.ask("/b.n5/").body
    assert b"lz4/" in page
    assert remote.ask("/no-such-folder/").status == 404


def test_keys_in_documents_do_not_lead_to_hidden_objects(s3_process: S3) -> None:
    url = s3_process.url("attack")
    around = open_store(url, "w", s3_process.options)
    info = {
        "@type": "neuroglancer_multiscale_volume", "type": "image", "data_type": "uint8", "num_channels": 1,
        "scales": [{"key": ".hidden", "size": [4, 4, 4], "resolution": [1, 1, 1], "chunk_sizes": [[4, 4, 4]],
                    "encoding": "raw", "voxel_offset": [0, 0, 0]}],
    }  # fmt: skip
    around.put("info", json.dumps(info).encode())
    around.put(".hidden/0-4_0-4_0-4", b"\xa7" * 64)
    with served(url, s3_process.options) as client:
        for path in ("/", "/.zvcore/datasets.json", "/.zvcore/view/-/info", "/.zvcore/view/-/.hidden/0-4_0-4_0-4"):
            assert b"\xa7" * 16 not in client.ask(path).body


def test_clients_never_learn_the_credentials(uploaded: S3, remote: Client, proxy: Proxy) -> None:
    answers = [remote.ask("/"), remote.ask("/plain.txt"), remote.ask("/.zvcore/datasets.json")]
    proxy.spoil = lambda request: 403
    answers += [remote.ask("/a.zarr/zarr.json"), remote.ask("/"), remote.ask("/.zvcore/view/a.zarr/-/info")]
    assert answers[3].status == 502
    for answer in answers:
        assert SECRET.encode() not in answer.body
        assert not any(SECRET in value for value in answer.headers.values())


def test_a_file_of_which_nothing_is_known_takes_one_request(remote: Client, proxy: Proxy) -> None:
    chunk = "/b.n5/gzip/0/0/0"
    proxy.forget()
    assert remote.ask(chunk).status == 200
    assert len(proxy.seen()) == 1


def test_ranges_of_a_file_take_a_request_each_once_it_is_known(remote: Client, proxy: Proxy) -> None:
    assert remote.ask("/plain.txt", Range="bytes=0-9").status == 206
    proxy.forget()
    for start in (10, 500, 1000):
        assert remote.ask("/plain.txt", Range=f"bytes={start}-{start + 9}").status == 206
    assert [one.range for one in proxy.requests if one.method == "GET"] == ["10-19", "500-509", "1000-1009"]


def test_a_file_that_was_replaced_is_given_as_it_is_now(remote: Client, uploaded: S3) -> None:
    around = open_store(uploaded.url("data"), "w", uploaded.options)
    around.put("changing", b"old " * 100)
    assert remote.ask("/changing", Range="bytes=0-2").body == b"old"
    around.put("changing", b"young " * 10)
    answer = remote.ask("/changing", Range="bytes=0-4")
    assert (answer.status, answer.body, answer.headers["Content-Range"]) == (206, b"young", "bytes 0-4/60")


def test_large_files_are_sent_piece_by_piece(remote: Client, uploaded: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    from zvcore.serving import remote_place

    monkeypatch.setattr(remote_place, "_PIECE", 1000)
    monkeypatch.setattr(remote_place, "_AHEAD", 700)
    content = np.random.default_rng(0).bytes(10_500)
    around = open_store(uploaded.url("data"), "w", uploaded.options)
    around.put("large", content)
    around.put("large-packed.gz", gzip.compress(content))
    assert remote.ask("/large").body == content
    assert remote.ask("/large", Range="bytes=650-5650").body == content[650:5651]
    assert remote.ask("/large-packed").body == content


def test_one_read_is_never_larger_than_those_of_folders(uploaded: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    from zvcore.serving import remote_place

    monkeypatch.setattr(remote_place, "LARGEST_READ", 2000)
    around = open_store(uploaded.url("bomb"), "w", uploaded.options)
    around.put("zarr.json", b'{"zarr_format": 3, "node_type": "group"' + b" " * 5000 + b"}")
    with served(uploaded.url("bomb"), uploaded.options) as client:
        [one] = listed(client).values()
        assert "too much to be read at once" in str(one["error"])
        store = client.server.root.store([])
        for read in (lambda: store.get("zarr.json"), lambda: store.get("zarr.json", -3000),
                     lambda: store.snapshot("zarr.json"), lambda: store.get_ranges("zarr.json", [(0, 1500), (0, 1500)]),
                     lambda: [*store.get_many(["zarr.json"])]):  # fmt: skip
            with pytest.raises(zvcore.errors.UnsupportedError, match="too much to be read at once"):
                read()
        assert len(store.get("zarr.json", 5, 2000) or b"") == 2000
        assert len(store.get("zarr.json", -2000) or b"") == 2000


def test_unfinished_conversions_are_said(uploaded: S3, shelf: Path) -> None:
    url = uploaded.url("half")
    zvcore.copy(str(shelf / "a.zarr"), f"{url}/a.zarr", storage_options=uploaded.options)
    around = open_store(url, "w", uploaded.options)
    around.put(note.KEY, json.dumps({"version": note.VERSION, "failed": f"{Path.home()} is full"}).encode())
    for place, name in ((url, "a.zarr"), (f"{url}/a.zarr", "")):
        with served(place, uploaded.options) as client:
            said = str(listed(client)[name]["unfinished"])
            assert "an unfinished conversion" in said
            assert str(Path.home()) not in said


def test_an_address_with_nothing_is_an_error(s3_process: S3) -> None:
    with pytest.raises(zvcore.errors.NotFoundError, match="nothing here to be served"):
        make_server(s3_process.url("no/such/place"), storage_options=s3_process.options)


def test_a_failing_store_is_a_bad_gateway_and_the_server_lives_on(remote: Client, proxy: Proxy) -> None:
    proxy.spoil = lambda request: 403
    assert remote.ask("/plain.txt").status == 502
    proxy.spoil = None
    assert remote.ask("/plain.txt").status == 200


def test_web_servers_without_lists_are_served(shelf: Path) -> None:
    from http.server import SimpleHTTPRequestHandler

    with web_server(shelf / "a.zarr", SimpleHTTPRequestHandler) as url, served(url, None) as client:
        [one] = listed(client).values()
        assert one["shape"] == [20, 40, 50]
        assert client.ask("/.zvcore/preview/picture.png").body.startswith(b"\x89PNG")
        assert json.loads(client.ask("/zarr.json").body)["zarr_format"] == 3
        assert client.ask("/c/").status == 404


def test_a_volume_on_a_web_server_without_lists_is_served(tmp_path: Path) -> None:
    """Annotations beside it cannot be looked for, which took its links and its picture away."""
    from http.server import SimpleHTTPRequestHandler

    volume = zvcore.create(tmp_path, format="precomputed", shape=(20, 10, 5), dtype="u1", chunks=(8, 8, 8))
    volume[...] = 7
    with web_server(tmp_path, SimpleHTTPRequestHandler) as url, served(url, None) as client:
        [one] = listed(client).values()
        assert one["error"] is None and one["shape"] == [20, 10, 5, 1]
        assert one["source"] == f"precomputed://{client.server.url}"
        assert (zvcore.open(one["view"].removeprefix("precomputed://"))[0][...] == 7).all()


def test_stores_in_memory_and_archives_are_served(shelf: Path, tmp_path: Path) -> None:
    zvcore.copy(str(shelf / "a.zarr"), "memory://served/a.zarr")
    zvcore.copy(str(shelf / "a.zarr"), str(tmp_path / "b.zip"))
    zvcore.copy(str(shelf / "a.zarr"), str(tmp_path / "c.zip/within/a.zarr"))
    for place, name in (
        ("memory://served", "a.zarr"), (f"file://{tmp_path}/b.zip", ""), (tmp_path / "b.zip", ""),
        (f"{tmp_path}/c.zip", "within/a.zarr"), (f"{tmp_path}/c.zip/within", "a.zarr"),
    ):  # fmt: skip
        with served(place, None) as client:
            assert listed(client)[name]["shape"] == [20, 40, 50]


def test_the_address_of_a_folder_here_is_served_as_the_folder(shelf: Path) -> None:
    with served(f"file://{shelf}", None) as client:
        assert client.ask("/../secret").status == 404
        assert listed(client)["a.zarr"]["stored_bytes"]


def test_the_command_serves_a_bucket_with_the_options_of_the_command_line(
    uploaded: S3, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from zvcore.commands.cli import main
    from zvcore.serving.server import DataServer

    seen = {}

    def once(server: DataServer) -> None:
        thread = threading.Thread(target=lambda: seen.update(listed(Client(server))))
        thread.start()
        while thread.is_alive():
            server.handle_request()

    monkeypatch.setattr(DataServer, "serve_forever", once)
    monkeypatch.setattr(DataServer, "timeout", 0.05)
    options = [text for name, value in uploaded.options.items() for text in
               ("--storage-option", f"{name}={json.dumps(value) if value is True else value}")]  # fmt: skip
    assert main(["serve", uploaded.url("data"), "--port", "0", *options]) == 0
    assert seen["a.zarr"]["shape"] == [20, 40, 50]
    said = capsys.readouterr()
    assert "serving s3://bucket/data, read only" in said.err
    assert SECRET not in said.err + said.out


def test_passwords_in_addresses_are_not_shown() -> None:
    from zvcore.errors import without_credentials

    assert without_credentials("http://me:secret@host/a: no") == "http://host/a: no"
    assert without_credentials("http://me:p@ss@host/a@b: no") == "http://host/a@b: no"
    assert without_credentials("s3://bucket/a@b") == "s3://bucket/a@b"
