"""All folders below one, however deep they lie."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from zvcore.system.walking import walk

if TYPE_CHECKING:
    from pathlib import Path


def test_folders_names_and_links_are_those_of_os_walk(tmp_path: Path) -> None:
    for folder in ("a/b/c", "a/d", "e"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "file").touch()
    (tmp_path / "to a").symlink_to(tmp_path / "a")
    (tmp_path / "to nothing").symlink_to(tmp_path / "gone")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for top in (os.fspath(tmp_path), os.fsencode(tmp_path)):
        found = {folder: (set(below), set(names)) for folder, below, names in walk(top)}
        assert found == {folder: (set(below), set(names)) for folder, below, names in os.walk(top)}
        assert len(found) == 6


def test_more_levels_than_python_calls_are_allowed(tmp_path: Path) -> None:
    here = os.getcwd()
    levels = sys.getrecursionlimit() + 50
    os.chdir(tmp_path)
    try:
        for _ in range(levels):
            os.mkdir("d")
            os.chdir("d")
        os.chdir(tmp_path)
        # Names from here, since no path may be longer than 4096 bytes.
        assert sum(1 for _ in walk("d")) == levels
    finally:
        os.chdir(here)
        # `rm` can remove it, shutil.rmtree, and so pytest, cannot before Python 3.13.
        subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)


def test_who_asks_learns_what_cannot_be_listed(tmp_path: Path) -> None:
    errors: list[OSError] = []
    assert list(walk(os.fspath(tmp_path / "gone"), errors.append)) == []
    assert [type(error) for error in errors] == [FileNotFoundError]
    assert list(walk(os.fspath(tmp_path / "gone"))) == []

    def refuse(error: OSError) -> None:
        raise error

    with pytest.raises(FileNotFoundError):
        list(walk(os.fspath(tmp_path / "gone"), refuse))
