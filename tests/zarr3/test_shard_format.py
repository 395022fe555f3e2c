"""How shards are put together, and that no shard costs what its metadata claim."""

from __future__ import annotations

import json
import tracemalloc
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest

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
