"""Object stores in processes that fork: they work or say why they do not, and never wait for threads that are gone."""

from __future__ import annotations

import json
import uuid
import zipfile
from typing import TYPE_CHECKING

import numpy as np
import pytest

import zvcore
from tests.processes import run
from tests.stores.servers import web_server
from tests.stores.test_remote_addresses import DATA, Ranges, make

if TYPE_CHECKING:
    from pathlib import Path

    from tests.stores.servers import S3

# Forks as users do, and gives what the child makes of a function: its result, or the class and words of its error.
FORKING = """
    import json, multiprocessing, os, sys, warnings
    import numpy as np
    import zvcore
    from zvcore.stores import open_store

    def told(function):
        try:
            return function()
        except BaseException as error:
            return [type(error).__name__, isinstance(error, OSError), str(error)]

    def in_child(function):
        inside, outside = os.pipe()
        child = os.fork()
        if child == 0:
            with os.fdopen(outside, "w") as file:
                json.dump(told(function), file)
            os._exit(0)
        os.close(outside)
        with os.fdopen(inside) as file:
            text = file.read()
        assert os.waitpid(child, 0)[1] == 0
        return json.loads(text)

    url, options = sys.argv[1], json.loads(sys.argv[2])
"""


def test_after_use_the_child_says_why_it_cannot(s3_process: S3) -> None:
    url = s3_process.url(f"fork-{uuid.uuid4()}")
    array = zvcore.create(
        url, format="zarr3", shape=(64, 64), dtype="u1", chunks=(16, 16), storage_options=s3_process.options
    )
    array[...] = 1
    script = (
        FORKING
        + """
    array = zvcore.open(url, "r+", storage_options=options)
    assert int(array[...].sum()) == 64 * 64
    store = array.layout.store
    reopened = lambda: zvcore.open(url, storage_options=options)[0, 0].tolist()
    found = [in_child(what) for what in (
        lambda: array[...].tolist(), lambda: array.read_blocks([(0, 0), (3, 3)]), lambda: array.write(..., 2), reopened,
        lambda: list(store.list()), lambda: store.list_dir(), lambda: store.delete("c/0/0"),
        lambda: store.put("x", b"x"), lambda: zvcore.verify(store).ok,
    )]
    # A grandchild too; and nothing has changed for the parent.
    found.append(in_child(lambda: in_child(reopened)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with multiprocessing.get_context("fork").Pool(1) as pool:
            found.append(told(lambda: pool.apply(zvcore.open, (url,), {"storage_options": options})))
    assert int(array[...].sum()) == 64 * 64
    print(json.dumps(found))
    """
    )
    for name, is_os_error, words in json.loads(run(script, url, json.dumps(s3_process.options))):
        assert name == "StoreError", words
        assert is_os_error
        assert "before this process forked" in words
        assert '"spawn" or "forkserver"' in words


def test_before_use_a_process_may_fork(s3_process: S3) -> None:
    url = s3_process.url(f"fork-{uuid.uuid4()}")
    zvcore.create(url, format="n5", shape=(64,), dtype="u1", chunks=(16,), storage_options=s3_process.options)[...] = 3
    script = (
        FORKING
        + """
    store = open_store(url, "r", options)
    def work():
        first = int(zvcore.open(store)[...].sum())
        return [first, in_child(lambda: zvcore.open(store)[...].tolist())[0]]
    print(json.dumps([in_child(work) for _ in range(2)] + [work()]))
    """
    )
    assert json.loads(run(script, url, json.dumps(s3_process.options))) == [[192, "StoreError"]] * 3


@pytest.mark.parametrize("kind", ["zip", "http"])
def test_file_systems_of_fsspec_are_made_again_in_the_child(tmp_path: Path, kind: str) -> None:
    """An archive is one open file, whose position parent and child would share."""
    make(tmp_path / "data")
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for path in (tmp_path / "data").rglob("*"):
            if path.is_file():
                archive.write(path, path.relative_to(tmp_path / "data"))
    np.save(tmp_path / "expected.npy", DATA)
    script = (
        FORKING
        + """
    from zvcore.stores import addresses
    find = addresses.importlib.util.find_spec
    addresses.importlib.util.find_spec = lambda name: None if name == "obstore" else find(name)
    expected = np.load(options)
    array = zvcore.open(url)
    assert np.array_equal(array[...], expected)
    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            fine = told(lambda: all(np.array_equal(array[...], expected) for _ in range(3)))
            if fine is not True:
                print(fine, file=sys.stderr, flush=True)
            os._exit(0 if fine is True else 1)
        children.append(child)
    assert all(np.array_equal(array[...], expected) for _ in range(3))
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    """
    )
    expected = json.dumps(str(tmp_path / "expected.npy"))
    if kind == "zip":
        run(script, f"zip://n5::file://{tmp_path}/all.zip", expected)
        return
    with web_server(tmp_path, Ranges) as address:
        run(script, f"{address}/data/n5", expected)
