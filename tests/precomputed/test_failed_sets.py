"""A set of meshes or skeletons that is not written to its end leaves no files, and keeps those that were there."""

from __future__ import annotations

import gzip
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


@pytest.mark.parametrize("kind", KINDS)
def test_what_fails_takes_away_nothing_that_was_there_packed(tmp_path: Path, kind: str) -> None:
    """CloudVolume packs files."""
    first = {1: SKELETON} if kind == "skeletons" else {1: (VERTICES, FACES)}
    write(tmp_path / "m", kind, first, sharding=None)
    names = [path.name for path in (tmp_path / "m").iterdir() if path.name != "info"]
    for name in names:
        path = tmp_path / "m" / name
        path.with_name(f"{name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    with pytest.raises(RuntimeError, match="no more"):
        write(tmp_path / "m", kind, items(kind, 3), sharding=None, overwrite=True)
    assert {path.name for path in (tmp_path / "m").iterdir()} == {"info", *(f"{name}.gz" for name in names)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("document", [None, "{", '{"sharding": 5}'])
def test_what_fails_takes_away_nothing_whose_document_is_lost(tmp_path: Path, kind: str, document: str | None) -> None:
    first = {1: SKELETON} if kind == "skeletons" else {1: (VERTICES, FACES)}
    write(tmp_path / "m", kind, first, sharding=None)
    before = {path.name for path in (tmp_path / "m").iterdir() if path.name != "info"}
    (tmp_path / "m/info").unlink()
    if document is not None:
        (tmp_path / "m/info").write_text(document)
    with pytest.raises(RuntimeError, match="no more"):
        write(tmp_path / "m", kind, items(kind, 3), sharding=None, overwrite=True)
    assert {path.name for path in (tmp_path / "m").iterdir()} - {"info"} == before
