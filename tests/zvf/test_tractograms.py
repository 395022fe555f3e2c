"""Files of streamlines there and back, through nibabel: lines, data and header."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zvcore
from zvcore import zvf
from zvcore.errors import MetadataError

nibabel = pytest.importorskip("nibabel")

DATA = Path(nibabel.__file__).parent / "tests" / "data"
FILES = ["standard.trk", "standard.LPS.trk", "complex.trk", "complex_big_endian.trk", "simple.trk", "standard.tck"]


@pytest.mark.parametrize("name", FILES)
def test_a_tractogram_comes_back_with_its_header(tmp_path: Path, name: str) -> None:
    zvf.read_tractogram(DATA / name, tmp_path / "store")
    back = tmp_path / f"back{Path(name).suffix}"
    level = zvf.open(tmp_path / "store").level(0)
    there = nibabel.streamlines.load(DATA / name)
    assert zvf.write_tractogram(level, back) == len(there.streamlines)
    here = nibabel.streamlines.load(back)
    for member, value in there.header.items():
        # The byte order is that of this machine.
        assert member == "endianness" or np.array_equal(value, here.header[member]), member
    assert np.array_equal(here.affine, there.affine)
    assert all(np.allclose(a, b, atol=1e-4) for a, b in zip(here.streamlines, there.streamlines, strict=True))
    for kind in ("data_per_point", "data_per_streamline"):
        ours, theirs = getattr(here.tractogram, kind), getattr(there.tractogram, kind)
        assert sorted(ours) == sorted(theirs)
        assert all(np.array_equal(a, b) for one in ours for a, b in zip(ours[one], theirs[one], strict=True))
    assert zvcore.verify(tmp_path / "store").ok


def test_what_a_program_notes_in_a_tck_is_kept(tmp_path: Path) -> None:
    lines = [np.arange(12, dtype="f4").reshape(4, 3)]
    made = nibabel.streamlines.Tractogram(lines, affine_to_rasmm=np.eye(4))
    nibabel.streamlines.TckFile(made, {"method": "iFOD2", "step_size": "0.5"}).save(str(tmp_path / "a.tck"))
    zvf.read_tractogram(tmp_path / "a.tck", tmp_path / "store")
    zvf.write_tractogram(zvf.open(tmp_path / "store").level(0), tmp_path / "b.tck")
    header = nibabel.streamlines.load(tmp_path / "b.tck").header
    assert header["method"] == "iFOD2" and header["step_size"] == "0.5"
    # A .trk has no place for these: it begins with a header of its own.
    zvf.write_tractogram(zvf.open(tmp_path / "store").level(0), tmp_path / "b.trk")
    assert "method" not in nibabel.streamlines.load(tmp_path / "b.trk").header


HEADERS: list[Any] = [
    [], {"dimensions": [1, 2]}, {"dimensions": [1, 2, 10**30]}, {"voxel_to_rasmm": "x"}, {"voxel_sizes": [1, 1, {}]},
    {"voxel_sizes": [1, 1, 1e999]},
]  # fmt: skip
LIES: list[Any] = ["text", {"format": 3, "header": {}}, {"format": ".trk"}]


@pytest.mark.parametrize("lie", [*LIES, *({"format": ".trk", "header": header} for header in HEADERS)])
def test_a_kept_header_that_lies_is_told(tmp_path: Path, lie: Any) -> None:
    zvf.read_tractogram(DATA / "standard.trk", tmp_path / "store")
    zvcore.open(tmp_path / "store", "r+", format="zarr3").attrs["tractogram"] = lie
    with pytest.raises(MetadataError):
        zvf.write_tractogram(zvf.open(tmp_path / "store").level(0), tmp_path / "b.trk")
    assert not (tmp_path / "b.trk").exists()


def test_other_names_are_refused(tmp_path: Path) -> None:
    zvf.read_tractogram(DATA / "standard.trk", tmp_path / "store")
    with pytest.raises(ValueError, match=r"\.trk or \.tck"):
        zvf.write_tractogram(zvf.open(tmp_path / "store").level(0), tmp_path / "b.vtk")


@pytest.mark.parametrize("ending", ["trk", "tck"])
def test_lines_that_a_coarser_level_has_dropped_are_left_out_with_what_belongs_to_them(
    tmp_path: Path, ending: str
) -> None:
    lines = [np.full((3, 3), number, "f4") for number in range(5)]
    zvf.write_polylines(
        tmp_path / "store", lines, chunk_shape=(4, 4, 4), object_ids=[9, 4, 6, 1, 8],
        object_attributes={"number": np.arange(5, dtype="f4")},
    )  # fmt: skip
    zvf.write_coarser_level(tmp_path / "store", every=1, keep=[4, 8])
    level = zvf.open(tmp_path / "store").level(1)
    assert zvf.write_tractogram(level, tmp_path / f"a.{ending}") == 2
    found = nibabel.streamlines.load(tmp_path / f"a.{ending}")
    assert sorted(line[0, 0] for line in found.streamlines) == [1, 4]
    if ending == "trk":
        numbers = found.tractogram.data_per_streamline["number"][:, 0].tolist()
        assert numbers == [line[0, 0] for line in found.streamlines]
