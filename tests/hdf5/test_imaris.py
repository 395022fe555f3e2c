"""Files of Imaris are images with levels, whose chunks the engine reads."""

from __future__ import annotations

import pickle
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.errors import ZvcoreError

if TYPE_CHECKING:
    from pathlib import Path

h5py = pytest.importorskip("h5py")

VALUES = np.random.default_rng(1).integers(0, 60000, (2, 3, 21, 37, 41)).astype("u2")


def letters(text: str) -> Any:
    """As Imaris writes attributes."""
    return np.array([one.encode() for one in text], "S1")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with h5py.File(tmp_path / "a.ims", "w") as file:
        for level, step in enumerate((1, 2)):
            for time in range(2):
                for channel in range(3):
                    values = VALUES[time, channel, ::step, ::step, ::step]
                    name = f"DataSet/ResolutionLevel {level}/TimePoint {time}/Channel {channel}"
                    group = file.create_group(name)
                    padded = np.zeros([-(-n // 16) * 16 for n in values.shape], "u2")
                    padded[tuple(slice(n) for n in values.shape)] = values
                    group.create_dataset("Data", data=padded, chunks=(16, 16, 16), compression="gzip", shuffle=True)
                    for axis, n in zip("ZYX", values.shape, strict=True):
                        group.attrs[f"ImageSize{axis}"] = letters(str(n))
        about = file.create_group("DataSetInfo/Image")
        about.attrs["Unit"] = letters("um")
        for axis, (n, size) in enumerate(zip((41, 37, 21), (0.1, 0.2, 0.5), strict=True)):
            about.attrs[f"ExtMin{axis}"] = letters("10")
            about.attrs[f"ExtMax{axis}"] = letters(repr(10 + n * size))
        for channel, name in enumerate(("DAPI", "GFP", "")):
            named = file.create_group(f"DataSetInfo/Channel {channel}")
            named.attrs["Name"], named.attrs["Color"] = letters(name or " "), letters("0 0.5 1.0")
        file["Thumbnail/Data"] = np.zeros((4, 4), "u1")
    return tmp_path / "a.ims"


def test_a_file_is_one_image_with_axes_of_time_and_channels(path: Path) -> None:
    node = zvcore.open(path)
    assert (node.kind, list(node), node["0"].shape) == ("image", ["0", "1"], VALUES.shape)
    assert type(node["0"].layout).__name__ == "StackedLayout"
    assert np.array_equal(node["0"][...], VALUES)
    assert np.array_equal(zvcore.open(f"{path}:/1")[1, 2], VALUES[1, 2, ::2, ::2, ::2])
    assert np.array_equal(pickle.loads(pickle.dumps(node["1"]))[...], VALUES[..., ::2, ::2, ::2])
    raw = zvcore.open(f"{path}:/DataSet/ResolutionLevel 0/TimePoint 1/Channel 2/Data")
    assert np.array_equal(raw[:21, :37, :41], VALUES[1, 2])
    assert zvcore.verify(path).ok


def test_what_a_file_says_besides_the_image_is_told(path: Path, tmp_path: Path) -> None:
    assert not zvcore.plan(path, tmp_path / "out", format="zarr3").losses
    with h5py.File(path, "r+") as file:
        file["DataSetInfo/Image"].attrs["RecordingDate"] = letters("2020")
        file["DataSetInfo/Channel 1"].attrs["LSMExcitationWavelength"] = letters("488")
        file.create_group("DataSetInfo/TimeInfo").attrs["TimePoint1"] = letters("2020-01-01 00:00:00.000")
        file.create_group("Scene8/Content")
    told = zvcore.plan(path, tmp_path / "out", format="zarr3").losses
    assert [one.what.partition(" is not known")[0] for one in told] == [
        "what DataSetInfo/Channel 1 says of LSMExcitationWavelength", "what DataSetInfo/Image says of RecordingDate",
        "what DataSetInfo/TimeInfo says of TimePoint1", "what lies in 'Scene8'",
    ]  # fmt: skip


def test_sizes_places_and_channels_go_along(path: Path, tmp_path: Path) -> None:
    report = zvcore.convert(path, tmp_path / "out", format="zarr3", verify=True)
    assert report.ok and report.encoded == 0 and report.copied
    ome = zvcore.open(tmp_path / "out").attrs["ome"]
    first, second = (one["coordinateTransformations"] for one in ome["multiscales"][0]["datasets"])
    assert first[0]["scale"] == pytest.approx([1, 1, 0.5, 0.2, 0.1])
    assert second[1]["translation"] == pytest.approx([0, 0, 10.25, 10.1, 10.05])
    assert ome["multiscales"][0]["axes"][4] == {"name": "x", "type": "space", "unit": "micrometer"}
    assert [(one["label"], one["color"]) for one in ome["omero"]["channels"]][1] == ("GFP", "0080FF")


@pytest.mark.parametrize("mask", [0b01, 0b10, 0b11, 0x7FFFFFF3, 0x103])
def test_chunks_that_leave_out_filters_are_read_in_every_channel(path: Path, mask: int) -> None:
    """What a mask says of filters that there are not means nothing, as for HDF5 itself."""
    values = VALUES[1, 2, :16, :16, :16]
    raw = values.tobytes() if mask & 1 else values.reshape(-1).view("u1").reshape(-1, 2).T.tobytes()
    with h5py.File(path, "r+") as file:
        name = "DataSet/ResolutionLevel 0/TimePoint 1/Channel 2/Data"
        padded = file[name][...]
        del file[name]
        dataset = file.create_dataset(name, padded.shape, "u2", chunks=(16, 16, 16), compression="gzip", shuffle=True)
        dataset[16:], dataset[:16, 16:], dataset[:16, :16, 16:] = padded[16:], padded[:16, 16:], padded[:16, :16, 16:]
        dataset.id.write_direct_chunk((0, 0, 0), raw if mask & 2 else zlib.compress(raw), filter_mask=mask)
    assert np.array_equal(zvcore.open(path)["0"][...], VALUES)


@pytest.mark.parametrize("what", ["shape", "missing", "channel", "size", "none"])
def test_a_file_that_lies_is_an_error_of_zvcore(path: Path, what: str) -> None:
    with h5py.File(path, "r+") as file:
        name = "DataSet/ResolutionLevel 0/TimePoint 1/Channel 1/Data"
        if what == "shape":
            del file[name]
            file.create_dataset(name, shape=(8, 8, 8), dtype="u2", chunks=(8, 8, 8))
        elif what == "missing":
            del file[name]
        elif what == "channel":  # it was read as zeros
            del file["DataSet/ResolutionLevel 0/TimePoint 1/Channel 1"]
        elif what == "size":
            group = file["DataSet/ResolutionLevel 0/TimePoint 0/Channel 0"]
            group.attrs["ImageSizeX"] = letters("99999999999999999999")
        else:
            del file["DataSet/ResolutionLevel 0/TimePoint 0"]
    if what == "size":  # what cannot be is not believed
        assert zvcore.open(path)["0"].shape[-1] == 48
        return
    with pytest.raises(ZvcoreError):
        zvcore.open(path)["0"][...]
    assert not zvcore.verify(path).ok
