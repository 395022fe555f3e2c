"""Rectilinear grids: chunks of different sizes, with zarr-python on the other side."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import zvcore
from zvcore.errors import MetadataError, UnsupportedError, ZvcoreError
from zvcore.stores import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

old = zarr.__version__.startswith("3.1.")
pytestmark = pytest.mark.skipif(old, reason="zarr-python 3.1 has no rectilinear grids")
VALUES = np.arange(30 * 21, dtype="u2").reshape(30, 21)
CHUNKS = [[10, [4, 3], 8], 5]


@pytest.fixture(autouse=True)
def allowed() -> Iterator[None]:
    if old:
        yield
        return
    with zarr.config.set({"array.rectilinear_chunks": True}):
        yield


def document(path: Path) -> Any:
    return json.loads((path / "zarr.json").read_text())


def made(path: Any, **options: Any) -> Any:
    return zvcore.create(path, **{"format": "zarr3", "shape": (30, 21), "dtype": "u2", "chunks": CHUNKS, **options})


@pytest.mark.parametrize("codec", [None, "gzip"])
def test_both_ways_with_zarr_python(tmp_path: Path, codec: Any) -> None:
    ours = made(tmp_path / "a", codec=codec, fill_value=7)
    ours[:25] = VALUES[:25]
    theirs = zarr.open_array(tmp_path / "a", mode="r+")
    assert (theirs[:25] == VALUES[:25]).all()
    assert (theirs[25:] == 7).all()
    theirs[25:] = VALUES[25:]
    assert (zvcore.open(tmp_path / "a")[...] == VALUES).all()
    array = zarr.create_array(tmp_path / "b", shape=(30, 21), dtype="u2", chunks=[[10, 4, 4, 4, 8], [20, 1]])
    array[...] = VALUES
    again = zvcore.open(tmp_path / "b", mode="r+")
    assert (again[...] == VALUES).all()
    again[3:28, 18:] = 1
    assert (array[3:28, 18:] == 1).all()
    assert (array[:3] == VALUES[:3]).all()


@pytest.mark.parametrize("location", ["start", "end"])
def test_shards_of_different_sizes(tmp_path: Path, location: str) -> None:
    ours = made(tmp_path / "a", chunks=(2, 3), shards=[[10, [4, 3], 8], [6, 15]], index_location=location)
    ours[...] = VALUES
    ours[3:28, 4] = 9
    expected = VALUES.copy()
    expected[3:28, 4] = 9
    assert (zarr.open_array(tmp_path / "a")[...] == expected).all()
    assert (zvcore.open(tmp_path / "a")[...] == expected).all()
    assert ours.chunks == (2, 3)
    assert ours.grid == (5, 2)
    with pytest.raises(MetadataError, match="divide"):
        made(tmp_path / "b", chunks=(3, 3), shards=[[9, [4, 3], 9], [6, 15]])


def test_the_pipeline_leaves_them_to_zarr_python_and_says_so(tmp_path: Path) -> None:
    with zarr.config.set({"codec_pipeline.path": "zvcore.zarr3.CodecPipeline"}):
        array = zarr.create_array(tmp_path, shape=(30, 21), dtype="u2", chunks=[[10, 4, 4, 4, 8], [20, 1]])
        array[...] = VALUES
        assert "rectilinear" in zvcore.zarr3.explain(array)["reason"]
        assert (array[3:, ::2] == VALUES[3:, ::2]).all()


@st.composite
def grids(draw: Any) -> tuple[tuple[int, ...], list[Any]]:
    shape, chunks = [], []
    for _ in range(draw(st.integers(1, 3))):
        runs = draw(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), min_size=1, max_size=4))
        total = sum(a * b for a, b in runs)
        shape.append(draw(st.integers(0, total)))
        plain = draw(st.booleans())
        chunks.append([n for a, b in runs for n in [a] * b] if plain else [[a, b] for a, b in runs])
        if draw(st.integers(0, 3)) == 0:
            chunks[-1] = draw(st.integers(1, 5))
    return tuple(shape), chunks if any(isinstance(one, list) for one in chunks) else [[n] if n else [1] for n in shape]


def keys(draw: Any, shape: tuple[int, ...], lists: bool) -> tuple[Any, ...]:
    key: list[Any] = []
    for n in shape:
        kinds = ["slice", *(["int"] if n else []), *(["list"] if lists and n else [])]
        kind = draw(st.sampled_from(kinds))
        if kind == "int":
            key.append(draw(st.integers(-n, n - 1)))
        elif kind == "list":
            key.append(np.array(draw(st.lists(st.integers(-n, n - 1), max_size=4)), np.int64))
        else:
            bound = st.none() | st.integers(-n - 1, n + 1)
            key.append(slice(draw(bound), draw(bound), draw(st.sampled_from([None, 1, 2, 3, -1, -2]))))
    return tuple(key)


def meshed(key: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    """What numpy takes for lists along each axis, and which axes of that are none of the result."""
    parts = [np.atleast_1d(np.arange(n)[one]) for one, n in zip(key, shape, strict=True)]
    return np.ix_(*parts), tuple(axis for axis, one in enumerate(key) if isinstance(one, int))


@given(grids(), st.data())
def test_every_selection_is_what_numpy_selects(grid: Any, data: Any) -> None:
    shape, chunks = grid
    store = MemoryStore()
    array = zvcore.create(store, format="zarr3", shape=shape, dtype="i4", chunks=chunks, codec=None, fill_value=-1)
    mirror = np.full(shape, -1, "i4")
    for number in range(3):
        key = keys(data.draw, shape, lists=False)
        value = np.arange(mirror[key].size, dtype="i4").reshape(mirror[key].shape) + 100 * number
        mirror[key] = value
        array[key] = value
        assert np.array_equal(array[...], mirror)
        key = keys(data.draw, shape, lists=False)
        found = array[key]
        assert np.array_equal(found, mirror[key])
        out = np.zeros_like(mirror[key])
        if out.ndim:
            assert array.read(key, out=out) is out
            assert np.array_equal(out, mirror[key])
        key = keys(data.draw, shape, lists=True)
        mesh, dropped = meshed(key, shape)
        expected = mirror[mesh].reshape([n for axis, n in enumerate(mirror[mesh].shape) if axis not in dropped])
        assert np.array_equal(array.oindex[key], expected)
        if all(shape):
            points = tuple(np.array(data.draw(st.lists(st.integers(-n, n - 1), min_size=3, max_size=3))) for n in shape)
            assert np.array_equal(array.vindex[points], mirror[points])
            array.vindex[points] = -5
            mirror[points] = -5
    again = zvcore.open(store)
    assert np.array_equal(again[...], mirror)
    for position in np.ndindex(*again.grid):
        block = again.read_block(position)
        assert block is None or np.array_equal(block, mirror[again._block_region(position)])


def test_selections_by_lists_and_masks_are_written_too(tmp_path: Path) -> None:
    array = made(tmp_path)
    array[...] = VALUES
    mirror = VALUES.copy()
    array.oindex[[29, 3, 11], [True] + [False] * 20] = [[1], [2], [3]]
    mirror[[29, 3, 11], 0] = [1, 2, 3]
    array.vindex[mirror > 600] = 0
    mirror[mirror > 600] = 0
    assert (zarr.open_array(tmp_path)[...] == mirror).all()


def test_what_grows_gets_one_more_chunk_and_what_shrinks_loses_what_lies_outside(tmp_path: Path) -> None:
    array = made(tmp_path, fill_value=1)
    array[...] = VALUES
    array.resize((12, 21))
    assert sorted({key.split("/")[1] for key in array.store.list("c")}) == ["0", "1"]
    array.resize((33, 30))
    assert document(tmp_path)["chunk_grid"]["configuration"]["chunk_shapes"][0] == [10, [4, 3], 8, 3]
    expected = np.ones((33, 30), "u2")
    expected[:12, :21] = VALUES[:12]
    assert (array[...] == expected).all()
    assert (zarr.open_array(tmp_path)[...] == expected).all()
    array[30:] = 5
    assert (zvcore.open(tmp_path)[30:] == 5).all()


@pytest.mark.parametrize("mode", ["rewrite", "append", "inplace"])
def test_a_shape_is_changed_in_every_write_mode(tmp_path: Path, mode: Any) -> None:
    made(tmp_path, chunks=(2, 7), shards=[[10, 20], 7], index_location="start")[...] = VALUES
    array = zvcore.open(tmp_path, "r+", write_mode=mode)
    array.resize((11, 21))
    array.resize((30, 21))
    mirror = np.zeros((30, 21), "u2")
    mirror[:11] = VALUES[:11]
    assert (array[...] == mirror).all()


@pytest.mark.parametrize("order", [None, [1, 0]], ids=str)
def test_what_grows_gets_a_shard_that_inner_chunks_divide(tmp_path: Path, order: Any) -> None:
    """As long as what is missing, and then to the end of an inner chunk."""
    transposed = [] if order is None else [{"name": "transpose", "configuration": {"order": order}}]
    inner = [2, 7] if order is None else [7, 2]
    numbers = [{"name": "bytes", "configuration": {"endian": "little"}}]
    sharded = {"chunk_shape": inner, "codecs": numbers, "index_codecs": numbers}
    made(tmp_path, chunks=CHUNKS)
    changed = document(tmp_path)
    changed["codecs"] = [*transposed, {"name": "sharding_indexed", "configuration": sharded}]
    changed["chunk_grid"]["configuration"]["chunk_shapes"] = [[10, 20], [7, 14]]
    (tmp_path / "zarr.json").write_text(json.dumps(changed))
    array = zvcore.open(tmp_path, "r+")
    array[...] = VALUES
    array.resize((33, 22))
    assert document(tmp_path)["chunk_grid"]["configuration"]["chunk_shapes"] == [[10, 20, 4], [7, 14, 7]]
    array[30:] = 5
    mirror = np.zeros((33, 22), "u2")
    mirror[:30, :21] = VALUES
    mirror[30:] = 5
    assert (array[...] == mirror).all()
    if order is None:  # zarr-python divides by the inner chunk before it is transposed
        assert (zarr.open_array(tmp_path)[...] == mirror).all()


def test_dask_cuts_along_the_chunks(tmp_path: Path) -> None:
    array = made(tmp_path)
    array[...] = VALUES
    lazy = array.to_dask()
    assert lazy.chunks == ((10, 4, 4, 4, 8), (5, 5, 5, 5, 1))
    assert (lazy.compute() == VALUES).all()


def test_single_chunks(tmp_path: Path) -> None:
    array = made(tmp_path)
    array[...] = VALUES
    assert array.edges == ([(10, 1), (4, 3), (8, 1)], [(5, 5)])
    assert array.grid == (5, 5)
    assert (array.read_block((4, 4)) == VALUES[22:, 20:]).all()
    array.write_block((1, 0), np.zeros((4, 5), "u2"))
    assert (array[10:14, :5] == 0).all()
    assert array.delete_block((0, 0))
    assert array.read_block((0, 0)) is None
    with pytest.raises(IndexError):
        array.read_block((5, 0))


HUGE = 10**18
LIES: list[tuple[Any, Any]] = [
    ([30, 21], {"chunk_shapes": [[10, 20]]}),
    ([30, 21], {"chunk_shapes": [[10, 10], 5]}),
    ([30, 21], {"chunk_shapes": [[], 5]}),
    ([30, 21], {"chunk_shapes": [[0, 30], 5]}),
    ([30, 21], {"chunk_shapes": [[-30, 60], 5]}),
    ([30, 21], {"chunk_shapes": [[[10]], 5]}),
    ([30, 21], {"chunk_shapes": [[[10, 3, 1]], 5]}),
    ([30, 21], {"chunk_shapes": [[[10, 0]], 5]}),
    ([30, 21], {"chunk_shapes": [[[10, "3"]], 5]}),
    ([30, 21], {"chunk_shapes": [[True, 30], 5]}),
    ([30, 21], {"chunk_shapes": [30.5, 5]}),
    ([30, 21], {"chunk_shapes": {"0": 30}}),
    ([30, 21], {"chunk_shapes": [[[HUGE, HUGE]], 5]}),
    ([30, 21], {"chunk_shapes": [2**70, 5]}),
    ([30, 21], {"chunk_shapes": [[30], 5], "kind": "outline"}),
    ([30, 21], {}),
]


@pytest.mark.parametrize(("shape", "configuration"), LIES, ids=[str(number) for number in range(len(LIES))])
def test_grids_that_lie_are_refused(shape: Any, configuration: Any) -> None:
    store = MemoryStore()
    made(store)
    content = json.loads(bytes(store.get("zarr.json")))
    content["shape"] = shape
    content["chunk_grid"] = {"name": "rectilinear", "configuration": {"kind": "inline", **configuration}}
    store.put("zarr.json", json.dumps(content).encode())
    with pytest.raises((MetadataError, UnsupportedError)):
        zvcore.open(store)


def test_runs_of_any_length_cost_nothing() -> None:
    array = made(MemoryStore(), shape=(2 * HUGE,), chunks=[[[1, HUGE], [2, HUGE // 2]]], fill_value=3)
    assert array.grid == (HUGE + HUGE // 2,)
    array[HUGE - 1 : HUGE + 3] = [4, 5, 6, 7]
    assert array[HUGE - 2 : HUGE + 4].tolist() == [3, 4, 5, 6, 7, 3]
    assert set(array.store.list("c")) == {f"c/{HUGE - 1}", f"c/{HUGE}", f"c/{HUGE + 1}"}


def test_what_needs_chunks_of_one_size_says_so(tmp_path: Path) -> None:
    array = made(tmp_path / "a")
    with pytest.raises(UnsupportedError, match="rectilinear"):
        array.shard_writer()


def test_inspect_describes_them_and_their_chunks(tmp_path: Path) -> None:
    made(tmp_path / "a")[...] = VALUES
    made(tmp_path / "b", chunks=(2, 3), shards=[[10, [4, 3], 8], [6, 15]])[...] = VALUES
    for name, objects in (("a", 25), ("b", 10)):
        described = zvcore.inspect(tmp_path / name)
        assert described["objects"] == objects
        assert described["chunk_shapes"][0] == [10, [4, 3], 8]
    one = zvcore.inspect(tmp_path / "a" / "c" / "4" / "4")
    assert one["region"] == [[22, 30], [20, 21]]
    assert one["shape"] == (8, 5)
    with pytest.raises(ZvcoreError):
        zvcore.inspect(tmp_path / "a" / "c" / "9" / "9")
