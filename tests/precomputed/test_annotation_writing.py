"""Writing annotations: what is written reads back, by id, by relationship and by place, whatever it was given as."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import zvcore
from zvcore.errors import ConflictError
from zvcore.precomputed import Annotations, Ragged, ShardingSpec, write_annotations
from zvcore.precomputed.annotation_boxes import meet_box
from zvcore.precomputed.annotation_levels import MARGIN
from zvcore.precomputed.annotation_records import joined
from zvcore.stores import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

NM = {"x": (4e-9, "m"), "y": (4e-9, "m"), "z": (40e-9, "m")}
TYPES = ("point", "line", "axis_aligned_bounding_box", "ellipsoid", "polyline")
MURMUR = ShardingSpec(0, "murmurhash3_x86_128", 2, 1, "gzip", "gzip")


_ONE = {"x": (1e-9, "m")}


@pytest.mark.parametrize("wrong", [{}, None, ["x"], {"x": 1}, {"x": (float("nan"), "m")}, {"x": (0, "m")}])
def test_wrong_dimensions_are_refused(wrong: Any) -> None:
    store = MemoryStore()
    with pytest.raises(ValueError, match="dimensions are"):
        write_annotations(store, "point", {"point": np.ones((2, 1))}, dimensions=wrong)
    assert not list(store.list())


@pytest.mark.parametrize("options", [{"attrs": {"a": float("nan")}}, {"properties": {"k": {"default": float("inf")}}}])
def test_what_info_cannot_say_does_not_cost_the_set_that_was_to_be_replaced(options: Any) -> None:
    store = MemoryStore()
    columns = {"point": np.ones((2, 1)), "k": np.ones(2, "f4")}
    write_annotations(store, "point", columns, dimensions=_ONE)
    if "properties" in options:
        options = {"properties": {"k": {"type": "float32", **options["properties"]["k"]}}}
    before = {key: store.get(key) for key in store.list()}
    with pytest.raises(ValueError, match="JSON"):
        write_annotations(store, "point", columns, dimensions=_ONE, overwrite=True, **options)
    assert {key: store.get(key) for key in store.list()} == before


def positions(type: str, count: int, rank: int = 3, seed: int = 0, reach: float = 12) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    a = (rng.random((count, rank)) * [100, 120, 30, 50][:rank]).astype("f4")
    b = (a + (rng.random((count, rank)) - 0.5) * reach).astype("f4")
    if type == "point":
        return {"point": a}
    if type == "ellipsoid":
        return {"center": a, "radii": np.abs(b - a)}
    if type == "polyline":
        rows = [np.cumsum([p, *rng.normal(size=(1 + n % 5, rank)) * reach / 4], axis=0) for n, p in enumerate(a)]
        return {"points": Ragged.of(rows, "f4", rank)}
    return {"point_a": a, "point_b": b}


def related(count: int, seed: int = 0) -> Ragged:
    rng = np.random.default_rng(seed)
    return Ragged.of([np.unique(rng.integers(1, 40, n % 4)) for n in range(count)], np.uint64)


def same(found: dict[str, Any], wanted: dict[str, Any], rows: Any = None) -> None:
    """Whether the found annotations are these rows of what was written, in any order."""
    rows = np.arange(len(wanted["id"])) if rows is None else np.asarray(rows, np.intp)
    order = np.argsort(found["id"])
    rows = rows[np.argsort(wanted["id"][rows])]
    np.testing.assert_array_equal(found["id"][order], wanted["id"][rows])
    for name, column in found.items():
        if isinstance(column, Ragged):
            ours, theirs = column.take(order), wanted[name].take(rows)
            np.testing.assert_array_equal(ours.offsets, theirs.offsets, err_msg=name)
            np.testing.assert_array_equal(ours.values, theirs.values, err_msg=name)
        else:
            np.testing.assert_array_equal(column[order], wanted[name][rows], err_msg=name)


def check(found: Annotations, wanted: dict[str, Any], relationship: str | None = None) -> None:
    """All three indexes against what was written, by brute force."""
    count = len(wanted["id"])
    assert len(found) == count
    same(found.get_many(wanted["id"]), wanted)
    same(joined([found.form.empty(), *found.batches()]), wanted)
    if relationship is not None:
        segments = np.unique(wanted[relationship].values)
        np.testing.assert_array_equal(found.related_ids(relationship), segments)
        owners = np.repeat(np.arange(count), wanted[relationship].lengths)
        for segment in segments[:20]:
            rows = np.unique(owners[wanted[relationship].values == segment])
            same(found.related(relationship, segment), wanted, rows)
    rank = len(found.dimensions)
    low, high = np.array(found.lower_bound), np.array(found.upper_bound)
    rng = np.random.default_rng(1)
    boxes = [(low, high), (low - 5, high + 5), (high + 1, high + 2)]
    boxes += [(p, p + (high - low) * rng.random(rank) * 0.4) for p in low + rng.random((12, rank)) * (high - low)]
    for box in boxes:
        same(found.in_box(*box), wanted, np.flatnonzero(meet_box(found.type, wanted, *map(np.asarray, box))))
    check_spatial(found, wanted)


def check_spatial(found: Annotations, wanted: dict[str, Any]) -> None:
    """Over every finest cell that an annotation meets it is listed exactly once among that cell and those around it."""
    by_id = {id: row for row, id in enumerate(wanted["id"].tolist())}
    listed: dict[int, set[int]] = {}
    for number, values in enumerate(found._levels):
        cells = values.keys()
        grid, size = np.array(values.index.grid), np.array(values.index.chunk_size)
        np.testing.assert_allclose(size * grid, np.subtract(found.upper_bound, found.lower_bound))
        for cell in cells:
            columns = found._lists(values, cell[None])
            assert len(np.unique(columns["id"])) == len(columns["id"])
            rows = np.array([by_id[id] for id in columns["id"].tolist()], np.intp)
            same(columns, wanted, rows)
            low = np.array(found.lower_bound) + cell * size
            # Those that pass a cell by so closely that rounding might decide are listed in it too.
            beyond = 2 * MARGIN * size + 1e-3
            assert meet_box(found.type, columns, low - beyond, low + size + beyond).all()
            for id in columns["id"].tolist():
                listed.setdefault(id, set()).add(number)
    # On one level alone.
    assert len(listed) == len(by_id) and all(len(levels) == 1 for levels in listed.values())


@pytest.mark.parametrize("sharding", ["advise", None, MURMUR])
@pytest.mark.parametrize("type", TYPES)
def test_what_is_written_reads_back_by_every_index(tmp_path: Path, type: str, sharding: Any) -> None:
    count = 400 if sharding is None else 3000
    ids = np.random.default_rng(5).permutation(np.arange(count, dtype=np.uint64) * 2**52 + 3)
    columns = {**positions(type, count), "id": ids, "segments": related(count)}
    columns |= {
        "size": np.arange(count, dtype="f4"),
        "kind": np.arange(count, dtype="u2"),
        "n": np.arange(count) % 7 - 3,
    }
    columns["colour"] = np.random.default_rng(1).integers(0, 256, (count, 3)).astype("u1")
    report = write_annotations(
        tmp_path / "ann", type, columns, dimensions=NM, relationships=["segments"], sharding=sharding, limit=100
    )
    assert report.ok and report.counts["annotations"] == count and report.counts["levels"] > 1
    verified = zvcore.verify(tmp_path / "ann")
    assert verified.problems == []
    found = zvcore.open(tmp_path / "ann")
    kinds = {name: one.type for name, one in found.properties.items()}
    assert kinds == {"size": "float32", "n": "int32", "kind": "uint16", "colour": "rgb"}
    assert list(kinds) == ["size", "n", "kind", "colour"]  # as they are stored
    check(found, columns, "segments")
    assert (found._info.by_id.sharding is None) == (sharding is None)


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_other_ranks(rank: int) -> None:
    store = MemoryStore()
    dimensions = {name: (1.0, "s" if name == "t" else "m") for name in ("x", "y", "z", "t")[:rank]}
    columns = {**positions("point", 3000, rank), "id": np.arange(3000, dtype=np.uint64)}
    write_annotations(store, "point", columns, dimensions=dimensions, limit=50)
    check(zvcore.open(store), columns)


def test_levels_are_thinned_out_evenly(tmp_path: Path) -> None:
    """The chance is that of the fullest cell, so that sparse places stay sparse."""
    rng = np.random.default_rng(0)
    dense, sparse = rng.random((9000, 3)) * 50, rng.random((1000, 3)) * 50 + [50, 0, 0]
    points = np.concatenate([dense, sparse]).astype("f4")
    columns = {"point": points, "id": np.arange(10000, dtype=np.uint64)}
    write_annotations(tmp_path / "ann", "point", columns, dimensions=dict.fromkeys("xyz", (1e-9, "m")), limit=500)
    found = zvcore.open(tmp_path / "ann")
    sample = found.in_box((0, 0, 0), (100, 50, 50), levels=1)["id"]
    assert 400 < len(sample) < 600
    assert 0.05 < (sample >= 9000).mean() < 0.16
    grids = [level.grid for level in found.levels]
    assert grids[:3] == [(1, 1, 1), (2, 1, 1), (4, 2, 2)]
    # The order within a list is random, too: viewers draw the first part of it.
    one = found._lists(found._levels[0], np.zeros((1, 3), np.int64))["point"][:, 0]
    assert abs(one[:200].mean() - one[-200:].mean()) < 10
    check(found, columns)


def test_the_bytes_depend_on_nothing_but_the_annotations_and_the_seed(tmp_path: Path) -> None:
    count = 5000
    columns = {**positions("line", count), "id": np.arange(count, dtype=np.uint64)[::-1].copy(), "r": related(count)}

    def written(name: str, order: Any, **options: Any) -> dict[str, bytes]:
        batches = (
            {key: c.take(rows) if isinstance(c, Ragged) else c[rows] for key, c in columns.items()}
            for rows in np.array_split(order, options.pop("batches"))
        )
        write_annotations(tmp_path / name, "line", batches, dimensions=NM, relationships=["r"], limit=200, **options)
        return {
            str(p.relative_to(tmp_path / name)): p.read_bytes() for p in (tmp_path / name).rglob("*") if p.is_file()
        }

    one = written("a", np.arange(count), batches=1)
    shuffled = np.random.default_rng(3).permutation(count)
    assert one == written("b", shuffled, batches=13, memory=100_000, threads=1)
    other = written("c", np.arange(count), batches=1, seed=1)
    assert other["info"] != one["info"] or other["spatial0/0.shard"] != one["spatial0/0.shard"]
    assert other["by_id/0.shard"] == one["by_id/0.shard"]


def test_all_at_one_place_and_one_alone_and_none(tmp_path: Path) -> None:
    same_place = {"point": np.full((4000, 3), 7, "f4"), "id": np.arange(4000, dtype=np.uint64)}
    write_annotations(tmp_path / "a", "point", same_place, dimensions=NM, limit=100)
    found = zvcore.open(tmp_path / "a")
    assert len(found.levels) < 10 and found.levels[-1].limit > 1000
    check(found, same_place)
    one = {"point": np.array([[1, 2, 3]], "f4"), "id": np.array([2**64 - 1], np.uint64)}
    write_annotations(tmp_path / "b", "point", one, dimensions=NM)
    check(zvcore.open(tmp_path / "b"), one)
    write_annotations(tmp_path / "c", "point", {"point": np.empty((0, 3))}, dimensions=NM)
    info = json.loads((tmp_path / "c/info").read_text())
    assert (info["lower_bound"], info["upper_bound"], info["spatial"][0]["limit"]) == ([0] * 3, [1] * 3, 1)
    assert len(zvcore.open(tmp_path / "c").in_box((0, 0, 0), (1, 1, 1))["id"]) == 0
    write_annotations(tmp_path / "d", "line", iter([]), dimensions=NM)
    assert zvcore.verify(tmp_path / "d").ok


def test_a_cluster_in_a_wide_field_is_split_where_it_is(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.random((3000, 2)) * 3, [[100000, 100000]]]).astype("f4")
    columns = {"point": points, "id": np.arange(3001, dtype=np.uint64)}
    write_annotations(tmp_path / "a", "point", columns, dimensions=dict.fromkeys("xy", (1, "m")), limit=100)
    found = zvcore.open(tmp_path / "a")
    assert max(level.limit for level in found.levels) <= 110
    check(found, columns)


def test_large_boxes_stay_on_coarse_levels(tmp_path: Path) -> None:
    columns = {**positions("axis_aligned_bounding_box", 3000, reach=150), "id": np.arange(3000, dtype=np.uint64)}
    write_annotations(tmp_path / "a", "axis_aligned_bounding_box", columns, dimensions=NM, limit=20)
    check(zvcore.open(tmp_path / "a"), columns)


def test_the_document_is_what_all_readers_take(tmp_path: Path) -> None:
    columns = {"point": np.zeros((3, 3)), "c": np.zeros((3, 4), "u1"), "f": np.zeros(3), "seg/ment": [[1], [2], [3]]}
    write_annotations(
        tmp_path / "a", "point", columns, dimensions=NM, relationships=["seg/ment"],
        properties={"c": {"description": "colour"}, "k": (["b", "a", "b"], {})},
    )  # fmt: skip
    info = json.loads((tmp_path / "a/info").read_text())
    assert info["annotation_type"] == "POINT" and "null" not in (tmp_path / "a/info").read_text()
    assert info["properties"] == [
        {"id": "f", "type": "float32"}, {"id": "c", "type": "rgba", "description": "colour"},
        {"id": "k", "type": "uint8", "enum_values": [0, 1], "enum_labels": ["a", "b"]},
    ]  # fmt: skip
    assert info["relationships"] == [{"id": "seg/ment", "key": "rel_seg_ment"}]
    assert all(level["limit"] > 0 and all(n > 0 for n in level["chunk_size"]) for level in info["spatial"])
    assert zvcore.open(tmp_path / "a").get_many([0, 1])["k"].tolist() == [1, 0]


def test_what_cannot_be_held_is_named(tmp_path: Path) -> None:
    def write(columns: dict[str, Any], **options: Any) -> Any:
        return write_annotations(
            MemoryStore(), "point", {"point": np.zeros((2, 3)), **columns}, dimensions=NM, **options
        )

    for columns, match in (
        ({"n": [2**33, -1]}, "have 32 bits"),
        ({"n": np.zeros((2, 2))}, "colours"),
        ({"id": [1, 1]}, "id 1 is given more than once"),
        ({"id": [1, -1]}, "id -1"),
        ({"id": [1]}, "different lengths"),
        ({"point": np.zeros((2, 2))}, "3 coordinates"),
        ({"point": [[0, 0, np.nan], [0, 0, 0]]}, "lies nowhere"),
        ({"when": np.zeros(2, "M8[s]")}, "no type for values"),
    ):
        with pytest.raises(ValueError, match=match):
            write(columns)
    for declared, match in (
        ({"n": (np.array([1, 300]), {"type": "uint8"})}, "cannot hold 1 to 300"),
        ({"n": (np.array([1, np.nan]), {"type": "uint8"})}, "cannot hold"),
        ({"n": (np.array([1, 1.5]), {"type": "uint8"})}, "fractions"),
        ({"n": (["a", "b"], {"type": "uint8", "enum_labels": ["a"]})}, "no enum_label 'b'"),
        ({"n": (["#ff0000", "red"], {"type": "rgb"})}, "colour 'red'"),
        ({"n": ([1, 2], {"type": "float64"})}, "float64"),
        ({"n": ([1, 2], {"type": "bool"})}, "uint8"),
        ({"n": {"type": "uint8"}}, "no column 'n'"),
    ):
        with pytest.raises(ValueError, match=match):
            write({}, properties=declared)
    with pytest.raises(ValueError, match="lie outside of lower_bound"):
        write({}, lower_bound=[1, 0, 0])
    with pytest.raises(ValueError, match="annotations are point"):
        write_annotations(MemoryStore(), "cube", {"point": np.zeros((2, 3))}, dimensions=NM)
    report = write({"Foo bar": [1, 2], "point": [[2**24 + 1, 0, 0], [0.1, 0, 0]], "f": [0.1, 0.2]})
    assert {loss.where for loss in report.losses} == {"Foo bar", "positions", "f"}
    assert any("'foo_bar'" in loss.what for loss in report.losses)


@pytest.mark.parametrize("declared", [False, True])
def test_values_that_float32_cannot_hold_are_refused_or_told(declared: bool) -> None:
    def write(*parts: Any) -> Any:
        batches = [{"point": np.zeros((len(part), 3)), "v": np.asarray(part)} for part in parts]
        properties = {"v": {"type": "float32"}} if declared else {}
        report = write_annotations(MemoryStore(), "point", iter(batches), dimensions=NM, properties=properties)
        return [loss.where for loss in report.losses]

    assert write([0.1, 1]) == write([0.5, 1], [0.1, 0.2], [0.3]) == ["v"]
    assert write([0.5, np.nan, np.inf, 2.0**100]) == write(np.array([0.1], "f4")) == write(np.array([0.1], "f2")) == []
    for bad in ([1e300, 1.0], [1.0, -1e300]):
        with pytest.raises(ValueError, match=r"'v' of type float32 cannot hold -?1e\+300"):
            write([0.5], bad)
    if declared:
        assert write([2**24 + 1, 1]) == write([1, 2], [-(2**60) - 1, 1]) == ["v"]
        assert write([2**24, 1]) == write([1, 2], [-1, 1]) == []


def test_a_set_that_is_there_is_replaced_only_if_that_is_wanted(tmp_path: Path) -> None:
    points = {"point": np.random.default_rng(0).random((2000, 3))}
    write_annotations(tmp_path, "point", points, dimensions=NM, limit=10)
    with pytest.raises(ConflictError):
        write_annotations(tmp_path, "point", points, dimensions=NM)
    write_annotations(tmp_path, "point", {"point": points["point"][:5]}, dimensions=NM, overwrite=True)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["by_id", "info", "spatial0"]
    assert len(list((tmp_path / "by_id").iterdir())) == 5
    (tmp_path / "info").unlink()
    with pytest.raises(ConflictError, match="not finished"):
        write_annotations(tmp_path, "point", points, dimensions=NM)


def test_columns_come_as_tables_and_structured_arrays() -> None:
    count = 50
    points = np.random.default_rng(0).random((count, 3)).astype("f4")
    table = np.zeros(count, [("id", "u8"), ("point", "f4", 3), ("size", "f4"), ("seg", "u8")])
    table["id"], table["point"], table["size"], table["seg"] = np.arange(count), points, np.arange(count), 7

    def written(columns: Any, **options: Any) -> dict[str, Any]:
        store = MemoryStore()
        write_annotations(store, "point", columns, dimensions=NM, **options)
        return zvcore.open(store).get_many(np.arange(count))

    first = written(table, relationships=["seg"])
    np.testing.assert_array_equal(first["point"], points)
    assert first["seg"].tolist() == [[7]] * count
    flat = {"id": np.arange(count), **{name: points[:, axis] for axis, name in enumerate("xyz")}}
    flat |= {"size": table["size"], "name": np.array(["ab", "c"] * (count // 2))}
    second = written(flat)
    np.testing.assert_array_equal(second["point"], points)
    assert second["name"].tolist() == [0, 1] * (count // 2)
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(flat)
    frame["name"] = frame["name"].astype("category")
    arrow = pyarrow.table({
        **{name: flat[name] for name in ("id", "size")},
        "point": pyarrow.array(points.tolist(), pyarrow.list_(pyarrow.float32(), 3)),
        "name": pyarrow.array(flat["name"]).dictionary_encode(), "seg": [[7, 8]] * count,
    })  # fmt: skip
    named = {"relationships": ["seg"]}
    for source, options in ((frame, {}), (arrow, named), (iter(arrow.to_batches(20)), named)):
        found = written(source, **options)
        np.testing.assert_array_equal(found["point"], points)
        assert found["name"].tolist() == [0, 1] * (count // 2)
        assert not options or found["seg"].tolist() == [[7, 8]] * count
    with pytest.raises(ValueError, match="missing values"):
        written(pyarrow.table({"x": [1.0], "y": [1.0], "z": [1.0], "n": pyarrow.array([None], pyarrow.int32())}))


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_annotations_survive(data: st.DataObject) -> None:
    type = data.draw(st.sampled_from(TYPES))
    rank = data.draw(st.integers(1, 3))
    ids = data.draw(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=30, unique=True))
    count = len(ids)
    number = st.floats(-1e6, 1e6, width=32)
    place = st.lists(number, min_size=rank, max_size=rank)
    places = st.lists(place, min_size=count, max_size=count)
    columns: dict[str, Any] = {"id": np.array(ids, np.uint64)}
    if type == "polyline":
        lines = data.draw(st.lists(st.lists(place, min_size=2, max_size=5), min_size=count, max_size=count))
        columns["points"] = Ragged.of(lines, "f4", rank)
    else:
        from zvcore.precomputed.annotation_info import GEOMETRY

        for name in GEOMETRY[type]:
            columns[name] = np.array(data.draw(places), "f4").reshape(count, rank)
    for kind in data.draw(st.lists(st.sampled_from(("u1", "i1", "u2", "i2", "u4", "i4", "f4")), max_size=4)):
        values = st.integers(np.iinfo(kind).min, np.iinfo(kind).max) if kind != "f4" else number
        column = data.draw(st.lists(values, min_size=count, max_size=count))
        columns[f"p{len(columns)}"] = np.array(column, kind)
    segments = st.lists(st.integers(0, 2**64 - 1), max_size=3, unique=True)
    rows = data.draw(st.lists(segments, min_size=count, max_size=count))
    columns["seg"] = Ragged.of([np.array(row, np.uint64) for row in rows], np.uint64)
    store = MemoryStore()
    sharding = data.draw(st.sampled_from([None, MURMUR, "advise"]))
    write_annotations(
        store, type, columns, dimensions={"xyz"[axis]: (1e-9, "m") for axis in range(rank)}, relationships=["seg"],
        sharding=sharding, limit=data.draw(st.integers(1, 10)), memory=data.draw(st.sampled_from([1000, 1 << 20])),
    )  # fmt: skip
    assert zvcore.verify(store).problems == []
    check(zvcore.open(store), columns, "seg")


@pytest.mark.parametrize("name", ["point", "size"])
def test_masked_values_are_missing_and_not_what_lies_below_the_mask(tmp_path: Path, name: str) -> None:
    nm = dict.fromkeys("xyz", (1e-9, "m"))
    columns = {"point": np.arange(6.0).reshape(2, 3), "size": np.arange(2.0)}
    masked = {**columns, name: np.ma.masked_equal(columns[name], 1)}
    with pytest.raises(ValueError, match="missing values"):
        write_annotations(tmp_path / "a", "point", masked, dimensions=nm)
    whole = {**columns, name: np.ma.masked_equal(columns[name], 99)}
    write_annotations(tmp_path / "b", "point", whole, dimensions=nm)
    assert zvcore.open(tmp_path / "b").get_many([1])["size"].tolist() == [1]


@pytest.mark.parametrize("limit", [0, -1, 2.5, True, None])
def test_a_limit_below_one_is_refused_before_anything_is_made(tmp_path, limit):
    with pytest.raises(ValueError, match="limit is a number of annotations"):
        write_annotations(tmp_path / "a", "point", {"point": np.zeros((2, 3))}, dimensions=NM, limit=limit)
    assert not (tmp_path / "a").exists()
