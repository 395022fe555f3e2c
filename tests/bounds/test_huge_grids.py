"""Arrays of a thousand million chunks, of which hardly any is stored: work is in proportion to those."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import zvcore
from tests.processes import run
from zvcore.engine.selection import Selection
from zvcore.stores import MemoryStore
from zvcore.transfer import writing
from zvcore.transfer.windows import position_windows

if TYPE_CHECKING:
    from pathlib import Path

# What is claimed is a thousand times a thousand times a thousand chunks. Their positions alone would be 24 GB.
LIMITED = """
import resource, sys
import numpy as np
import zvcore
kind, path = sys.argv[1:3]
OPTIONS = {
    "zarr3": {"format": "zarr3", "chunks": (16,) * 3},
    "zarr3 shards": {"format": "zarr3", "chunks": (16,) * 3, "shards": (64,) * 3},
    "n5": {"format": "n5", "chunks": (16,) * 3},
    "precomputed": {"format": "precomputed", "chunks": (16,) * 3},
    "precomputed shards": {"format": "precomputed", "chunks": (16,) * 3, "shards": (64,) * 3},
}
array = zvcore.create(path, shape=(16000,) * 3, dtype="uint8", **OPTIONS[kind])
corner = (slice(8, 72),) * 3
array[corner] = 7
array[15999, 15999, 15999] = 9
soft = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize() + (512 << 20)
resource.setrlimit(resource.RLIMIT_AS, (soft, soft))
def objects():
    return sum(1 for key in array.store.list() if key not in ("zarr.json", "info", "attributes.json"))
"""
KINDS = ["zarr3", "zarr3 shards", "n5", "precomputed", "precomputed shards"]
each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
def test_assigning_the_fill_value_removes_what_is_there(tmp_path: Path, kind: str) -> None:
    run(
        LIMITED
        + """
assert objects() >= 2
array[16:, 16:, 16:] = 0
values = array[corner]
assert not values[8:, 8:, 8:].any() and (values[:8] == 7).all() and (values[:, :, :8] == 7).all()
assert array[15999, 15999, 15999] == 0
steps = []
array.write(..., 0, progress=lambda *step: steps.append(step))
assert steps[-1] == (10**9, 10**9)
assert objects() == 0 and not array[corner].any()
""",
        kind,
        tmp_path / "a",
    )


@each_kind
def test_any_other_value_is_written_some_chunks_at_a_time(tmp_path: Path, kind: str) -> None:
    out = run(
        LIMITED
        + """
class Enough(Exception):
    pass
def stop(done, total):
    assert total == 10**9
    if done > 2000:
        raise Enough
try:
    array.write(..., 1, progress=stop)
except Enough:
    print("stopped")
""",
        kind,
        tmp_path / "a",
    )
    assert out == "stopped\n"


@each_kind
def test_verify_and_inspect_look_at_what_is_there(tmp_path: Path, kind: str) -> None:
    run(
        LIMITED
        + """
store = array.store
report = zvcore.verify(path)
assert report.ok, report
found = zvcore.inspect(path)
found = found["scales"][0] if "scales" in found else found
assert 2 <= found["objects"] == objects()
assert zvcore.compact(path) is not None
""",
        kind,
        tmp_path / "a",
    )


@pytest.mark.parametrize("kind", ["zarr3", "zarr3 shards", "n5"])
def test_a_huge_array_becomes_smaller_and_larger(tmp_path: Path, kind: str) -> None:
    run(
        LIMITED
        + """
array.resize((40, 16000, 16000))
array.resize((1 << 40, 16000, 16000))
left = array[corner]
assert (left[:32] == 7).all() and not left[40:].any()
assert array[15999, 15999, 15999] == 0
""",
        kind,
        tmp_path / "a",
    )


# --- windows


@st.composite
def selections(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], Any]:
    ndim = draw(st.integers(1, 3))
    chunk = tuple(draw(st.integers(1, 4)) for _ in range(ndim))
    per_shard = tuple(draw(st.integers(1, 4)) for _ in range(ndim))
    shape = tuple(draw(st.integers(1, 40)) for _ in range(ndim))
    key = []
    for bound in shape:
        first, stop = sorted((draw(st.integers(0, bound)), draw(st.integers(0, bound))))
        step = draw(st.sampled_from([1, 1, 2, 3, 7, 13, -1, -5]))
        key.append(slice(stop, first, step) if step < 0 else slice(first, stop, step))
    return shape, chunk, per_shard, tuple(key)


@given(selections(), st.integers(1, 60))
def test_windows_hold_each_chunk_once_and_whole_shards(given: Any, most: int) -> None:
    shape, chunk, per_shard, key = given
    selection = Selection.basic(key, shape)
    everything = selection.positions(chunk)
    counts = selection.chunk_counts(chunk)
    assert math.prod(counts) == len(everything)
    if len(everything) > most:
        assert selection.positions(chunk, most=most) is None
    windows = list(position_windows(selection, chunk, most))
    assert np.array_equal(np.concatenate(windows), everything)
    assert all(len(window) <= most for window in windows)
    shard_shape = tuple(n * m for n, m in zip(chunk, per_shard, strict=True))
    windows = list(position_windows(selection, chunk, most, shard_shape))
    together = np.concatenate(windows)
    assert np.array_equal(together[np.lexsort(together.T[::-1])], everything)
    shards = [{tuple(place) for place in (window // per_shard).tolist()} for window in windows]
    assert sum(map(len, shards)) == len(set().union(*shards))


@given(selections())
def test_what_is_touched_is_what_positions_names(given: Any) -> None:
    shape, chunk, _, key = given
    selection = Selection.basic(key, shape)
    grid = Selection.basic(..., shape).positions(chunk)
    assert np.array_equal(grid[selection.touched(grid, chunk)], selection.positions(chunk))


@given(selections(), st.sampled_from(["plain", "shards", "n5", "volume", "volume shards"]), st.data())
def test_clearing_by_the_list_of_objects_is_assigning(given: Any, kind: str, data: Any) -> None:
    shape, chunk, per_shard, key = given
    shards = tuple(n * m for n, m in zip(chunk, per_shard, strict=True))
    if kind.startswith("volume"):
        more = 3 - len(shape)
        shape, chunk, key = (*shape, *(5,) * more), (*chunk, *(2,) * more), (*key, *(slice(None),) * more)
        options = {"format": "precomputed", "shards": tuple(n * 2 for n in chunk) if kind.endswith("shards") else None}
    elif kind == "n5":
        options = {"format": "n5"}
    else:
        options = {"format": "zarr3", "shards": shards if kind == "shards" else None}
    array = zvcore.create(MemoryStore(), shape=shape, dtype="uint8", chunks=chunk, **options)
    expected = np.zeros(array.shape, "uint8")
    for number in range(data.draw(st.integers(0, 3))):
        part = tuple(slice(*sorted((data.draw(st.integers(0, n)), data.draw(st.integers(0, n))))) for n in shape)
        array[part] = expected[part] = number + 1
    before = writing.BATCH_CHUNKS
    writing.BATCH_CHUNKS = 0
    try:
        array[key] = 0
    finally:
        writing.BATCH_CHUNKS = before
    expected[key] = 0
    assert np.array_equal(array[...], expected)
