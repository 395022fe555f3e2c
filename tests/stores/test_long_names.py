"""Files and folders that come to their names when they are complete may have names as long as any."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import zvcore
from zvcore.stores.plain_files import complete_file, complete_folder

if TYPE_CHECKING:
    from pathlib import Path

LONGEST = ["a" * 255, "é" * 127, "x" * 230 + ".tar.json", "名" * 85]


@pytest.mark.parametrize("name", LONGEST, ids=len)
def test_a_file_has_the_longest_name_that_there_can_be(tmp_path: Path, name: str) -> None:
    with complete_file(tmp_path / name) as partial:
        assert os.path.dirname(partial) == str(tmp_path) and partial.isprintable()
        with open(partial, "w") as file:
            file.write("whole")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "whole"


@pytest.mark.parametrize("name", LONGEST, ids=len)
def test_a_folder_has_the_longest_name_that_there_can_be(tmp_path: Path, name: str) -> None:
    with complete_folder(tmp_path / name) as partial, open(os.path.join(partial, "a"), "w") as file:
        file.write("whole")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name / "a").read_text() == "whole"


def test_long_names_that_begin_alike_are_written_at_once(tmp_path: Path) -> None:
    names = ["a" * 254 + end for end in "bcd"]
    with complete_file(tmp_path / names[0]) as one, complete_file(tmp_path / names[1]) as other:
        assert one != other
        for partial in (one, other):
            with open(partial, "w") as file:
                file.write(partial)
    assert (tmp_path / names[0]).read_text() == one and (tmp_path / names[1]).read_text() == other


def test_a_name_that_is_too_long_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="too long"), complete_file(tmp_path / ("a" * 256)) as partial:
        with open(partial, "w") as file:
            file.write("whole")
    assert [*tmp_path.iterdir()] == []


def test_references_of_a_long_name(tmp_path: Path) -> None:
    zvcore.create(tmp_path / "a", format="zarr3", shape=(4,), dtype="u1", chunks=(2,), codec=None)[...] = 1
    target = tmp_path / ("r" * 250 + ".json")
    zvcore.write_references(tmp_path / "a", target)
    assert target.stat().st_size > 0
