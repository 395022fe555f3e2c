"""`create(data=)` that fails leaves what was there before it: nothing, or what others have made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.errors import LostMetadataWarning
from zvcore.stores import MemoryStore, open_store

if TYPE_CHECKING:
    from pathlib import Path

FORMATS = ["zarr3", "zarr2", "n5", "precomputed"]


class Breaking:
    """Values of which the last cannot be read."""

    shape, dtype, chunks = (8, 8, 8), np.dtype("u2"), (4, 4, 4)

    def __init__(self, error: type[BaseException] = OSError) -> None:
        self.error = error

    def __getitem__(self, region: Any) -> Any:
        values = np.ones(self.shape, self.dtype)[region]
        if region[0].stop == 8:
            raise self.error("the source is gone")
        return values


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of so few values, several parts are written before the source breaks."""
    monkeypatch.setattr("zvcore.borrowed.writing._AT_ONCE", 256)


def failing(path: Any, format: str, error: type[BaseException] = OSError, **options: Any) -> None:
    with pytest.raises(error, match="the source is gone"):
        zvcore.create(path, format=format, data=Breaking(error), chunks=(4, 4, 4), **options)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_nothing_stays_of_an_array_that_could_not_be_filled(
    tmp_path: Path, format: str, error: type[BaseException]
) -> None:
    failing(tmp_path / "a", format, error)
    assert [*tmp_path.iterdir()] == []
    store = MemoryStore()
    failing(store, format, error)
    assert [*store.list()] == []
    # The place is free.
    zvcore.create(tmp_path / "a", format=format, data=np.ones((8, 8, 8), "u2"), chunks=(4, 4, 4))


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("format", FORMATS)
def test_no_archive_stays_that_was_not_there(tmp_path: Path, format: str) -> None:
    failing(tmp_path / "a.zip", format)
    assert [*tmp_path.iterdir()] == []
    zvcore.create(tmp_path / "b.zip/one", format=format, data=np.ones((4, 4, 4), "u2"))
    failing(tmp_path / "b.zip/two", format)
    assert [path.name for path in tmp_path.iterdir()] == ["b.zip"]
    assert open_store(tmp_path / "b.zip").list_dir() == (["one"], [])
    assert zvcore.open(tmp_path / "b.zip/one") is not None


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("format", FORMATS)
def test_what_was_beside_stays(tmp_path: Path, format: str) -> None:
    """Notes of other programs; N5 has a group there, whose attributes stay."""
    place = tmp_path / "a"
    place.mkdir()
    (place / ".notes").write_text("of others")
    if format == "n5":
        (place / "attributes.json").write_text('{"mine": 1}')
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    failing(place, format)
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before


@pytest.mark.usefixtures("small_parts")
def test_other_scales_of_a_volume_stay(tmp_path: Path) -> None:
    volume = tmp_path / "v"
    values = np.arange(64, dtype="u2").reshape(4, 4, 4)
    zvcore.create(volume, format="precomputed", data=values, resolution=(2, 2, 2))
    failing(volume, "precomputed")
    assert list(zvcore.open(volume)) == ["2_2_2"]
    assert sorted(path.name for path in volume.iterdir()) == ["2_2_2", "info"]
    np.testing.assert_array_equal(zvcore.open(volume)[0][..., 0], values)
    failing(volume, "precomputed", resolution=(2, 2, 2), overwrite=True)
    # The old values are gone, as was asked for: no volume of zeros stays in their place.
    assert not (volume / "info").exists()


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("format", FORMATS)
def test_what_is_replaced_is_no_array_with_holes_then(tmp_path: Path, format: str) -> None:
    place = tmp_path / "a"
    zvcore.create(place, format=format, data=np.ones((8, 8, 8), "u2"), chunks=(4, 4, 4))
    failing(place, format, overwrite=True)
    assert not any(path.is_file() for path in place.rglob("*"))


def test_values_that_do_not_fit_leave_nothing(tmp_path: Path) -> None:
    with pytest.raises(OverflowError, match="300"):
        zvcore.create(tmp_path / "a", format="zarr3", data=np.array([1, 300]), dtype="u1")
    with pytest.raises(ValueError, match="broadcast"):
        zvcore.create(tmp_path / "a", format="n5", data=np.zeros((3, 3)), shape=(2, 2))
    assert [*tmp_path.iterdir()] == []


@pytest.mark.filterwarnings("error::zvcore.errors.LostMetadataWarning")
def test_a_warning_that_is_an_error_leaves_nothing(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    with pytest.raises(LostMetadataWarning):
        zvcore.create(tmp_path / "a", format="precomputed", data=xarray.DataArray(np.zeros((2, 2, 2), "u1"), name="x",
                      attrs={"a": object()}))  # fmt: skip
    assert [*tmp_path.iterdir()] == []


@pytest.mark.usefixtures("small_parts")
@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_groups_do_not_tell_of_it(tmp_path: Path) -> None:
    """The consolidated metadata of a group follow."""
    zarr = pytest.importorskip("zarr")
    group = zvcore.open(tmp_path, "w", format="zarr3")
    group.create_dataset("old", shape=(2,), dtype="u1")
    zarr.consolidate_metadata(tmp_path)
    failing(tmp_path / "new", "zarr3")
    assert list(zvcore.open(tmp_path)) == ["old"]
    assert b'"new"' not in (tmp_path / "zarr.json").read_bytes()
