"""Packing and unpacking: nothing is lost, whatever happens in between."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore.zvf as zvf
from tests.processes import PATIENCE
from zvcore.errors import CorruptDataError, NotFoundError, ReadOnlyError, UnsupportedError
from zvcore.stores import LocalStore

if TYPE_CHECKING:
    from pathlib import Path

PER_CHUNK = ("vertices", "vertex_fragments", "vertex_attributes/colour")


def content(path: Path) -> tuple:
    level = zvf.open(path).level(0)
    found = level.read(level.attribute_names())
    links = level.links()
    arrays = (found.positions, found.attributes["colour"], links.chunks, links.vertices)
    return tuple(array.tobytes() for array in arrays)


def cells(path: Path) -> dict[str, dict]:
    """{array: {chunk: stored payload}}"""
    level = zvf.open(path).level(0)
    found = {}
    for name, grid in (("v", level.vertices), ("f", level.fragments), ("c", level.attribute_cells("colour")[0])):
        coords = grid.stored()
        read = grid.read(coords)
        found[name] = {tuple(c): bytes(read[i]) for i, c in enumerate(coords.tolist())}
    return found


@pytest.mark.parametrize("shape", [1, 2, 8, (2, 3, 5), (100, 1, 1), [1, 1, 4], np.int64(3)])
def test_there_and_back(store: Path, shape: Any) -> None:
    before, raw = content(store), cells(store)
    flat = {path: path.read_bytes() for path in sorted(store.rglob("c/*/*/*")) if path.is_file()}
    done = zvf.shard_store(store, shard_shape=shape)
    sides = [int(shape)] * 3 if isinstance(shape, (int, np.integer)) else list(shape)
    assert done["shard_shape"] == sides
    assert done["arrays_sharded"] >= 4
    assert done["chunks_packed"] == len(flat)
    assert zvf.is_sharded(store)
    assert content(store) == before
    assert cells(store) == raw
    info = zvf.get_shard_info(store)
    assert info["sharded"]
    assert all(entry["shard_shape"] == sides for entry in info["arrays"])
    again = zvf.shard_store(store, shard_shape=shape)
    assert again == {"arrays_sharded": 0, "chunks_packed": 0, "shard_shape": sides}
    back = zvf.unshard_store(store)
    assert back == {"arrays_unsharded": done["arrays_sharded"], "chunks_extracted": done["chunks_packed"]}
    assert {path: path.read_bytes() for path in sorted(store.rglob("c/*/*/*")) if path.is_file()} == flat
    assert not zvf.is_sharded(store)
    assert zvf.get_shard_info(store) == {"sharded": False, "arrays": [], "shard_count": 0}
    assert zvf.reshard(store, None) == {"action": "noop", "message": "already unsharded"}
    assert zvf.unshard_store(store) == {"arrays_unsharded": 0, "chunks_extracted": 0}
    assert not (store / ".zvstage").exists()


@pytest.mark.parametrize("compressor", ["zstd", "blosc", {"name": "gzip", "level": 1}])
def test_compression_is_kept_byte_for_byte(tmp_path: Path, lines: list, colours: list, compressor: Any) -> None:
    path = tmp_path / "s"
    zvf.write_polylines(
        path, lines, chunk_shape=(10, 10, 10), vertex_attributes={"colour": colours}, compressor=compressor
    )
    document = json.loads((path / "0/vertices/zarr.json").read_text())
    flat = {p: p.read_bytes() for p in sorted(path.rglob("c/*/*/*")) if p.is_file()}
    before = content(path)
    for step in (2, (3, 1, 2), None):
        zvf.reshard(path, step)
        assert content(path) == before
    assert {p: p.read_bytes() for p in sorted(path.rglob("c/*/*/*")) if p.is_file()} == flat
    assert json.loads((path / "0/vertices/zarr.json").read_text()) == document


def test_resharding_goes_straight_from_shards_to_shards(store: Path) -> None:
    before = content(store)
    zvf.shard_store(store, shard_shape=4)
    for shape in (2, 8, (1, 7, 2), 3):
        done = zvf.reshard(store, shape)
        assert done["action"] == "shard"
        assert done["arrays_sharded"]
        assert content(store) == before


def presence(store: Path, array: str = "vertices") -> list[str]:
    return json.loads((store / "0" / array / "zarr.json").read_text())["attributes"]["nonempty_chunks"]


def test_chunks_that_the_presence_list_forgot_are_kept_and_listed_again(store: Path) -> None:
    before, names = content(store), presence(store)
    for array in PER_CHUNK:
        node = store / "0" / array / "zarr.json"
        document = json.loads(node.read_text())
        document["attributes"]["nonempty_chunks"] = document["attributes"]["nonempty_chunks"][::3] + ["-2.-2.-2"]
        node.write_text(json.dumps(document))
    zvf.shard_store(store, shard_shape=2)
    assert content(store) == before
    assert presence(store) == names
    zvf.unshard_store(store)
    assert content(store) == before
    assert presence(store) == names


def test_a_chunk_that_is_stored_without_content_stays_so(store: Path) -> None:
    from zvcore.zvf.cells import coords_key

    level = zvf.open(store).level(0)
    grid = level.vertices
    have = {tuple(c) for c in level.chunks().tolist()}
    free = next(c for c in np.ndindex(*grid.node.shape) if tuple(np.array(c) + grid.origin) not in have)
    cell = store / "0/vertices/c" / "/".join(map(str, free))
    cell.parent.mkdir(parents=True, exist_ok=True)
    cell.write_bytes(b"\x01\0\0\0\0\0\0\0")
    zvf.shard_store(store, shard_shape=2)
    assert coords_key(np.array(free) + grid.origin) not in presence(store)
    zvf.unshard_store(store)
    assert cell.read_bytes() == b"\x01\0\0\0\0\0\0\0"


def test_a_dry_run_writes_nothing(store: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in store.rglob("*")}
    expected = zvf.shard_store(store, shard_shape=2, dry_run=True)
    assert zvf.reshard(store, 2, dry_run=True) == {"action": "shard", **expected}
    assert {path: path.stat().st_mtime_ns for path in store.rglob("*")} == before
    assert zvf.shard_store(store, shard_shape=2) == expected


def test_progress_counts_every_cell(store: Path) -> None:
    calls: list[tuple[int, int]] = []
    done = zvf.shard_store(store, shard_shape=2, progress=lambda *call: calls.append(call))
    assert calls[-1] == (done["chunks_packed"], done["chunks_packed"])
    assert calls == sorted(calls)
    calls.clear()
    zvf.unshard_store(store, progress=lambda *call: calls.append(call))
    assert calls[-1] == (done["chunks_packed"], done["chunks_packed"])


def test_some_arrays_only(store: Path) -> None:
    assert zvf.shard_store(store, shard_shape=2, arrays=["vertices"])["arrays_sharded"] == 1
    assert [entry["name"] for entry in zvf.get_shard_info(store)["arrays"]] == ["0/vertices"]
    assert zvf.shard_store(store, shard_shape=2, arrays=["links/0"])["arrays_sharded"] > 1
    with pytest.raises(NotFoundError, match="vertexes"):
        zvf.shard_store(store, arrays=["vertexes"])
    with pytest.raises(TypeError):
        zvf.shard_store(store, arrays="vertices")


@pytest.mark.parametrize(
    ("shape", "error", "text"),
    [
        (None, TypeError, "None"),
        (True, TypeError, "True"),
        ((2, True, 2), TypeError, "True"),
        (2.0, TypeError, "not iterable"),
        ((2.0, 2, 2), TypeError, "float"),
        ("8", TypeError, "number"),
        (0, ValueError, "shard_shape must be >= 1, got 0"),
        ((2, 2), ValueError, r"shard_shape \(2, 2\) has rank 2 but chunks have rank 3"),
        ((2, 2, 0), ValueError, r"shard_shape components must be >= 1, got \(2, 2, 0\)"),
    ],
)
def test_shapes_that_are_none(store: Path, shape: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        zvf.shard_store(store, shard_shape=shape)
    assert not zvf.is_sharded(store)


def test_what_cannot_be_packed(tmp_path: Path, store: Path) -> None:
    assert not zvf.is_sharded(tmp_path / "nothing")
    with pytest.raises(NotFoundError):
        zvf.shard_store(tmp_path / "nothing")
    with pytest.raises(ReadOnlyError):
        zvf.shard_store(zvf.open(store))
    zvf.write_points("memory://zvf-sharding", np.zeros((1, 3)), chunk_shape=(1, 1, 1))
    with pytest.raises(UnsupportedError, match="local folders"):
        zvf.shard_store("memory://zvf-sharding")


def test_a_broken_shard_stops_the_conversion_and_stays(store: Path) -> None:
    zvf.shard_store(store, shard_shape=4)
    shard = min(path for path in (store / "0/vertices/c").rglob("*") if path.is_file())
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(CorruptDataError, match="checksum"):
        zvf.unshard_store(store, arrays=["vertices"])
    assert shard.read_bytes() != whole
    assert not (store / ".zvstage").exists()
    with pytest.raises(CorruptDataError, match=r"0/vertices/c/"):
        zvf.open(store).level(0).read()
    shard.write_bytes(whole)
    zvf.open(store).level(0).read()


def test_an_index_that_points_outside_its_shard_is_refused(store: Path) -> None:
    from zvcore.zarr3.shard_index import ShardIndexForm

    zvf.shard_store(store, shard_shape=4, arrays=["vertices"])
    shard = min(path for path in (store / "0/vertices/c").rglob("*") if path.is_file())
    raw = shard.read_bytes()
    form = ShardIndexForm((4, 4, 4))
    offsets, lengths = form.parse(raw[-form.size :], len(raw))
    stored = np.flatnonzero(lengths != 2**64 - 1)[0]
    for offset, length in ((len(raw), 8), (0, len(raw)), (2**63, 8)):
        offsets[stored], lengths[stored] = offset, length
        shard.write_bytes(raw[: -form.size] + form.build(offsets, lengths))
        with pytest.raises(CorruptDataError, match="leaves the shard"):
            zvf.open(store).level(0).read()


def test_two_conversions_at_once_lose_nothing(store: Path) -> None:
    before = content(store)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda shape: zvf.reshard(store, shape), [2, None, 4, (1, 2, 3), None, 2]))
    assert content(store) == before
    assert zvf.validate(store).ok


KILLED = """
import sys, time, zvcore.zvf as zvf
path, step, halt = sys.argv[1], sys.argv[2], float(sys.argv[3])
def progress(done, total):
    print(f"{done} of {total}", flush=True)
    if done >= total * halt:
        time.sleep(1000)
zvf.reshard(path, None if step == "None" else int(step), progress=progress)
print("finished", flush=True)
"""


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_the_old_or_the_new_array(store: Path) -> None:
    before, raw = content(store), cells(store)
    rng = np.random.default_rng(11)
    # There and back, three times each: killed before it is through; killed at any moment, which may be too late where
    # the machine is busy; not killed.
    for step, how in itertools.product(("2", "None", "4", "None"), ("before", "sometime", "not")):
        halt = float(rng.random()) if how == "before" else 9.0
        command = [sys.executable, "-c", KILLED, str(store), step, str(halt)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            if how == "sometime":
                time.sleep(float(rng.random()) * 0.03)
                break
            done, _, total = line.partition(" of ")
            if total and int(done) >= int(total) * halt:
                break
        else:
            assert how == "not" and line == "finished\n"
        process.kill()
        process.communicate()
        assert content(store) == before
        assert cells(store) == raw
    # And what the dead left behind is cleared away by the next.
    zvf.reshard(store, 3)
    zvf.reshard(store, None)
    assert content(store) == before
    assert not (store / ".zvstage").exists()


@pytest.mark.parametrize("place", ["../stolen", "{outside}/stolen", "a/../../stolen", "a\0b", ""])
def test_notes_of_where_folders_belong_lead_nowhere_else(store: Path, tmp_path: Path, place: str) -> None:
    """Somebody else's store may bring a note that claims to be of a process that died."""
    before = content(store)
    outside = tmp_path / "outside"
    outside.mkdir()
    (store / ".zvstage/1/old").mkdir(parents=True)
    (store / ".zvstage/1/old/planted").write_text("planted")
    (store / ".zvstage/1/place").write_text(place.format(outside=outside))
    zvf.shard_store(store, shard_shape=2)
    assert content(store) == before
    assert not [*outside.iterdir()] and not (store.parent / "stolen").exists()
    assert not (store / ".zvstage").exists()


def test_a_pipe_where_such_a_note_should_be(store: Path) -> None:
    (store / ".zvstage/1/old").mkdir(parents=True)
    os.mkfifo(store / ".zvstage/1/place")
    worker = threading.Thread(target=zvf.shard_store, args=(store,), kwargs={"shard_shape": 2}, daemon=True)
    worker.start()
    worker.join(PATIENCE)
    assert not worker.is_alive()
    assert not (store / ".zvstage").exists()


def test_where_paths_cannot_be_swapped_a_death_between_two_renames_is_mended(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zvcore.stores import staging

    before = content(store)
    monkeypatch.setattr(staging, "exchange", lambda first, second: False)
    zvf.shard_store(store, shard_shape=2)
    assert content(store) == before
    renames = 0
    rename = os.rename

    def dies(source: Any, target: Any) -> None:
        nonlocal renames
        renames += 1
        if renames == 2:
            raise KeyboardInterrupt
        rename(source, target)

    monkeypatch.setattr(os, "rename", dies)
    monkeypatch.setattr(staging.shutil, "rmtree", lambda *args, **kwargs: None)
    with pytest.raises(KeyboardInterrupt):
        zvf.unshard_store(store)
    monkeypatch.undo()
    with staging.staging(LocalStore(store)):
        pass
    assert content(store) == before
