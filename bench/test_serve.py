"""Chunks sent to browsers by `zvcore serve`, beside what is usual for that: Python's own server with a header for other
origins, which Neuroglancer's and CloudVolume's programs are. nginx, where there is one, shows what a server in C takes.

    pytest bench/test_serve.py --benchmark-enable      times
    python -m bench.test_serve [word]                  ratios, the competitors taking turns

Each server is a process of its own over the same folder. All are asked by the same client, over connections that stay.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from bench.contest import Contest, entrants, run_alone
from zvcore.stores.range_requests import Wanted, address_of, close_kept, fetch_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SIDE, CHUNK = 256, 32
# A browser has so many connections to one server.
OF_A_BROWSER = 6
PYTHONS = """
import sys
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
class Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16
    def end_headers(self):
        self.send_header("Access-Control-Allow-Origin", "*")
        super().end_headers()
    def log_message(self, *_):
        pass
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), lambda *a: Handler(*a, directory=sys.argv[2])).serve_forever()
"""
OURS = """
import sys
from zvcore.serving import make_server
make_server(sys.argv[2], port=int(sys.argv[1])).serve_forever()
"""
NGINX = """
{user}daemon off; pid {work}/pid; error_log {work}/errors; events {{}}
http {{ sendfile on; access_log off; client_body_temp_path {work}/1; proxy_temp_path {work}/2;
fastcgi_temp_path {work}/3; uwsgi_temp_path {work}/4; scgi_temp_path {work}/5;
server {{ listen 127.0.0.1:{port}; root {root}; add_header Access-Control-Allow-Origin *; }} }}
"""
HAS_NGINX = shutil.which("nginx") is not None

_running = contextlib.ExitStack()


@cache
def folder() -> Path:
    root = Path(_running.enter_context(tempfile.TemporaryDirectory()))
    values = np.random.default_rng(1).integers(0, 4000, (SIDE,) * 3, np.uint16)
    zvcore.create(root / "data", format="zarr3", data=values, chunks=(CHUNK,) * 3, codec=None)
    return root / "data"


@contextlib.contextmanager
def _started(command: list[str], port: int) -> Iterator[str]:
    process = subprocess.Popen(command)
    try:
        while process.poll() is None:
            with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@cache
def server(who: str) -> str:
    """The address of one of them."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    root = folder()
    if who == "nginx":
        work = root.parent
        configuration = work / "nginx.conf"
        # Begun as root it would read as somebody else.
        configuration.write_text(NGINX.format(user="user root; ", work=work, root=root, port=port))
        command = ["nginx", "-p", str(work), "-e", str(work / "errors"), "-c", str(configuration)]
    else:
        command = [sys.executable, "-c", OURS if who == "zvcore" else PYTHONS, str(port), str(root)]
    return _running.enter_context(_started(command, port))


def asking(who: str, names: list[str], connections: int, there: bool) -> Callable[[], None]:
    addresses = [address_of(f"{server(who)}/{name}") for name in names]

    def ask() -> None:
        found, _ = fetch_parts([Wanted(address) for address in addresses], connections)
        assert all(one is not None and (one[1] is not None) is there for one in found)

    ask()
    return ask


def sending(names: list[str], connections: int, there: bool) -> dict[str, Callable[[], None]]:
    return {who: asking(who, names, connections, there) for who in SERVERS}


def chunks(beyond: int = 0) -> list[str]:
    count = range(beyond, beyond + SIDE // CHUNK)
    return [f"c/{i}/{j}/{k}" for i in count for j in count for k in count]


SERVERS = ("zvcore", "http.server", *(["nginx"] if HAS_NGINX else []))
CONTESTS = [
    Contest(f"{what}, {how}", SERVERS, partial(sending, names, connections, there))
    for what, names, there in (
        ("send 512 chunks of 64 KiB", chunks(), True),
        ("say that 512 chunks are missing", chunks(100), False),
    )
    for how, connections in (("one connection", 1), (f"{OF_A_BROWSER} connections", OF_A_BROWSER))
]


def end() -> None:
    close_kept()
    _running.close()
    server.cache_clear()
    folder.cache_clear()


@pytest.fixture(scope="module", autouse=True)
def _servers_end() -> Any:
    yield
    end()


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_contest(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    run_alone(CONTESTS)
    end()
