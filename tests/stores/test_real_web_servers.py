"""nginx, Apache and lighttpd, as many of them as this machine has: what lies in their folders is read as it is there,
over connections of our own where they answer as these need, and all the same where they do not.
"""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
import pytest

import zvcore
from zvcore.errors import NotFoundError
from zvcore.stores import open_store, range_requests

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zvcore import Array

VALUES = np.random.default_rng(3).integers(1, 9, (64, 40, 40), np.uint8)
KINDS: dict[str, dict[str, Any]] = {
    "zarr3": {"chunks": (16, 16, 16)},
    "zarr3 shards": {"chunks": (8, 8, 8), "shards": (32, 32, 32)},
    "zarr2": {"chunks": (16, 16, 16), "codec": "gzip"},
    "n5": {"chunks": (16, 16, 16)},
    "precomputed": {"chunks": (16, 16, 16), "codec": "raw"},
    "precomputed .gz": {"chunks": (16, 16, 16), "codec": "gzip"},
    "precomputed shards": {"chunks": (16, 16, 16), "shards": (32, 32, 32)},
}
MODULES = "/usr/lib/apache2/modules"
NGINX = """
{user}worker_processes 2; daemon off; pid {work}/pid; error_log {work}/errors; events {{}}
http {{
  types {{ application/json json; }} sendfile on; {around}
  client_body_temp_path {work}/1; proxy_temp_path {work}/2; fastcgi_temp_path {work}/3; uwsgi_temp_path {work}/4;
  scgi_temp_path {work}/5; log_format own '$request_method $status $http_user_agent'; access_log {work}/log own;
  server {{ listen 127.0.0.1:{port}; root {root}; {more} }}
}}
"""
APACHE = """
{user}ServerRoot {work}
PidFile {work}/pid
Listen 127.0.0.1:{port}
ServerName localhost
DocumentRoot {root}
ErrorLog {work}/errors
LogFormat "%m %>s %{{User-Agent}}i" own
CustomLog {work}/log own
<Directory {root}>
Require all granted
</Directory>
{more}
"""
LIGHTTPD = """
server.modules += ("mod_accesslog")
server.document-root = "{root}"
server.port = {port}
server.bind = "127.0.0.1"
server.errorlog = "{work}/errors"
accesslog.filename = "{work}/log"
accesslog.format = "%m %s %{{User-Agent}}i"
{more}
"""
USERS = {"nginx": "user root; ", "apache2": "User www-data\nGroup www-data\n", "lighttpd": ""}
COMMANDS: dict[str, tuple[str, Sequence[str]]] = {
    "nginx": (NGINX, ["-p", "{work}", "-e", "{work}/errors", "-c", "{work}/configuration"]),
    "apache2": (APACHE, ["-X", "-D", "FOREGROUND", "-f", "{work}/configuration"]),
    "lighttpd": (LIGHTTPD, ["-D", "-f", "{work}/configuration"]),
}
# Name -> (the server, what stands in its configuration besides, what stands around the server, whether the connections
# of our own bring all).
SERVERS: dict[str, tuple[str, str, str, bool]] = {
    "nginx": ("nginx", "", "", True),
    "nginx, packing": ("nginx", "gzip on; gzip_types *; gzip_min_length 1;", "", True),
    "nginx, few requests a connection": ("nginx", "keepalive_requests 3;", "", True),
    "nginx, no connection kept": ("nginx", "keepalive_timeout 0;", "", True),
    "nginx, pages for what is missing": ("nginx", "error_page 404 /page.html; autoindex on;", "", True),
    "nginx, few connections": ("nginx", "limit_conn few 3;", "limit_conn_zone $binary_remote_addr zone=few:1m;", False),
    "nginx, no tags": ("nginx", "etag off;", "", False),
    "nginx, no ranges": ("nginx", "max_ranges 0;", "", False),
    "apache2": ("apache2", "", "", True),
    "apache2, packing": ("apache2", "SetOutputFilter DEFLATE\nMaxKeepAliveRequests 3", "", True),
    "apache2, no tags": ("apache2", "FileETag None", "", False),
    "lighttpd": ("lighttpd", "", "", True),
}


@contextmanager
def running(name: str, root: Path, work: Path) -> Iterator[str]:
    """The address of such a server over a folder."""
    program, more, around, _ = SERVERS[name]
    command = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if command is None:
        pytest.skip(f"this machine has no {program}")
    if program == "apache2":
        names = ("mpm_event", "authz_core", "filter", "deflate")
        more = "".join(f"LoadModule {one}_module {MODULES}/mod_{one}.so\n" for one in names) + more
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    text, arguments = COMMANDS[program]
    user = USERS[program] if os.geteuid() == 0 else ""
    (work / "configuration").write_text(
        text.format(work=work, root=root, port=port, more=more, around=around, user=user)
    )
    filled = [one.format(work=work) for one in arguments]
    process = subprocess.Popen([command, *filled], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with socket.socket() as trying:
                if trying.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        range_requests.close_kept()
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with open_folder() as root:
        fill(root)
        yield root


@contextmanager
def open_folder() -> Iterator[Path]:
    """One that everybody may look into: servers that begin as root read as somebody else."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        yield root


def fill(root: Path) -> None:
    for kind, options in KINDS.items():
        zvcore.create(root / "a folder" / kind, format=kind.split()[0], data=VALUES, **options)
    zvcore.zvf.write_polylines(root / "lines", [VALUES[:9, :3, 0].astype("f4")] * 3, chunk_shape=(32.0, 32.0, 32.0))
    (root / "page.html").write_text("<p>There is nothing here.")


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest, folder: Path, tmp_path: Path) -> Iterator[tuple[str, str, Path]]:
    """(its name, its address, where it notes who asks for what)."""
    with running(request.param, folder, tmp_path) as address:
        yield request.param, address, tmp_path / "log"


def opened(address: str) -> Array:
    found = zvcore.open(address)
    return found if isinstance(found, zvcore.Array) else found[0]


def test_arrays_are_read_as_they_are(server: tuple[str, str, Path]) -> None:
    _, address, _ = server
    for kind in KINDS:
        array = opened(f"{address}/{quote(f'a folder/{kind}')}")
        box = (slice(3, 50), slice(7, 31), slice(30, 40))
        np.testing.assert_array_equal(np.asarray(array[box]).reshape(47, 24, 10), VALUES[box])
        np.testing.assert_array_equal(np.asarray(array[...]).reshape(VALUES.shape), VALUES)
        np.testing.assert_array_equal(np.asarray(array[5:9, 3, 7]).ravel(), VALUES[5:9, 3, 7])
    assert len(zvcore.open(f"{address}/lines").level(0).read()) == 3
    with pytest.raises(NotFoundError):
        zvcore.open(f"{address}/nothing")


def test_requests_go_over_connections_of_our_own(server: tuple[str, str, Path]) -> None:
    name, address, log = server
    if name.startswith("lighttpd"):
        pytest.skip("it notes who has asked only now and then")
    for kind in KINDS:
        opened(f"{address}/{quote(f'a folder/{kind}')}")[...]
    time.sleep(0.2)
    notes = [line.split(None, 2) for line in log.read_text().splitlines()]
    by_us = [who.startswith("zvcore") for _, _, who in notes]
    assert len(notes) > 100
    assert all(by_us) if SERVERS[name][3] else any(by_us)
    assert {status for _, status, _ in notes} <= {"200", "206", "404", "503"}


def test_objects_and_their_parts(server: tuple[str, str, Path], folder: Path) -> None:
    _, address, _ = server
    store = open_store(f"{address}/a%20folder")
    files = [str(file.relative_to(folder / "a folder")) for file in folder.glob("a folder/*/**/*") if file.is_file()]
    some = [*files[::9], "nothing", "zarr3/nothing"]
    expected = [(folder / "a folder" / name).read_bytes() if name in files else None for name in some]
    assert [None if one is None else bytes(one) for one in store.get_many(some)] == expected
    assert list(store.sizes(some)) == [None if one is None else len(one) for one in expected]
    for name, data in zip(some, expected, strict=True):
        for start, length in [(0, 5), (3, 1 << 20), (-7, None), (-(1 << 20), None), (2, None)]:
            found = store.snapshot(name, start, length)
            if data is None:
                assert found is None
                continue
            assert found is not None and found.size == len(data) and found.stamp == store.stamp(name)
            assert found.data == data[start : None if length is None else start + length]


def test_what_is_replaced_while_it_is_read_is_never_mixed(tmp_path: Path) -> None:
    """Shards are exchanged all the time: each read is of one of them."""
    root, new = tmp_path / "root", tmp_path / "new"
    shard = root / "a" / "c" / "0" / "0"
    shards = []
    rng = np.random.default_rng(4)
    for number in range(1, 6):
        # nginx tells versions of one second by their sizes alone.
        values = (rng.integers(0, 2**number, (64, 64)) + 40 * number).astype("u1")
        zvcore.create(root / "a", format="zarr3", data=values, chunks=(8, 8), shards=(64, 64), overwrite=True)
        shards.append(shard.read_bytes())
    assert len({*map(len, shards)}) == len(shards)
    ended = threading.Event()

    def exchange() -> None:
        for data in itertools.cycle(shards):
            if ended.is_set():
                return
            new.write_bytes(data)
            new.replace(shard)
            time.sleep(0.002)

    seen = set()
    with running("nginx", root, tmp_path) as address:
        thread = threading.Thread(target=exchange)
        thread.start()
        try:
            array = opened(f"{address}/a")
            for _ in range(60):
                (number,) = np.unique(array[::9, ::9] // 40)
                seen.add(int(number))
        finally:
            ended.set()
            thread.join()
    assert len(seen) > 1
