"""fsspec knows no conditions, so zvcore keeps writers of one process apart, whichever thread opened the store."""

from __future__ import annotations

import threading
import uuid

import pytest

from zvcore.errors import ConflictError
from zvcore.stores import open_store

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
