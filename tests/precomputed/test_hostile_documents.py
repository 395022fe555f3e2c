"""Whatever stands in a document of annotations, segment properties or legacy meshes: there is a report of it."""

from __future__ import annotations

import contextlib
import copy
import json
from typing import TYPE_CHECKING, Any

import pytest

import zvcore
from tests.examples import SHARE, some
from tests.precomputed import test_other_kinds as kinds
from zvcore.errors import ZvcoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOSTILE: list[Any] = [
    None, True, -1, 0, 2**64, 10**400, 1e308, float("nan"), "", "..", "a/../../b", "\0", "\ud800", "x" * 300, [], {},
    [[]], [None], {"": None}, [2**70] * 3,
]  # fmt: skip


def changed(document: Any) -> Iterator[Any]:
    """The document with each of its values replaced by each of the hostile ones, and without it."""
    if isinstance(document, dict | list):
        for key in list(document) if isinstance(document, dict) else range(len(document)):
            for value in HOSTILE:
                other = copy.copy(document)
                other[key] = value
                yield other
            other = copy.copy(document)
            del other[key]
            yield other
            for inner in changed(document[key]):
                other = copy.copy(document)
                other[key] = inner
                yield other


@pytest.mark.parametrize("name", ["annotations", "sharded annotations", "segment properties", "legacy meshes"])
def test_only_errors_of_ours_come_out(name: str, tmp_path: Path) -> None:
    path = kinds.MAKERS[name][0](tmp_path / "data")
    file = path / ("7:0" if name == "legacy meshes" else "info")
    tried = 0
    for document in some(changed(json.loads(file.read_text()))):
        file.write_text(json.dumps(document))
        tried += 1
        for fast in (True, False):
            report = zvcore.verify(path, fast, format="precomputed")
            assert report.problems or report.ok
        for look in (zvcore.inspect, zvcore.open):
            with contextlib.suppress(ZvcoreError):
                look(path, format="precomputed")
    assert tried > 60 // SHARE


def test_a_fast_look_at_objects_in_files_decodes_none(tmp_path: Path) -> None:
    from tests.precomputed.test_skeletons_and_meshes import ATTRIBUTES, manifest, skeleton
    from zvcore.precomputed import write_mesh_fragments, write_skeletons

    write_skeletons(tmp_path / "s", {id: skeleton(id) for id in range(5)}, vertex_attributes=ATTRIBUTES)
    write_mesh_fragments(tmp_path / "m", [(id, *manifest([2], id)) for id in range(5)])
    (tmp_path / "s" / "3").write_bytes(b"broken")
    (tmp_path / "m" / "3").write_bytes(b"")
    (tmp_path / "m" / "4.index").write_bytes(b"broken")
    assert zvcore.verify(tmp_path / "s", fast=True).counts["values"] == 5
    assert zvcore.verify(tmp_path / "s", fast=True).ok
    assert [problem.where for problem in zvcore.verify(tmp_path / "m", fast=True).problems] == ["4.index"]
    assert [problem.where for problem in zvcore.verify(tmp_path / "m").problems] == ["3", "4.index"]
    repaired = zvcore.repair(tmp_path / "m", tmp_path / "copy")
    assert {loss.where for loss in repaired.losses} == {"3", "3.index", "4", "4.index"}
    assert zvcore.verify(tmp_path / "copy").ok
