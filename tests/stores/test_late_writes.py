"""`durability="late"`: old versions stay until the new ones are on the disk, and come back if those were cut short."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.processes import PATIENCE
from zvcore.errors import CorruptDataError
from zvcore.stores import LocalStore, MemoryStore, late_writes
from zvcore.stores.kept_versions import Kept, kept_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def tmp_path(disk_path: Path) -> Path:
    return disk_path


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    """One whose writes wait until somebody settles them: no thread does."""
    late_writes.settle()
    late_writes.rest(True)
    yield LocalStore(tmp_path / "store")
    late_writes.bound()
    late_writes.rest(False)


def write(store: LocalStore, key: str, *versions: bytes) -> None:
    for data in versions:
        with store.writer(key) as writer:
            writer.write_at(0, data)


def kept(store: LocalStore) -> list[Path]:
    return sorted(path for path in Path(store.root).rglob(".*~*.zvtmp"))


def cut(path: Path, size: int) -> None:
    """What a power cut does to a file whose bytes were not on the disk."""
    times = os.stat(path)
    os.truncate(path, size)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_an_old_version_stays_until_the_new_one_is_on_the_disk(store: LocalStore) -> None:
    write(store, "a/b", b"old", b"newer")
    (old,) = kept(store)
    assert old.read_bytes() == b"old"
    assert kept_version(os.fsencode(old.name)) == Kept(b"b", os.stat(Path(store.root, "a/b")).st_mtime_ns, 5)
    assert [*store.list()] == ["a/b"]
    store.close()
    assert not kept(store)
    assert store.get("a/b") == b"newer"


@pytest.mark.parametrize("size", [0, 4])
def test_a_file_that_was_cut_short_gets_its_old_version_back(store: LocalStore, size: int) -> None:
    write(store, "a/b", b"old", b"newer")
    cut(Path(store.root, "a/b"), size)
    assert len(store.get("a/b") or b"") == size
    after = LocalStore(store.root)
    assert after.put_back() == ["a/b"]
    assert after.get("a/b") == b"old"
    assert os.listdir(Path(store.root, "a")) == ["b"]
    assert after.put_back() == []


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_of_several_versions_the_last_that_is_whole_comes_back(store: LocalStore, lost: int) -> None:
    versions = [b"first", b"second", b"third", b"fourth"]
    write(store, "a", *versions)
    assert sorted(path.read_bytes() for path in kept(store)) == sorted(versions[:3])
    cut(Path(store.root, "a"), 1)
    for data in versions[4 - lost : 3]:
        (path,) = (path for path in kept(store) if path.read_bytes() == data)
        cut(path, 1)
    assert LocalStore(store.root).put_back() == ["a"]
    assert store.get("a") == versions[3 - lost]
    assert not kept(store)


def test_what_others_have_written_since_stays(store: LocalStore) -> None:
    write(store, "a", b"old", b"newer")
    path = Path(store.root, "a")
    path.write_bytes(b"th")
    os.utime(path, ns=(5, 5))
    assert LocalStore(store.root).put_back() == []
    assert path.read_bytes() == b"th"
    assert not kept(store)


@pytest.mark.parametrize("way", ["put_back", "clean"])
def test_what_is_whole_or_gone_stays_so(store: LocalStore, way: str) -> None:
    write(store, "a", b"old", b"newer")
    write(store, "b", b"old", b"newer")
    os.unlink(Path(store.root, "b"))
    assert len(kept(store)) == 2
    assert getattr(LocalStore(store.root), way)() == ([] if way == "put_back" else 2)
    assert [(key, store.get(key)) for key in store.list()] == [("a", b"newer")]
    assert os.listdir(store.root) == ["a"]


def test_clean_puts_back_as_well(store: LocalStore) -> None:
    write(store, "a", b"old", b"newer")
    cut(Path(store.root, "a"), 0)
    LocalStore(store.root).clean()
    assert store.get("a") == b"old"


@pytest.mark.parametrize(
    "name", [".~1~1.zvtmp", ".a~1.zvtmp", ".a~x~1.zvtmp", "a~1~1.zvtmp", ".a~1~11111111111111111.zvtmp"]
)
def test_other_names_are_no_old_versions(name: str) -> None:
    assert kept_version(name.encode()) is None


def test_names_that_would_be_too_long_are_renamed_over(store: LocalStore) -> None:
    name = "n" * 250
    write(store, name, b"old", b"new")
    assert store.get(name) == b"new"
    assert os.listdir(store.root) == [name]


def test_changes_in_place_begin_with_what_is_on_the_disk(store: LocalStore) -> None:
    write(store, "a", b"old", b"newer")
    store.append("a", b"!", 5)
    assert not kept(store)
    write(store, "a", b"other")
    store.patch("a", 0, b"O")
    assert not kept(store)
    assert store.get("a") == b"Other"


def test_no_more_than_some_megabytes_wait(store: LocalStore) -> None:
    late_writes.bound(64 << 20)
    data = bytes(1 << 20)
    for key in range(3):
        write(store, f"{key}", data, *[data[:-1]] * 25)
    # 75 MiB were replaced; a writer that finds 64 MiB waiting has them brought to the disk.
    assert 0 < len(kept(store)) <= 64


def test_half_a_gigabyte_is_replaced_without_waiting_for_the_disk(store: LocalStore) -> None:
    for key in range(6):
        write(store, f"{key}", b"old", b"new")
        # Of sparse files, so that the disk has little to do.
        with store.writer(f"large{key}") as writer:
            writer.write_at(50 << 20, b"old")
        with store.writer(f"large{key}") as writer:
            writer.write_at(100 << 20, b"new")
    assert len(kept(store)) == 12
    late_writes.settle()
    assert not kept(store)


def test_who_waits_for_the_disk_waits_for_a_part_of_what_is_before_it(store: LocalStore) -> None:
    late_writes.bound(256 << 20)
    for key in range(10):
        for at in (30 << 20, 40 << 20):
            with store.writer(f"{key}") as writer:
                writer.write_at(at, b"values")
    # The seventh found no room; for it one portion of those of 40 MiB, which is one, was brought to the disk.
    assert [one.name.partition("~")[0] for one in kept(store)] == [f".{key}" for key in range(4, 10)]


def in_threads(count: int, work: Callable[[int], object]) -> None:
    """Call `work(number)` in each of so many threads at once."""
    with ThreadPoolExecutor(count) as threads:
        list(threads.map(work, range(count)))


def test_threads_together_leave_no_more_bytes_waiting_than_one(store: LocalStore) -> None:
    late_writes.bound(64 << 20)
    data = bytes(1 << 20)
    in_threads(8, lambda number: write(store, f"{number}", data, *[data[:-1]] * 10))
    # 80 MiB were replaced. A thread that finds 64 MiB waiting has them brought to the disk, for all that wait for room,
    # each of which has replaced one more by then. The others leave alone what has come since.
    assert 8 <= len(kept(store)) <= 64 + 8
    late_writes.settle()
    assert not kept(store)


def test_threads_together_leave_no_more_files_waiting_than_one(store: LocalStore) -> None:
    late_writes.bound(64 << 20)
    grid = (16, 16, 17)
    array = zvcore.create(store.root, format="n5", shape=grid, dtype="u1", chunks=(1, 1, 1), codec=None)
    array.write(..., np.uint8(1), threads=8)
    array.write(..., np.uint8(2), threads=8)
    assert 0 < len(kept(store)) <= 4096 + 8
    assert (array[...] == 2).all()
    late_writes.settle()
    assert not kept(store)


def test_what_threads_have_replaced_that_are_gone_is_settled_too(store: LocalStore) -> None:
    in_threads(70, lambda number: write(store, f"{number}", b"old", b"newer"))
    assert len(kept(store)) == 70
    late_writes.settle()
    assert not kept(store)


def test_nobody_needs_to_ask_for_what_waits_however_threads_come_upon_each_other(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    for number in range(30):
        in_threads(4, lambda thread, number=number: write(store, f"{number}/{thread}", b"old", b"newer"))
        end = time.monotonic() + PATIENCE
        while kept(store):
            assert time.monotonic() < end
            time.sleep(0.001)


def test_a_child_leaves_to_its_parent_what_that_has_written(store: LocalStore) -> None:
    write(store, "a", b"old", b"newer")
    child = os.fork()
    if child == 0:
        late_writes.settle()
        os._exit(len(kept(store)))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    late_writes.settle()
    assert not kept(store)


def test_a_child_is_not_told_of_what_failed_in_its_parent(store: LocalStore) -> None:
    late_writes.bound(64 << 20)
    write(store, "broken", b"old", b"newer")
    path = Path(store.root, "broken")
    path.unlink()
    path.symlink_to("broken")  # which cannot be opened to be synced
    with store.writer("much") as writer:
        writer.write_at(65 << 20, b"old")
    with store.writer("much") as writer:
        writer.write_at(65 << 20, b"new")  # more than may wait: the writer has all of it brought to the disk
    assert [one.name.partition("~")[0] for one in kept(store)] == [".broken"]
    child = os.fork()
    if child == 0:
        try:
            late_writes.settle()
        except OSError:
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with pytest.raises(OSError, match="symbolic links"):
        late_writes.settle()


def test_a_pipe_in_place_of_what_was_written_is_no_failure(store: LocalStore) -> None:
    write(store, "a", b"old", b"newer")
    path = Path(store.root, "a")
    path.unlink()
    os.mkfifo(path)
    late_writes.settle()
    assert not kept(store)


def test_a_child_has_a_thread_of_its_own(tmp_path: Path) -> None:
    program = """
import os, sys, time
from zvcore.stores import LocalStore, late_writes
store = LocalStore(sys.argv[1])
def write(key):
    for data in (b"old", b"new"):
        with store.writer(key) as writer:
            writer.write_at(0, data)
write("parent")
late_writes.settle()
child = os.fork()
if child == 0:
    write("child")
    while len(os.listdir(sys.argv[1])) > 2:
        time.sleep(0.001)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program, tmp_path], check=True, timeout=300)
    assert sorted(os.listdir(tmp_path)) == ["child", "parent"]


def test_a_killed_writer_leaves_old_versions_that_the_next_removes(tmp_path: Path) -> None:
    program = """
import os, sys
import zvcore
options = {"shape": (64, 64), "dtype": "u1", "chunks": (8, 8), "codec": None}
array = zvcore.create(sys.argv[1], format="n5", **options)
for value in range(1, 6):
    array[...] = value
os.kill(os.getpid(), 9)
"""
    path = tmp_path / "a"
    done = subprocess.run([sys.executable, "-c", program, path], check=False, timeout=300)
    assert done.returncode == -signal.SIGKILL
    assert LocalStore(path).put_back() == []
    assert (zvcore.open(path)[...] == 5).all()
    assert not [name for _, _, names in os.walk(path) for name in names if name.endswith(".zvtmp")]


@pytest.mark.parametrize("shards", [None, (8, 8)])
def test_repair_puts_back_before_it_gives_anything_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shards: tuple[int, int] | None
) -> None:
    program = """
import os, sys
import zvcore
from zvcore.stores import late_writes
shards = {} if sys.argv[2] == "None" else {"shards": (8, 8)}
array = zvcore.create(sys.argv[1], format="zarr3", shape=(8, 8), dtype="u2", chunks=(4, 4), codec=None, **shards)
array[...] = 1
late_writes.rest(True)  # nobody works on what waits
zvcore.open(sys.argv[1], "r+")[...] = 2
os._exit(0)
"""
    path = tmp_path / "a"
    subprocess.run([sys.executable, "-c", program, path, str(shards)], check=True, timeout=300)
    old = [*path.rglob(".*~*.zvtmp")]
    assert len(old) == (1 if shards else 4)
    for object in (path / "c").rglob("[0-9]"):
        if object.is_file():
            cut(object, 3)
    assert not zvcore.verify(path).ok
    report = zvcore.repair(path)
    assert report.counts["old versions put back"] == len(old)
    assert not report.losses
    assert np.array_equal(zvcore.open(path)[...], np.ones((8, 8), "u2"))
    assert zvcore.verify(path).ok
    assert not [*path.rglob("*.bak")]


@pytest.fixture(params=["chunks", "shards", "n5"])
def cut_array(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Path, str]:
    """(an array of ones that was replaced by twos and cut short by a power failure, the key of what was cut)."""
    path = tmp_path / "array"
    shards = (8, 8) if request.param == "shards" else None
    format = "n5" if request.param == "n5" else "zarr3"
    array = zvcore.create(path, format=format, shape=(8, 8), dtype="u2", chunks=(4, 4), codec=None, shards=shards)
    late_writes.settle()
    late_writes.rest(True)
    try:
        array[...] = 1
        array[...] = 2
        found = kept(LocalStore(path))
        copy = tmp_path / "copy"
        shutil.copytree(path, copy, copy_function=shutil.copy2)
    finally:
        late_writes.rest(False)
    assert len(found) == (1 if shards else 4)
    key = {"chunks": "c/0/0", "shards": "c/0/0", "n5": "0/0"}[request.param]
    cut(copy / key, 3)
    return copy, key


def test_reading_what_was_cut_short_tells_of_the_version_beside_it(cut_array: tuple[Path, str]) -> None:
    path, key = cut_array
    array = zvcore.open(path)
    reads: list[Callable[[], Any]] = [lambda: array[...], lambda: array[0, 0], lambda: array.read_block((0, 0))]
    for read in reads:
        with pytest.raises(CorruptDataError, match="an older version lies beside it, which `zvcore repair`") as caught:
            read()
        assert caught.value.key == key
    found = [problem for problem in zvcore.verify(path).problems if "an older version lies beside it" in problem.what]
    assert [problem.where for problem in found] == [key]
    assert kept(LocalStore(path)), "nothing was changed"


def test_the_next_writer_puts_back_what_it_writes_into(cut_array: tuple[Path, str]) -> None:
    path, _ = cut_array
    array = zvcore.open(path, "r+")
    # More than one object may have been cut short.
    other = path / "c/0/1" if (path / "c/0/1").exists() else path / "0/1"
    if other.exists():
        cut(other, 3)
    array[0] = 7
    before = 1 if array.shards else 2
    assert (array[0] == 7).all()
    assert (array[1:4] == 1).all()
    assert (array[4:, 4:] == before).all()
    array.write_encoded((0, 0), array.read_encoded((0, 0)))


def test_a_writer_of_shards_puts_back_what_it_writes_into(cut_array: tuple[Path, str]) -> None:
    path, _ = cut_array
    array = zvcore.open(path, "r+")
    with array.shard_writer() as writer:
        writer[0] = 7
    assert (array[0] == 7).all()
    assert (array[1:4, :4] == 1).all()


def test_a_new_version_that_was_not_exchanged_yet_is_left_to_its_writer(store: LocalStore) -> None:
    write(store, "a", b"old")
    path = Path(store.root, "a")
    new = path.with_name(".new")
    new.write_bytes(b"newer")
    between = path.with_name(f".a~{os.stat(new).st_mtime_ns:x}~5.zvtmp")
    new.rename(between)
    assert LocalStore(store.root).put_back() == []
    assert LocalStore(store.root).clean() == 0
    assert between.read_bytes() == b"newer"
    assert LocalStore(store.root).clean(older_than=0) == 1
    assert os.listdir(store.root) == ["a"]


def test_only_the_object_that_is_named_is_put_back(store: LocalStore) -> None:
    for key in ("a", "b"):
        write(store, key, b"old", b"newer")
        cut(Path(store.root, key), 1)
    after = LocalStore(store.root)
    assert after.put_back("a") == ["a"]
    assert after.put_back("none") == after.put_back("no/folder") == []
    assert (after.get("a"), after.get("b")) == (b"old", b"n")
    assert MemoryStore().put_back("a") == []


def test_where_there_is_no_disk_nothing_waits_for_it(tmp_path: Path) -> None:
    memory = Path("/dev/shm")
    if not memory.is_dir() or not late_writes.in_memory(os.fsencode(memory)):
        pytest.skip("there is no folder in memory")
    late_writes.settle()
    late_writes.rest(True)
    try:
        with tempfile.TemporaryDirectory(dir=memory) as folder:
            store = LocalStore(folder)
            write(store, "a", b"old", b"newer")
            assert os.listdir(folder) == ["a"]
    finally:
        late_writes.rest(False)


PROCESS = """
import multiprocessing, os, sys
from zvcore.stores import LocalStore, late_writes
def write(path):
    late_writes.rest(True)
    for data in (b"old", b"new"):
        with LocalStore(path).writer("a") as writer:
            writer.write_at(0, data)
if __name__ == "__main__":
    process = multiprocessing.get_context(sys.argv[2]).Process(target=write, args=(sys.argv[1],))
    process.start()
    process.join()
    assert process.exitcode == 0
    print(os.listdir(sys.argv[1]))
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_of_multiprocessing_leave_nothing(tmp_path: Path, method: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROCESS)
    command = [sys.executable, "-W", "ignore", str(program), str(tmp_path / "store"), method]
    done = subprocess.run(command, check=True, timeout=300, capture_output=True, text=True)
    assert done.stdout.strip() == "['a']"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Of 16 MiB, with a file system of its own."""
    image, folder = tmp_path / "disk.img", tmp_path / "disk"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(16 << 20)
    for program, *where in (("mkfs.ext4", "-q", "-O", "^has_journal", image), ("mount", "-o", "loop", image, folder)):
        command = shutil.which(program)
        if command is None or subprocess.run([command, *where], capture_output=True, check=False).returncode:
            pytest.skip("only root may mount a file, and not everywhere")
    yield folder
    late_writes.settle()
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.parametrize("size", [5 << 20, 2000])
def test_old_versions_never_take_the_space_that_new_ones_need(size: int, small_disk: Path) -> None:
    """Of bytes, and of files: of the latter that disk has room for 4096."""
    late_writes.settle()
    late_writes.rest(True)
    try:
        store = LocalStore(small_disk / "store")
        names = [f"{key}" for key in range(1 if size > 4096 else 1500)]
        for version in range(4):
            for name in names:
                write(store, name, bytes([version + 1]) * size)
        assert all(store.get(name) == b"\4" * size for name in names)
        with pytest.raises(OSError, match="No space left"):
            write(store, "too much", bytes(14 << 20))
        assert all(store.get(name) == b"\4" * size for name in names)
    finally:
        late_writes.rest(False)


@pytest.mark.parametrize("options", [{"format": "n5"}, {"format": "zarr3", "shards": (512, 1024)}])
def test_nor_those_of_whole_arrays(options: dict[str, Any], small_disk: Path) -> None:
    late_writes.settle()
    late_writes.rest(True)
    try:
        values = np.random.default_rng(0).integers(0, 256, (1024, 1024), "u1")
        array = zvcore.create(small_disk / "a", data=values, chunks=(512, 512), codec=None, **options)
        for _ in range(25):
            values = values[::-1]
            array[...] = values
        np.testing.assert_array_equal(array[...], values)
    finally:
        late_writes.rest(False)
