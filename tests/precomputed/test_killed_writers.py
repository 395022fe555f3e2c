"""Sets whose writer was killed before it wrote their document, the last of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore import precomputed
from zvcore.errors import ConflictError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VERTICES = np.array([[0, 0, 0], [9, 0, 0], [0, 9, 0], [0, 0, 9]], np.float32)
FACES = np.array([[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]], np.uint32)


def legacy(path: Path, ids: list[int], **options: Any) -> None:
    precomputed.write_meshes(path, dict.fromkeys(ids, (VERTICES, FACES)), kind="legacy", **options)


def meshes(path: Path, ids: list[int], **options: Any) -> None:
    precomputed.write_meshes(path, dict.fromkeys(ids, (VERTICES, FACES)), sharding=None, **options)


def skeletons(path: Path, ids: list[int], **options: Any) -> None:
    skeleton = precomputed.Skeleton(VERTICES, np.array([[0, 1], [1, 2]], np.uint32))
    precomputed.write_skeletons(path, dict.fromkeys(ids, skeleton), sharding=None, **options)


@pytest.mark.parametrize("write", [legacy, meshes, skeletons])
def test_what_is_left_does_not_become_part_of_the_next_set(write: Callable[..., None], tmp_path: Path) -> None:
    write(tmp_path / "set", [1, 2])
    (tmp_path / "set" / "info").unlink()
    with pytest.raises(ConflictError, match=r"and no info, .* overwrite=True replaces them"):
        write(tmp_path / "set", [3])
    write(tmp_path / "set", [3], overwrite=True)
    assert [*zvcore.open(tmp_path / "set")] == [3]


def annotations(path: Path) -> None:
    precomputed.write_annotations(path, "point", {"point": VERTICES}, dimensions=dict.fromkeys("xyz", (1e-09, "m")))


def shards(path: Path) -> None:
    precomputed.write_meshes(path, {1: (VERTICES, FACES)})


@pytest.mark.parametrize(
    ("write", "what"),
    [(annotations, "annotations"), (shards, "meshes, skeletons"), (lambda path: legacy(path, [1]), "legacy meshes")],
)
def test_what_was_not_finished_is_told_as_that(write: Callable[[Path], None], what: str, tmp_path: Path) -> None:
    write(tmp_path / "set")
    (tmp_path / "set" / "info").unlink()
    told = rf"these may be {what}.* of a writer that was killed: .* overwrite=True"
    for function in (zvcore.open, zvcore.repair):
        with pytest.raises(UnsupportedError, match=told):
            function(tmp_path / "set")
    report = zvcore.verify(tmp_path / "set")
    assert report.status == "damaged" and "of a writer that was killed" in str(report.problems)
