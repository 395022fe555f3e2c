"""A folder with a data set of each format, and a server for it."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import zvcore
from tests.processes import PATIENCE
from zvcore import zvf
from zvcore.serving import make_server
from zvcore.serving.server import DataServer


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes


class Client:
    """Asks as it is told: http.client does not tidy paths up."""

    def __init__(self, server: DataServer) -> None:
        self.server = server

    def ask(self, path: str, method: str = "GET", **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=PATIENCE)
        try:
            connection.putrequest(method, path, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name.replace("_", "-"), value)
            connection.endheaders()
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()


@contextmanager
def served(place: Any, options: dict[str, object] | None = None) -> Iterator[Client]:
    """A server for this folder or address, for as long as it is needed."""
    with make_server(place, storage_options=options) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield Client(server)
        finally:
            server.shutdown()
            thread.join()


def image() -> np.ndarray:
    z, y, x = np.indices((20, 40, 50))
    return (100 + 60 * np.sin(x / 5) + 40 * np.cos(y / 7) + z).astype("uint8")


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("served") / "root"
    root.mkdir()
    values = image()
    a = zvcore.create(
        root / "a.zarr", format="zarr3", shape=values.shape, dtype="uint8", chunks=(10, 16, 16), shards=(20, 32, 32),
        dimension_names=("z", "y", "x"),
    )  # fmt: skip
    a[...] = values
    group = zvcore.open(root / "b.n5", "w", format="n5")
    for name, codec in (("lz4", "lz4"), ("gzip", "gzip")):
        made = group.create_dataset(name, shape=(50, 40, 20), dtype="uint8", chunks=(16, 16, 16), codec=codec)
        made[...] = values.T
    labels = (values // 16).astype("uint64") << 33
    for step in (1, 2):
        part = labels[::step, ::step, ::step].T
        scale = zvcore.create(
            root / "c", format="precomputed", shape=part.shape, dtype="uint64", chunks=(32, 32, 32),
            type="segmentation", resolution=(4 * step, 4 * step, 40 * step),
        )  # fmt: skip
        scale[...] = part[..., None]
    rng = np.random.default_rng(0)
    lines = [np.cumsum(rng.normal(0, 1, (20, 3)), 0) + 50 for _ in range(5)]
    zvf.write_polylines(root / "lines.zarrvectors", lines, chunk_shape=(20, 20, 20), object_attributes=None)
    zvf.write_points(root / "points.zarrvectors", rng.uniform(0, 50, (100, 3)), chunk_shape=(20, 20, 20))
    (root / "plain.txt").write_bytes(bytes(range(256)) * 4)
    (root / "broken.zarr").mkdir()
    (root / "broken.zarr" / "zarr.json").write_text('{"zarr_format": 3, "node_type": "array"}')
    (root.parent / "secret").write_text("secret")
    return root


@pytest.fixture(scope="session")
def server(shelf: Path) -> Iterator[DataServer]:
    with make_server(shelf) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def client(server: DataServer) -> Client:
    return Client(server)
