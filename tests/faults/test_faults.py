"""What the world does to a store while it is used: no room, no permission, files cut off, clocks that go back."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zvcore
from tests.faults.support import HEAD, SPEC, WRITERS, run
from tests.processes import PATIENCE, start
from zvcore.errors import ConflictError, CorruptDataError, ReadOnlyError, ZvcoreError
from zvcore.precomputed import ShardedStore
from zvcore.stores import LocalStore

WRITING = """
import errno, os, sys, zvcore
from zvcore.errors import ZvcoreError
value = 7
try:
{body}
except OSError as error:
    print("OSError", errno.errorcode[error.errno])
except ZvcoreError as error:
    print(type(error).__name__, "OSError" if isinstance(error.__cause__, OSError) else "")
else:
    print("written")
"""


def attempt(name: str, before: str = "", after: str = "") -> str:
    """A script that writes once, and says how that ended; `before` comes ahead of opening, `after` behind it."""
    opened, _, body = WRITERS[name].loop.partition("---\n")
    indented = "\n".join("    " + line for line in f"{opened}\n{after}\n{body}".splitlines() if line)
    return before + WRITING.format(body=indented)


def leftovers(path: Path) -> list[str]:
    return [str(file) for file in path.rglob("*") if ".zvtmp" in file.name or ".zvlock" in file.name]


# --- no room

NO_ROOM = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
"""


@pytest.mark.parametrize("name", WRITERS)
def test_a_write_that_finds_no_room_says_so_and_changes_nothing(tmp_path: Path, name: str) -> None:
    """A limit on the size of files fails a write half way, as a full disk does."""
    writer, path = WRITERS[name], tmp_path / "store"
    writer.make(path)
    said = run(attempt(name, after=NO_ROOM), path).split()
    assert said and said[-1] in ("EFBIG", "OSError"), said
    assert set(writer.check(path)) == {1}
    assert leftovers(path) == []


if os.environ.get("ZVCORE_FAULT_MOUNT"):

    @pytest.mark.parametrize("name", WRITERS)
    def test_a_full_disk(tmp_path: Path, name: str) -> None:
        """On demand (`make faults`), because only root may mount the small file system that it fills."""
        disk = tmp_path / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "none", str(disk)], check=True)
        try:
            writer, path = WRITERS[name], disk / "store"
            writer.make(path)
            with open(disk / "filler", "wb", buffering=0) as filler, pytest.raises(OSError, match="No space"):
                while True:
                    filler.write(bytes(4096))
            said = run(attempt(name), path).split()
            # What is appended to a file may fit into the last of its pages.
            assert said[-1] in ("ENOSPC", "OSError") or (said == ["written"] and "append" in name), said
            assert set(writer.check(path)) == ({7} if said == ["written"] else {1})
            (disk / "filler").unlink()
            assert run(attempt(name), path).split() == ["written"]
            assert 7 in writer.check(path)
        finally:
            subprocess.run(["umount", "-l", str(disk)], check=True)


# --- no permission

# Root may do everything, so the process becomes somebody else once it has imported what it needs.
NOBODY = """
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
"""


def readable_by_all(path: Path) -> None:
    for folder in (path, *path.parents):
        if folder.owner() == Path.home().owner() and str(folder).startswith("/tmp/pytest"):
            folder.chmod(0o755)


@pytest.mark.parametrize("name", ["zarr3 shards, rewrite", "n5 blocks", "precomputed volume", "precomputed values"])
def test_permission_that_is_lost_after_opening(tmp_path: Path, name: str) -> None:
    writer, path = WRITERS[name], tmp_path / "store"
    writer.make(path)
    readable_by_all(path)
    for folder, _, files in os.walk(path):
        os.chmod(folder, 0o555)
        for file in files:
            os.chmod(os.path.join(folder, file), 0o444)
    try:
        # Everything is imported and opened while it still may be read from wherever it is installed.
        opened, _, body = writer.loop.partition("---\n")
        warm = f"path = sys.argv[1] + '-warm'\nshutil.copytree(sys.argv[1], path)\nvalue = 1\n{opened}\n{body}\n"
        said = run("import os, shutil\n" + warm + "path = sys.argv[1]\n" + attempt(name, after=NOBODY), path)
        assert said.split()[-1] in ("EACCES", "EPERM", "ReadOnlyError", "OSError"), said
    finally:
        for folder, _, _ in os.walk(path):
            os.chmod(folder, 0o755)
    assert set(writer.check(path)) == {1}
    assert leftovers(path) == []


def test_a_store_opened_for_reading_refuses_every_write(tmp_path: Path) -> None:
    for name in ("zarr3 shards, rewrite", "n5 blocks"):
        path = tmp_path / name
        WRITERS[name].make(path)
        array = zvcore.open(path)
        for write in (
            lambda a=array: a.__setitem__(..., 5),
            lambda a=array: a.write_block((0, 0), np.full((16, 16), 5, "u4")),
            lambda a=array: a.delete_block((0, 0)),
            lambda a=array: a.attrs.update(x=1),
        ):
            with pytest.raises(ReadOnlyError):
                write()
        assert set(WRITERS[name].check(path)) == {1}
    WRITERS["precomputed values"].make(tmp_path / "kv")
    with pytest.raises(ReadOnlyError):
        ShardedStore(tmp_path / "kv", SPEC).update({1: b""})


# --- files that shrink and change while they are read

SHRINKING = """
import random, sys, zvcore
from zvcore.errors import ZvcoreError
array = zvcore.open(sys.argv[1])
print("ready", flush=True)
good = bad = 0
while not (good > 50 and bad > 5) and good + bad < 20000:
    for region in ((slice(None), slice(None)), (slice(16, 32), slice(16, 32))):
        try:
            values = array[region]
        except ZvcoreError as error:
            bad += 1
            continue
        assert (values == 1).all(), values
        good += 1
print(good, bad, flush=True)
"""


@pytest.mark.parametrize("form", ["zarr3 shards, rewrite", "zarr3 raw shards", "n5 blocks"])
def test_a_file_cut_off_while_it_is_read_is_an_error_and_no_death(tmp_path: Path, form: str) -> None:
    """Nothing is mapped into memory, so there is no SIGBUS; what is short is an error, what is not has right values."""
    path = tmp_path / "store"
    if form == "zarr3 raw shards":
        options: dict[str, Any] = {"shape": (256, 512), "chunks": (16, 16), "shards": (256, 512), "codec": None}
        zvcore.create(path, format="zarr3", dtype="u4", **options)[...] = 1
    else:
        WRITERS[form].make(path)
    file = max(
        (file for file in path.rglob("*") if file.is_file() and file.suffix != ".json"),
        key=lambda file: file.stat().st_size,
    )
    data = file.read_bytes()
    process = start(SHRINKING, path)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    sizes = [0, 1, len(data) // 3, len(data) // 2, len(data) - 1]
    turn = 0
    try:
        end = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < end:
            os.truncate(file, sizes[turn % len(sizes)])
            time.sleep(0.001)
            with open(file, "r+b") as whole:
                whole.write(data)
            time.sleep(0.002)
            turn += 1
    finally:
        process.kill()
    out, err = process.communicate()
    assert process.returncode == 0, err
    good, bad = map(int, out.split())
    assert good > 0 and bad > 0
    assert (zvcore.open(path)[...] == 1).all()


def test_reads_that_give_less_than_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is shorter than its stamp says: what Python's own reads and ours make of it is an error."""
    WRITERS["zarr3 shards, rewrite"].make(tmp_path / "s")
    shard = tmp_path / "s" / "c" / "0" / "0"
    array = zvcore.open(tmp_path / "s")
    assert (array[...] == 1).all()
    data = shard.read_bytes()
    for size in range(0, len(data), max(1, len(data) // 40)):
        shard.write_bytes(data[:size])
        with pytest.raises(ZvcoreError):
            array[:32, :48]
        assert (array[32:] == 1).all(), "one short shard takes no other with it"
    shard.write_bytes(data)
    assert (array[...] == 1).all()


# --- clocks


def test_clocks_and_times_that_go_back(tmp_path: Path) -> None:
    """An index that is kept belongs to one version of its file, whatever times the versions bear."""
    path = tmp_path / "s"
    WRITERS["zarr3 shards, rewrite"].make(path)
    shard = path / "c" / "0" / "0"
    reader, writer = zvcore.open(path), zvcore.open(path, mode="r+")
    for value, when in enumerate((10**9, 5 * 10**8, 0, 10**9, 2 * 10**9, 1), 2):
        rng = np.random.default_rng(value)
        noise = rng.integers(0, 2 + value, (32, 48)).astype("u4")
        writer[:32, :48] = noise  # indexes of all sizes
        os.utime(shard, ns=(when, when))
        np.testing.assert_array_equal(reader[:32, :48], noise)
        np.testing.assert_array_equal(reader[16:32, 16:32], noise[16:32, 16:32])


def test_two_versions_of_an_index(tmp_path: Path) -> None:
    """An older shard put back in place of the newer one, with all its times: readers see the older values whole."""
    path = tmp_path / "s"
    WRITERS["zarr3 shards, rewrite"].make(path)
    shard, kept = path / "c" / "0" / "0", tmp_path / "kept"
    reader = zvcore.open(path)
    values = np.random.default_rng(0).integers(0, 9, (32, 48)).astype("u4")
    zvcore.open(path, mode="r+")[:32, :48] = values
    np.testing.assert_array_equal(reader[:32, :48], values)
    shutil.copy2(shard, kept)
    zvcore.open(path, mode="r+")[:32, :48] = values + 1
    np.testing.assert_array_equal(reader[:32, :48], values + 1)
    os.replace(kept, shard)
    np.testing.assert_array_equal(reader[:32, :48], values)
    # The same inode, the same size, the same times: written over in place and dated back.
    stat = shard.stat()
    other = tmp_path / "other"
    WRITERS["zarr3 shards, rewrite"].make(other)
    zvcore.open(other, mode="r+")[:32, :48] = values[::-1]
    data = (other / "c" / "0" / "0").read_bytes()
    shard.write_bytes(data)
    os.utime(shard, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    np.testing.assert_array_equal(reader[:32, :48], values[::-1])


def test_a_conditional_write_sees_a_change_dated_back(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("x", b"one")
    stamp = store.stamp("x")
    store.put("x", b"two")
    os.utime(tmp_path / "x", ns=(0, 0))
    with pytest.raises(ConflictError):
        store.put_if_unchanged("x", b"three", stamp)
    assert bytes(store.get("x") or b"") == b"two"


# --- few handles, a stopped process


def test_without_handles_it_is_an_error_and_recovers(tmp_path: Path) -> None:
    WRITERS["n5 blocks"].make(tmp_path / "s")
    said = run(
        """
        import os, resource, sys
        array = zvcore.open(path)
        array[...]
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        taken = []
        try:
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            pass
        try:
            zvcore.open(path)
        except OSError as error:
            print(error.errno)
        for descriptor in taken:
            os.close(descriptor)
        print(int((zvcore.open(path)[...] == 1).all()))
        """,
        tmp_path / "s",
    )
    assert said.split() == [str(errno.EMFILE), "1"]


def test_a_stopped_writer_holds_up_others_and_loses_nothing(tmp_path: Path) -> None:
    """SIGSTOP in the middle of changes of one shard, then SIGCONT: both processes' changes are there."""
    path = tmp_path / "s"
    zvcore.create(path, format="zarr3", shape=(64, 64), dtype="u4", chunks=(8, 8), shards=(64, 64))[...] = 0
    script = (
        HEAD
        + "array = zvcore.open(path, mode='r+')\nprint(1, flush=True)\n"
        + "for i in range(8):\n    array[8 * i : 8 * i + 8, 32 * value : 32 * value + 32] = i + 1\n"
    )
    both = [start(script, path, number) for number in range(2)]
    for process in both:
        assert process.stdout is not None
        process.stdout.readline()
    for _ in range(5):
        os.kill(both[0].pid, signal.SIGSTOP)
        time.sleep(0.02)
        os.kill(both[0].pid, signal.SIGCONT)
        time.sleep(0.005)
    for process in both:
        assert process.wait(PATIENCE) == 0, process.communicate()[1]
        process.communicate()
    expected = np.repeat(np.arange(1, 9, dtype="u4"), 8)[:, None].repeat(64, 1)
    np.testing.assert_array_equal(zvcore.open(path)[...], expected)


def test_corrupt_data_is_corrupt_data_for_everybody(tmp_path: Path) -> None:
    """A broken chunk does not break the process for others: the same array still reads what is whole."""
    WRITERS["n5 blocks"].make(tmp_path / "s")
    array = zvcore.open(tmp_path / "s")
    (tmp_path / "s" / "1" / "1").write_bytes(b"\0\0\0\2junk")
    for _ in range(20):
        with pytest.raises(CorruptDataError) as caught:
            array[...]
        assert caught.value.key == "1/1"
        assert (array[:16] == 1).all()


def test_limits_are_back() -> None:
    """The limits above were those of other processes."""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
