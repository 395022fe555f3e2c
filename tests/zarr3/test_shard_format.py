"""How shards are put together, and that no shard costs what its metadata claim."""

from __future__ import annotations

import json
import tracemalloc
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import zvcore
from zvcore.zarr3.shard_format import ShardAssembler, cell_order
from zvcore.zarr3.shard_index import MISSING, Index, ShardIndexForm

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("location", ["start", "end"])
def test_a_shard_is_its_chunks_and_its_index(location: Literal["start", "end"]) -> None:
    form = ShardIndexForm((2, 2), location=location)
    assembler = ShardAssembler(form)
    assert assembler.empty
    first = assembler.add(np.array([3, 0]), np.array([2, MISSING], np.uint64))
    second = assembler.add(np.array([1]), [3])
    raw = b"".join(assembler.finish([b"ab", b"cde"]))
    assert raw[first : first + 2] == b"ab" and raw[second : second + 3] == b"cde"
    assert len(raw) == 5 + form.size and assembler.live == 5
    begin = form.begins(len(raw))
    offsets, lengths = form.parse(raw[begin : begin + form.size], len(raw))
    assert bytes(form.within(memoryview(raw))) == raw[begin : begin + form.size]
    assert lengths.tolist() == [MISSING, 3, MISSING, 2]
    assert offsets.tolist() == [MISSING, second, MISSING, first]


def test_what_is_added_after_a_shard_leaves_its_bytes_alone() -> None:
    form = ShardIndexForm((3,))
    old = ShardAssembler(form)
    old.add(np.array([0, 1]), [1, 2])
    raw = b"".join(old.finish([b"a", b"bc"]))
    index = Index(*form.parse(raw[-form.size :], len(raw)), None, len(raw))
    longer = ShardAssembler(form, index)
    longer.add(np.array([1, 0, 2]), np.array([4, MISSING, 1], np.uint64))
    raw += b"".join(longer.finish([b"BCDE", b"f"]))
    offsets, lengths = form.parse(raw[-form.size :], len(raw))
    assert [raw[o : o + n] for o, n in zip(offsets.tolist(), lengths.tolist(), strict=True) if n != MISSING] == [
        b"BCDE",
        b"f",
    ]
    assert lengths[0] == MISSING


@given(st.data())
def test_a_shard_that_is_rewritten_has_the_old_chunks_and_the_new_ones(data: st.DataObject) -> None:
    location: Any = data.draw(st.sampled_from(["start", "end"]))
    count = data.draw(st.integers(1, 12))
    form = ShardIndexForm((count,), location=location)
    contents = st.none() | st.binary(max_size=3)
    chunks = data.draw(st.lists(contents, min_size=count, max_size=count))
    # The old shard's chunks lie in any order, as another writer may have left them.
    there = [place for place in data.draw(st.permutations(range(count))) if chunks[place] is not None]
    old = ShardAssembler(form)
    old.add(np.array(there, np.int64), np.array([len(chunks[place] or b"") for place in there], np.uint64))
    raw = b"".join(old.finish([chunks[place] for place in there]))
    index = Index(*form.parse(form.within(memoryview(raw)), len(raw)), None, len(raw))

    changes = data.draw(st.dictionaries(st.integers(0, count - 1), contents))
    new = [*changes.values()]
    sizes = np.array([MISSING if chunk is None else len(chunk) for chunk in new], np.uint64)
    order = cell_order((count,), "C")[:: data.draw(st.sampled_from([1, -1]))].copy()
    shard = ShardAssembler(form, index)
    runs, rows = shard.rewrite(order, np.array([*changes], np.int64), sizes)
    pieces: list[Any] = []
    for first, stop, size in runs:
        pieces += [raw[stop : stop + size]] if first < 0 else [new[row] for row in rows[first:stop]]
    found = b"".join(shard.finish(pieces))
    # New chunks that follow each other are one run.
    assert all(before < 0 or after < 0 for (before, *_), (after, *_) in pairwise(runs))

    offsets, lengths = form.parse(form.within(memoryview(found)), len(found))
    expected = [changes.get(place, chunk) for place, chunk in enumerate(chunks)]
    assert [
        None if size == MISSING else found[at : at + size]
        for at, size in zip(offsets.tolist(), lengths.tolist(), strict=True)
    ] == expected
    assert len(found) == form.size + sum(len(chunk or b"") for chunk in expected)
    assert [place for place in order.tolist() if expected[place] is not None] == sorted(
        (place for place in range(count) if expected[place] is not None),
        key=lambda place: (offsets[place], order.tolist().index(place)),
    )


def test_old_chunks_that_stay_together_are_one_run() -> None:
    form = ShardIndexForm((8,))
    old = ShardAssembler(form)
    old.add(np.arange(8), np.full(8, 10, np.uint64))
    index = Index(old.offsets, old.lengths, None, old.end + form.size)
    runs, rows = ShardAssembler(form, index).rewrite(np.arange(8), np.array([3]), np.array([7], np.uint64))
    assert (runs, rows) == ([(-1, 0, 30), (0, 1, 0), (-1, 40, 40)], [0])


def test_places_beyond_the_index_are_refused() -> None:
    for places, order in (([8], np.arange(8)), ([-1], np.arange(8)), ([0], np.arange(1, 9)), ([0], np.arange(7))):
        shard = ShardAssembler(ShardIndexForm((8,)))
        with pytest.raises((IndexError, ValueError)):
            shard.rewrite(order, np.array(places), np.array([7], np.uint64))


@pytest.mark.parametrize("cells", [(), (1,), (5,), (2, 3), (4, 1, 3)])
@pytest.mark.parametrize("order", ["C", "F", "morton"])
def test_every_order_has_every_cell_once(cells: tuple[int, ...], order: Any) -> None:
    found = cell_order(cells, order)
    assert sorted(found.tolist()) == list(range(int(np.prod(cells))))


def test_shards_within_shards_are_measured_before_anything_is_made_of_their_claims(tmp_path: Path) -> None:
    """A file of a kilobyte, and metadata that speak of 32 million chunks in it."""
    little, checksum = {"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}

    def shards(shape: list[int], codecs: list[Any]) -> list[Any]:
        configuration = {"chunk_shape": shape, "codecs": codecs, "index_codecs": [little, checksum]}
        return [{"name": "sharding_indexed", "configuration": configuration}]

    document = {
        "zarr_format": 3, "node_type": "array", "shape": [16, 16], "data_type": "uint16", "fill_value": 0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [16, 16_000_000]}},
        "chunk_key_encoding": {"name": "default"}, "codecs": shards([8, 8], shards([4, 4], [little])),
    }  # fmt: skip
    (tmp_path / "c/0").mkdir(parents=True)
    (tmp_path / "zarr.json").write_text(json.dumps(document))
    (tmp_path / "c/0/0").write_bytes(bytes(1284))
    tracemalloc.start()
    report = zvcore.verify(tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "too small for its index" in str(report.problems[0])
    assert peak < 16 << 20
