"""What a few stored bytes claim to be takes no memory: everything here runs with little address space."""

from __future__ import annotations

import gzip
import json
import os
import struct
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

import zvcore
from tests.processes import run_within

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="address space is counted as Linux does")

MEMORY = 400 << 20


def strings(folder: Path, payload: bytes, items: int = 64) -> None:
    folder.mkdir()
    compression = {"type": "gzip"}
    document = {"dimensions": [items], "blockSize": [items], "dataType": "string", "compression": compression}
    (folder / "attributes.json").write_text(json.dumps(document))
    (folder / "0").write_bytes(struct.pack(">HHII", 1, 1, items, len(payload)) + gzip.compress(payload))


def test_strings_are_counted_before_they_are_made(tmp_path: Path) -> None:
    strings(tmp_path / "empty", bytes(32 << 20))
    strings(tmp_path / "filled", b"ab\0" * (8 << 20))
    run_within(
        MEMORY,
        """
        import sys
        array = zvcore.open(sys.argv[1] + "/empty")
        assert array.read_block(0).data == [""] * 64
        assert zvcore.verify(sys.argv[1] + "/empty", threads=1).ok
        [problem] = zvcore.verify(sys.argv[1] + "/filled", threads=1).problems
        assert "more strings than can be" in problem.what, problem
        """,
        tmp_path,
    )


def test_a_block_may_have_more_strings_than_items_and_no_more_than_readers_take(tmp_path: Path) -> None:
    texts = zvcore.create(tmp_path / "s", format="n5", shape=(4,), dtype="string", chunks=(2,), codec="gzip")
    words = ["one", "two", "", "four", ""]
    texts.write_block(0, words)
    assert texts.read_block(0).data == words
    with pytest.raises(zvcore.errors.MetadataError, match="more strings than readers take"):
        texts.write_block(1, [""] * 1_000_000)
    assert texts.read_block(1) is None


def minishards(folder: Path, indices: list[bytes], shared: bool = False) -> None:
    """A shard of minishards with these indices; `shared`: all of them have the first."""
    folder.mkdir()
    entries, at = [], 0
    for index in indices:
        entries += [at, at + len(index)]
        at += 0 if shared else len(index)
    data = indices[0] if shared else b"".join(indices)
    (folder / "0.shard").write_bytes(struct.pack(f"<{len(entries)}Q", *entries) + data)


LOOK = """
import sys
from zvcore.precomputed import ShardedStore, ShardingSpec, repair, verify
spec = ShardingSpec(0, "identity", int(sys.argv[2]), 0, "gzip", "gzip")
store = ShardedStore(sys.argv[1], spec)
for use in (lambda: store.get(6), lambda: store.get_many(range(1000)), store.ids):
    try:
        use()
    except zvcore.errors.CorruptDataError as error:
        pass
    else:
        assert use() is None, "nothing was said"
for fast in (True, False):
    report = verify(sys.argv[1], spec=spec, fast=fast, threads=1)
    assert report.status == "damaged", report
    assert any(problem.kind == "index" for problem in report.problems)
repair(sys.argv[1], sys.argv[1] + ".copy", spec=spec, threads=1)
"""


def test_the_index_of_a_minishard_has_no_more_entries_than_its_file_can_have_values(tmp_path: Path) -> None:
    minishards(tmp_path / "one", [gzip.compress(bytes(24 << 23))])
    run_within(MEMORY, LOOK, tmp_path / "one", 0)


def test_neither_have_all_minishards_of_a_file_together(tmp_path: Path) -> None:
    index = gzip.compress(struct.pack("<Q", 1) * (1 << 19) + bytes(16 << 19))
    minishards(tmp_path / "many", [index] * 64)
    run_within(MEMORY, LOOK, tmp_path / "many", 6)
    minishards(tmp_path / "shared", [index] * 64, shared=True)
    run_within(MEMORY, LOOK, tmp_path / "shared", 6)


def test_a_shard_index_of_many_megabytes_is_read_in_pieces(tmp_path: Path) -> None:
    """A file that is mostly a hole, as long as its specification wants it."""
    folder = tmp_path / "holes"
    folder.mkdir()
    with open(folder / "0.shard", "wb") as file:
        file.truncate(16 << 24)
    run_within(
        100 << 20,
        """
        import sys
        from zvcore.precomputed import ShardedStore, ShardingSpec, verify
        spec = ShardingSpec(0, "identity", 24, 0, "gzip", "gzip")
        assert verify(sys.argv[1], spec=spec, fast=True, threads=1).ok
        assert ShardedStore(sys.argv[1], spec).get(5) is None
        assert not len(ShardedStore(sys.argv[1], spec).ids())
        """,
        folder,
    )


def test_an_index_of_a_zarr_shard_is_no_larger_than_its_file(tmp_path: Path) -> None:
    inner = [{"name": "bytes", "configuration": {"endian": "little"}}]
    plain = [*inner, {"name": "crc32c"}]
    for name, codecs in (("plain", inner), ("zipped", [*inner, {"name": "gzip", "configuration": {"level": 1}}])):
        sharding = {"chunk_shape": [1, 1], "codecs": codecs, "index_codecs": plain}
        document = {
            "zarr_format": 3, "node_type": "array", "shape": [1 << 17, 1 << 17], "data_type": "uint8", "fill_value": 0,
            "attributes": {}, "chunk_key_encoding": {"name": "default"},
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1 << 15, 1 << 15]}},
            "codecs": [{"name": "sharding_indexed", "configuration": sharding}],
        }  # fmt: skip
        (tmp_path / name / "c/0").mkdir(parents=True)
        (tmp_path / name / "zarr.json").write_text(json.dumps(document))
        (tmp_path / name / "c/0/0").write_bytes(bytes(5000))
    run_within(
        MEMORY,
        """
        import sys
        for name in ("plain", "zipped"):
            array = zvcore.open(f"{sys.argv[1]}/{name}")
            try:
                array[0, 0]
            except zvcore.errors.CorruptDataError:
                pass
            else:
                raise AssertionError("nothing was said")
            for fast in (True, False):
                assert zvcore.verify(array.store, fast=fast, threads=1).status == "damaged"
        """,
        tmp_path,
    )


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "precomputed"])
def test_a_file_that_is_far_too_large_for_its_chunk_is_not_read(tmp_path: Path, format: str) -> None:
    array = zvcore.create(tmp_path / "a", format=format, shape=(8, 8, 8), dtype="u1", chunks=(4, 4, 4))
    array[...] = np.random.default_rng(0).integers(0, 255, array.shape, dtype="u1")
    (chunk, *_) = sorted(path for path in (tmp_path / "a").rglob("*0*") if path.is_file())
    os.truncate(chunk, 64 << 20)
    (problem,) = zvcore.verify(tmp_path / "a").problems
    assert "larger than its chunk can be" in problem.what and problem.found == str(64 << 20)
