"""Writing and appending: what goes in comes out, in any number of batches."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import zvcore.zvf as zvf
from tests.examples import examples
from zvcore.errors import ConflictError, UnsupportedError
from zvcore.stores import LocalStore, MemoryStore, staging
from zvcore.zvf import batches, inputs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def random_lines(seed: int, count: int, ndim: int, dtype: str) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [np.cumsum(rng.normal(size=(n, ndim)) * 4, 0).astype(dtype) for n in rng.integers(0, 30, count)]


@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 1000),
    ndim=st.sampled_from([2, 3]),
    dtype=st.sampled_from(["float32", "float64"]),
    shard=st.sampled_from([None, 1, 3]),
    compressor=st.sampled_from([None, "zstd"]),
    batch=st.sampled_from([1, 50, 10**6]),
    cut=st.integers(0, 20),
)
def test_lines_in_any_form_and_number_of_batches(
    tmp_path_factory: Any, seed: int, ndim: int, dtype: str, shard: Any, compressor: Any, batch: int, cut: int
) -> None:
    lines = random_lines(seed, 20, ndim, dtype)
    if not sum(map(len, lines[:cut])):
        cut = 20
    if not sum(map(len, lines)):
        return
    values = [np.random.default_rng(i).random((len(line), 2)) for i, line in enumerate(lines)]
    path = tmp_path_factory.mktemp("w") / "s"
    original = inputs.BATCH_VERTICES
    inputs.BATCH_VERTICES = batch
    try:
        done = zvf.write_polylines(
            path, iter(lines[:cut]), chunk_shape=(7.0,) * ndim, dtype=dtype, object_attributes={"i": np.arange(cut)},
            vertex_attributes={"v": iter(values[:cut])}, shard_shape=shard, compressor=compressor,
        )  # fmt: skip
        assert done["polyline_count"] == cut
        assert done["vertex_count"] == sum(map(len, lines[:cut]))
        if sum(map(len, lines[cut:])):
            zvf.write_polylines(
                path, lines[cut:], dtype=dtype, vertex_attributes={"v": values[cut:]},
                object_attributes={"i": np.arange(cut, 20)}, append=True,
            )  # fmt: skip
        else:
            lines, values = lines[:cut], values[:cut]
    finally:
        inputs.BATCH_VERTICES = original
    level = zvf.open(path).level(0)
    assert level.dtype == dtype
    assert level.ndim == ndim
    found = level.read(["v"])
    assert all(np.array_equal(a, b) for a, b in zip(found.to_list(), lines, strict=True))
    assert np.array_equal(found.attributes["v"], np.concatenate(values))
    assert level.object_attribute("i").tolist() == list(range(len(lines)))
    result = zvf.validate(path, level=5)
    assert (result.ok, result.problems) == (True, []), result.summary()


@examples(20)
@given(
    seed=st.integers(0, 1000), parts=st.integers(1, 4), objects=st.booleans(), bins=st.sampled_from([None, 2.5, 5.0])
)
def test_points_in_any_number_of_batches(
    tmp_path_factory: Any, seed: int, parts: int, objects: bool, bins: Any
) -> None:
    rng = np.random.default_rng(seed)
    positions = (rng.random((200, 3)) * 30 - 15).astype("f4")
    ids = rng.integers(0, 15, 200) * 3
    names = np.array(["x", "y", "zz"])[rng.integers(0, 3, 200)]
    path = tmp_path_factory.mktemp("p") / "s"
    pieces = np.array_split(np.arange(200), parts)
    options: dict[str, Any] = {"chunk_shape": (5.0,) * 3, "bin_shape": None if bins is None else (bins,) * 3}
    half = len(pieces) // 2
    for number, group in enumerate([pieces[: half + 1], pieces[half + 1 :]]):
        if not group:
            continue
        owned = {"object_ids": (ids[rows] for rows in group)} if objects else {}
        zvf.write_points(
            path, (positions[rows] for rows in group), vertex_attributes={"n": (names[rows] for rows in group)},
            append=number > 0, **(options if number == 0 else {}), **owned,
        )  # fmt: skip
    level = zvf.open(path).level(0)
    found = level.read(["n"])
    got = sorted(zip(map(tuple, found.positions.tolist()), found.attributes["n"].tolist(), strict=True))
    assert got == sorted(zip(map(tuple, positions.tolist()), names.tolist(), strict=True))
    if objects:
        assert found.object_ids.tolist() == sorted(set(ids.tolist()))
        for row, number in enumerate(found.object_ids.tolist()):
            assert sorted(map(tuple, found[row].tolist())) == sorted(map(tuple, positions[ids == number].tolist()))
    else:
        for coords in level.chunks().tolist():
            rows, index = level.read_chunk(coords)
            side = bins or 5.0
            per = int(5 / side)
            assert len(index) == per**3
            assert index.tiles(len(rows))
            for number in range(len(index)):
                where = np.floor(rows[index.indices(number)] / side).astype(int) - np.array(coords) * per
                assert (where @ [per * per, per, 1] == number).all()
    result = zvf.validate(path, level=5)
    assert (result.ok, result.problems) == (True, []), result.summary()


def test_one_store_and_appended_ones_have_the_same_bytes(tmp_path: Path, lines: list, colours: list) -> None:
    for name, cuts in (("once", [40]), ("twice", [13, 40]), ("often", [1, 2, 20, 39, 40])):
        begin = 0
        for end in cuts:
            zvf.write_polylines(
                tmp_path / name, lines[begin:end], chunk_shape=(10, 10, 10), bounds=([-60] * 3, [60] * 3),
                vertex_attributes={"colour": colours[begin:end]}, append=begin > 0,
            )  # fmt: skip
            begin = end
    for array in ("vertices", "vertex_fragments", "vertex_attributes/colour", "object_index"):
        files = {
            name: {p.relative_to(tmp_path / name): p.read_bytes() for p in (tmp_path / name / "0" / array).rglob("*")
                   if p.is_file()}
            for name in ("once", "twice", "often")
        }  # fmt: skip
        assert files["once"] == files["twice"] == files["often"]


def test_ids_that_are_given(tmp_path: Path, lines: list) -> None:
    path = tmp_path / "s"
    zvf.write_polylines(
        path, lines[:3], chunk_shape=(10,) * 3, object_ids=[50, 7, 2**40], object_attributes={"n": [1.0, 2.0, 3.0]}
    )
    level = zvf.open(path).level(0)
    assert level.object_ids().tolist() == [7, 50, 2**40]
    assert level.object_attribute("n").tolist() == [2, 1, 3]
    assert np.array_equal(level.read_object(50), lines[0])
    assert np.array_equal(level.read_object(7), lines[1])
    zvf.write_polylines(path, lines[3:4], object_ids=[9], object_attributes={"n": [4.0]}, append=True)
    level = zvf.open(path).level(0)
    assert level.object_ids().tolist() == [7, 9, 50, 2**40]
    assert level.object_attribute("n").tolist() == [2, 4, 1, 3]
    assert np.array_equal(level.read_object(9), lines[3])
    assert zvf.validate(path, level=5).ok
    for bad in ([7], [1, 1]):
        with pytest.raises(ValueError, match="twice"):
            zvf.write_polylines(
                path, lines[: len(bad)], object_ids=bad, object_attributes={"n": np.zeros(len(bad))}, append=True
            )
    for bad in ([-1], [0.5]):
        with pytest.raises((ValueError, TypeError)):
            zvf.write_polylines(tmp_path / "bad", lines[:1], chunk_shape=(10,) * 3, object_ids=bad)
    assert level.object_ids().tolist() == [7, 9, 50, 2**40]


def test_text_attributes(tmp_path: Path) -> None:
    positions = np.random.default_rng(1).random((6, 2))
    names = np.array(["b", None, "a", "b", None, "ü"], object)
    zvf.write_points(tmp_path / "s", positions, chunk_shape=(1, 1), vertex_attributes={"name": names})
    found = zvf.open(tmp_path / "s").level(0).read(["name"])
    order = {tuple(p): n for p, n in zip(positions.astype("f4").tolist(), names.tolist(), strict=True)}
    assert [order[tuple(p)] for p in found.positions.tolist()] == found.attributes["name"].tolist()
    zvf.write_points(tmp_path / "s", positions, vertex_attributes={"name": np.array(["new"] * 6)}, append=True)
    found = zvf.open(tmp_path / "s").level(0).read(["name"])
    assert sorted(map(str, found.attributes["name"])) == sorted([*map(str, names), *["new"] * 6])


def test_fragment_and_group_attributes(tmp_path: Path) -> None:
    positions = np.array([[0.5, 0.5], [1.5, 0.5], [1.6, 0.5]])
    zvf.write_points(
        tmp_path / "s", positions, chunk_shape=(1, 1), object_ids=np.array([4, 4, 9]), groups={0: [4], 3: [9, 4]},
        group_attributes={"g": np.arange(4)},
        fragment_attributes={"owner": {(0, 0): np.array([4]), (1, 0): np.array([4, 9])}},
    )  # fmt: skip
    level = zvf.open(tmp_path / "s").level(0)
    assert level.fragment_attribute("owner", (1, 0)).tolist() == [4, 9]
    assert [owner.tolist() for owner in level.fragment_owners((1, 0))] == [[4], [9]]
    assert level.group_attribute("g").tolist() == [0, 1, 2, 3]
    assert {k: v.tolist() for k, v in level.groups().items()} == {0: [4], 3: [9, 4]}
    assert zvf.validate(tmp_path / "s", level=5).ok
    with pytest.raises(ValueError, match="2 rows but chunk has 1 fragments"):
        zvf.write_points(
            tmp_path / "t", positions, chunk_shape=(1, 1), fragment_attributes={"o": {(0, 0): np.array([1, 2])}}
        )
    assert not (tmp_path / "t" / "zarr.json").exists()


def test_bounds_and_what_lies_outside(tmp_path: Path) -> None:
    positions = np.array([[0.0, 0.0], [5.0, 5.0], [9.0, 1.0]])
    box = ([0, 0], [6, 6])
    with pytest.raises(ValueError, match="1 of 3 points are outside store bounds"):
        zvf.write_points(tmp_path / "raise", positions, chunk_shape=(2, 2), bounds=box)
    zvf.write_points(
        tmp_path / "ignore", positions, chunk_shape=(2, 2), bounds=box, out_of_bounds="ignore",
        vertex_attributes={"v": [1, 2, 3]}, object_ids=np.array([1, 2, 3]),
    )  # fmt: skip
    assert zvf.open(tmp_path / "ignore").level(0).read(["v"]).attributes["v"].tolist() == [1, 2]
    zvf.write_points(tmp_path / "expand", positions, chunk_shape=(2, 2), bounds=box, out_of_bounds="expand")
    assert zvf.open(tmp_path / "expand").bounds == ([0, 0], [9, 6])
    assert zvf.open(tmp_path / "ignore").bounds == ([0, 0], [6, 6])
    zvf.write_points(tmp_path / "expand", [[-7.0, 20.0]], append=True)
    assert zvf.open(tmp_path / "expand").bounds == ([-7, 0], [9, 20])
    assert len(zvf.open(tmp_path / "expand").level(0).read().positions) == 4


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"polylines": []}, ValueError),
        ({"polylines": [np.zeros((3, 3)), np.zeros((3, 2))]}, ValueError),
        ({"polylines": [np.zeros(3)]}, ValueError),
        ({"polylines": [np.full((3, 3), np.nan)]}, ValueError),
        ({"polylines": [np.full((3, 3), 1e300)], "dtype": "float64"}, ValueError),
        ({"chunk_shape": None}, TypeError),
        ({"chunk_shape": (0, 1, 1)}, ValueError),
        ({"chunk_shape": (1, 1)}, ValueError),
        ({"chunk_shape": (10, 10, 10), "bin_shape": (3, 5, 5)}, ValueError),
        ({"dtype": "int32"}, ValueError),
        ({"out_of_bounds": "ignore"}, ValueError),
        ({"out_of_bounds": "sometimes"}, ValueError),
        ({"geometry_type": "mesh"}, ValueError),
        ({"vertex_attributes": {"v": [np.zeros(3)]}}, ValueError),
        ({"vertex_attributes": {"v": []}}, ValueError),
        ({"object_attributes": {"n": [1, 2, 3]}}, ValueError),
        ({"object_ids": []}, ValueError),
        ({"groups": {-1: [0]}}, ValueError),
        ({"shard_shape": 0}, ValueError),
        ({"backend": "icechunk"}, UnsupportedError),
        ({"chunk_by_attribute": "v"}, UnsupportedError),
        ({"bounds": ([0, 0, 0], [-1, 0, 0])}, ValueError),
    ],
)
def test_what_cannot_be_written_leaves_nothing(tmp_path: Path, arguments: dict, error: type[Exception]) -> None:
    options: dict[str, Any] = {"polylines": [np.arange(12.0).reshape(4, 3)], "chunk_shape": (10, 10, 10), **arguments}
    with pytest.raises(error):
        zvf.write_polylines(tmp_path / "s", **options)
    assert not any((tmp_path / "s").rglob("zarr.json"))
    assert not (tmp_path / "s" / ".zvstage").exists()


def test_a_store_is_never_written_over(store: Path, lines: list) -> None:
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    with pytest.raises(ConflictError, match="exists already"):
        zvf.write_polylines(store, lines, chunk_shape=(10, 10, 10))
    for options in (
        {},
        {"vertex_attributes": {"other": [np.zeros(len(line)) for line in lines]}},
        {"chunk_shape": (5, 5, 5)},
        {"geometry_type": "polyline"},
        {"compressor": "zstd"},
    ):
        with pytest.raises(ValueError):
            zvf.write_polylines(store, lines, append=True, **options)

    def fails() -> Any:
        yield lines[0]
        raise RuntimeError("the source is gone")

    with pytest.raises(RuntimeError):
        zvf.write_polylines(
            store, fails(), vertex_attributes={"colour": [np.zeros((len(lines[0]), 3), "f4")] * 2},
            object_attributes={"length": [1]}, append=True,
        )  # fmt: skip
    assert {path: path.read_bytes() for path in store.rglob("*") if path.is_file()} == before


def test_memory_is_bounded_by_the_spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = batches.Spool.__init__.__defaults__
    assert limit == (256 << 20,)
    monkeypatch.setattr(batches.Spool.__init__, "__defaults__", (10_000,))
    monkeypatch.setattr(inputs, "BATCH_VERTICES", 500)
    held: list[int] = []
    add = batches.Spool.add
    monkeypatch.setattr(batches.Spool, "add", lambda self, batch: (add(self, batch), held.append(self._held))[0])
    lines = random_lines(3, 300, 3, "float32")
    zvf.write_polylines(tmp_path / "s", iter(lines), chunk_shape=(20,) * 3)
    assert len(held) > 5
    assert max(held) <= 10_000
    found = zvf.open(tmp_path / "s").level(0).read().to_list()
    assert all(np.array_equal(a, b) for a, b in zip(found, lines, strict=True))


def test_stores_that_are_no_folders(lines: list) -> None:
    zvf.write_polylines("memory://zvf-writing", lines, chunk_shape=(10,) * 3, shard_shape=2, compressor="zstd")
    store = zvf.open("memory://zvf-writing")
    assert all(np.array_equal(a, b) for a, b in zip(store.level(0).read().to_list(), lines, strict=True))
    assert zvf.validate(store, level=5).ok


def test_coarser_levels_share_equal_pieces(tmp_path: Path, lines: list) -> None:
    path = tmp_path / "s"
    twins = [line for line in lines for _ in range(2)]
    zvf.write_polylines(path, twins, chunk_shape=(10,) * 3, object_attributes={"n": np.arange(len(twins))})
    kept = list(range(0, len(twins), 3))
    done = zvf.write_coarser_level(path, every=3, snap=(5.0, 5.0, 5.0), keep=kept)
    zvf.write_coarser_level(path, every=2)
    store = zvf.open(path)
    assert store.levels == [0, 1, 2]
    assert {"shared_fragments", "preserved_object_ids"} <= set(store.metadata["format_capabilities"])
    level = store.level(1)
    assert done["shared_fragment_count"] > 0
    assert level.shared_fragments
    assert level.object_ids().tolist() == list(range(len(twins)))
    assert level.object_ids(present_only=True).tolist() == kept
    assert len(level.read_object(1)) == 0
    for number in kept:
        expected = (np.floor(np.append(twins[number][::3], twins[number][-1:], 0) / 5) + 0.5) * 5
        steps = np.append(True, (np.diff(expected, axis=0) != 0).any(1))
        assert np.allclose(level.read_object(number), expected[steps])
    owners = [owner for coords in level.chunks().tolist() for owner in level.fragment_owners(coords)]
    assert max(map(len, owners)) > 1
    assert min(map(len, owners)) == 1
    result = zvf.validate(path, level=5)
    assert (result.ok, result.problems) == (True, []), result.summary()
    node = path / "1" / "zarr.json"
    document = json.loads(node.read_text())
    document["attributes"]["zarr_vectors_level"]["shared_fragments"] = False
    node.write_text(json.dumps(document))
    assert any("another owner" in error for error in zvf.validate(path).errors)


@pytest.mark.parametrize("fsync", [True, False])
def test_what_is_put_in_place_is_as_durable_as_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fsync: bool
) -> None:
    """Files are synced by the store that they are made in, the folders on the way when it is put in place."""
    made: list[bool] = []
    synced: list[str] = []
    make, sync = staging.Staging.make, staging.sync

    def make_and_note(self: staging.Staging, path: str) -> LocalStore:
        store = make(self, path)
        made.append(store.fsync)
        return store

    def sync_and_note(path: bytes) -> None:
        sync(path)
        synced.append(os.path.relpath(os.fsdecode(path), tmp_path))

    monkeypatch.setattr(staging.Staging, "make", make_and_note)
    monkeypatch.setattr(staging, "sync", sync_and_note)
    positions = np.random.default_rng(0).random((50, 3)) * 50
    store = LocalStore(tmp_path / "v", fsync=fsync)
    for write in (
        lambda: zvf.write_points(store, positions, chunk_shape=(20, 20, 20)),
        lambda: zvf.write_points(store, positions, append=True),
        lambda: zvf.shard_store(zvf.Store(store), shard_shape=2),
    ):
        made.clear()
        synced.clear()
        write()
        assert made and set(made) == {fsync}
        parent = "v/0" if len(made) > 1 else "v"
        assert synced[-1:] == [parent] * fsync
        assert len(synced) == 5 * len(made) * fsync


def pair(value: float) -> list[np.ndarray]:
    return [np.full((2, 3), value, "f4"), np.full((2, 3), value + 1, "f4")]


@pytest.mark.parametrize(
    ("had", "new"),
    [
        (np.array([1, 2], "u1"), [300, -5]),
        (np.array([1, 2], "i4"), [0.5, 2.7]),
        (np.array([1, 2], "i8"), [2.0**63, 0]),
        (np.array([1, 2], "i4"), [np.nan, 0]),
        (np.array([True, False]), [5, 0]),
        (np.array([1, 2], "f4"), [2**24 + 1, 0]),
        (np.array([1, 2], "f4"), [0.1, 0]),
        (np.array([1, 2], "f8"), [2**53 + 1, 0]),
        (np.array([1, 2], "u1"), ["3", "4"]),
        (np.ones((2, 3), "u1"), [[1], [2]]),
    ],
    ids=str,
)
def test_values_of_objects_that_the_store_cannot_hold_are_refused(tmp_path: Path, had: Any, new: Any) -> None:
    points = np.ones((2, 3))
    zvf.write_polylines(tmp_path / "l", pair(0), chunk_shape=(10,) * 3, object_attributes={"n": had})
    zvf.write_points(tmp_path / "p", points, chunk_shape=(10,) * 3, object_ids=[0, 1], object_attributes={"n": had})
    with pytest.raises(ValueError, match=r"object attribute 'n' .* in the store"):
        zvf.write_polylines(tmp_path / "l", pair(1), object_attributes={"n": new}, append=True)
    with pytest.raises(ValueError, match=r"object attribute 'n' .* in the store"):
        zvf.write_points(tmp_path / "p", points, object_ids=[2, 3], object_attributes={"n": new}, append=True)
    for name in "lp":
        assert np.array_equal(zvf.open(tmp_path / name).level(0).object_attribute("n"), had)


@pytest.mark.parametrize(
    ("dtype", "new"),
    [
        ("u1", [255, 0]),
        ("i4", [-3.0, 2.0]),
        ("?", [1, 0]),
        ("f4", [2**24, 0.5]),
        ("f8", [2**53, 1]),
        ("f4", [np.nan, 1]),
    ],
)
def test_values_of_objects_that_the_store_can_hold_are_taken(tmp_path: Path, dtype: str, new: list) -> None:
    had = np.array([1, 0], dtype)
    zvf.write_polylines(tmp_path / "s", pair(0), chunk_shape=(10,) * 3, object_attributes={"n": had})
    zvf.write_polylines(tmp_path / "s", pair(1), object_attributes={"n": new}, append=True)
    found = zvf.open(tmp_path / "s").level(0).object_attribute("n")
    assert found.dtype == had.dtype and np.array_equal(found, np.array([1, 0, *new], dtype), equal_nan=dtype[0] == "f")


def test_what_hangs_on_groups_is_kept_and_added_to(tmp_path: Path) -> None:
    path = tmp_path / "s"
    zvf.write_polylines(
        path, pair(0), chunk_shape=(10,) * 3, groups={0: [0], 1: [1], 2: []},
        group_attributes={"g": [1, 2, 3], "v": np.ones((3, 2), "f4")},
    )  # fmt: skip
    zvf.write_polylines(path, pair(1), append=True)
    zvf.write_polylines(path, pair(2), groups={1: [4]}, append=True)
    level = zvf.open(path).level(0)
    assert level.group_attribute("g").tolist() == [1, 2, 3] and level.group_attribute_names() == ["g", "v"]
    assert {number: ids.tolist() for number, ids in level.groups().items()} == {0: [0], 1: [1, 4]}
    more = {"g": [30, 40], "v": np.zeros((2, 2))}
    zvf.write_polylines(path, pair(3), groups={3: [6], 4: [7]}, group_attributes=more, append=True)
    level = zvf.open(path).level(0)
    assert level.group_attribute("g").tolist() == [1, 2, 3, 30, 40]
    assert level.group_attribute("v").tolist() == [[1, 1]] * 3 + [[0, 0]] * 2
    assert sorted(level.groups()) == [0, 1, 3, 4]
    assert zvf.validate(path, level=5).ok


@pytest.mark.parametrize(
    ("groups", "attributes", "message"),
    [
        ({2: [2]}, {}, "'g', of which the new groups have no values"),
        ({2: [2]}, {"h": [1]}, "'g', of which"),
        ({2: [2]}, {"g": [1, 2]}, "'g' has 2 rows for the 1 groups from 2 on"),
        ({}, {"g": [1, 2]}, "'g' has 2 rows for the 0 groups from 2 on"),
        ({2: [2]}, {"g": [0.5]}, "'g' is float64 and int64 in the store"),
        ({2: [2]}, {"g": [3], "h": [3]}, "'h' has 1 rows for the 3 groups from 0 on"),
    ],
)
def test_what_hangs_on_groups_and_cannot_be_merged_is_refused(
    tmp_path: Path, groups: dict, attributes: dict, message: str
) -> None:
    path = tmp_path / "s"
    zvf.write_polylines(path, pair(0), chunk_shape=(10,) * 3, groups={0: [0], 1: [1]}, group_attributes={"g": [1, 2]})
    with pytest.raises(ValueError, match=message):
        zvf.write_polylines(path, pair(1), groups=groups, group_attributes=attributes, append=True)
    level = zvf.open(path).level(0)
    assert level.group_attribute("g").tolist() == [1, 2] and len(level.object_ids()) == 2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_positions_are_appended_as_the_store_has_them(tmp_path: Path, dtype: str) -> None:
    exact = np.array([[1000000.123456789, 2, 3], [1000001.5, 2, 3]])
    other = "float64" if dtype == "float32" else "float32"
    zvf.write_polylines(tmp_path / "l", [exact], chunk_shape=(1e7,) * 3, dtype=dtype)
    zvf.write_points(tmp_path / "p", exact, chunk_shape=(1e7,) * 3, dtype=dtype)
    for options in ({}, {"dtype": dtype}):
        zvf.write_polylines(tmp_path / "l", [exact], append=True, **options)
        zvf.write_points(tmp_path / "p", exact, append=True, **options)
    with pytest.raises(ValueError, match=f"positions are {other} and {dtype} in the store"):
        zvf.write_polylines(tmp_path / "l", [exact], append=True, dtype=other)
    with pytest.raises(ValueError, match=f"positions are {other} and {dtype} in the store"):
        zvf.write_points(tmp_path / "p", exact, append=True, dtype=other)
    lines, points = (zvf.open(tmp_path / name).level(0).read().positions for name in "lp")
    assert lines.dtype == points.dtype == dtype and len(lines) == len(points) == 6
    assert np.array_equal(np.unique(lines[:, 0]), exact[:, 0].astype(dtype))
    assert np.array_equal(np.unique(points[:, 0]), exact[:, 0].astype(dtype))


def test_nothing_is_appended_below_coarser_levels(tmp_path: Path) -> None:
    path = tmp_path / "s"
    zvf.write_polylines(path, pair(0), chunk_shape=(10,) * 3)
    zvf.write_polylines(path, pair(1), append=True)
    zvf.write_coarser_level(path, every=2)
    with pytest.raises(UnsupportedError, match="append before they are made"):
        zvf.write_polylines(path, pair(2), append=True)
    assert zvf.validate(path, level=5).ok
    assert [len(level.object_ids()) for level in zvf.open(path)] == [4, 4]


def test_flat_arrays_are_appended_as_the_store_has_them(tmp_path: Path) -> None:
    exact = np.array([[1000000.123456789, 2, 3], [1000001.5, 2, 3]])
    for dtype in ("f4", "f8"):
        zvf.from_trx_arrays(tmp_path / dtype, exact.astype(dtype), [0, 2], chunk_shape=(1e7,) * 3)
        for other in ("f4", "f8"):
            zvf.from_trx_arrays(tmp_path / dtype, exact.astype(other), [0, 2], append=True)
        level = zvf.open(tmp_path / dtype).level(0)
        assert level.dtype == dtype and np.array_equal(level.read_object(2), exact.astype(dtype))


def _broken() -> Iterator[Any]:
    yield np.ones((3, 3), "f4")
    raise RuntimeError("the source ends here")


@pytest.mark.parametrize("write", [zvf.write_polylines, zvf.write_points])
def test_a_writer_that_fails_leaves_what_it_was_to_replace(tmp_path: Path, write: Any) -> None:
    path = tmp_path / "store"
    zvf.write_polylines(path, [np.zeros((5, 3), "f4")], chunk_shape=(4, 4, 4))
    zvf.write_coarser_level(path)
    with pytest.raises(RuntimeError):
        write(path, _broken(), chunk_shape=(8, 8, 8), overwrite=True)
    assert zvf.open(path).level(0).vertex_count == 5 and zvf.open(path).levels == [0, 1]
    write(path, iter([np.ones((3, 3), "f4")]), chunk_shape=(8, 8, 8), overwrite=True)
    assert zvf.open(path).level(0).vertex_count == 3 and zvf.open(path).levels == [0]
    assert zvf.validate(path, level=3).ok
    assert sorted(name for name in os.listdir(path) if not name.endswith(".zvlock")) == ["0", "zarr.json"]


def test_what_is_no_store_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(ConflictError):
        zvf.write_polylines(tmp_path, [np.zeros((5, 3), "f4")], chunk_shape=(4, 4, 4), overwrite=True)
    assert (tmp_path / "letter.txt").read_text() == "dear"


def test_one_cannot_both_append_and_replace(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="overwrite"):
        zvf.write_points(tmp_path / "a", np.zeros((5, 3)), append=True, overwrite=True)


def test_points_in_memory_are_replaced() -> None:
    store = MemoryStore()
    zvf.write_points(store, np.zeros((5, 3)), chunk_shape=(4, 4, 4))
    zvf.write_points(store, np.zeros((2, 3)), chunk_shape=(4, 4, 4), overwrite=True)
    assert zvf.open(store).level(0).vertex_count == 2
