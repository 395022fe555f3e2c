"""Meshes and skeletons made by several processes that know nothing of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import zvcore
from tests.convert.test_parts import same
from tests.forging.segments import BOX, balls, volume
from tests.processes import finish, start
from zvcore.commands import cli
from zvcore.errors import ConflictError

if TYPE_CHECKING:
    from pathlib import Path

PART = """
import sys
import zvcore
made = getattr(zvcore, sys.argv[1])(sys.argv[2], sys.argv[3], threads=1, dust=0, box=(16, 15, 14), part=sys.argv[4])
print(made.waiting)
"""


@pytest.mark.parametrize("what", ["mesh", "skeletonize"])
def test_processes_at_once_make_the_bytes_of_one(tmp_path: Path, what: str) -> None:
    seg = volume(tmp_path / "seg", balls())
    make: Any = getattr(zvcore, what)
    make(seg, tmp_path / "one", threads=1, dust=0, box=BOX)
    running = [start(PART, what, seg, tmp_path / "parts", f"{number}/3") for number in (1, 2, 3)]
    assert "None" in [finish(process).strip() for process in running]
    assert same(tmp_path / "one", tmp_path / "parts")


def test_the_last_part_joins_and_a_missing_one_is_named(tmp_path: Path) -> None:
    seg = volume(tmp_path / "seg", balls())
    options: dict[str, Any] = {"threads": 1, "box": BOX}
    first = zvcore.mesh(seg, tmp_path / "parts", part=(3, 3), **options)
    assert first.waiting == "of 3 parts these are missing: 1-2/3" and not first.objects
    assert "of 3 parts these are missing: 1-2/3" in str(zvcore.verify(tmp_path / "parts"))
    with pytest.raises(ConflictError, match="missing: 1-2/3"):
        zvcore.mesh(seg, tmp_path / "parts", finish=True, **options)
    command = ["mesh", str(seg), str(tmp_path / "parts"), "--box", "16,15,14", "--threads", "1", "-q"]
    assert cli.main([*command, "--part", "1/3"]) == 0
    last = zvcore.mesh(seg, tmp_path / "parts", part="2/3", **options)
    assert last.waiting is None and last.objects == 3
    assert zvcore.mesh(seg, tmp_path / "parts", part="1/3", **options).already_finished
    assert zvcore.verify(tmp_path / "parts").ok


def test_meshes_in_parts_are_named_by_the_volume_when_the_last_is_done(tmp_path: Path) -> None:
    seg = volume(tmp_path / "seg", balls())
    for number in (2, 1):
        assert "mesh" not in zvcore.open(seg).info
        zvcore.mesh(seg, threads=1, box=BOX, part=(number, 2))
    assert list(zvcore.open(seg).meshes()) == [3, 7, 2**64 - 1]
