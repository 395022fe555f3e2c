"""Each kind of damage, in each format, is named with its file, chunk and bytes; a repair saves the rest."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
import zvcore.report
import zvcore.zvf as zvf
from tests.examples import some
from zvcore import codecs
from zvcore.commands import cli
from zvcore.kernels import crc32c
from zvcore.precomputed import ShardedStore, ShardingSpec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from zvcore.report import Problem, Report

SHAPE, CHUNKS, SHARDS = (40, 32, 20), (16, 16, 10), (32, 32, 20)
SPEC = ShardingSpec(0, "identity", 1, 2, "gzip", "gzip")
VALUES = np.random.default_rng(3).integers(1, 90, SHAPE).astype("u2")


# --- data


def zarr3(path: Path, **options: Any) -> None:
    zvcore.create(path, format="zarr3", shape=SHAPE, dtype="u2", chunks=CHUNKS, **options)[...] = VALUES


def n5(path: Path, codec: str) -> None:
    zvcore.create(path, format="n5", shape=SHAPE, dtype="u2", chunks=CHUNKS, codec=codec)[...] = VALUES


def volume(path: Path, sharding: ShardingSpec | None) -> None:
    array = zvcore.create(
        path,
        format="precomputed",
        shape=SHAPE,
        dtype="u2",
        chunks=CHUNKS,
        key="8",
        sharding=sharding,
        **({"codec": "raw"} if sharding is None else {}),
    )
    array[...] = VALUES[..., None]


def vectors(path: Path) -> None:
    rng = np.random.default_rng(5)
    lines = [np.cumsum(rng.normal(size=(n, 3)), 0).astype("f4") * 3 for n in rng.integers(2, 40, 30)]
    zvf.write_polylines(path, lines, chunk_shape=(10, 10, 10))
    zvf.shard_store(path, shard_shape=4)


MAKERS: dict[str, Callable[[Path], None]] = {
    "zarr plain": lambda path: zarr3(path, codec=None),
    "zarr gzip": lambda path: zarr3(path, codec="gzip"),
    "zarr crc": lambda path: zarr3(path, codec=["zstd", "crc32c"]),
    "zarr shards": lambda path: zarr3(path, codec="gzip", shards=SHARDS),
    "zarr index first": lambda path: zarr3(path, codec="gzip", shards=SHARDS, index_location="start"),
    "zarr plain shards": lambda path: zarr3(
        path, codec=None, shards=SHARDS, index_codecs=[{"name": "bytes", "configuration": {"endian": "little"}}]
    ),
    "zarr group": lambda path: group(path),
    "n5 raw": lambda path: n5(path, "raw"),
    "n5 gzip": lambda path: n5(path, "gzip"),
    "volume": lambda path: volume(path, None),
    "volume shards": lambda path: volume(path, SPEC),
    "vectors": vectors,
}


def group(path: Path) -> None:
    root = zvcore.open(path, "w", format="zarr3")
    for name in ("s0", "s1"):
        root.create_array(name, shape=SHAPE, dtype="u2", chunks=CHUNKS)[...] = VALUES
    root.attrs["ome"] = {"version": "0.5", "multiscales": [{"datasets": [{"path": "s0"}, {"path": "s1"}]}]}


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("originals")
    for name, make in MAKERS.items():
        make(folder / name)
    return folder


# --- damage


def flip(key: str, at: int, bit: int = 0x40) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        data = bytearray((path / key).read_bytes())
        data[at] ^= bit
        (path / key).write_bytes(data)

    return damage


def cut(key: str, size: int) -> Callable[[Path], None]:
    """All but so many bytes; a negative number takes them from the end."""
    return lambda path: (path / key).write_bytes((path / key).read_bytes()[:size]) and None


def put(key: str, data: bytes) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        (path / key).parent.mkdir(parents=True, exist_ok=True)
        (path / key).write_bytes(data)

    return damage


def remove(key: str) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        target = path / key
        shutil.rmtree(target) if target.is_dir() else target.unlink()

    return damage


def entry(key: str, slot: int, checksum: bool, change: Callable[[int, int], tuple[int, int]]) -> Callable[[Path], None]:
    """Change an entry of a Zarr shard's index, and its checksum with it: damage that only the entry tells of."""

    def damage(path: Path) -> None:
        data = bytearray((path / key).read_bytes())
        size = 16 * 8 + 4 * checksum
        index = data[-size:]
        struct.pack_into("<2Q", index, 16 * slot, *change(*struct.unpack_from("<2Q", index, 16 * slot)))
        if checksum:
            index[-4:] = crc32c(bytes(index[:-4])).to_bytes(4, "little")
        (path / key).write_bytes(data[:-size] + index)

    return damage


def value(id: int, at: int) -> Callable[[Path], None]:
    """Flip a byte in a value of the sharded volume."""

    def damage(path: Path) -> None:
        name, offset, size = ShardedStore(path / "8", SPEC).locate(id)
        flip(f"8/{name}", offset + at % size)(path)

    return damage


def document(key: str, **changes: Any) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        known = json.loads((path / key).read_text())
        (path / key).write_text(json.dumps({**known, **changes}))

    return damage


@dataclass
class Case:
    """Damage, and what must be said of it: where, which chunk, some of the words; whether a fast look sees it; with
    which status the command exits."""

    data: str
    damage: Callable[[Path], Any]
    where: str
    chunk: Any
    words: str
    fast: bool = True
    ranged: bool = True
    repaired: bool = True
    exit: int = 1


CASES: dict[str, Case] = {
    # a byte
    "byte of gzip": Case("zarr gzip", flip("c/1/0/1", 200), "c/1/0/1", (1, 0, 1), "gzip", fast=False),
    "byte under a checksum": Case("zarr crc", flip("c/1/1/0", 99), "c/1/1/0", (1, 1, 0), "crc32c"),
    "checksum itself": Case("zarr crc", flip("c/1/1/0", -1), "c/1/1/0", (1, 1, 0), "crc32c"),
    "byte in a shard": Case("zarr shards", flip("c/0/0/0", 200), "c/0/0/0", (0, 0, 0), "gzip", fast=False),
    "byte in an n5 block": Case("n5 gzip", flip("1/1/0", 200), "1/1/0", (1, 1, 0), "gzip", fast=False),
    "rank in an n5 header": Case("n5 raw", flip("1/1/0", 3, 1), "1/1/0", (1, 1, 0), "number of dimensions"),
    "mode in an n5 header": Case("n5 raw", flip("1/1/0", 1, 8), "1/1/0", (1, 1, 0), "mode"),
    "size in an n5 header": Case("n5 gzip", flip("0/1/0", 5, 1), "0/1/0", (0, 1, 0), "larger"),
    "byte in a precomputed value": Case("volume shards", value(5, 40), "8/2.shard", 5, "gzip", fast=False),
    "byte of a minishard index": Case("volume shards", flip("8/0.shard", -6), "8/0.shard", "minishard 1", "gzip"),
    "byte in a cell of vectors": Case(
        "vectors", flip("0/vertices/c/1/1/1", 3), "0/vertices/c/1/1/1", ..., "", fast=False, repaired=False
    ),
    # a cut
    "cut chunk": Case("zarr plain", cut("c/0/0/1", -10), "c/0/0/1", (0, 0, 1), "size"),
    "cut gzip": Case("zarr gzip", cut("c/0/0/1", 50), "c/0/0/1", (0, 0, 1), "gzip", fast=False),
    "empty chunk": Case("zarr gzip", cut("c/0/0/1", 0), "c/0/0/1", (0, 0, 1), "gzip", fast=False),
    "cut shard": Case("zarr shards", cut("c/0/0/0", -7), "c/0/0/0", None, "checksum"),
    "cut shard, index first": Case("zarr index first", cut("c/0/0/0", -7), "c/0/0/0", (1, 1, 1), "leaves"),
    "shard without room for its index": Case(
        "zarr shards", cut("c/0/0/0", 20), "c/0/0/0", None, "too small",
        ranged=False,
    ),
    "cut n5 block": Case("n5 raw", cut("0/0/1", -3), "0/0/1", (0, 0, 1), "size"),
    "cut n5 header": Case("n5 gzip", cut("0/0/1", 9), "0/0/1", (0, 0, 1), "cut short"),
    "cut chunk of a volume": Case("volume", cut("8/0-16_0-16_0-10", -1), "8/0-16_0-16_0-10", (0, 0, 0, 0), "size"),
    "cut shard of a volume": Case("volume shards", cut("8/1.shard", 30), "8/1.shard", None, "cut off"),
    "cut shard of vectors": Case(
        "vectors", cut("0/vertices/c/1/1/1", -9), "0/vertices/c/1/1/1", None, "checksum", repaired=False
    ),
    # too much
    "longer chunk": Case("zarr plain", put("c/0/0/1", b"x" * 6000), "c/0/0/1", (0, 0, 1), "size"),
    "longer n5 block": Case(
        "n5 raw", lambda path: put("0/0/1", (path / "0/0/1").read_bytes() + b"more")(path), "0/0/1", (0, 0, 1),
        "size",
    ),
    "bytes behind a shard": Case(
        "zarr shards", lambda path: put("c/0/0/0", (path / "c/0/0/0").read_bytes() + b"more")(path), "c/0/0/0", None,
        "checksum",
    ),
    # the index of a shard
    "index checksum": Case("zarr shards", flip("c/1/0/0", -2), "c/1/0/0", None, "checksum"),
    "index entry": Case("zarr shards", flip("c/1/0/0", -40), "c/1/0/0", None, "checksum"),
    "offset outside": Case(
        "zarr shards", entry("c/0/0/0", 3, True, lambda a, n: (a + 10**9, n)), "c/0/0/0", (0, 1, 1),
        "leaves",
    ),
    "length that overflows": Case(
        "zarr shards", entry("c/0/0/0", 3, True, lambda a, n: (a, 2**64 - 2)), "c/0/0/0", (0, 1, 1),
        "leaves",
    ),
    "half a missing entry": Case(
        "zarr shards", entry("c/0/0/0", 3, True, lambda a, n: (2**64 - 1, n)), "c/0/0/0", (0, 1, 1),
        "leaves",
    ),
    "wrong length": Case(
        "zarr plain shards", entry("c/0/0/0", 2, False, lambda a, n: (a, n - 8)), "c/0/0/0", (0, 1, 0),
        "size",
    ),
    "overlap": Case(
        "zarr plain shards", entry("c/0/0/0", 2, False, lambda a, n: (a - 8, n)), "c/0/0/0", (0, 1, 0),
        "shares bytes",
    ),
    # what is not there
    "no zarr.json in a group": Case(
        "zarr group", remove("s1/zarr.json"), "s1", None, "no zarr.json", ranged=False,
        repaired=False,
    ),
    "level that is not there": Case(
        "zarr group", remove("s1"), "zarr.json", None, "'s1'", ranged=False,
        repaired=False,
    ),
    "no info": Case("volume", remove("info"), "", None, "no format", ranged=False, repaired=False),
    "no attributes.json": Case(
        "n5 raw", put("attributes.json", b'{"n5": "4.0.0"}'), "2/1", None, "blocks", ranged=False,
        repaired=False,
    ),
    "missing cells of vectors": Case(
        "vectors", remove("0/vertices/c/1"), "0/vertices", ..., "not stored", ranged=False, fast=False,
        repaired=False,
    ),
    # documents
    "zarr.json cut": Case("zarr gzip", cut("zarr.json", 40), "zarr.json", None, "JSON", ranged=False, repaired=False),
    "codec nobody has": Case(
        "zarr gzip", document("zarr.json", codecs=[{"name": "bytes"}, {"name": "squeeze"}], data_type="uint8"),
        "zarr.json", None, "squeeze", ranged=False, repaired=False, exit=3,
    ),
    "another shape of chunks": Case(
        "n5 raw", document("attributes.json", blockSize=[16, 8, 10]), "0/0/0", (0, 0, 0), "larger",
        repaired=False,
    ),
    "another data type": Case(
        "zarr plain", document("zarr.json", data_type="uint8"), "c/0/0/0", (0, 0, 0), "size",
        repaired=False,
    ),
    "info cut": Case("volume", cut("info", 30), "info", None, "cannot be read: not JSON", ranged=False, repaired=False),
}  # fmt: skip


@pytest.fixture
def case(request: pytest.FixtureRequest, originals: Path, tmp_path: Path) -> tuple[Case, Path]:
    found = CASES[request.param]
    path = tmp_path / "data"
    shutil.copytree(originals / found.data, path)
    assert zvcore.verify(path).problems == []
    found.damage(path)
    return found, path


def told(case: Case, path: Path, report: Report) -> Problem | None:
    """The problem that says what it should."""
    for problem in report.problems:
        if (
            problem.fatal
            and case.words in problem.what
            and problem.where in (case.where, str(path))
            and (case.chunk is ... or problem.chunk == case.chunk)
        ):
            return problem
    return None


@pytest.mark.parametrize("case", CASES, indirect=True)
def test_damage_is_named(case: tuple[Case, Path], capsys: pytest.CaptureFixture[str]) -> None:
    known, path = case
    report = zvcore.verify(path)
    assert not report.ok
    problem = told(known, path, report)
    assert problem is not None, report
    file = path / problem.where
    if known.ranged and isinstance(known.chunk, tuple):
        assert problem.offset is not None
        assert problem.length is not None
        assert 0 <= problem.offset <= problem.offset + problem.length <= file.stat().st_size
    fast = zvcore.verify(path, fast=True)
    assert (told(known, path, fast) is not None) == known.fast, fast
    assert cli.main(["verify", "-q", str(path)]) == known.exit
    printed = capsys.readouterr().out
    # Commands advise their options.
    assert str(problem).replace("format='n5'", "--format n5") in printed.splitlines()
    assert cli.main(["verify", "--json", "--fast", str(path)]) == (0 if fast.ok else known.exit)
    assert json.loads(capsys.readouterr().out)["ok"] == fast.ok


@pytest.mark.parametrize("case", [name for name, one in CASES.items() if one.repaired], indirect=True)
@pytest.mark.parametrize("copied", [False, True])
def test_a_repair_saves_the_rest(case: tuple[Case, Path], copied: bool, tmp_path: Path) -> None:
    known, path = case
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    out = tmp_path / "copy" if copied else None
    report = zvcore.repair(path, out)
    assert told(known, path, report) is not None
    assert report.losses
    result = path if out is None else out
    assert zvcore.verify(result).problems == []
    if copied:
        assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before
    else:
        backup = result / f"{known.where}.bak"
        assert backup.read_bytes() == before[path / known.where]
    array = zvcore.open(result)
    array = array if isinstance(array, zvcore.Array) else array[0]
    found = array[...].reshape(SHAPE)
    right = found == VALUES
    assert (right | (found == 0)).all(), "what is lost reads as the fill value, never as something else"
    lost = (~right).sum() / right.size
    assert lost < 0.95


def test_a_second_repair_keeps_the_first_backup(originals: Path, tmp_path: Path) -> None:
    path = tmp_path / "data"
    shutil.copytree(originals / "zarr shards", path)
    whole = (path / "c/0/0/0").read_bytes()
    flip("c/0/0/0", 200)(path)
    first = (path / "c/0/0/0").read_bytes()
    zvcore.repair(path)
    assert (path / "c/0/0/0.bak").read_bytes() == first
    flip("c/0/0/0", 200)(path)
    second = (path / "c/0/0/0").read_bytes()
    zvcore.repair(path)
    assert (path / "c/0/0/0.bak").read_bytes() == first
    assert (path / "c/0/0/0.bak2").read_bytes() == second
    assert len(whole) == len(first) > len(second)
    assert zvcore.verify(path).problems == []


@pytest.mark.parametrize("data", ["zarr shards", "volume shards", "n5 gzip", "zarr gzip", "volume"])
def test_one_file_can_be_looked_at(originals: Path, data: str, tmp_path: Path) -> None:
    path = tmp_path / "data"
    shutil.copytree(originals / data, path)
    files = sorted(
        file for file in path.rglob("*") if file.is_file() and file.suffix != ".json" and file.name != "info"
    )
    for file in files:
        report = zvcore.verify(file)
        assert report.ok
        assert report.counts
    flipped = files[1]
    cut(str(flipped.relative_to(path)), flipped.stat().st_size // 2)(path)
    for file in files:
        report = zvcore.verify(file)
        assert report.ok == (file != flipped)
        assert all(path / problem.where == flipped for problem in report.problems)


def test_nothing_is_written_by_a_look(originals: Path) -> None:
    before = {file: (file.stat().st_mtime_ns, file.stat().st_size) for file in originals.rglob("*")}
    for name in MAKERS:
        zvcore.verify(originals / name)
        zvcore.inspect(originals / name)
    assert {file: (file.stat().st_mtime_ns, file.stat().st_size) for file in originals.rglob("*")} == before


def test_chunks_that_are_not_stored_are_counted_not_blamed(originals: Path, tmp_path: Path) -> None:
    for data, gone, what in (
        ("zarr gzip", "c/0/0/0", "chunks not stored"), ("n5 gzip", "0/0/0", "blocks not stored"),
        ("volume", "8/0-16_0-16_0-10", "chunks not stored"), ("zarr shards", "c/0/0/0", "shards not stored"),
    ):  # fmt: skip
        path = tmp_path / data
        shutil.copytree(originals / data, path)
        remove(gone)(path)
        report = zvcore.verify(path)
        assert report.ok
        assert report.counts[what] == 1


def test_strangers_are_odd(originals: Path, tmp_path: Path) -> None:
    for data, stranger in (("zarr gzip", "c/0/0/notes.txt"), ("n5 gzip", "0/0/.DS_Store"), ("volume", "8/notes.txt"),
                           ("zarr gzip", "c/9/0/0"), ("n5 gzip", "9/0/0")):  # fmt: skip
        path = tmp_path / data / stranger.replace("/", "-")
        shutil.copytree(originals / data, path)
        put(stranger, b"hello")(path)
        report = zvcore.verify(path)
        assert report.ok
        [problem] = report.problems
        assert problem.where == stranger
        assert not problem.fatal


# --- compaction


def test_compaction_removes_dead_bytes(tmp_path: Path) -> None:
    path = tmp_path / "data"
    zarr3(path, codec="gzip", shards=SHARDS)
    array = zvcore.open(path, "r+", write_mode="append")
    array[:16, :16, :10] = 7
    size = (path / "c/0/0/0").stat().st_size
    dead = zvcore.verify(path).counts["dead bytes"]
    assert dead > 0
    part = next(part for part in zvcore.inspect(path / "c/0/0/0")["map"] if part[2] == "dead")
    assert part[1] - part[0] <= dead
    report = zvcore.compact(path)
    assert report.ok
    assert report.counts["bytes saved"] == dead
    assert (path / "c/0/0/0").stat().st_size == size - dead
    wanted = VALUES.copy()
    wanted[:16, :16, :10] = 7
    assert np.array_equal(zvcore.open(path)[...], wanted)
    assert zvcore.compact(path).counts.get("bytes saved", 0) == 0


def test_compaction_of_precomputed_shards(tmp_path: Path) -> None:
    path = tmp_path / "data"
    volume(path, SPEC)
    file = path / "8" / "0.shard"
    data = file.read_bytes()
    count = 2**SPEC.minishard_bits
    index = np.frombuffer(data[: 16 * count], "<u8") + 50
    # Bytes that nothing speaks of between the last value and the indices.
    first = int(index.min()) - 50 + 16 * count
    file.write_bytes(index.astype("<u8").tobytes() + data[16 * count : first] + bytes(50) + data[first:])
    before = zvcore.verify(path)
    assert before.problems == []
    assert zvcore.inspect(file)["dead"] == 50
    report = zvcore.compact(path)
    assert report.counts["bytes saved"] == 50
    assert zvcore.inspect(file)["dead"] == 0
    assert np.array_equal(zvcore.open(path)[0][...], VALUES[..., None])


def test_compaction_leaves_damaged_shards_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "data"
    zarr3(path, codec="gzip", shards=SHARDS)
    flip("c/0/0/0", -2)(path)
    before = (path / "c/0/0/0").read_bytes()
    assert cli.main(["compact", str(path)]) == 1
    assert "c/0/0/0" in capsys.readouterr().out
    assert (path / "c/0/0/0").read_bytes() == before


@pytest.mark.parametrize("data", ["zarr shards", "volume shards"])
def test_one_shard_can_be_compacted(
    originals: Path, data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "data"
    shutil.copytree(originals / data, path)
    shards = [one for one in path.rglob("*") if one.is_file() and one.suffix != ".json" and one.name != "info"]
    assert cli.main(["compact", str(shards[0])]) == 0
    assert f"{shards[0]}: 0 of 1 shards rewritten" in capsys.readouterr().out


@pytest.mark.parametrize("data", ["zarr shards", "volume shards", "n5 gzip", "volume"])
def test_one_file_can_be_repaired(originals: Path, data: str, tmp_path: Path) -> None:
    path = tmp_path / "data"
    shutil.copytree(originals / data, path)
    files = sorted(
        file for file in path.rglob("*") if file.is_file() and file.suffix != ".json" and file.name != "info"
    )
    for file in files[:2]:
        cut(str(file.relative_to(path)), file.stat().st_size // 2)(path)
    report = zvcore.repair(files[0])
    assert {path / problem.where for problem in report.problems} == {files[0]}
    assert report.losses
    left = zvcore.verify(path)
    assert {path / problem.where for problem in left.problems} == {files[1]}


def test_no_damage_surprises(originals: Path, tmp_path: Path) -> None:
    """Whatever is wrong with which file, there is a report and no other error than our own."""
    rng = random.Random(7)
    for number in some(range(48)):
        path = tmp_path / str(number)
        shutil.copytree(originals / rng.choice(sorted(MAKERS)), path)
        files = sorted(file for file in path.rglob("*") if file.is_file())
        documents = [file for file in files if file.name in ("zarr.json", "attributes.json", "info")]
        file = rng.choice(documents if number % 2 else files)
        data = bytearray(file.read_bytes())
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(data) + 1)
            spoiled = rng.choice([b"0", b"9999999999", b"-", b"null", b"[", b"\xff", b"\0" * 8, b""])
            data[at : at + rng.choice([0, 1, 1, 8, len(data)])] = spoiled
        file.write_bytes(data)
        for fast in (False, True):
            assert isinstance(zvcore.verify(path, fast), zvcore.report.Report)
            assert isinstance(zvcore.verify(file, fast), zvcore.report.Report)
        for look in (path, file):
            with contextlib.suppress(zvcore.errors.ZvcoreError):
                zvcore.inspect(look)
        with contextlib.suppress(zvcore.errors.UnsupportedError, zvcore.errors.MetadataError):
            zvcore.repair(path, tmp_path / "out")
            shutil.rmtree(tmp_path / "out", ignore_errors=True)
        shutil.rmtree(path)


def test_a_document_that_cannot_be_repaired(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(originals / "volume", tmp_path / "data")
    document("info", data_type="uint9")(tmp_path / "data")
    for more in ([], ["--out", str(tmp_path / "out")]):
        assert cli.main(["repair", str(tmp_path / "data"), *more]) == 1
        assert "remains: info: $.data_type" in capsys.readouterr().out


@pytest.mark.parametrize("codec", [None, "zstd"])
@pytest.mark.parametrize(
    "options",
    [
        {"format": "zarr3"},
        {"format": "zarr3", "shards": (8,)},
        {"format": "zarr2"},
        {"format": "zarr2", "endian": "big"},
    ],
    ids=str,
)
def test_numbers_that_are_no_characters_are_found(tmp_path, options, codec):
    array = zvcore.create(tmp_path, shape=(8,), dtype="U2", chunks=(2,), codec=codec, **options)
    array[...] = "a\U0010ffff"
    assert zvcore.verify(tmp_path).ok
    numbers = np.array([97, 0x10FFFF, 0x110000, 0], ">u4" if "endian" in options else "<u4").tobytes()
    stored = numbers if codec is None else codecs.get(codec).encode(numbers)
    array.write_encoded((1,), stored)
    array.write_encoded((2,), stored[:7])
    report = zvcore.verify(tmp_path)
    assert [problem.chunk for problem in report.problems] == [(1,), (2,)] and report.status == "damaged"
    assert report.problems[0].what.startswith("texts hold a number that is no character")


@pytest.mark.parametrize("dtype", ["bool", [("x", "u1"), ("b", "?")]], ids=str)
@pytest.mark.parametrize(
    "options", [{"format": "zarr3"}, {"format": "zarr3", "shards": (8,)}, {"format": "zarr2"}], ids=str
)
def test_booleans_that_are_neither_true_nor_false_are_found(tmp_path, options, dtype):
    if options["format"] == "zarr3" and isinstance(dtype, list):
        pytest.skip("structures are of Zarr v2")
    array = zvcore.create(tmp_path, shape=(8,), dtype=dtype, chunks=(2,), codec=None, **options)
    array[...] = np.ones(8, dtype)
    assert zvcore.verify(tmp_path).ok
    stored = np.ones(2, dtype).tobytes()
    array.write_encoded((2,), stored[:-1] + b"\7")
    report = zvcore.verify(tmp_path)
    assert [problem.chunk for problem in report.problems] == [(2,)] and report.status == "damaged"
    assert report.problems[0].what.startswith("a boolean is neither true nor false")
    # It can be read as before, and is left out by a repair as all that is not proved good.
    assert zvcore.open(tmp_path)[...].shape == (8,)
    zvcore.repair(tmp_path)
    assert zvcore.verify(tmp_path).ok


def test_booleans_in_files_of_others_are_looked_at(tmp_path):
    values = np.ones((6, 6), bool)
    np.save(tmp_path / "a.npy", values)
    np.savez_compressed(tmp_path / "b.npz", a=np.array([0, 1, 2], "u1").view(bool))
    data = bytearray((tmp_path / "a.npy").read_bytes())
    data[-3] = 9
    (tmp_path / "a.npy").write_bytes(data)
    for name in ("a.npy", "b.npz"):
        report = zvcore.verify(tmp_path / name)
        assert report.status == "damaged" and "neither true nor false" in report.problems[0].what
