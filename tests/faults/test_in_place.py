"""Writers of shards that change the file itself, and die in the middle of a single write.

A write of many pages is not done at once: a process that is killed leaves the first of them written. Where a writer
dies is chosen here by a limit on the size of files, at which the kernel stops the write and kills the process, in the
middle of a page too. (An append first copies the old index to where it stays the end while the rest is written.)
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.faults.peers import by_tensorstore, by_zarr_python, needs_peers
from tests.faults.support import HEAD
from tests.processes import start, told
from zvcore.errors import CorruptDataError
from zvcore.stores import LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KILLS = int(os.environ.get("ZVCORE_FAULT_KILLS", "2"))
# Sixteen chunks of 64 KiB and their checksums in one shard, and an index of 260 bytes behind them.
SIDE, CHUNK = 512, 128
STORED = CHUNK * CHUNK * 4 + 4
COUNT = (SIDE // CHUNK) ** 2
INDEX = 16 * COUNT + 4
SHARD = "c/0/0"


def make(path: Path, **options: Any) -> zvcore.Array:
    array = zvcore.create(
        path, format="zarr3", shape=(SIDE, SIDE), dtype="u4", chunks=(CHUNK,) * 2, shards=(SIDE,) * 2,
        **{"codec": "crc32c", **options},
    )  # fmt: skip
    array[...] = 1
    return array


def make_unproved(path: Path) -> None:
    """The index has no checksum, and zeros could be one: of chunks that take no room."""
    make(path, codec=None, fill_value=9)
    document = json.loads((path / "zarr.json").read_text())
    document["codecs"][0]["configuration"]["index_codecs"].pop()
    (path / "zarr.json").write_text(json.dumps(document))
    (path / SHARD).unlink()
    array = zvcore.open(path, mode="r+")
    array[...] = 1


def blocks(path: Path) -> dict[tuple[int, int], int | None]:
    """The value of each chunk; None for those that are reported as damage."""
    array = zvcore.open(path)
    found: dict[tuple[int, int], int | None] = {}
    for i, j in np.ndindex(array.grid):
        try:
            values = array[i * CHUNK : (i + 1) * CHUNK, j * CHUNK : (j + 1) * CHUNK]
        except CorruptDataError as error:
            if (error.key, error.chunk) != (SHARD, (i, j)):
                raise
            found[i, j] = None
        else:
            assert values.min() == values.max(), "torn, and nobody says so"
            found[i, j] = int(values[0, 0])
    return found


def dies_at(limit: int, path: Path, mode: str, change: str, may_live: bool = False) -> None:
    script = (
        HEAD.replace("int(sys.argv[2])", "sys.argv[2]")
        + "import resource, signal\n"
        + "array = zvcore.open(path, mode='r+', write_mode=value)\n"
        + "array[:1, :1]\n"
        + "signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"
        + "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        + f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
        + f"array{change}\n"
    )
    process = start(script, path, mode)
    _, errors = process.communicate()
    assert process.returncode in ([-signal.SIGXFSZ, 0] if may_live else [-signal.SIGXFSZ]), errors


@pytest.mark.parametrize("after", [2 * STORED + n for n in (1, 100, INDEX - 1, INDEX + 1, INDEX + 100, 2 * INDEX - 1)])
def test_an_append_that_is_cut_off_has_not_been(tmp_path: Path, after: int) -> None:
    path = tmp_path / "a"
    make(path)
    shard = path / SHARD
    before = shard.read_bytes()
    dies_at(len(before) + after, path, "append", f"[:{CHUNK}, : 2 * {CHUNK}] = 2")
    # The case is what it is meant to be, and readers do not see it.
    assert shard.stat().st_size == len(before) + after
    assert set(blocks(path).values()) == {1}
    report = zvcore.verify(path)
    assert report.ok
    assert [problem.where for problem in report.problems] == [SHARD]
    # The next writer takes it back.
    array = zvcore.open(path, mode="r+", write_mode="append")
    array[-CHUNK:, -CHUNK:] = 3
    assert shard.read_bytes()[: len(before)] == before
    assert shard.stat().st_size == len(before) + STORED + 2 * INDEX
    assert blocks(path) == {at: 3 if at == (3, 3) else 1 for at in np.ndindex(4, 4)}
    assert zvcore.verify(path).problems == []
    assert [name for _, _, names in os.walk(path) for name in names if name.startswith(".")] == []


@pytest.mark.parametrize("after", [2 * STORED - 8 + n for n in (1, 100, INDEX - 4 + 1, INDEX + 100)])
def test_an_append_that_is_cut_off_where_the_index_proves_nothing(tmp_path: Path, after: int) -> None:
    path = tmp_path / "a"
    make_unproved(path)
    size = (path / SHARD).stat().st_size
    dies_at(size + after, path, "append", f"[:{CHUNK}, : 2 * {CHUNK}] = 0")
    assert (path / SHARD).stat().st_size == size + after
    assert set(blocks(path).values()) == {1}
    assert zvcore.verify(path).ok
    zvcore.open(path, mode="r+", write_mode="append")[:CHUNK, : 2 * CHUNK] = 0
    assert blocks(path) == {(i, j): 0 if i == 0 and j < 2 else 1 for i, j in np.ndindex(4, 4)}


# Where a write may be broken off that the kernel shows page by page: at the borders of pages.
PAGE = 4096
PAGES = 2 * STORED // PAGE


@needs_peers
@pytest.mark.parametrize("page", [1, 2, PAGES // 2, PAGES, PAGES + 1])
@pytest.mark.parametrize("begin", [make, make_unproved])
def test_an_append_that_dies_between_pages_is_whole_for_other_programs(
    tmp_path: Path, begin: Callable[[Path], object], page: int
) -> None:
    path = tmp_path / "a"
    begin(path)
    size = (path / SHARD).stat().st_size
    dies_at((size // PAGE + page) * PAGE, path, "append", f"[:{CHUNK}, : 2 * {CHUNK}] = 2", may_live=page > PAGES)
    for lock in (path / SHARD).parent.glob(".*"):
        lock.unlink()
    for read in (by_zarr_python, by_tensorstore):
        found = read(path)
        assert (found[CHUNK:] == 1).all() and (found[:, 2 * CHUNK :] == 1).all()
        assert np.unique(found[:CHUNK, : 2 * CHUNK]).tolist() in ([1], [2])


def test_the_next_process_to_take_the_lock_mends(tmp_path: Path) -> None:
    """A repair, cleaning up, a rewrite by another process: none needs to know what the dead were at."""
    for number, mend in enumerate((
        lambda path: zvcore.repair(path),
        lambda path: LocalStore(path).clean(older_than=0),
        lambda path: zvcore.compact(path),
    )):  # fmt: skip
        path = tmp_path / str(number)
        make(path)
        before = (path / SHARD).read_bytes()
        dies_at(len(before) + STORED + 100, path, "append", f"[:{CHUNK}, :{CHUNK}] = 2")
        assert (path / SHARD).stat().st_size == len(before) + STORED + 100
        mend(path)
        assert (path / SHARD).read_bytes() == before
        assert os.listdir((path / SHARD).parent) == ["0"]


def test_a_note_about_another_version_means_nothing(tmp_path: Path) -> None:
    """The shard is replaced as a whole, which takes no lock, before anybody mends what a dead writer left."""
    path = tmp_path / "a"
    make(path)
    size = (path / SHARD).stat().st_size
    dies_at(size + 2 * STORED + 100, path, "append", f"[:{CHUNK}, : 2 * {CHUNK}] = 2")
    noise = np.random.default_rng(0).integers(0, 99, (SIDE, SIDE), "u4")
    other = make(tmp_path / "other")
    other[...] = noise
    data = (tmp_path / "other" / SHARD).read_bytes()
    # It looks like the file of the note in everything but its bytes: the size lies between, the inode is the same.
    LocalStore(path).put(SHARD, data[:-INDEX] + bytes(STORED) + data[-INDEX:])
    note = next((path / SHARD).parent.glob(".*.zvlock"))
    raw = bytearray(note.read_bytes())
    raw[8:16] = (path / SHARD).stat().st_ino.to_bytes(8, "little")
    raw[-4:] = zlib.crc32(raw[:-4]).to_bytes(4, "little")
    note.write_bytes(raw)
    np.testing.assert_array_equal(zvcore.open(path)[...], noise)
    zvcore.open(path, mode="r+", write_mode="append")[0, 0] = 5
    noise[0, 0] = 5
    np.testing.assert_array_equal(zvcore.open(path)[...], noise)


@pytest.mark.parametrize(
    "garbage", [b"zvnote1\n", b"zvnote1\n" + b"\xff" * 100, random.Random(1).randbytes(300), bytes(5000)]
)
def test_a_lock_file_that_holds_something_else(tmp_path: Path, garbage: bytes) -> None:
    path = tmp_path / "a"
    make(path)
    (path / "c" / "0" / ".0.zvlock").write_bytes(garbage)
    assert set(blocks(path).values()) == {1}
    zvcore.open(path, mode="r+", write_mode="append")[...] = 2
    assert set(blocks(path).values()) == {2}
    assert os.listdir(path / "c" / "0") == ["0"]


@pytest.mark.parametrize("place", ["chunk", "index"])
def test_inplace_cut_off_tears_the_chunk_it_wrote_and_nothing_else(tmp_path: Path, place: str) -> None:
    """Where the chunk itself is whole and the index torn, the write has been: it is finished by the next."""
    path = tmp_path / "a"
    # What is written takes less room than what was there, so that the index changes as well.
    codec = "crc32c" if place == "chunk" else [{"name": "zstd", "level": 1}, "crc32c"]
    array = make(path, codec=codec)
    array[...] = np.random.default_rng(0).integers(0, 2**32, array.shape, "u4")
    noise = array[...]
    size = (path / SHARD).stat().st_size
    if place == "chunk":
        # Chunks lie in C order.
        limit = 5 * STORED + STORED // 2
    else:
        limit = size - INDEX + 16 * 5 + 12
    dies_at(limit, path, "inplace", f"[{CHUNK} : 2 * {CHUNK}, {CHUNK} : 2 * {CHUNK}] = 2")
    assert (path / SHARD).stat().st_size == size
    torn = (1, 1)
    for mended in (False, True):
        if mended and place == "chunk":
            report = zvcore.repair(path)
            assert [problem.chunk for problem in report.losses] == [torn]
            assert zvcore.verify(path).ok
        elif mended:
            assert zvcore.repair(path).losses == []
            assert zvcore.verify(path).problems == []
        array = zvcore.open(path)
        for i, j in np.ndindex(4, 4):
            region = (slice(i * CHUNK, (i + 1) * CHUNK), slice(j * CHUNK, (j + 1) * CHUNK))
            if (i, j) != torn:
                np.testing.assert_array_equal(array[region], noise[region])
            elif place == "index":
                assert (array[region] == 2).all()
            elif mended:
                assert (array[region] == 0).all()
            else:
                with pytest.raises(CorruptDataError, match="checksum"):
                    array[region]
                report = zvcore.verify(path)
                assert [problem.chunk for problem in report.problems] == [torn]
    array = zvcore.open(path, mode="r+", write_mode="inplace")
    array[...] = 4
    assert (zvcore.open(path)[...] == 4).all()


@pytest.mark.parametrize("mode", ["append", "inplace"])
def test_killed_in_the_middle_of_large_writes(tmp_path: Path, mode: str) -> None:
    """`append`: each chunk is old or new. `inplace`: old, new, or damage that is told. Others: what they were."""
    path = tmp_path / "a"
    make(path)
    script = (
        HEAD
        + f"""
array = zvcore.open(path, mode="r+", write_mode={mode!r})
while True:
    value += 1
    print(value, flush=True)
    array[: {SIDE // 2}] = value
"""
    )
    chance = random.Random(mode)
    last = 1
    for _ in range(2 * KILLS):
        process = start(script, path, last)
        assert told(process) == str(last + 1)
        time.sleep(0.05 * chance.random())
        process.send_signal(signal.SIGKILL)
        assert process.stdout is not None
        said = [last + 1, *map(int, process.stdout.read().split("\n")[:-1])]
        process.communicate()
        found = blocks(path)
        assert {value for (i, _), value in found.items() if i >= 2} == {1}
        # Of the last two, which may be done in part; a write that is over is never gone.
        changed = {value for (i, _), value in found.items() if i < 2}
        assert changed <= {said[-1], said[-1] - 1 if len(said) > 1 else last, *({None} if mode == "inplace" else ())}
        torn = [at for at, value in found.items() if value is None]
        report = zvcore.verify(path)
        assert [problem.chunk for problem in report.problems if problem.fatal] == torn
        if torn:
            assert sorted(problem.chunk for problem in zvcore.repair(path).losses) == torn
            assert zvcore.verify(path).ok
            assert {at for at, value in blocks(path).items() if value == 0} == set(torn)
        last = said[-1]
        # Nothing stands in the way of the next, and all is known again.
        zvcore.open(path, mode="r+", write_mode=mode)[: SIDE // 2] = last
        assert blocks(path) == {(i, j): last if i < 2 else 1 for i, j in np.ndindex(4, 4)}
