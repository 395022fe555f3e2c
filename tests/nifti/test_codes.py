"""What the codes of a NIfTI tell of its affine goes along with it, or is told as lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore

if TYPE_CHECKING:
    from pathlib import Path

nibabel = pytest.importorskip("nibabel")

AFFINE = [[2.0, 0.0, 0.0, 5.0], [0.0, 2.0, 0.0, 6.0], [0.0, 0.0, 3.0, 7.0], [0.0, 0.0, 0.0, 1.0]]


def written(folder: Path, attrs: dict[str, Any], **options: Any) -> tuple[Any, list[str]]:
    """The header that comes of an array with these attributes, and what is told as lost."""
    source = zvcore.create(
        folder / "a", format="zarr3", shape=(4, 5, 6), dtype="u1", chunks=(4, 5, 6), attrs=attrs,
        dimension_names=("z", "y", "x"),
    )  # fmt: skip
    source[...] = np.arange(120).reshape(4, 5, 6)
    report = zvcore.convert(source, folder / "b.nii", **options)
    return nibabel.load(folder / "b.nii").header, [loss.what for loss in report.losses]


def test_codes_beside_an_affine_are_kept(tmp_path: Path) -> None:
    header, lost = written(tmp_path, {"affine": AFFINE, "sform_code": 2, "qform_code": 4})
    assert (int(header["sform_code"]), int(header["qform_code"])) == (2, 4)
    assert not lost


@pytest.mark.parametrize("code", [-1, 6, 1.5, "2", None, True])
def test_codes_that_a_nifti_has_not_are_told(tmp_path: Path, code: Any) -> None:
    header, lost = written(tmp_path, {"affine": AFFINE, "sform_code": code, "qform_code": 4})
    assert (int(header["sform_code"]), int(header["qform_code"])) == (1, 4)
    assert [what for what in lost if "'sform_code'" in what] and not [what for what in lost if "'qform_code'" in what]


def test_codes_without_an_affine_are_told(tmp_path: Path) -> None:
    header, lost = written(tmp_path, {"sform_code": 2, "qform_code": 1})
    assert (int(header["sform_code"]), int(header["qform_code"])) == (1, 1)
    assert len([what for what in lost if "'sform_code'" in what]) == 1
    assert not [what for what in lost if "'qform_code'" in what], "it is what was written"


def test_codes_of_an_affine_that_cannot_be_written_are_told(tmp_path: Path) -> None:
    attrs = {"affine": [[0.0] * 4] * 4, "sform_code": 2, "qform_code": 3}
    _, lost = written(tmp_path, attrs)
    assert [name for name in attrs if any(f"'{name}'" in what for what in lost)] == [*attrs]


def test_codes_by_which_no_affine_is_meant_are_told(tmp_path: Path) -> None:
    """An affine without any code is one that no program looks at: it is written with 1, which is told."""
    header, lost = written(tmp_path, {"affine": AFFINE, "sform_code": 0, "qform_code": 0})
    assert (int(header["sform_code"]), int(header["qform_code"])) == (1, 0)
    assert len([what for what in lost if "'sform_code'" in what]) == 1
