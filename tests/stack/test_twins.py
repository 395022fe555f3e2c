"""Images that are as another one in all but their values are not understood anew; what differs is not missed."""

from __future__ import annotations

import pickle
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.errors import CorruptDataError, LostMetadataWarning, ZvcoreError
from zvcore.stack import reading

if TYPE_CHECKING:
    from pathlib import Path

tifffile = pytest.importorskip("tifffile")

VALUES = np.random.default_rng(8).integers(0, 60000, (9, 31, 17), np.uint16)


@pytest.fixture
def understood(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of files that a library was asked about."""
    found: list[str] = []
    own = reading._file
    monkeypatch.setattr(reading, "_file", lambda store, name: found.append(name) or own(store, name))
    return found


def written(folder: Path, **options: Any) -> Path:
    folder.mkdir()
    for number, values in enumerate(VALUES):
        tifffile.imwrite(folder / f"a{number}.tif", values, **{"photometric": "minisblack", **options})
    return folder


@pytest.mark.parametrize("options", [{}, {"byteorder": ">"}, {"bigtiff": True}, {"metadata": None}, {"software": "me"}])
def test_all_are_read_by_what_the_first_says(tmp_path: Path, options: dict[str, Any], understood: list[str]) -> None:
    array = zvcore.open(written(tmp_path / "a", **options))
    assert (array[...] == VALUES).all()
    assert set(understood) == {"a0.tif"}
    again = pickle.loads(pickle.dumps(array))
    assert (again[3:] == VALUES[3:]).all()


def test_packed_ones_are_understood_each(tmp_path: Path, understood: list[str]) -> None:
    array = zvcore.open(written(tmp_path / "a", compression="zlib"))
    assert (array[...] == VALUES).all()
    assert len(set(understood)) == len(VALUES)


def test_after_one_that_differs_the_others_are_like_it(tmp_path: Path, understood: list[str]) -> None:
    folder = written(tmp_path / "a", software="one")
    for number in range(1, len(VALUES)):
        tifffile.imwrite(folder / f"a{number}.tif", VALUES[number], photometric="minisblack", software="another")
    array = zvcore.open(folder)
    for number in range(len(VALUES)):
        assert (array[number] == VALUES[number]).all()
    assert set(understood) == {"a0.tif", "a1.tif"}


def test_one_that_says_another_size_of_pixels_is_told(tmp_path: Path) -> None:
    folder = written(tmp_path / "a", resolution=(1000, 1000), resolutionunit="CENTIMETER")
    tifffile.imwrite(folder / "a5.tif", VALUES[5], photometric="minisblack", resolution=(2000, 2000),
                     resolutionunit="CENTIMETER")  # fmt: skip
    assert (folder / "a5.tif").stat().st_size == (folder / "a4.tif").stat().st_size
    with pytest.warns(LostMetadataWarning, match=r"a5\.tif"):
        assert (zvcore.open(folder)[...] == VALUES).all()


def _changed(path: Path, code: int, value: int) -> None:
    with tifffile.TiffFile(path) as file:
        tag = file.pages.first.tags[code]
    data = bytearray(path.read_bytes())
    struct.pack_into("<H", data, tag.offset + 8, value)
    path.write_bytes(data)


@pytest.mark.parametrize(("code", "value"), [(262, 0), (258, 8), (257, 30), (256, 16), (259, 8)])
def test_one_that_is_stored_in_another_way_is_not_taken_for_one_of_the_others(
    tmp_path: Path, code: int, value: int
) -> None:
    folder = written(tmp_path / "a")
    _changed(folder / "a6.tif", code, value)
    array = zvcore.open(folder)
    assert (array[:6] == VALUES[:6]).all()
    with pytest.raises(ZvcoreError, match=r"a6\.tif"):
        array[6]
    assert zvcore.verify(folder).status == "damaged"


def test_one_that_is_cut_off_is_told(tmp_path: Path) -> None:
    folder = written(tmp_path / "a")
    (folder / "a6.tif").write_bytes((folder / "a6.tif").read_bytes()[:-1])
    array = zvcore.open(folder)
    with pytest.raises(CorruptDataError):
        array[6]
    assert (array[7] == VALUES[7]).all()


def test_one_with_something_behind_its_values_is_understood_by_itself(tmp_path: Path, understood: list[str]) -> None:
    folder = written(tmp_path / "a")
    (folder / "a6.tif").write_bytes((folder / "a6.tif").read_bytes() + bytes(8))
    assert (zvcore.open(folder)[...] == VALUES).all()
    assert set(understood) == {"a0.tif", "a6.tif"}


def test_one_that_was_replaced_is_refused_or_read_as_it_is(tmp_path: Path) -> None:
    folder = written(tmp_path / "a")
    array = zvcore.open(folder)
    assert (array[4] == VALUES[4]).all()
    tifffile.imwrite(tmp_path / "b.tif", VALUES[4][::-1].copy(), photometric="minisblack")
    (tmp_path / "b.tif").replace(folder / "a4.tif")
    with pytest.raises(ZvcoreError):
        array[4]
    assert (zvcore.open(folder)[4] == VALUES[4][::-1]).all()
