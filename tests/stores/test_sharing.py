"""What every store promises to threads that use one at once, on each of them."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING

import pytest

from tests.at_once import run_threads
from tests.processes import PATIENCE
from zvcore.errors import (
    ConflictError,
)

if TYPE_CHECKING:
    from zvcore.stores import Store


def test_lock_excludes_threads(changeable: Store) -> None:
    store = changeable
    store.put("n", b"0")
    barrier = threading.Barrier(8)

    def work() -> None:
        barrier.wait()
        for _ in range(25):
            with store.lock("n"):
                data = store.get("n")
                assert data is not None
                store.put("n", b"%d" % (int(data) + 1))

    run_threads(work, 8)
    assert store.get("n") == b"200"
    assert list(store.list()) == ["n"]


def test_conditional_puts_of_threads_lose_nothing(store: Store) -> None:
    store.put("n", b"0")

    def work() -> None:
        for _ in range(25):
            while True:
                stamp = store.stamp("n")
                try:
                    data = store.get("n", stamp=stamp)
                    assert data is not None
                    store.put_if_unchanged("n", b"%d" % (int(data) + 1), stamp)
                except ConflictError:
                    continue
                break

    run_threads(work, 4)
    assert store.get("n") == b"100"


def test_one_of_many_creates(store: Store) -> None:
    outcomes = []

    def work() -> None:
        try:
            store.put_if_unchanged("a/b/new", b"x", None)
            outcomes.append("made")
        except ConflictError:
            outcomes.append("there")

    run_threads(work, 8)
    assert sorted(outcomes) == ["made"] + ["there"] * 7


def test_lock_waits_no_longer_than_told(changeable: Store) -> None:
    store = changeable
    entered = threading.Event()
    leave = threading.Event()

    def holder() -> None:
        with store.lock("a/x"):
            entered.set()
            leave.wait(PATIENCE)

    thread = threading.Thread(target=holder)
    thread.start()
    try:
        assert entered.wait(PATIENCE)
        with pytest.raises(ConflictError, match=r"a/x: .*0\.05 s"), store.lock("a/x", timeout=0.05):
            pass
        with pytest.raises(ConflictError), store.lock("a/x", timeout=0):
            pass
        with store.lock("a/y", timeout=0):
            pass
    finally:
        leave.set()
        thread.join()
    with store.lock("a/x", timeout=PATIENCE):
        pass
    assert list(store.list()) == []


def test_lock_twice_in_one_thread_is_an_error_and_no_hang(changeable: Store) -> None:
    store = changeable
    with store.lock("x"):
        with pytest.raises(RuntimeError, match="holds the lock already"), store.lock("x"):
            pass
        with store.lock("y"):
            pass
    with store.lock("x", timeout=0):
        pass


def test_lock_is_released_after_an_error(changeable: Store) -> None:
    store = changeable
    with pytest.raises(ZeroDivisionError), store.lock("x"):
        raise ZeroDivisionError
    with store.lock("x", timeout=0):
        pass


def test_readers_see_whole_objects(store: Store) -> None:
    versions = [bytes([i]) * (1000 + 977 * i) for i in range(20)]
    store.put("x", versions[0])
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            whole = store.get("x")
            assert whole in versions
            ranges = store.get_ranges("x", [(0, 10), (900, 100)])
            assert ranges is not None
            assert bytes(ranges[0]) * 10 == bytes(ranges[1])

    def write() -> None:
        try:
            for version in itertools.islice(itertools.cycle(versions), 300):
                store.put("x", version)
        finally:
            stop.set()

    run_threads([write, read, read, read])
