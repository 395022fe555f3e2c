"""Data that somebody measured: what the packages nibabel and dipy ship for their tests.

mri        int16    a head in 128 x 96 x 24 voxels (nibabel's example4d)
diffusion  uint16   ten slices of a head without diffusion weighting (dipy's S0_10slices)
denoised   float64  the same kind of image behind a filter (dipy's test_piesno)
tracts     lines    300 streamlines of white matter (dipy's tracks300.trk)

Images are small, so `stacked` lays copies of one behind each other: a chunk is part of one copy, so no codec sees two.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nibabel
import numpy as np

__all__ = ["IMAGES", "image", "stacked", "tracts"]

# kind -> (package, file below it)
IMAGES = {
    "mri": ("nibabel", "tests/data/example4d.nii.gz"),
    "diffusion": ("dipy", "data/files/S0_10slices.nii.gz"),
    "denoised": ("dipy", "data/files/test_piesno.nii.gz"),
}


def _file(package: str, name: str) -> Path:
    # dipy itself takes a second to import, and only its files are wanted.
    found = find_spec(package)
    assert found is not None, f"the benchmarks need {package}"
    assert found.submodule_search_locations is not None
    return Path(found.submodule_search_locations[0], name)


@cache
def image(kind: str) -> Any:
    """Three axes of stored values, without their scale."""
    loaded: Any = nibabel.load(_file(*IMAGES[kind]))
    values = loaded.dataobj.get_unscaled()
    first = values[..., 0] if values.ndim == 4 else values
    return np.ascontiguousarray(first, first.dtype.newbyteorder("="))


@cache
def stacked(kind: str, copies: int) -> Any:
    return np.ascontiguousarray(np.broadcast_to(image(kind), (copies, *image(kind).shape)))


@cache
def tracts(copies: int) -> list[Any]:
    """The streamlines in millimetres, each copy moved by a little."""
    lines = nibabel.streamlines.load(_file("dipy", "data/files/tracks300.trk")).streamlines
    return [np.asarray(line, "f4") + np.float32(copy / 8) for copy in range(copies) for line in lines]
