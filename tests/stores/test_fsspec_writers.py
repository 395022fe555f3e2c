"""fsspec knows no conditions, so zvcore keeps writers of one process apart, whichever thread opened the store."""

from __future__ import annotations

import threading
import uuid
import zipfile
from typing import TYPE_CHECKING

import pytest

from zvcore.errors import ConflictError, UnsupportedError
from zvcore.stores import open_store

if TYPE_CHECKING:
    from pathlib import Path

fsspec = pytest.importorskip("fsspec")


def test_writers_of_different_threads_do_not_overwrite_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"dir::memory://{uuid.uuid4()}"
    opened = []
    for _ in range(2):  # fsspec has another file system for each thread
        thread = threading.Thread(target=lambda: opened.append(open_store(url, "w")))
        thread.start()
        thread.join()
    first, second = opened
    first.put("x", b"old")
    stamps = [store.stamp("x") for store in opened]
    has_looked, other_has_tried = threading.Event(), threading.Event()
    look = first._client.head

    def slowly(path: str) -> object:
        found = look(path)
        has_looked.set()
        other_has_tried.wait(0.5)  # the other has to wait, so this lasts its full time
        return found

    monkeypatch.setattr(first._client, "head", slowly)
    refused = []

    def write() -> None:
        has_looked.wait()
        try:
            second.put_if_unchanged("x", b"second", stamps[1])
        except ConflictError as error:
            refused.append(error)
        other_has_tried.set()

    thread = threading.Thread(target=write)
    thread.start()
    first.put_if_unchanged("x", b"first", stamps[0])
    thread.join()
    assert bytes(second.get("x") or b"") == b"first"
    assert len(refused) == 1


@pytest.mark.parametrize("caching", ["simplecache", "filecache", "blockcache"])
def test_what_fsspec_would_leave_out_of_a_chain_is_refused(caching: str, tmp_path: Path) -> None:
    for name in ("a::b", "a::B/c"):
        with pytest.raises(UnsupportedError, match="file addresses lead to nothing else"):
            open_store(f"{caching}::file://{tmp_path}/{name}", "w")
    assert not [*tmp_path.iterdir()]
    store = open_store(f"{caching}::file://{tmp_path}/plain", "w")
    store.put("x", b"1")
    assert (tmp_path / "plain" / "x").read_bytes() == b"1"


def test_chains_that_lead_further_are_opened(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("f/x", b"1")
    for url in (f"zip://f::file://{tmp_path}/a.zip", f"zip://f::simplecache::file://{tmp_path}/a.zip"):
        assert bytes(open_store(url).get("x") or b"") == b"1"
