"""Other implementations read what is served, over real HTTP."""

import threading
from pathlib import Path

import numpy as np
import pytest
import tensorstore

import zvcore
from tests.serving.conftest import Client, image
from zvcore.converting.note import KEY as NOTE
from zvcore.errors import StoreError
from zvcore.serving import make_server
from zvcore.serving.server import DataServer
from zvcore.stores.opening import is_chained


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


def test_passwords_in_addresses_are_not_left_behind(server: DataServer, shelf: Path, tmp_path: Path) -> None:
    """Neither in the note of an unfinished conversion, which lies in its destination, nor in errors."""
    address = f"http://reader:s3cr@t@127.0.0.1:{server.server_port}/a.zarr"

    def stop(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        zvcore.convert(address, tmp_path / "a.n5", format="n5", memory=1000, progress=stop)
    note = (tmp_path / "a.n5" / NOTE).read_text()
    assert "127.0.0.1" in note and "s3cr" not in note and "reader" not in note
    # Who has another password by now goes on with it.
    report = zvcore.convert(address.replace("s3cr@t", "new"), tmp_path / "a.n5", format="n5", memory=1000)
    assert report.resumed and (zvcore.open(shelf / "a.zarr")[...] == zvcore.open(tmp_path / "a.n5")[...].T).all()
    with pytest.raises(StoreError) as caught:
        zvcore.open("http://reader:s3cr@t@127.0.0.1:1/a.zarr", storage_options={"retry_config": {"max_retries": 0}})
    assert "s3cr" not in str(caught.value)


def test_a_host_that_is_an_address_of_ipv6(shelf: Path, tmp_path: Path) -> None:
    """Its two colons are no chain of addresses."""
    try:
        server = make_server(shelf, "::1")
    except OSError:
        pytest.skip("this machine has no IPv6")
    zvcore.copy(shelf / "a.zarr", shelf / "six.zip")
    try:
        with server:
            thread = threading.Thread(target=server.serve_forever, args=(0.05,))
            thread.start()
            try:
                assert server.url.startswith("http://[::1]:")
                for name in ("a.zarr", "six.zip"):
                    assert (zvcore.open(f"{server.url}{name}")[...] == image()).all()
                assert zvcore.inspect(f"{server.url}c")["kind"] == "volume"
            finally:
                server.shutdown()
                thread.join()
    finally:
        (shelf / "six.zip").unlink()


@pytest.mark.parametrize(
    ("address", "chained"),
    [("http://[::1]/a", False), ("http://user:a@b@[fe80::1]:80/a.zip", False), ("simplecache::http://[::1]/a", True),
     ("zip://a::s3://b/c.zip", True), ("http://host/a::b", True), ("http://host/[::1]", True), ("s3://b/a", False)],
)  # fmt: skip
def test_what_is_a_chain_of_addresses(address: str, chained: bool) -> None:
    assert is_chained(address) == chained
