"""Files of other formats, opened and read as a whole and in part, beside the libraries that people read them with.

    pytest bench/test_borrowed.py --benchmark-enable      times
    python -m bench.test_borrowed [word]                  ratios, the competitors taking turns

Electron microscopy as 16 bits; what a library keeps of a file from one call to the next goes with the file, which it
closes. Of libraries that map files into memory, the values are copied out of them.
"""

from __future__ import annotations

from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from bench.contest import Contest, entrants, run_alone
from bench.data import volume
from bench.scale import pick
from bench.scratch import scratch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SIDE = pick(256, 64)
AT = SIDE // 3
Calls = dict[str, "Callable[[], Any]"]
WHOLE, PLANE = (slice(None),) * 3, (AT,)


def _optional(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:  # its contests take no part
        return None


h5py, tifffile, nibabel, mrcfile, nrrd = map(_optional, ("h5py", "tifffile", "nibabel", "mrcfile", "nrrd"))
pillow, imagecodecs = map(_optional, ("PIL.Image", "imagecodecs"))


@cache
def values() -> Any:
    tile = min(SIDE, 128)
    return np.ascontiguousarray(np.tile(volume("em", (tile,) * 3), [SIDE // tile] * 3)).astype("<u2") * 16


@cache
def hdf5(kind: str) -> Path:
    path = scratch() / f"{kind}.h5"
    chunks: dict[str, Any] = {
        "gzip": {"chunks": (SIDE // 4,) * 3, "compression": "gzip", "compression_opts": 4, "shuffle": True},
        "raw chunks": {"chunks": (SIDE // 4,) * 3},
        "no chunks": {},
    }
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=values(), **chunks[kind])
    return path


def of_hdf5(kind: str, key: Any) -> Calls:
    path = hdf5(kind)

    def theirs() -> Any:
        with h5py.File(path) as file:
            return file["x"][key]

    return {"zvcore": lambda: zvcore.open(f"{path}:/x")[key], "h5py": theirs}


@cache
def tiff(kind: str) -> Path:
    path = scratch() / f"{kind}.tif"
    packed = {"tile": (SIDE // 2,) * 2, "compression": "zlib"} if kind == "zlib" else {}
    tifffile.imwrite(path, values(), photometric="minisblack", **packed)
    return path


def of_tiff(kind: str, key: Any) -> Calls:
    path = tiff(kind)

    def theirs() -> Any:
        """Of the array that the file has, as zvcore does it: `imread` of a page need not know of any."""
        with tifffile.TiffFile(path) as file:
            return file.series[0].asarray(key=None if key == WHOLE else key[0])

    return {"zvcore": lambda: zvcore.open(path)[key], "tifffile": theirs}


@cache
def nifti(ending: str) -> Path:
    path = scratch() / f"a{ending}"
    nibabel.save(nibabel.Nifti1Image(values(), np.eye(4)), path)
    return path


def of_nifti(ending: str, key: Any) -> Calls:
    path = nifti(ending)
    key = key if key == WHOLE else (slice(None), slice(None), AT)  # the last axis is the slowest
    return {
        "zvcore": lambda: zvcore.open(path)[key],
        "nibabel": lambda: np.array(nibabel.load(path).dataobj[key]),
    }


@cache
def mrc() -> Path:
    path = scratch() / "a.mrc"
    with mrcfile.new(path, overwrite=True) as file:
        file.set_data(values())
    return path


def of_mrc(key: Any) -> Calls:
    path = mrc()

    def theirs() -> Any:
        with mrcfile.mmap(path, mode="r") as file:
            return np.array(file.data[key])

    return {"zvcore": lambda: zvcore.open(path)[key], "mrcfile": theirs}


def of_nrrd(encoding: str) -> Calls:
    path = scratch() / f"{encoding}.nrrd"
    nrrd.write(str(path), values(), {"encoding": encoding})
    return {"zvcore": lambda: zvcore.open(path)[...], "pynrrd": lambda: nrrd.read(str(path))[0]}


def of_npy(key: Any) -> Calls:
    path = scratch() / "a.npy"
    np.save(path, values())
    return {"zvcore": lambda: zvcore.open(path)[key], "numpy": lambda: np.array(np.load(path, mmap_mode="r")[key])}


@cache
def folder(kind: str) -> Path:
    """Half of the planes, each as a file, as programs for tomography and light sheets write them."""
    path = scratch() / f"images {kind}"
    path.mkdir()
    for number, plane in enumerate(values()[: SIDE // 2]):
        name = path / f"slice_{number:04}{kind}"
        if kind == ".png":
            pillow.fromarray((plane >> 4).astype("u1")).save(name)
        else:
            tifffile.imwrite(name, plane, photometric="minisblack")
    return path


def of_folder(kind: str, key: Any) -> Calls:
    """The others are told which file it is; of all, they list the folder themselves."""
    path = folder(kind)

    def one(name: Path) -> Any:
        return np.asarray(pillow.open(name)) if kind == ".png" else tifffile.imread(name)

    def theirs() -> Any:
        if key != WHOLE:
            return one(path / f"slice_{key[0]:04}{kind}")
        names = sorted(path.iterdir())
        return np.stack([one(name) for name in names]) if kind == ".png" else tifffile.imread(names)

    return {"zvcore": lambda: zvcore.open(path)[key], "Pillow" if kind == ".png" else "tifffile": theirs}


PARTS = {"all": WHOLE, "a plane": PLANE}
# What is read: the library that there must be, what it is called, and what makes the calls.
FILES: dict[str, tuple[Any, str, Callable[[Any], Calls]]] = {
    "HDF5, gzip": (h5py, "h5py", partial(of_hdf5, "gzip")),
    "HDF5, raw chunks": (h5py, "h5py", partial(of_hdf5, "raw chunks")),
    "HDF5 without chunks": (h5py, "h5py", partial(of_hdf5, "no chunks")),
    "TIFF, zlib": (tifffile, "tifffile", partial(of_tiff, "zlib")),
    "TIFF, raw": (tifffile, "tifffile", partial(of_tiff, "raw")),
    "NIfTI": (nibabel, "nibabel", partial(of_nifti, ".nii")),
    "NIfTI, gzip": (nibabel, "nibabel", partial(of_nifti, ".nii.gz")),
    "MRC": (mrcfile, "mrcfile", of_mrc),
    "npy": (np, "numpy", of_npy),
}
CONTESTS = [
    *(
        Contest(f"open and read {part} of {what}", ("zvcore", who), partial(make, key))
        for what, (library, who, make) in FILES.items()
        for part, key in PARTS.items()
        if library is not None
    ),
    *(
        Contest(f"open and read all of NRRD, {encoding}", ("zvcore", "pynrrd"), partial(of_nrrd, encoding))
        for encoding in ("gzip", "raw")
        if nrrd is not None
    ),
    *(
        Contest(
            f"open and read {part} of a folder of {kind[1:].upper()}", ("zvcore", who), partial(of_folder, kind, key)
        )
        for kind, who, libraries in ((".png", "Pillow", (pillow, imagecodecs)), (".tif", "tifffile", (tifffile,)))
        for part, key in (("all images", WHOLE), ("one image", PLANE))
        if None not in libraries
    ),
]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what the libraries call
@pytest.mark.parametrize(*entrants(CONTESTS))
def test_contest(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    run_alone(CONTESTS)
