"""Finding what is wrong, naming its place, and saving what is sound."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import zvcore
from tests.precomputed.shards import minishard_index, put, simple_shard, slow_values, zipped
from tests.precomputed.test_skeletons_and_meshes import ATTRIBUTES, manifest, skeleton
from zvcore.errors import OutOfMemoryError
from zvcore.precomputed import (
    ShardedStore,
    ShardingSpec,
    repair,
    verify,
    write_mesh_fragments,
    write_sharded,
    write_skeletons,
)
from zvcore.precomputed.shard_reader import ShardFile
from zvcore.stores import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

    from zvcore.report import Problem, Report

SPEC = ShardingSpec(0, "identity", 1, 1, "gzip", "gzip")
PLAIN = ShardingSpec(0, "identity", 0, 0)
VALUES = {id: b"value %d " % id * 5 for id in range(40)}


def told(report: Report, text: str) -> Problem:
    """The one problem that says so."""
    found = [problem for problem in report.problems if text in problem.what]
    assert len(found) == 1, report
    return found[0]


def test_sound_data(tmp_path: Path) -> None:
    write_sharded(tmp_path, SPEC, VALUES)
    report = verify(tmp_path, spec=SPEC)
    assert report.ok
    assert report
    assert report.problems == []
    assert report.counts == {"files": 2, "minishards": 4, "values": 40}
    assert str(report) == "sound: 2 files, 4 minishards, 40 values"
    assert verify(tmp_path, spec=SPEC.to_json(), fast=True).ok


def damaged_value(folder: Path, id: int) -> None:
    kv = ShardedStore(folder, SPEC)
    name, offset, size = kv.locate(id)
    data = bytearray((folder / name).read_bytes())
    data[offset + size // 2] ^= 0xFF
    (folder / name).write_bytes(data)


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a copy can be made."""
    return tmp_path_factory.mktemp("copy") / "new"


def test_a_damaged_value_is_named_and_the_others_saved(tmp_path: Path, elsewhere: Path) -> None:
    write_sharded(tmp_path, SPEC, VALUES)
    damaged_value(tmp_path, 7)
    damaged_value(tmp_path, 20)
    assert verify(tmp_path, spec=SPEC, fast=True).ok
    report = verify(tmp_path, spec=SPEC)
    assert sorted(problem.chunk for problem in report.problems) == [7, 20]
    for problem in report.problems:
        name, offset, size = ShardedStore(tmp_path, SPEC).locate(problem.chunk)
        assert (problem.where, problem.offset, problem.length) == (name, offset, size)
        assert "gzip" in problem.what
    original = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    copied = repair(tmp_path, elsewhere, spec=SPEC)
    assert copied.counts["values dropped"] == 2
    want = {id: value for id, value in VALUES.items() if id not in (7, 20)}
    assert slow_values(SPEC, elsewhere) == want
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == original
    repaired = repair(tmp_path, spec=SPEC)
    assert not repaired.ok
    assert {problem.chunk for problem in repaired.problems} == {7, 20}
    assert slow_values(SPEC, tmp_path) == want
    assert verify(tmp_path, spec=SPEC).ok
    assert (tmp_path / "0.shard.bak").read_bytes() == original["0.shard"]


def test_a_repair_that_lacks_memory_for_an_index_leaves_no_values_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_sharded(tmp_path, SPEC, VALUES)
    damaged_value(tmp_path, 7)
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    plain = ShardFile.minishard

    def short_of_memory(self: ShardFile, number: int, raw: Any) -> Any:
        if number == 1:
            raise OutOfMemoryError("out of memory")
        return plain(self, number, raw)

    monkeypatch.setattr(ShardFile, "minishard", short_of_memory)
    with pytest.raises(OutOfMemoryError, match=r"chunk minishard 1: .*out of memory"):
        repair(tmp_path, spec=SPEC)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files


def index(*pairs: int) -> bytes:
    return struct.pack(f"<{len(pairs)}Q", *pairs)


def after(data: bytes, *tables: bytes) -> bytes:
    """A shard of values and one minishard index after the other."""
    entries, at = [], len(data)
    for table in tables:
        entries += [at, at + len(table)] if table else [0, 0]
        at += len(table)
    return index(*entries) + data + b"".join(tables)


TWO = ShardingSpec(0, "identity", 1, 0)

# name -> (specification, file, text, chunk, fatal, what a repair saves)
BROKEN: dict[str, tuple[ShardingSpec, bytes, str, Any, bool, dict[int, bytes]]] = {
    "empty file": (PLAIN, b"", "cut off", None, True, {}),
    "shard index entry outside": (
        TWO, index(0, 24, 90, 120) + minishard_index([(2, 0, 1)]), "minishard 1", "minishard 1", True, {2: b"\2"}
    ),
    "minishard index of a wrong length": (
        TWO, after(b"A", minishard_index([(2, 0, 1)]), b"12345"), "24", "minishard 1", True, {2: b"A"}
    ),
    "value outside": (PLAIN, after(b"AB", minishard_index([(1, 0, 1), (2, 1, 900)])), "outside", 2, True, {1: b"A"}),
    "wrong minishard": (
        TWO, after(b"AB", minishard_index([(2, 0, 1), (5, 1, 1)]), b""), "belongs to minishard 1", 5, True,
        {2: b"A", 5: b"B"},
    ),
    "ids out of order": (
        PLAIN, after(b"AB", minishard_index([(2, 0, 1), (1, 1, 1)])), "order", "minishard 0", False, {2: b"A", 1: b"B"}
    ),
    "shared bytes": (
        PLAIN, after(b"ABC", minishard_index([(1, 0, 2), (2, 1, 2)])), "shares bytes", 2, True, {1: b"AB", 2: b"BC"}
    ),
    "index within a value": (
        PLAIN, index(1, 25) + b"A" + minishard_index([(1, 0, 9)]), "minishard index shares", None, True,
        {1: b"A" + minishard_index([(1, 0, 9)])[:8]},
    ),
    "undecodable value": (
        ShardingSpec(0, "identity", 0, 0, "raw", "gzip"),
        after(b"junk" + zipped(b"fine"), minishard_index([(1, 0, 4), (2, 4, len(zipped(b"fine")))])),
        "gzip", 1, True, {2: b"fine"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_what_can_be_wrong(tmp_path: Path, elsewhere: Path, name: str) -> None:
    spec, data, text, chunk, fatal, saved = BROKEN[name]
    put(tmp_path, "0.shard", data)
    report = verify(tmp_path, spec=spec)
    problem = told(report, text)
    assert problem.where == "0.shard"
    assert problem.chunk == chunk
    assert problem.fatal == fatal
    assert report.ok == (not fatal)
    assert str(problem).startswith("0.shard")
    repaired = repair(tmp_path, elsewhere, spec=spec)
    assert repaired.problems == report.problems
    if fatal:
        assert slow_values(spec, elsewhere) == saved
    kv = ShardedStore(elsewhere, spec)
    assert dict(kv.items()) == saved
    assert verify(elsewhere, spec=spec).ok
    repair(tmp_path, spec=spec)
    assert verify(tmp_path, spec=spec).ok
    assert dict(ShardedStore(tmp_path, spec).items()) == saved


def test_ids_that_are_there_twice(tmp_path: Path) -> None:
    # 1 with the same bytes, 2 with others.
    rows = [(1, 0, 1), (1, 1, 1), (2, 0, 1), (2, 2, 1), (3, 3, 1)]
    put(tmp_path, "0.shard", after(b"AABC", minishard_index(rows)))
    report = verify(tmp_path, spec=PLAIN)
    assert sum("more than once" in problem.what for problem in report.problems) == 4
    repaired = repair(tmp_path, spec=PLAIN)
    assert dict(ShardedStore(tmp_path, PLAIN)) == {1: b"A", 3: b"C"}
    assert repaired.counts["values dropped"] == 3


def test_values_come_home_from_other_files(tmp_path: Path) -> None:
    spec = ShardingSpec(0, "identity", 0, 2)
    put(tmp_path, "0.shard", simple_shard(spec, {0: b"zero", 1: b"stray", 2: b"also", 3: b"old"}))
    put(tmp_path, "3.shard", simple_shard(spec, {3: b"three", 7: b"seven"}))
    put(tmp_path, "9.shard", b"")
    report = verify(tmp_path, spec=spec)
    assert sum("no reader finds it" in problem.what for problem in report.problems) == 3
    assert told(report, "no shard of this specification").where == "9.shard"
    repaired = repair(tmp_path, spec=spec)
    assert dict(ShardedStore(tmp_path, spec)) == {0: b"zero", 1: b"stray", 2: b"also", 3: b"three", 7: b"seven"}
    assert repaired.counts["values moved"] == 2


def test_repair_keeps_unindexed_bytes(tmp_path: Path) -> None:
    spec = ShardingSpec(0, "identity", 0, 0, "gzip", "raw")
    data = {id: manifest([2], id) for id in (1, 2, 3)}
    write_mesh_fragments(tmp_path, ((id, *mesh) for id, mesh in data.items()), sharding=spec)
    name, offset, _ = ShardedStore(tmp_path, spec).locate(2)
    broken = bytearray((tmp_path / name).read_bytes())
    broken[offset + 24] = 200
    (tmp_path / name).write_bytes(broken)
    report = verify(tmp_path)
    assert [problem.chunk for problem in report.problems] == [2]
    repair(tmp_path)
    assert verify(tmp_path).ok
    meshes = zvcore.open(tmp_path, format="precomputed")
    assert sorted(meshes) == [1, 3]
    for id in (1, 3):
        assert meshes[id].fragments(0) == data[id][1]


# Volumes


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    spec = ShardingSpec(0, "identity", 1, 2, "gzip", "gzip")
    values = np.random.default_rng(0).integers(1, 99, (40, 30, 20, 1)).astype("u1")
    for key, sharding in (("shards", spec), ("files", None)):
        a = zvcore.create(tmp_path, format="precomputed", shape=(40, 30, 20), dtype="uint8", chunks=(16, 16, 16),
                          sharding=sharding, key=key, voxel_offset=(5, 6, 7),
                          **({} if sharding else {"codec": "raw"}))  # fmt: skip
        a[...] = values
    return tmp_path


def test_sound_volumes(volume: Path) -> None:
    report = verify(volume)
    assert report.problems == []
    assert report.counts["scales"] == 2
    assert report.counts["values"] == 12


def test_damaged_volumes(volume: Path) -> None:
    scale = zvcore.open(volume, "r+", format="precomputed", scale="shards")
    spec = scale.sharding
    kv = ShardedStore(volume / "shards", spec, "r+")
    kv.update({1: bytes(5), 15: bytes(16**3)})
    (volume / "files" / "5-21_6-22_7-23").write_bytes(b"short")
    (volume / "files" / "5-21_6-22_7-24").write_bytes(b"")
    (volume / "files" / "notes.txt").write_bytes(b"")
    report = verify(volume)
    wrong = {(problem.where, problem.chunk): problem for problem in report.problems}
    assert len(report.problems) == 5
    assert any(problem.chunk == 1 and "4096" in problem.what for problem in report.problems)
    assert any(problem.chunk == 15 and "outside the grid" in problem.what for problem in report.problems)
    assert ("files/5-21_6-22_7-23", (0, 0, 0, 0)) in wrong
    assert ("files/5-21_6-22_7-24", None) in wrong
    assert not wrong[("files/notes.txt", None)].fatal
    repair(volume)
    assert verify(volume).ok
    assert (volume / "files" / "5-21_6-22_7-23.bak").read_bytes() == b"short"
    assert (volume / "files" / "notes.txt").exists()
    fine = zvcore.open(volume, format="precomputed", scale="shards")
    assert not fine[16:32, :16, :16].any()
    assert fine[32:, :, :].all()


def test_wrong_documents(volume: Path) -> None:
    document = json.loads((volume / "info").read_text())
    document["scales"][0]["encoding"] = "unheard_of"
    (volume / "info").write_text(json.dumps(document))
    report = verify(volume)
    assert "unheard_of" in told(report, "encoding").what
    assert report.counts["scales"] == 1
    (volume / "info").write_text("{")
    assert "JSON" in told(verify(volume), "JSON").what
    (volume / "info").unlink()
    assert not verify(volume).ok


def test_compressed_files_of_cloud_volume(volume: Path) -> None:
    path = volume / "files" / "5-21_6-22_7-23"
    (volume / "files" / "5-21_6-22_7-23.gz").write_bytes(zipped(path.read_bytes()))
    path.unlink()
    assert verify(volume).ok
    (volume / "files" / "5-21_6-22_7-23.gz").write_bytes(zipped(b"short"))
    assert told(verify(volume), "expected").where == "files/5-21_6-22_7-23.gz"


@pytest.mark.parametrize("sharding", [None, SPEC])
def test_skeletons_and_meshes(tmp_path: Path, sharding: ShardingSpec | None) -> None:
    write_skeletons(
        tmp_path / "s", {id: skeleton(id) for id in range(5)}, vertex_attributes=ATTRIBUTES, sharding=sharding
    )
    assert verify(tmp_path / "s").ok
    write_mesh_fragments(tmp_path / "m", [(id, *manifest([2], id)) for id in range(5)], sharding=sharding)
    assert verify(tmp_path / "m").ok
    if sharding is None:
        (tmp_path / "s" / "3").write_bytes(b"broken")
        (tmp_path / "m" / "3").write_bytes(b"")
    else:
        ShardedStore(tmp_path / "s", sharding, "r+").update({3: b"broken"})
        ShardedStore(tmp_path / "m", sharding, "r+").update({3: b"broken"})
    for folder in ("s", "m"):
        report = verify(tmp_path / folder)
        assert [problem.chunk for problem in report.problems] == [3]
        assert "cut off" in report.problems[0].what


@given(data=st.data())
def test_after_any_damage_a_repair_gives_sound_data(data: st.DataObject) -> None:
    store = MemoryStore()
    write_sharded(store, SPEC, VALUES)
    for name in ("0.shard", "1.shard"):
        original = store.get(name)
        assert original is not None
        damaged = bytearray(original)
        for _ in range(data.draw(st.integers(0, 4))):
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
        store.put(name, damaged[: data.draw(st.one_of(st.just(len(damaged)), st.integers(0, len(damaged))))])
    before = verify(store, spec=SPEC)
    out = MemoryStore()
    repair(store, out, spec=SPEC)
    assert verify(out, spec=SPEC).ok
    saved = dict(ShardedStore(out, SPEC).items())
    # The ids of a damaged index may be others; values that decode are those that were written.
    assert set(saved.values()) <= set(VALUES.values())
    # An entry of the shard index that damage made empty is like that of a minishard without values.
    if before.ok and before.counts.get("values") == len(VALUES):
        assert saved == VALUES


def test_no_flipped_byte_goes_unseen(tmp_path: Path) -> None:
    """gzip has checksums, and every byte of the file is part of something, so verification finds each of them."""
    spec = ShardingSpec(0, "identity", 0, 0, "gzip", "gzip")
    write_sharded(tmp_path, spec, {id: VALUES[id] for id in range(3)})
    # Bytes of a gzip header that say when and where it was made have no meaning.
    free = set()
    kv = ShardedStore(tmp_path, spec)
    starts = [kv.locate(id)[1] for id in range(3)]
    data = (tmp_path / "0.shard").read_bytes()
    starts.append(16 + struct.unpack_from("<Q", data)[0])
    for start in starts:
        free.update(range(start + 4, start + 10))
    for where in range(len(data)):
        if where in free:
            continue
        put(tmp_path, "0.shard", data[:where] + bytes([data[where] ^ 0xFF]) + data[where + 1 :])
        assert not verify(tmp_path, spec=spec).ok, where
