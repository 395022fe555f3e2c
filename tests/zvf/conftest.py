"""Small stores to read, shard, damage and validate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import zvcore.zvf as zvf

if TYPE_CHECKING:
    from pathlib import Path

LINES = 40


@pytest.fixture(scope="session")
def lines() -> list[np.ndarray]:
    """Random walks through negative and positive coordinates, one of them of a single vertex."""
    rng = np.random.default_rng(5)
    found = [np.cumsum(rng.normal(size=(length, 3)), 0).astype("f4") * 3 for length in rng.integers(2, 40, LINES - 1)]
    return [*found, np.full((1, 3), -4, "f4")]


@pytest.fixture(scope="session")
def colours(lines: list[np.ndarray]) -> list[np.ndarray]:
    return [np.arange(3 * len(line), dtype="f4").reshape(-1, 3) + number for number, line in enumerate(lines)]


@pytest.fixture
def store(tmp_path: Path, lines: list[np.ndarray], colours: list[np.ndarray]) -> Path:
    """Lines with attributes and groups."""
    path = tmp_path / "lines.zarrvectors"
    zvf.write_polylines(
        path,
        lines,
        chunk_shape=(10, 10, 10),
        vertex_attributes={"colour": colours},
        object_attributes={"length": np.array([len(line) for line in lines])},
        groups={0: [0, 1], 2: [3]},
    )
    return path


@pytest.fixture
def points(tmp_path: Path) -> tuple[Path, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(6)
    positions = (rng.random((400, 3)) * 40 - 20).astype("f4")
    ids = rng.integers(0, 30, 400) * 7 + 2
    path = tmp_path / "points.zarrvectors"
    names = np.array(["a", "bb", "ccc"])[rng.integers(0, 3, 400)]
    zvf.write_points(path, positions, chunk_shape=(10, 10, 10), object_ids=ids, vertex_attributes={"gene": names})
    return path, positions, ids
