"""MRC as a format among others: files made by mrcfile, and files that lie."""

from __future__ import annotations

import pickle
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.commands.cli import main
from zvcore.errors import UnsupportedError, ZvcoreError

if TYPE_CHECKING:
    from pathlib import Path

mrcfile = pytest.importorskip("mrcfile")
# mrcfile's own.
pytestmark = pytest.mark.filterwarnings("ignore:Setting the dtype:DeprecationWarning")

VALUES = np.random.default_rng(1).integers(0, 120, (31, 43, 57))


def make(path: Path, dtype: str = "i2", values: Any = VALUES, **settings: Any) -> Path:
    with mrcfile.new(path) as file:
        file.set_data(values.astype(dtype))
        file.voxel_size = (1.5, 2.5, 3.5)
        if settings.get("extended"):
            file.set_extended_header(np.zeros(777, "u1"))
    return path


@pytest.mark.parametrize("dtype", ["i1", "i2", "u2", "f4", "c8", "f2"])
def test_what_mrcfile_writes_is_read(tmp_path: Path, dtype: str) -> None:
    path = make(tmp_path / "a.mrc", dtype)
    with mrcfile.open(path) as file:
        expected = np.array(file.data)
    found = zvcore.open(path)
    assert found.format == "mrc" and found.dtype == expected.dtype.newbyteorder("=")
    assert np.array_equal(found[...], expected) and np.array_equal(found[3:9, 5, ::-2], expected[3:9, 5, ::-2])
    assert zvcore.verify(path).ok


def test_a_volume_is_converted_with_its_sizes(tmp_path: Path) -> None:
    path = make(tmp_path / "a.mrc", "f4", extended=True)
    assert zvcore.convert(path, tmp_path / "out", format="precomputed", verify=True).ok
    found = zvcore.open(tmp_path / "out")[0]
    assert np.array_equal(found[..., 0].T, VALUES.astype("f4"))
    assert np.allclose(found.resolution, (0.15, 0.25, 0.35))
    report = zvcore.convert(path, tmp_path / "out.zarr", format="zarr3", verify=True)
    assert [loss.what for loss in report.losses] == ["the extended header (777 bytes) is not known, and is not carried"]
    axes = zvcore.formats()["zarr3"].read_image(zvcore.open(tmp_path / "out.zarr")).levels[0].axes
    assert np.allclose([axis.scale for axis in axes], (3.5, 2.5, 1.5)) and axes[0].unit == "angstrom"


def test_what_the_header_says_besides_goes_along_or_is_named(tmp_path: Path) -> None:
    path = make(tmp_path / "a.mrc")
    zvcore.convert(path, tmp_path / "a.zarr", strict=True)
    with mrcfile.open(path, mode="r+") as file:
        file.nstart = (1, -2, 3)
        file.header.cellb.alpha = 80
        file.set_extended_header(np.zeros(64, "V8"))
        file.header.exttyp = b"SERI"
        assert np.array_equal(file.data, VALUES)
    with pytest.raises(UnsupportedError, match=r"extended header \(512 bytes of the type SERI\)"):
        zvcore.convert(path, tmp_path / "b.zarr", strict=True)
    zvcore.convert(path, tmp_path / "b.zarr")
    attrs = zvcore.open(tmp_path / "b.zarr/0").attrs
    assert attrs["start"] == [1, -2, 3] and attrs["cell_angles"] == [80, 90, 90]


def test_the_commands_take_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(make(tmp_path / "a.mrc"))
    assert main(["info", path]) == 0
    assert "31 43 57" in capsys.readouterr().out
    assert main(["verify", path, "-q"]) == 0
    assert main(["preview", path, "-o", str(tmp_path / "b.png")]) == 0


def test_a_volume_is_pickled_as_its_place(tmp_path: Path) -> None:
    stored = pickle.dumps(zvcore.open(make(tmp_path / "a.mrc")))
    assert len(stored) < 2000 and np.array_equal(pickle.loads(stored)[...], VALUES)


def test_a_file_that_lies_is_an_error_of_zvcore(tmp_path: Path) -> None:
    good = make(tmp_path / "good.mrc").read_bytes()
    random = np.random.default_rng(0)
    files = [b"", good[:4], good[:1024], good[:1000], b"x" * 2000]
    for _ in range(80):
        raw = bytearray(good)
        for at in random.integers(0, 230, 4):
            raw[at] = random.integers(256)
        files.append(bytes(raw))
    for number, raw in enumerate(files):
        path = tmp_path / f"{number}.mrc"
        path.write_bytes(raw)
        with suppress(ZvcoreError):
            zvcore.open(path)
        path.unlink()
    (tmp_path / "a.mrc").write_bytes(good[:-1])
    assert zvcore.verify(tmp_path / "a.mrc").status == "damaged"
