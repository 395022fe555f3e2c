"""A set of meshes or skeletons that is not written to its end leaves no files, and keeps those that were there."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from zvcore.precomputed import Skeleton, write_meshes, write_skeletons

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VERTICES = np.eye(4, 3, dtype="f4") * 100
FACES = np.array([[0, 1, 2], [0, 2, 3], [0, 3, 1], [1, 3, 2]], "u4")
SKELETON = Skeleton(VERTICES, np.array([[0, 1]], "u4"))
needs_draco = pytest.mark.skipif(find_spec("DracoPy") is None, reason="needs zvcore[draco]")


def items(kind: str, count: int) -> Iterator[Any]:
    """So many of them, and then an error."""
    for id in range(1, count + 1):
        yield (id, SKELETON) if kind == "skeletons" else (id, VERTICES, FACES)
    raise RuntimeError("no more")


def write(path: Path, kind: str, source: Any, **options: Any) -> int:
    if kind == "skeletons":
        return write_skeletons(path, source, **options)
    return write_meshes(path, source, kind=kind, **options)


KINDS = [pytest.param("multires", marks=needs_draco), "legacy", "skeletons"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_fails_leaves_no_files(tmp_path: Path, kind: str) -> None:
    with pytest.raises(RuntimeError, match="no more"):
        write(tmp_path / "m", kind, items(kind, 3), sharding=None)
    assert not (tmp_path / "m").exists() or [*(tmp_path / "m").iterdir()] == []


@pytest.mark.parametrize("kind", KINDS)
def test_what_fails_keeps_the_set_that_was_there(tmp_path: Path, kind: str) -> None:
    first = {77: SKELETON} if kind == "skeletons" else {77: (VERTICES, FACES)}
    write(tmp_path / "m", kind, first, sharding=None)
    before = {path.name: path.read_bytes() for path in (tmp_path / "m").iterdir()}
    with pytest.raises(RuntimeError, match="no more"):
        write(tmp_path / "m", kind, items(kind, 3), sharding=None, overwrite=True)
    assert {path.name: path.read_bytes() for path in (tmp_path / "m").iterdir()} == before
