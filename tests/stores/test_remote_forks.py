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

    from tests.stores.servers import S3, Proxy, Request

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


USED = (
    FORKING
    + """
    array = zvcore.open(url, "r+", storage_options=options)
    assert int(array[...].sum()) == 64 * 64
    store = array.layout.store
    reopened = lambda: int(zvcore.open(url, "r+", storage_options=options)[0:2, 0:2].sum())
    """
)


def used(s3: S3) -> str:
    url = s3.url(f"fork-{uuid.uuid4()}")
    array = zvcore.create(url, format="zarr3", shape=(64, 64), dtype="u1", chunks=(16, 16), storage_options=s3.options)
    array[...] = 1
    return url


def test_after_use_the_child_says_what_it_cannot(s3_process: S3) -> None:
    script = (
        USED
        + """
    found = [in_child(what) for what in (
        lambda: list(store.list()), lambda: store.list_dir(), lambda: store.delete("c/0/0"),
        lambda: zvcore.verify(store).ok, lambda: store.put("x", bytes(33 << 20)),
    )]
    # A grandchild too; and nothing has changed for the parent.
    found.append(in_child(lambda: in_child(lambda: list(store.list()))))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with multiprocessing.get_context("fork").Pool(1) as pool:
            found.append(told(lambda: pool.apply(store.list_dir)))
    assert int(array[...].sum()) == 64 * 64
    print(json.dumps(found))
    """
    )
    for name, is_os_error, words in json.loads(run(script, used(s3_process), json.dumps(s3_process.options))):
        assert name == "StoreError", words
        assert is_os_error
        assert "before this process forked" in words
        assert '"spawn" or "forkserver"' in words


def test_after_use_the_child_reads_and_writes_over_its_own_connections(s3_process: S3) -> None:
    """As the workers of a data loader, which inherit what was opened."""
    if s3_process.scheme != "s3":
        pytest.skip("only for S3 do requests of our own write")
    script = (
        USED
        + """
    found = [in_child(what) for what in (
        lambda: int(array[...].sum()), lambda: len(array.read_blocks([(0, 0), (3, 3)])), reopened,
        lambda: in_child(reopened), lambda: array.write((slice(3, 5), slice(1, 3)), 2), lambda: store.exists("c/9/9"),
    )]
    children = []
    for number in range(3):
        child = os.fork()
        if child == 0:
            # Each changes a row of the same chunks.
            wrong = told(lambda: array.write(8 + number, 3 + number))
            print(wrong, file=sys.stderr, flush=True)
            os._exit(0 if wrong is None else 1)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    found.append(array[3:13:2, 2].tolist())
    found.append(array[8:11, 60].tolist())
    print(json.dumps(found))
    """
    )
    found = json.loads(run(script, used(s3_process), json.dumps(s3_process.options)))
    assert found == [64 * 64, 2, 4, 4, None, False, [2, 1, 1, 4, 1], [3, 4, 5]]


def test_in_the_child_what_fails_once_is_asked_again(s3: S3, proxy: Proxy) -> None:
    if s3.scheme != "s3":
        pytest.skip("as above")
    failed: set[str] = set()

    def spoil(request: Request) -> int | None:
        """Twice in a row, where obstore would have asked again."""
        name = f"{request.method} {request.key}"
        if "forked" not in failed or f"{name} again" in failed:
            return None
        failed.add(f"{name} again" if name in failed else name)
        return 503

    url = used(s3)
    proxy.spoil = spoil
    failed.add("forked")
    script = (
        FORKING
        + """
    array = zvcore.open(url, "r+", storage_options=options)
    print(json.dumps([int(array[...].sum()), in_child(lambda: int(array[...].sum()))]))
    """
    )
    try:
        assert json.loads(run(script, url, json.dumps(s3.options))) == [64 * 64] * 2
    finally:
        proxy.spoil = None
    assert any(name.endswith("c/3/3 again") for name in failed)


def test_without_keys_of_its_own_the_child_says_why_it_cannot(s3_process: S3) -> None:
    """Whoever signs with what a service tells would have to ask it."""
    script = (
        USED
        + """
    from zvcore.stores import request_addresses
    for one in (store._client._own._at, zvcore.open(url, storage_options=options).store._client._own._at):
        one._alone = False
        for signed in one._signed.values():
            signed.clear()
    print(json.dumps([in_child(lambda: int(array[...].sum()))]))
    """
    )
    [(name, _, words)] = json.loads(run(script, used(s3_process), json.dumps(s3_process.options)))
    assert name == "StoreError" and "before this process forked" in words


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
    assert (
        json.loads(run(script, url, json.dumps(s3_process.options)))
        == [[192, 3 if s3_process.scheme == "s3" else "StoreError"]] * 3
    )


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
