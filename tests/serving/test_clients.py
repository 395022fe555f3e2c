"""Other implementations read what is served, over real HTTP."""

import numpy as np
import pytest
import tensorstore

import zvcore
from tests.serving.conftest import Client, image
from zvcore.serving.server import DataServer


@pytest.mark.parametrize(
    ("path", "driver"),
    [
        ("a.zarr/", "zarr3"),
        ("b.n5/gzip/", "n5"),
        (".zvcore/view/a.zarr/-/", "neuroglancer_precomputed"),
        (".zvcore/view/b.n5/lz4/-/", "neuroglancer_precomputed"),
    ],
)
def test_tensorstore(server: DataServer, path: str, driver: str) -> None:
    spec = {"driver": driver, "kvstore": {"driver": "http", "base_url": server.url, "path": path}}
    opened = tensorstore.open(spec, read=True).result()
    values = np.asarray(opened.read().result())
    expected = image() if driver == "zarr3" else image().T
    assert np.array_equal(values.reshape(expected.shape), expected)


def test_tensorstore_reads_decoded_labels(server: DataServer, shelf: object) -> None:
    spec = {
        "driver": "neuroglancer_precomputed",
        "kvstore": {"driver": "http", "base_url": server.url, "path": ".zvcore/view/c/-/"},
        "scale_index": 1,
    }
    values = np.asarray(tensorstore.open(spec, read=True).result().read().result())
    assert np.array_equal(values, zvcore.open(f"{shelf}/c")[1][...])


@pytest.mark.parametrize("name", ["a.zarr", "b.n5/lz4", "c"])
def test_zvcore_itself(client: Client, server: DataServer, name: str) -> None:
    found = zvcore.open(f"{server.url}{name}", format=None)
    values = found[0][..., 0] >> np.uint64(33) if name == "c" else found[...]
    expected = {"a.zarr": image(), "b.n5/lz4": image().T, "c": image().T // 16}[name]
    assert np.array_equal(values, expected)
