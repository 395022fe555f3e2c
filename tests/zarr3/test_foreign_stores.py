"""Stores of zarr-python, seen as stores of ours."""

from __future__ import annotations

import os
import threading

import zarr.storage

from zvcore.zarr3 import foreign_stores
from zvcore.zarr3.foreign_stores import as_store


def test_threads_that_lock_one_object_take_one_lock() -> None:
    ours = as_store(zarr.storage.MemoryStore())
    begin = threading.Barrier(8)
    found = []

    def lock() -> None:
        begin.wait()
        found.append(ours.lock("c/0"))

    threads = [threading.Thread(target=lock) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len({id(one) for one in found}) == 1


def test_locks_that_nobody_holds_are_forgotten() -> None:
    ours = as_store(zarr.storage.MemoryStore())
    before = len(foreign_stores._locks)
    for number in range(100):
        with ours.lock(f"c/{number}"):
            assert len(foreign_stores._locks) == before + 1
    assert len(foreign_stores._locks) == before


def test_an_object_that_another_thread_had_locked_can_be_locked_in_a_forked_child() -> None:
    ours = as_store(zarr.storage.MemoryStore())
    held = ours.lock("c/0")
    with held:
        child = os.fork()
        if child == 0:
            os._exit(0 if ours.lock("c/0").acquire(blocking=False) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
