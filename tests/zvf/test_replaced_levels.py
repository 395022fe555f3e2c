"""Levels that others replace while they are read: what comes is all of the old one, or all of the new one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore import zvf
from zvcore.errors import ConflictError, CorruptDataError
from zvcore.zvf import reading

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SHAPE = (50.0, 50.0, 50.0)


def write(path: Path, tag: int, count: int, **options: Any) -> None:
    places = np.random.default_rng(tag).random((count, 3)) * 100
    zvf.write_points(path, places, chunk_shape=SHAPE, vertex_attributes={"tag": np.full(count, tag)}, **options)


def write_lines(path: Path, tag: int, count: int, **options: Any) -> None:
    lines = [np.random.default_rng(tag + number).random((5, 3)) * 100 for number in range(count)]
    tags = [np.full(5, tag) for _ in lines]
    zvf.write_polylines(path, lines, chunk_shape=SHAPE, vertex_attributes={"tag": tags}, **options)


@pytest.fixture
def in_between(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """What to do once, between the vertices and their attributes."""

    def begin(act: Callable[[], None]) -> None:
        read = reading._attributes

        def acting(*arguments: Any) -> Any:
            monkeypatch.setattr(reading, "_attributes", read)
            act()
            return read(*arguments)

        monkeypatch.setattr(reading, "_attributes", acting)

    return begin


READS: dict[str, Callable[[Any], Any]] = {
    "read": lambda level: level.read(("tag",)),
    "read_bbox": lambda level: level.read_bbox((0, 0, 0), (100, 100, 100), attributes=("tag",)),
}


@pytest.mark.parametrize("name", READS)
def test_points_that_are_added_to(tmp_path: Path, in_between: Any, name: str) -> None:
    write(tmp_path / "s", 1, 20)
    level = zvf.open(tmp_path / "s").level(0)
    in_between(lambda: write(tmp_path / "s", 2, 30, append=True))
    found = READS[name](level)
    assert sorted(found.attributes["tag"]) == [1] * 20 + [2] * 30 and len(found.positions) == 50


@pytest.mark.parametrize("name", READS)
def test_values_of_other_points_are_not_taken_for_those_of_these(tmp_path: Path, in_between: Any, name: str) -> None:
    """As many in each chunk as before: nothing but the folder tells."""
    write(tmp_path / "s", 1, 20)
    level = zvf.open(tmp_path / "s").level(0)
    old = zvf.open(tmp_path / "s").level(0).read().positions

    def replace() -> None:
        zvf.write_points(
            tmp_path / "s", old[::-1], chunk_shape=SHAPE, vertex_attributes={"tag": np.arange(20) + 7}, overwrite=True
        )

    in_between(replace)
    found = READS[name](level)
    again = zvf.open(tmp_path / "s").level(0).read(("tag",))
    assert sorted(zip(found.positions.tolist(), found.attributes["tag"].tolist(), strict=True)) == sorted(
        zip(again.positions.tolist(), again.attributes["tag"].tolist(), strict=True)
    )


@pytest.mark.parametrize("name", [*READS, "read_objects"])
def test_lines_that_are_added_to(tmp_path: Path, in_between: Any, name: str) -> None:
    write_lines(tmp_path / "s", 1, 4)
    level = zvf.open(tmp_path / "s").level(0)
    in_between(lambda: write_lines(tmp_path / "s", 20, 3, append=True))
    if name == "read_objects":
        found = level.read_objects([0, 3], ("tag",))
        assert set(found.attributes["tag"]) == {1} and len(found) == 2
        return
    found = READS[name](level)
    assert set(found.attributes["tag"]) == {1, 20} and len(found) == 7


def test_a_conversion_of_points_that_are_added_to_is_told(tmp_path: Path, in_between: Any) -> None:
    write(tmp_path / "s", 1, 20)
    in_between(lambda: write(tmp_path / "s", 2, 30, append=True))
    with pytest.raises(ConflictError, match="the level was replaced while it was read"):
        zvcore.convert(tmp_path / "s", tmp_path / "a", format="precomputed")


def test_damage_is_still_damage(tmp_path: Path) -> None:
    write(tmp_path / "s", 1, 20)
    for path in (tmp_path / "s/0/vertex_attributes/tag").rglob("0"):
        if path.is_file():
            path.write_bytes(b"x")
    with pytest.raises(CorruptDataError):
        zvf.open(tmp_path / "s").level(0).read(("tag",))
