"""Threads that help with a batch while others are at work too: not at once, but where it takes longer."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.at_once import run_threads
from tests.processes import PATIENCE
from zvcore import codecs
from zvcore.codecs import Codec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VALUES = np.arange(512 * 512, dtype=np.uint32).astype(np.uint16).reshape(512, 512)


class Waiting(Codec):
    """Decodes when it may, and notes in which threads."""

    name = "waiting"
    threads: set[int] = set()
    may_decode = threading.Event()
    takes = 0.0

    def decode(self, data: Any, out: Any = None, max_size: int | None = None) -> Any:
        self.threads.add(threading.get_ident())
        assert self.may_decode.wait(PATIENCE)
        time.sleep(self.takes)
        return bytes(data)

    def encode(self, data: Any) -> bytes:
        return bytes(data)


@pytest.fixture(autouse=True)
def waiting(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    codecs.register("waiting", Waiting)
    monkeypatch.setattr(Waiting, "threads", set())
    monkeypatch.setattr(Waiting, "may_decode", threading.Event())
    yield
    Waiting.may_decode.set()


def made(path: Path, codec: Any) -> Any:
    array = zvcore.create(path, format="zarr3", shape=VALUES.shape, dtype="u2", chunks=(128, 64), codec=codec)
    array[...] = VALUES
    return array


def test_helpers_come_where_it_takes_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = made(tmp_path / "first", Waiting()), made(tmp_path / "second", Waiting())
    results: list[Any] = []
    other = threading.Thread(target=lambda: results.append(first.read(threads=1)))
    other.start()
    try:
        until = time.monotonic() + PATIENCE
        while not Waiting.threads:
            assert time.monotonic() < until
            time.sleep(0.001)
        # Now one caller is at work, and stays so. Of two threads each the second caller has no other at first.
        busy = Waiting.threads.copy()
        monkeypatch.setattr(Waiting, "takes", 0.005)
        threading.Timer(0.05, Waiting.may_decode.set).start()
        np.testing.assert_array_equal(second.read(threads=2), VALUES)
        assert len(Waiting.threads - busy) == 2
    finally:
        Waiting.may_decode.set()
        other.join()
    np.testing.assert_array_equal(results[0], VALUES)


def test_many_callers_at_once_read_the_same(tmp_path: Path) -> None:
    Waiting.may_decode.set()
    array = made(tmp_path / "a", "zstd")
    numbers = iter(range(12))

    def read() -> None:
        number = next(numbers)
        for turn in range(100):
            place = np.s_[(number + turn) % 300 :, turn % 300 :]
            np.testing.assert_array_equal(array.read(place, threads=1 + turn % 5), VALUES[place])

    run_threads(read, 12)
