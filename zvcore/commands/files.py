"""Files that `zvcore get` writes: what their names end with says what they are. A region is written piece by piece."""

from __future__ import annotations

import math
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zvcore.format import Format

    Watch = Callable[[int], None]

__all__ = ["KINDS", "check_folder", "check_name", "image_format", "put_bytes", "write_region"]

KINDS = ".npy, .npz, .tif or .tiff, .nii or .nii.gz, .raw or .bin (bytes in C order, little endian)"


def check_name(output: str) -> str:
    """How the file's name ends, "" for stdout; UsageError for endings that nothing is written as."""
    from zvcore.commands import UsageError

    if output == "-":
        return ""
    ending = os.path.splitext(output)[1].lower()
    if image_format(output) is not None:
        return ending
    if not ending or ending not in _WRITERS:
        raise UsageError(f"{output}: what the name ends with says what is written: {KINDS}")
    return ending


def image_format(output: str) -> Format | None:
    """The format that writes images into files of this name, besides those that are written here."""
    from zvcore.format import formats

    if os.path.splitext(output)[1].lower() in _WRITERS:
        return None
    found = (one for one in formats().values() if one.takes_images and one.names_written(os.path.basename(output)))
    return next(found, None)


def check_folder(output: str) -> None:
    """UsageError where a file is to be written into a folder that is not there."""
    from zvcore.commands import UsageError
    from zvcore.stores.presence import mode_of

    folder = os.path.dirname(output)
    if output == "-" or "://" in output or not folder:
        return
    mode = mode_of(folder)
    if mode is None or not stat.S_ISDIR(mode):
        raise UsageError(f"{output}: there is no folder {folder}")


def put_bytes(output: str, data: bytes) -> None:
    with _written(output) as file:
        file.write(data)


def write_region(
    array: Any, region: tuple[Any, ...], output: str, threads: int | None, progress: bool = False
) -> list[str]:
    """A region of an array to a file, or to stdout. What of an image has no place in the file."""
    from zvcore.progress import shown

    format = image_format(output)
    ending = check_name(output)
    values = math.prod(_shape(array, region))
    with shown(progress, values, "reading", "value") as watch, _written(output) as file:
        if format is not None:
            return _image(format, output, file, array, region, threads, watch)
        return _WRITERS[ending](file, array, region, threads, watch)


@contextmanager
def _written(output: str) -> Iterator[Any]:
    """A file to write to, which takes the place of what is there when it is complete."""
    if output == "-":
        from zvcore.commands.terminal import bytes_out, flush

        yield bytes_out()
        flush()
        return
    from zvcore.stores.plain_files import complete_file

    with complete_file(output) as partial, open(partial, "wb") as file:
        yield file


def _image(
    format: Format, output: str, file: Any, array: Any, region: tuple[Any, ...], threads: int | None, watch: Watch
) -> list[str]:
    from zvcore.converting.whole import whole_image
    from zvcore.images.slabs import whole_region

    image = whole_image(array, whole_region(region, array.ndim))
    image.threads, image.watch = threads, watch
    report = format.write_image(file, image, format.options_for(output))
    return [*image.losses, *(loss.what for loss in report.losses)]


def _shape(array: Any, region: tuple[Any, ...]) -> tuple[int, ...]:
    from zvcore.engine import Selection

    return tuple(Selection.basic(region, array.shape).result_shape)


def _raw(file: Any, array: Any, region: tuple[Any, ...], threads: int | None, watch: Watch) -> list[str]:
    import numpy as np

    from zvcore.images.slabs import slabs

    little = array.dtype.newbyteorder("<")
    for values in slabs(array, region, threads, watch=watch):
        file.write(np.ascontiguousarray(values.astype(little, copy=False)).tobytes())
    return []


def _npy(file: Any, array: Any, region: tuple[Any, ...], threads: int | None, watch: Watch) -> list[str]:
    import numpy as np

    little = array.dtype.newbyteorder("<")
    descr = np.lib.format.dtype_to_descr(little)
    header = {"descr": descr, "fortran_order": False, "shape": _shape(array, region)}
    np.lib.format.write_array_header_1_0(file, header)
    _raw(file, array, region, threads, watch)
    if np.lib.format.descr_to_dtype(descr) == little:
        return []
    return [f"the type {little}, of which numpy has no name for files: it reads the values as bytes, {descr}"]


def _npz(file: Any, array: Any, region: tuple[Any, ...], threads: int | None, watch: Watch) -> list[str]:
    """One member, `arr_0`, as numpy's `savez_compressed` calls what has no name."""
    import zipfile

    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("arr_0.npy", "w", force_zip64=True) as member,
    ):
        return _npy(member, array, region, threads, watch)


_WRITERS = {"": _npy, ".npy": _npy, ".npz": _npz, ".raw": _raw, ".bin": _raw}
