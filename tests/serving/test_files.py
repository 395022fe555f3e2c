"""Files over HTTP: ranges, conditions, CORS, and nothing from outside of the root."""

import errno
import gzip
import http.client
import json
import os
import shutil
import socket
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

import zvcore
from tests.processes import PATIENCE
from tests.serving.conftest import Client, served
from zvcore.errors import StoreError
from zvcore.serving import make_server
from zvcore.serving.ranges import Unsatisfiable, parse_ranges
from zvcore.serving.server import DataServer
from zvcore.stores.confined import Confinement

CONTENT = bytes(range(256)) * 4


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("bytes=0-0", (0, 1)),
        ("bytes=10-19", (10, 20)),
        ("bytes=1000-", (1000, 1024)),
        ("bytes=1000-99999999999999999", (1000, 1024)),
        ("bytes=1000-18446744073709551615", (1000, 1024)),
        ("bytes=1000-" + "9" * 5000, (1000, 1024)),
        ("bytes=" + "0" * 5000 + "5-6", (5, 7)),
        ("bytes=-18446744073709551615", (0, 1024)),
        ("bytes=-7", (1017, 1024)),
        ("bytes=-5000", (0, 1024)),
        ("BYTES = 5-6", (5, 7)),
    ],
)
def test_range(client: Client, header: str, expected: tuple[int, int]) -> None:
    start, stop = expected
    for method in ("GET", "HEAD"):
        answer = client.ask("/plain.txt", method, Range=header)
        assert answer.status == 206
        assert answer.headers["Content-Range"] == f"bytes {start}-{stop - 1}/1024"
        assert answer.headers["Content-Length"] == str(stop - start)
        assert answer.body == (CONTENT[start:stop] if method == "GET" else b"")


@pytest.mark.parametrize(
    "header",
    ["bytes=1024-", "bytes=5000-6000", "bytes=-0", "bytes=1024-1024,2000-",
     "bytes=18446744073709551615-", "bytes=" + "9" * 5000 + "-"],
)  # fmt: skip
def test_range_that_is_not_there(client: Client, header: str) -> None:
    answer = client.ask("/plain.txt", Range=header)
    assert answer.status == 416
    assert answer.headers["Content-Range"] == "bytes */1024"


@pytest.mark.parametrize(
    "header",
    ["bytes=5-4", "bytes=a-b", "bytes=", "bytes=-", "bytes=--5", "lines=0-5", "0-5", "bytes=1-2-3", "bytes=0x1-2",
     "bytes=²-3", "bytes=+1-2", "bytes=1 - 2", "bytes=0-5,x"],
)  # fmt: skip
def test_range_that_makes_no_sense_is_ignored(header: str) -> None:
    assert parse_ranges(header, 1024) is None


def test_range_without_sense_gives_the_whole_file(client: Client) -> None:
    answer = client.ask("/plain.txt", Range="bytes=9-1")
    assert (answer.status, answer.body) == (200, CONTENT)


def test_several_ranges(client: Client) -> None:
    answer = client.ask("/plain.txt", Range="bytes=0-3, 100-109, -2")
    assert answer.status == 206
    assert int(answer.headers["Content-Length"]) == len(answer.body)
    kind, _, border = answer.headers["Content-Type"].partition("; boundary=")
    assert kind == "multipart/byteranges"
    first, *parts, last = answer.body.split(f"--{border}".encode())
    assert (first, last) == (b"", b"--\r\n")
    expected = [(0, 4), (100, 110), (1022, 1024)]
    for part, (start, stop) in zip(parts, expected, strict=True):
        head, _, body = part.partition(b"\r\n\r\n")
        assert f"Content-Range: bytes {start}-{stop - 1}/1024".encode() in head
        assert body == CONTENT[start:stop] + b"\r\n"


def test_ranges_that_ask_for_more_than_there_is() -> None:
    assert parse_ranges("bytes=" + ",".join(["0-"] * 200), 1024) is None
    assert parse_ranges("bytes=" + ",".join(["0-0"] * 1000), 1024) is None
    with pytest.raises(Unsatisfiable):
        parse_ranges("bytes=0-", 0)


def test_headers_of_a_file(client: Client, shelf: Path) -> None:
    answer = client.ask("/a.zarr/zarr.json")
    assert answer.body == (shelf / "a.zarr/zarr.json").read_bytes()
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Accept-Ranges"] == "bytes"
    assert answer.headers["Last-Modified"].endswith("GMT")
    assert client.ask("/a.zarr/c/0/0/0").headers["Content-Type"] == "application/octet-stream"
    assert client.ask("/c/info").headers["Content-Type"] == "application/json"
    head = client.ask("/a.zarr/zarr.json", "HEAD")
    assert head.body == b""
    for name in ("Content-Length", "ETag", "Last-Modified", "Content-Type"):
        assert head.headers[name] == answer.headers[name]


def test_conditions(client: Client) -> None:
    first = client.ask("/plain.txt")
    tag, changed = first.headers["ETag"], first.headers["Last-Modified"]
    for condition in ({"If_None_Match": tag}, {"If_None_Match": f'"x", W/{tag}'}, {"If_Modified_Since": changed}):
        answer = client.ask("/plain.txt", **condition)
        assert (answer.status, answer.body) == (304, b"")
        assert answer.headers["ETag"] == tag
    assert client.ask("/plain.txt", If_None_Match='"other"', If_Modified_Since=changed).status == 200
    assert client.ask("/plain.txt", If_Match='"other"').status == 412
    assert client.ask("/plain.txt", If_Match=tag).status == 200
    assert client.ask("/plain.txt", Range="bytes=0-1", If_Range=tag).status == 206
    assert client.ask("/plain.txt", Range="bytes=0-1", If_Range='"other"').status == 200
    assert client.ask("/plain.txt", Range="bytes=0-1", If_Range=changed).status == 206
    assert client.ask("/plain.txt", If_Modified_Since="no date at all").status == 200


def test_the_condition_that_nothing_has_changed(client: Client) -> None:
    first = client.ask("/plain.txt")
    tag, changed = first.headers["ETag"], first.headers["Last-Modified"]
    long_ago = "Thu, 01 Jan 1970 00:00:00 GMT"
    for header, status in ((changed, 200), (long_ago, 412), ("no date at all", 200)):
        assert client.ask("/plain.txt", If_Unmodified_Since=header).status == status
        assert client.ask("/plain.txt", Range="bytes=0-1", If_Unmodified_Since=header).status == (
            206 if status == 200 else status
        )
    # What tags say is worth more.
    assert client.ask("/plain.txt", If_Match=tag, If_Unmodified_Since=long_ago).status == 200


def test_the_tag_changes_with_the_file(client: Client, shelf: Path) -> None:
    file = shelf / "changing"
    file.write_bytes(b"one")
    first = client.ask("/changing").headers["ETag"]
    os.utime(file, ns=(1, 1))
    assert client.ask("/changing").headers["ETag"] != first


def test_cors(client: Client) -> None:
    for path in ("/", "/plain.txt", "/no-such-file", "/c/"):
        answer = client.ask(path, Origin="https://example.org")
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        exposed = answer.headers["Access-Control-Expose-Headers"].lower()
        for name in ("content-range", "content-length", "etag", "content-encoding", "accept-ranges"):
            assert name in exposed


def test_preflight(client: Client) -> None:
    answer = client.ask(
        "/a.zarr/c/0/0/0", "OPTIONS", Origin="https://example.org", Access_Control_Request_Method="GET",
        Access_Control_Request_Headers="range, if-match", Access_Control_Request_Private_Network="true",
    )  # fmt: skip
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert "GET" in answer.headers["Access-Control-Allow-Methods"]
    assert answer.headers["Access-Control-Allow-Headers"] == "range, if-match"
    assert answer.headers["Access-Control-Allow-Private-Network"] == "true"
    evil = client.ask("/", "OPTIONS", Access_Control_Request_Headers="range<script>")
    assert "Access-Control-Allow-Headers" not in evil.headers


def test_one_origin_only(shelf: Path) -> None:
    with make_server(shelf, origin="https://example.org") as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        answer = Client(server).ask("/plain.txt", Origin="https://evil.example")
        server.shutdown()
        thread.join()
    assert answer.headers["Access-Control-Allow-Origin"] == "https://example.org"


@pytest.mark.parametrize(
    "path",
    [
        "/../secret", "/a.zarr/../../secret", "/%2e%2e/secret", "/%2E%2E%2Fsecret", "/..%2fsecret", "//../secret",
        "/a.zarr/%2e%2e/%2e%2e/secret", "/a.zarr/c/..%2f..%2f..%2fsecret", "/%252e%252e/secret", "/%c0%ae%c0%ae/secret",
        "/..%5csecret", "/..\\secret", "/./plain.txt", "/%2e/plain.txt", "/plain.txt%00", "/plain.txt/more",
        "/" + "a" * 5000, "/" + "a/" * 3000, "/" + "a" * 254, "/.hidden",
        "/.git/config", "/a.zarr/c/.zvlock", "/.zvcore/preview/../../picture.png",
        "/.zvcore/view/%2e%2e/-/info",
    ],
)  # fmt: skip
def test_outside_of_the_root(client: Client, shelf: Path, path: str) -> None:
    """Whatever the way: what lies outside or is hidden is not found."""
    (shelf / ".hidden").write_text("secret")
    for method in ("GET", "HEAD"):
        answer = client.ask(path, method)
        assert answer.status == 404
        assert b"secret" not in answer.body


@pytest.mark.parametrize(
    ("path", "told"),
    [("/link", "a link leads out"), ("/linked/secret", "a link leads out"), ("/linked/", "a link leads out"),
     ("/up/secret", "a link leads out"), ("/to-hidden", "may not be read here"),
     ("/ring", "a link that leads to no file"), ("/gone", "a link that leads to no file"),
     ("/gone/chunk", "a link that leads to no file"), ("/pipe", "neither a file nor a folder")],
)  # fmt: skip
def test_what_is_there_and_cannot_be_read_is_not_called_missing(
    client: Client, shelf: Path, path: str, told: str
) -> None:
    """Readers take what is not found for fill values: a chunk that is a link to elsewhere would be zeros."""
    (shelf / ".hidden").write_text("secret")
    for name, target in (
        ("link", "../secret"), ("linked", ".."), ("up", "a.zarr/../.."), ("to-hidden", ".hidden"), ("ring", "ring"),
        ("gone", "a.zarr/gone"),
    ):  # fmt: skip
        if not os.path.lexists(shelf / name):
            (shelf / name).symlink_to(target)
    if not (shelf / "pipe").exists():
        os.mkfifo(shelf / "pipe")
    answer = client.ask(path)
    assert answer.status == 500 and told in answer.body.decode()
    assert b"secret" not in answer.body.replace(path.encode().lstrip(b"/"), b"")
    assert client.ask(path, "HEAD").status == 500


def test_an_absent_file_behind_a_link_is_missing(client: Client, shelf: Path) -> None:
    if not os.path.lexists(shelf / "inner"):
        (shelf / "inner").symlink_to("a.zarr/c")
    assert client.ask("/inner/0/0/0").status == 200
    assert client.ask("/inner/0/0/9").status == 404


def test_a_file_that_may_not_be_read_is_not_called_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Confinement.open_here

    def refused(folder: Confinement, names: Sequence[bytes]) -> object:
        if names[-1:] == [b"0"]:
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(folder, names)

    zvcore.create(tmp_path / "a", format="zarr2", shape=(4,), dtype="u1", chunks=(2,))[...] = 7
    monkeypatch.setattr(Confinement, "open_here", refused)
    with served(tmp_path) as client:
        answer = client.ask("/a/0")
        assert (answer.status, answer.body) == (500, b"StoreError: a/0: this cannot be read: Permission denied\n")
        assert (client.ask("/a/1").status, client.ask("/a/2").status) == (200, 404)
        with pytest.raises(StoreError):
            zvcore.open(f"{client.server.url}a")[...]


@pytest.mark.parametrize("how", ["removed", "renamed", "replaced"])
def test_nothing_is_called_missing_once_the_root_is_gone(tmp_path: Path, how: str) -> None:
    """Readers that know the array already would take all of it for fill values."""
    root = tmp_path / "root"
    zvcore.create(root / "a", format="zarr3", shape=(4, 4), dtype="u1", chunks=(2, 4))[:2] = 7
    block = "/.zvcore/view/a/-/0/0-4_0-4_0-1"
    with served(root) as client:
        assert [client.ask(path).status for path in ("/a/c/0/0", "/a/c/1/0", block)] == [200, 404, 200]
        array = zvcore.open(f"{client.server.url}a")
        if how == "removed":
            shutil.rmtree(root)
        else:
            root.rename(tmp_path / "other")
        if how == "replaced":
            root.mkdir()
        answer = client.ask("/a/c/1/0")
        assert answer.status == 500 and b"removed, renamed or replaced" in answer.body
        with pytest.raises(StoreError):
            array[2:]
        assert client.ask(block).status == 500
        page = json.loads(client.ask("/.zvcore/datasets.json").body)
        assert page["datasets"] == [] and "Could not be looked into" in page["incomplete"]


def test_links_within_the_root_are_followed(client: Client, shelf: Path) -> None:
    if not (shelf / "same").exists():
        (shelf / "same").symlink_to("a.zarr")
    assert client.ask("/same/zarr.json").body == (shelf / "a.zarr/zarr.json").read_bytes()


def test_a_root_that_is_a_link(shelf: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(shelf)
    with make_server(tmp_path / "link") as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        answer = Client(server).ask("/plain.txt")
        server.shutdown()
        thread.join()
    assert answer.body == CONTENT


def test_packed_files(client: Client, shelf: Path) -> None:
    """CloudVolume names packed chunks .gz; Neuroglancer asks for the name without."""
    folder = shelf / "packed"
    folder.mkdir(exist_ok=True)
    packed = gzip.compress(CONTENT)
    (folder / "0-64_0-64_0-64.gz").write_bytes(packed)
    taken = client.ask("/packed/0-64_0-64_0-64", Accept_Encoding="gzip, deflate, br")
    assert (taken.status, taken.body) == (200, packed)
    assert taken.headers["Content-Encoding"] == "gzip"
    assert taken.headers["Vary"] == "Accept-Encoding"
    for refusal in ({}, {"Accept_Encoding": "identity"}, {"Accept_Encoding": "gzip;q=0, *"}):
        plain = client.ask("/packed/0-64_0-64_0-64", **refusal)
        assert (plain.status, plain.body) == (200, CONTENT)
        assert "Content-Encoding" not in plain.headers
        assert plain.headers["ETag"] != taken.headers["ETag"]
    part = client.ask("/packed/0-64_0-64_0-64", Range="bytes=-3", Accept_Encoding="identity")
    assert (part.status, part.body) == (206, CONTENT[-3:])
    itself = client.ask("/packed/0-64_0-64_0-64.gz", Accept_Encoding="gzip")
    assert itself.body == packed
    assert "Content-Encoding" not in itself.headers
    (folder / "cut.gz").write_bytes(packed[:-9])
    assert client.ask("/packed/cut").status == 500


@pytest.mark.parametrize("name", ["0-64_0-64_0-64", "7:0", "info", "12"])
def test_files_packed_under_plain_names(client: Client, shelf: Path, name: str) -> None:
    """Buckets keep them so, and say it; what lies in a folder is no other."""
    folder = shelf / "plainly_packed"
    folder.mkdir(exist_ok=True)
    (folder / "info").write_bytes(b"{}")
    packed = gzip.compress(CONTENT)
    (folder / name).write_bytes(packed)
    taken = client.ask(f"/plainly_packed/{name}", Accept_Encoding="gzip")
    assert (taken.body, taken.headers["Content-Encoding"]) == (packed, "gzip")
    plain = client.ask(f"/plainly_packed/{name}", Accept_Encoding="identity")
    assert plain.body == CONTENT
    assert "Content-Encoding" not in plain.headers


@pytest.mark.parametrize("name", ["0.0", "c/0", "12", "0-64_0-64_0-65"])
def test_streams_of_gzip_that_are_meant_are_sent_as_they_are(client: Client, shelf: Path, name: str) -> None:
    packed = gzip.compress(CONTENT)[: -1 if "_" in name else None]
    path = shelf / "meant" / name
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(packed)
    sent = client.ask(f"/meant/{name}", Accept_Encoding="gzip")
    assert sent.body == packed
    assert "Content-Encoding" not in sent.headers


def test_folders(client: Client) -> None:
    moved = client.ask("/a.zarr")
    assert (moved.status, moved.headers["Location"]) == (301, "/a.zarr/")
    listing = client.ask("/a.zarr/")
    assert listing.headers["Content-Type"].startswith("text/html")
    assert b"href='./zarr.json'" in listing.body
    assert b"href='./c/'" in listing.body
    hidden = client.ask("/b.n5/").body
    assert b"/.." not in hidden.replace(b"../", b"")


def test_a_file_is_no_folder(client: Client, shelf: Path) -> None:
    (shelf / "packed-only.gz").write_bytes(gzip.compress(CONTENT))
    for path in ("/plain.txt", "/packed-only", "/a.zarr/zarr.json"):
        assert client.ask(path).status == 200
        assert client.ask(f"{path}/").status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_it_only_reads(client: Client, method: str) -> None:
    answer = client.ask("/plain.txt", method)
    assert answer.status == 405
    assert answer.headers["Allow"] == "GET, HEAD, OPTIONS"


def test_connections_are_kept(server: DataServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=PATIENCE)
    connection.request("GET", "/plain.txt")
    assert connection.getresponse().read() == CONTENT
    first = connection.sock
    for path, status in (("/nothing", 404), ("/", 200), ("/plain.txt", 200)):
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == status
        assert connection.sock is first
    connection.close()


@pytest.mark.parametrize(
    "request_bytes",
    [b"\r\n\r\n", b"GET\r\n\r\n", b"GET plain.txt HTTP/1.1\r\n\r\n", b"GET http://x/plain.txt HTTP/1.1\r\n\r\n",
     b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00", b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\n\r\n"],
)  # fmt: skip
def test_nonsense_does_no_harm(server: DataServer, client: Client, request_bytes: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=PATIENCE) as connection:
        connection.sendall(request_bytes)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1 << 16):
            pass
    assert client.ask("/plain.txt").status == 200


def test_host_names_do_not_get_into_the_page(client: Client) -> None:
    body = client.ask("/", Host="evil'><script>alert(1)</script>").body
    assert b"<script>" not in body


def test_it_listens_at_this_machine_only(server: DataServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
