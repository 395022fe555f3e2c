"""Many processes on one dataset: nothing is lost, and every block is the old one or the new one."""

import multiprocessing
import os
import signal
import time

import numpy as np
import pytest

import zvcore
from tests.processes import PATIENCE

context = multiprocessing.get_context("spawn")


def write_blocks(path, number, count):
    array = zvcore.open(path, mode="r+")
    for i in range(number, array.grid[0], count):
        for j in range(array.grid[1]):
            array[i * 8 : i * 8 + 8, j * 8 : j * 8 + 8] = i * 100 + j + 1


def write_items(path, number, count):
    array = zvcore.open(path, mode="r+")
    for i in range(number, 40, count):
        array[i, i] = i + 1
    array.attrs[f"writer {number}"] = number


def rewrite(path, number):
    array = zvcore.open(path, mode="r+")
    while True:
        array[:32, :32] = number


def run(target, path, count):
    processes = [context.Process(target=target, args=(path, number, count)) for number in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(PATIENCE)
        assert process.exitcode == 0


@pytest.mark.parametrize("codec", ["raw", "lz4"])
def test_different_blocks(codec, tmp_path):
    path = tmp_path / "d"
    zvcore.create(path, format="n5", shape=(64, 40), dtype="u2", chunks=(8, 8), codec=codec)
    run(write_blocks, path, 3)
    expected = np.kron(
        np.arange(8)[:, None] * 100 + np.arange(5)[None, :] + 1, np.ones((8, 8), np.uint16)
    ).astype(np.uint16)  # fmt: skip
    np.testing.assert_array_equal(zvcore.open(path)[...], expected)


def test_items_of_the_same_block_and_attributes(tmp_path):
    path = tmp_path / "d"
    zvcore.create(path, format="n5", shape=(40, 40), dtype="u2", chunks=(40, 40), codec="gzip")
    run(write_items, path, 3)
    array = zvcore.open(path)
    np.testing.assert_array_equal(array[...], np.diag(np.arange(1, 41, dtype=np.uint16)))
    assert dict(array.attrs) == {f"writer {number}": number for number in range(3)}


def test_killed_writers_leave_whole_blocks(tmp_path):
    path = tmp_path / "d"
    array = zvcore.create(path, format="n5", shape=(32, 32), dtype="u4", chunks=(32, 32), codec="raw")
    array[...] = 1
    for number in (2, 3):
        process = context.Process(target=rewrite, args=(path, number))
        process.start()
        end = time.monotonic() + PATIENCE
        while array[0, 0] != number:
            assert time.monotonic() < end
        for _ in range(200):
            values = zvcore.open(path)[...]
            assert len(np.unique(values)) == 1
        os.kill(process.pid, signal.SIGKILL)
        process.join(PATIENCE)
        assert len(np.unique(zvcore.open(path)[...])) == 1
    assert list(array.blocks()) == [(0, 0)]
