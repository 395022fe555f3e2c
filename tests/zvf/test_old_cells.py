"""Cells as stores before 0.9 have them: an array of bytes for each chunk, alone or packed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import zvcore
from tests.zvf.test_documents_that_lie import group
from zvcore.stores import open_store
from zvcore.zvf.cells import SubArrayCells, open_cells

if TYPE_CHECKING:
    from pathlib import Path

    from zvcore.stores import Store

COORDS = np.array([[0, 0, 0], [0, -1, 0], [5, 5, 5], [1, 0, 0], [0, 0, 0], [2, 0, 0], [1, 1, 1]])


def cell(number: int) -> np.ndarray:
    return np.arange(number, 3 * number + 2, dtype=np.uint8)


def old_cells(folder: Path) -> None:
    """Three chunks with arrays of their own, two packed into one."""
    group(folder)
    for number, name in enumerate(["0.0.0", "0.-1.0", "1.1.1"]):
        zvcore.create(folder / name, format="zarr3", data=cell(number), chunks=(99,), codec=None)
    packed = np.concatenate([cell(7), cell(8)])
    index = {"1.0.0": [0, len(cell(7))], "2.0.0": [len(cell(7)), len(cell(8))]}
    zvcore.create(
        folder / "__shard_0", format="zarr3", data=packed, chunks=(99,), codec=None, attrs={"shard_index": index}
    )


def check(store: Store) -> None:
    cells = open_cells(store, "vertices", 3)
    assert isinstance(cells, SubArrayCells)
    found = cells.read(COORDS)
    assert found.absent.tolist() == [False, False, True, False, False, False, False]
    for place, number in ((0, 0), (1, 1), (3, 7), (4, 0), (5, 8), (6, 2)):
        assert bytes(found[place]) == cell(number).tobytes()
    assert len(cells.read(COORDS[:0])) == 0


def test_cells_before_0_9(tmp_path: Path) -> None:
    old_cells(tmp_path / "vertices")
    store = open_store(tmp_path)
    check(store)
    stored = open_cells(store, "vertices", 3).stored()
    assert stored.tolist() == [[0, -1, 0], [0, 0, 0], [1, 0, 0], [1, 1, 1], [2, 0, 0]]
