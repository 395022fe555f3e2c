"""NRRD as a format among others: files made by pynrrd, and files that lie."""

from __future__ import annotations

import gzip
import pickle
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.commands.cli import main
from zvcore.errors import CorruptDataError, MetadataError, NotFoundError, UnsupportedError, ZvcoreError

if TYPE_CHECKING:
    from pathlib import Path

nrrd = pytest.importorskip("nrrd")
pytestmark = pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow")  # pynrrd's

VALUES = np.random.default_rng(1).integers(0, 120, (57, 43, 31))
PLACES = {
    "space": "left-posterior-superior", "kinds": ["domain", "domain", "domain"],
    "space directions": np.diag([0.5, 0.5, 2.0]), "space origin": np.array([10.0, -3.0, 0.0]),
    "space units": ["mm", "mm", "mm"],
}  # fmt: skip


def make(path: Path, values: Any = VALUES, **header: Any) -> Path:
    nrrd.write(str(path), values, header, detached_header=False)
    return path


@pytest.mark.parametrize("encoding", ["raw", "gzip"])
@pytest.mark.parametrize("dtype", ["i1", "u1", "<i2", ">u2", "<i4", ">u4", "<i8", "<u8", "<f4", ">f8"])
def test_what_pynrrd_writes_is_read(tmp_path: Path, dtype: str, encoding: str) -> None:
    path = make(tmp_path / "a.nrrd", VALUES.astype(dtype), encoding=encoding)
    expected, _ = nrrd.read(str(path))
    found = zvcore.open(path)
    assert found.format == "nrrd" and found.dtype == expected.dtype.newbyteorder("=")
    assert np.array_equal(found[...], expected) and np.array_equal(found[3:9, 5, ::-2], expected[3:9, 5, ::-2])
    assert np.array_equal(pickle.loads(pickle.dumps(found))[...], expected)
    assert zvcore.verify(path).ok


@pytest.mark.parametrize("encoding", ["raw", "gzip"])
def test_a_volume_is_converted_with_its_sizes_and_places(tmp_path: Path, encoding: str) -> None:
    path = make(tmp_path / "a.nrrd", VALUES.astype("u2"), encoding=encoding, **PLACES)
    assert zvcore.convert(path, tmp_path / "volume", format="precomputed", verify=True).ok
    volume = zvcore.open(tmp_path / "volume")[0]
    assert np.array_equal(volume[..., 0], VALUES) and volume.resolution == (500000, 500000, 2000000)
    assert volume.voxel_offset == (20, -6, 0)
    zvcore.convert(path, tmp_path / "out.zarr", format="zarr3", verify=True)
    group = zvcore.open(tmp_path / "out.zarr")
    image = zvcore.formats()["zarr3"].read_image(group)
    assert [(axis.name, axis.scale, axis.offset, axis.unit) for axis in image.axes] == [
        ("z", 2, 0, "millimeter"), ("y", 0.5, -3, "millimeter"), ("x", 0.5, 10, "millimeter"),
    ]  # fmt: skip
    assert image.levels[0].array.attrs["space"] == "left-posterior-superior"


@pytest.mark.parametrize("encoding", ["raw", "gzip"])
def test_values_in_a_file_beside_the_header_are_read(tmp_path: Path, encoding: str) -> None:
    nrrd.write(str(tmp_path / "a.nhdr"), VALUES.astype("f4"), {"encoding": encoding})
    found = zvcore.open(tmp_path / "a.nhdr")
    assert len(list(tmp_path.iterdir())) == 2
    assert np.array_equal(found[...], VALUES)
    assert np.array_equal(pickle.loads(pickle.dumps(found))[5:7], VALUES[5:7])
    about = zvcore.inspect(tmp_path / "a.nhdr")
    assert about["objects"] == 2 and about["stored_bytes"] == sum(one.stat().st_size for one in tmp_path.iterdir())
    (data,) = (one for one in tmp_path.iterdir() if one.suffix != ".nhdr")
    data.rename(tmp_path / "elsewhere")
    with pytest.raises(NotFoundError, match=data.name):
        zvcore.open(tmp_path / "a.nhdr")


@pytest.mark.parametrize("name", ["../a.raw", "/etc/passwd", "b/a.raw", "..", "..\\a.raw", "LIST", "%03d.raw 1 3 1"])
def test_values_that_lie_outside_of_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "b").mkdir()
    header = f"NRRD0004\ntype: uint8\ndimension: 1\nsizes: 4\nencoding: raw\ndata file: {name}\n\n"
    (tmp_path / "b" / "a.nhdr").write_text(header)
    (tmp_path / "a.raw").write_bytes(b"abcd")
    with pytest.raises(UnsupportedError):
        zvcore.open(tmp_path / "b" / "a.nhdr")


def test_directions_that_go_along_no_axis_are_only_sizes(tmp_path: Path) -> None:
    turned = {**PLACES, "space directions": np.array([[0.6, 0.8, 0], [-0.8, 0.6, 0], [0, 0, -2.0]])}
    found = zvcore.open(make(tmp_path / "a.nrrd", VALUES.astype("u1"), **turned))
    axes = zvcore.formats()["nrrd"].read_axes(found)
    assert [(axis.scale, axis.offset, axis.unit) for axis in axes] == [(1, 0, "mm"), (1, 0, "mm"), (2, 0, "mm")]
    assert found.attrs["space directions"] == turned["space directions"].tolist()


def test_components_and_times_are_no_places(tmp_path: Path) -> None:
    header = {
        "kinds": ["vector", "domain", "domain", "domain", "time"], "space": "left-posterior-superior",
        "space directions": np.array([[np.nan] * 3, [1, 0, 0], [0, 2, 0], [0, 0, 3], [np.nan] * 3]),
        "space origin": np.array([1.0, 2.0, 3.0]),
    }  # fmt: skip
    found = zvcore.open(make(tmp_path / "a.nrrd", np.zeros((3, 4, 5, 6, 2), "f4"), **header))
    axes = zvcore.formats()["nrrd"].read_axes(found)
    assert [(axis.name, axis.scale, axis.offset) for axis in axes] == [
        ("c", None, 0), ("x", 1, 1), ("y", 2, 2), ("z", 3, 3), ("t", None, 0),
    ]  # fmt: skip
    assert found.attrs["space directions"][0] in (None, [None] * 3)


def test_spacings_are_sizes_too(tmp_path: Path) -> None:
    found = zvcore.open(make(tmp_path / "a.nrrd", VALUES.astype("u1"), spacings=[1.5, 2.5, np.nan]))
    assert [axis.scale for axis in zvcore.formats()["nrrd"].read_axes(found)] == [1.5, 2.5, None]


def test_bytes_in_front_of_the_values_are_skipped(tmp_path: Path) -> None:
    head = "NRRD0004\ntype: uint8\ndimension: 1\nsizes: 4\nencoding: {}\nbyte skip: {}\n\n"
    (tmp_path / "a.nrrd").write_bytes(head.format("raw", 3).encode() + b"xyzabcd")
    (tmp_path / "b.nrrd").write_bytes(head.format("raw", -1).encode() + b"more of itabcd")
    (tmp_path / "c.nrrd").write_bytes(head.format("gzip", 3).encode() + gzip.compress(b"xyzabcd"))
    for name in "abc":
        assert zvcore.open(tmp_path / f"{name}.nrrd")[...].tobytes() == b"abcd"
        assert zvcore.verify(tmp_path / f"{name}.nrrd").ok


def test_the_commands_take_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(make(tmp_path / "a.nrrd", VALUES.astype("u1"), encoding="gzip"))
    assert main(["info", path]) == 0
    assert "57 43 31" in capsys.readouterr().out
    assert main(["verify", path]) == 0 and main(["preview", path, "-o", str(tmp_path / "p.png")]) == 0
    assert main(["get", path, "3,:,2:5", "-o", str(tmp_path / "x.npy")]) == 0
    assert np.array_equal(np.load(tmp_path / "x.npy"), VALUES[3, :, 2:5])


@pytest.mark.parametrize(
    ("field", "error"),
    [
        ("sizes: 4 4", MetadataError), ("sizes: 0", MetadataError), ("sizes: -4", MetadataError),
        ("sizes: 9999999999999999999", MetadataError), ("sizes: 1000000000000", CorruptDataError),
        ("sizes: x", CorruptDataError), ("type: block", UnsupportedError), ("type: int16", MetadataError),
        ("encoding: bzip2", UnsupportedError), ("encoding: hex", UnsupportedError), ("byte skip: -2", MetadataError),
        ("byte skip: 99", CorruptDataError), ("line skip: 1", UnsupportedError), ("dimension: 2", MetadataError),
        ("no field at all", CorruptDataError), ("data file:", UnsupportedError),
    ],
)  # fmt: skip
def test_headers_that_lie_are_refused(tmp_path: Path, field: str, error: type[Exception]) -> None:
    fields = {"type": "uint8", "dimension": "1", "sizes": "4", "encoding": "raw"}
    name, _, value = field.partition(": ")
    fields[name] = value
    text = "".join(f"{name}: {value}\n" if value else f"{name}\n" for name, value in fields.items())
    (tmp_path / "a.nrrd").write_bytes(f"NRRD0004\n{text}\n".encode() + b"abcd")
    with pytest.raises((error, CorruptDataError) if error is MetadataError else error):
        zvcore.open(tmp_path / "a.nrrd")
    assert not zvcore.verify(tmp_path / "a.nrrd").ok


def test_a_file_of_something_else_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.nrrd").write_bytes(b"something else")
    with pytest.raises(MetadataError, match="no file of NRRD"):
        zvcore.open(tmp_path / "a.nrrd")
    fields = b"type: uint8\ndimension: 1\nsizes: 4\nencoding: raw\n"
    (tmp_path / "b.nrrd").write_bytes(b"NRRD0004\n" + fields + b"# nothing\n" * 200_000)
    with pytest.raises(MetadataError, match="no end"):
        zvcore.open(tmp_path / "b.nrrd")


@pytest.mark.parametrize("encoding", ["raw", "gzip"])
def test_values_that_are_cut_off_are_told(tmp_path: Path, encoding: str) -> None:
    path = make(tmp_path / "a.nrrd", VALUES.astype("u2"), encoding=encoding)
    path.write_bytes(path.read_bytes()[:-100])
    report = zvcore.verify(path)
    assert not report.ok and report.status == "damaged"


@pytest.mark.parametrize("encoding", ["raw", "gzip"])
def test_changed_bytes_raise_nothing_but_errors_of_zvcore(tmp_path: Path, encoding: str) -> None:
    path = make(tmp_path / "a.nrrd", VALUES[:5, :5, :5].astype("u2"), encoding=encoding, **PLACES)
    sound, random = path.read_bytes(), np.random.default_rng(3)
    for _ in range(300):
        damaged = bytearray(sound)
        for at in random.integers(8, len(sound), random.integers(1, 5)):
            damaged[at] = random.integers(0, 256)
        path.write_bytes(damaged)
        with suppress(ZvcoreError, IndexError):
            zvcore.open(path)[:5, :5, :5]
        zvcore.verify(path)


def test_the_library_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    path = make(tmp_path / "a.nrrd", VALUES.astype("u1"))
    monkeypatch.setitem(sys.modules, "nrrd", None)
    with pytest.raises(UnsupportedError, match=r"zvcore\[nrrd\]"):
        zvcore.open(path)
