"""Every promise of the format, broken once, is found and named."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
import zvcore.zvf as zvf

from .test_reading import first_cell, rewrite_manifests

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def edit(path: Path, change: Callable[[dict], Any]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def root(**values: Any) -> Callable[[Path], None]:
    return lambda store: edit(store / "zarr.json", lambda d: d["attributes"]["zarr_vectors"].update(values))


def level(**values: Any) -> Callable[[Path], None]:
    return lambda store: edit(store / "0/zarr.json", lambda d: d["attributes"]["zarr_vectors_level"].update(values))


def index(**values: Any) -> Callable[[Path], None]:
    return lambda store: edit(store / "0/object_index/zarr.json", lambda d: d["attributes"].update(values))


def manifest(row: int, blocks: list) -> Callable[[Path], None]:
    return lambda store: rewrite_manifests(store, {row: zvf.encode_manifest(blocks, 3)})


def blob(row: int, data: bytes) -> Callable[[Path], None]:
    return lambda store: rewrite_manifests(store, {row: data})


def fragments(pieces: list) -> Callable[[Path], None]:
    def change(store: Path) -> None:
        raw = zvf.encode_fragments(pieces)
        first_cell(store, "vertex_fragments").write_bytes(
            (1).to_bytes(4, "little") + len(raw).to_bytes(4, "little") + raw
        )

    return change


def drop(array: str) -> Callable[[Path], None]:
    return lambda store: first_cell(store, array).unlink()


def cut(array: str) -> Callable[[Path], None]:
    def change(store: Path) -> None:
        cell = first_cell(store, array)
        cell.write_bytes(cell.read_bytes()[:-1])

    return change


def forget(store: Path) -> None:
    edit(store / "0/vertices/zarr.json", lambda d: d["attributes"]["nonempty_chunks"].pop())


def twice(store: Path) -> None:
    first = zvf.open(store).level(0).manifest(0)
    rewrite_manifests(store, {5: zvf.encode_manifest(first, 3)})


def family(**values: Any) -> Callable[[Path], None]:
    return lambda store: edit(store / "0/links/0/zarr.json", lambda d: d["attributes"].update(values))


def legacy_beside(store: Path) -> None:
    (store / "0/object_index/data").mkdir()


BROKEN: list[tuple[Callable[[Path], None], int, str, str]] = [
    (lambda store: (store / "0/vertices/zarr.json").unlink(), 1, "0", "vertices"),
    (lambda store: (store / "0/zarr.json").unlink(), 1, "", "resolution levels"),
    (lambda store: (store / "0/object_index/zarr.json").unlink(), 1, "0/object_index", "needs an object index"),
    (legacy_beside, 1, "0/object_index", "both there"),
    (index(layout="no_such"), 1, "0/object_index/zarr.json", "no_such"),
    (index(sid_ndim=None), 1, "0/object_index/zarr.json", "sid_ndim"),
    (index(num_objects=-1), 1, "0/object_index/zarr.json", "num_objects"),
    (root(chunk_shape=[0, 1, 1]), 1, "zarr.json", "chunk_shape"),
    (root(bounds=[[0, 0], [1, 1]]), 2, "zarr.json", "bounds"),
    (root(bounds=[[5, 0, 0], [1, 1, 1]]), 2, "zarr.json", "lower bound"),
    (root(links_convention="odd"), 2, "zarr.json", "links_convention"),
    (root(cross_chunk_strategy="odd"), 2, "zarr.json", "cross_chunk_strategy"),
    (root(base_bin_shape=[3, 5, 5]), 2, "zarr.json", "base_bin_shape divides"),
    (level(vertex_count=-1), 2, "0", "vertex_count"),
    (level(chunk_shape=[15, 10, 10]), 2, "0", "whole multiple"),
    (level(object_sparsity=0), 2, "0", "object_sparsity"),
    (level(bin_ratio=[0, 1, 1]), 2, "0", "bin_ratio"),
    (index(num_objects=39), 2, "0/object_index", "for each of num_objects"),
    (index(sid_ndim=4), 2, "0/object_index", "rank of the chunk grid"),
    (level(vertex_count=5), 3, "0", "vertex_count is 5"),
    (index(num_present=1), 3, "0/object_index", "num_present"),
    (blob(4, b"\x01"), 3, "0/object_index/manifests", "too short"),
    (blob(4, b"\xff\0\0\0"), 3, "0/object_index/manifests", "truncated"),
    (blob(4, bytes(5)), 3, "0/object_index/manifests", "trailing"),
    (manifest(4, [((50, 0, 0), 0)]), 3, "0/object_index", "chunk that does not exist"),
    (manifest(4, [((0, 0, 0), 10**6)]), 3, "0/object_index", "of a chunk that has"),
    (manifest(4, [((0, 0, 0), (0, 2**62))]), 3, "0/object_index", "of a chunk that has"),
    (manifest(4, [((0, 0, 0), (-1, 1))]), 3, "0/object_index", "negative"),
    (manifest(4, [((0, 0, 0), [10**6, 0])]), 3, "0/object_index", "of a chunk that has"),
    (twice, 3, "0/object_index", "another owner"),
    (fragments([(0, 10**6)]), 3, "0/vertex_fragments", "names rows"),
    (fragments([(2**63 - 1, 2**62)]), 3, "0/vertex_fragments", "names rows"),
    (fragments([np.array([10**6, 0])]), 3, "0/vertex_fragments", "names rows"),
    (fragments([(0, 0)]), 3, "0/vertex_fragments", "do not tile"),
    (drop("vertices"), 3, "0/vertices", "not stored"),
    (drop("vertex_fragments"), 3, "0/vertex_fragments", "without a fragment index"),
    (drop("vertex_attributes/colour"), 3, "0/vertex_attributes/colour", "not stored"),
    (cut("vertices"), 3, "0/vertices", "truncated"),
    (cut("vertex_fragments"), 3, "0/vertex_fragments", "truncated"),
    (cut("vertex_attributes/colour"), 3, "0/vertex_attributes/colour", "truncated"),
    (family(num_physical_records=3), 3, "0/links/0", "num_physical_records"),
    (family(link_width=3), 3, "0/links/0", "links"),
    (root(links_convention="explicit"), 4, "zarr.json", "links_convention"),
]


@pytest.mark.parametrize(("breaks", "at", "array", "text"), BROKEN, ids=range(len(BROKEN)))
def test_what_is_broken_is_found(store: Path, breaks: Callable[[Path], None], at: int, array: str, text: str) -> None:
    assert zvf.validate(store, level=5).ok
    breaks(store)
    result = zvf.validate(store, level=5)
    assert not result.ok
    assert not result
    assert "FAIL" in result.summary()
    assert any(text in error for error in result.errors), result.summary()
    assert any((error.array or "").startswith(array) for error in result.errors), result.summary()
    if at > 1:
        assert zvf.validate(store, level=at - 1).ok
    assert all(problem.where is not None and problem.what for problem in result.problems)


def test_findings_name_cell_and_object(store: Path) -> None:
    rewrite_manifests(store, {4: zvf.encode_manifest([((0, 0, 0), 10**6)], 3)})
    found = [error for error in zvf.validate(store).errors if error.object_id is not None]
    assert [(error.array, error.cell, error.object_id) for error in found] == [("0/object_index", (0, 0, 0), 4)]
    assert "chunk (0, 0, 0), object 4" in str(found[0])


def test_warnings_are_no_failures(store: Path) -> None:
    forget(store)
    result = zvf.validate(store)
    assert result.ok
    assert len(result.warnings) == 1
    assert "forgotten" in result.warnings[0]
    assert result.warnings[0].array == "0/vertices"
    assert result.warnings[0].cell is not None


def test_what_is_no_store(tmp_path: Path) -> None:
    result = zvf.validate(tmp_path)
    assert not result.ok
    assert result.errors
    for bad in (0, 6, True):
        with pytest.raises(ValueError):
            zvf.validate(tmp_path, level=bad)


def test_pyramids(store: Path) -> None:
    zvf.write_coarser_level(store, every=2)
    assert zvf.validate(store, level=5).ok
    edit(store / "1/zarr.json", lambda d: d["attributes"]["zarr_vectors_level"].update(parent_level=1))
    assert any("parent_level" in error for error in zvf.validate(store, level=5).errors)
    (store / "1").rename(store / "3")
    assert any("without gaps" in error for error in zvf.validate(store, level=5).errors)


def test_progress(store: Path) -> None:
    calls: list[tuple[int, int]] = []
    zvf.validate(store, progress=lambda *call: calls.append(call))
    assert calls
    assert calls[-1][0] == calls[-1][1]


def test_a_level_whose_document_cannot_be_read_is_a_finding(store: Path) -> None:
    (store / "0/zarr.json").write_text("{")
    result = zvf.validate(store)
    assert [error.array for error in result.errors] == ["0/zarr.json"]
    assert "not JSON" in result.errors[0].message
    assert not zvcore.verify(store).ok
