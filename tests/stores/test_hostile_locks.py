"""What lies beside an object under the name of its lock may be anything: readers neither wait for it nor believe it."""

from __future__ import annotations

import os
import threading
import tracemalloc
from typing import TYPE_CHECKING

import numpy as np
import pytest

import zvcore
from tests.processes import PATIENCE
from zvcore.errors import CorruptDataError
from zvcore.stores.partial_writes import _HEAD, Note

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """An array with one shard, whose index is damaged: readers look whether somebody is at changing it."""
    array = zvcore.create(tmp_path / "a", format="zarr3", shape=(32,), dtype="u1", chunks=(8,), shards=(32,))
    array[...] = 5
    shard = tmp_path / "a/c/0"
    damaged = bytearray(shard.read_bytes())
    damaged[-1] ^= 1
    shard.write_bytes(damaged)
    return tmp_path / "a"


def a_pipe(lock: Path) -> None:
    os.mkfifo(lock)


def a_link_to_a_device(lock: Path) -> None:
    lock.symlink_to("/dev/zero")


def a_link_to_a_pipe(lock: Path) -> None:
    os.mkfifo(lock.parent / "pipe")
    lock.symlink_to("pipe")


def a_gigabyte(lock: Path) -> None:
    lock.touch()
    os.truncate(lock, 1 << 30)


def a_gigabyte_that_begins_as_a_note(lock: Path) -> None:
    inode = os.stat(lock.parent / "0").st_ino
    note = Note(b"0", inode, 100, 100, 0, b"", b"").pack()
    head = bytearray(note[: _HEAD.size])
    head[-16:-8] = (1 << 29).to_bytes(8, "little")
    head[-8:] = ((1 << 29) - len(note)).to_bytes(8, "little")
    lock.write_bytes(bytes(head) + b"0")
    os.truncate(lock, 1 << 30)


def a_folder(lock: Path) -> None:
    lock.mkdir()


def a_note_without_an_end(lock: Path) -> None:
    lock.write_bytes(Note(b"0", 1, 100, 100, 0, b"abc", b"def").pack()[:-2])


def a_note_about_a_name_that_is_none(lock: Path) -> None:
    lock.write_bytes(Note(b"\0", 1, 100, 100, 0, b"", b"").pack())


def a_note_about_bytes_beyond_any_file(lock: Path, offset: int = 2**63) -> None:
    found = os.stat(lock.parent / "0")
    lock.write_bytes(Note(b"0", found.st_ino, found.st_size, found.st_size, offset, b"abcd", b"efgh").pack())


def a_growth_behind_the_last_byte_there_can_be(lock: Path) -> None:
    found = os.stat(lock.parent / "0")
    lock.write_bytes(Note(b"0", found.st_ino, found.st_size - 4, found.st_size, 2**63 - 1, b"abcd", b"").pack())


@pytest.mark.parametrize(
    "make",
    [a_pipe, a_link_to_a_device, a_link_to_a_pipe, a_gigabyte, a_gigabyte_that_begins_as_a_note, a_folder,
     a_note_without_an_end, a_note_about_a_name_that_is_none, a_note_about_bytes_beyond_any_file,
     a_growth_behind_the_last_byte_there_can_be],
)  # fmt: skip
def test_whatever_lies_where_a_lock_should_be(broken: Path, make: Callable[[Path], None]) -> None:
    make(broken / "c/.0.zvlock")
    caught: list[Exception] = []

    def read() -> None:
        try:
            zvcore.open(broken)[...]
        except Exception as error:
            caught.append(error)

    tracemalloc.start()
    try:
        # A daemon, so that a reader that waits for the pipe for ever does not keep the other tests from ending.
        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        reader.join(PATIENCE)
        assert not reader.is_alive()
        assert tracemalloc.get_traced_memory()[1] < 50 << 20
    finally:
        tracemalloc.stop()
    assert len(caught) == 1 and isinstance(caught[0], CorruptDataError)
    assert not zvcore.verify(broken).ok


def test_a_writer_takes_over_a_lock_file_of_a_gigabyte(broken: Path) -> None:
    lock = broken / "c/.0.zvlock"
    a_gigabyte_that_begins_as_a_note(lock)
    tracemalloc.start()
    try:
        zvcore.open(broken, "r+")[...] = np.arange(32)
        assert tracemalloc.get_traced_memory()[1] < 50 << 20
    finally:
        tracemalloc.stop()
    assert not lock.exists()
    assert zvcore.open(broken)[7] == 7


@pytest.mark.parametrize("offset", [2**62, 2**63 - 1, 2**63, 2**64 - 1])
def test_a_writer_takes_no_notice_of_a_note_about_bytes_beyond_any_file(broken: Path, offset: int) -> None:
    a_note_about_bytes_beyond_any_file(broken / "c/.0.zvlock", offset)
    zvcore.open(broken, "r+")[...] = np.arange(32)
    assert zvcore.open(broken)[...].tolist() == [*range(32)]
    a_note_about_bytes_beyond_any_file(broken / "c/.0.zvlock", offset)
    assert zvcore.repair(broken).ok


@pytest.mark.parametrize(("before", "offset", "length"), [(0, 0, 0), (0, 0, 1), (10, 50, 4), (10, 0, 4), (10, 6, 4)])
def test_a_note_cuts_a_shard_only_behind_the_bytes_that_it_tells_of(
    tmp_path: Path, before: int, offset: int, length: int
) -> None:
    """One byte, known or guessed, from anywhere in the file is no proof that the rest of it is an append's."""
    zvcore.create(tmp_path / "a", format="zarr3", shape=(32,), dtype="u1", chunks=(8,), shards=(32,))[...] = 5
    shard = tmp_path / "a/c/0"
    found, stored = os.stat(shard), shard.read_bytes()
    noted = stored[offset : offset + length]
    note = Note(b"0", found.st_ino, before, found.st_size + 100, offset, noted, b"")
    (tmp_path / "a/c/.0.zvlock").write_bytes(note.pack())
    zvcore.open(tmp_path / "a", "r+")[:4] = 9
    assert zvcore.open(tmp_path / "a")[...].tolist() == [9] * 4 + [5] * 28
