"""Files that `zvcore get` writes: what their names end with says what they are. A region is written piece by piece."""

from __future__ import annotations

import math
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Watch = Callable[[int], None]

__all__ = ["KINDS", "check_name", "put_bytes", "slabs", "write_region"]

# What is read at once, in bytes.
SLAB = 32 << 20

KINDS = ".npy, .npz, .tif or .tiff, .raw or .bin (bytes in C order, little endian)"


def slabs(
    array: Any,
    region: tuple[Any, ...],
    threads: int | None,
    axis: int | None = None,
    watch: Watch | None = None,
) -> Iterator[Any]:
    """The region's values, in pieces that fit into memory, along an axis (the first that is a range).

    `watch` is told how many more have been read.
    """
    for values in _slabs(array, region, threads, axis):
        if watch is not None:
            watch(values.size)
        yield values


def _slabs(array: Any, region: tuple[Any, ...], threads: int | None, axis: int | None) -> Iterator[Any]:
    import numpy as np

    full = whole_region(region, array.ndim)
    if axis is None:
        axis = next((i for i, part in enumerate(full) if isinstance(part, slice)), None)
    if axis is None:
        yield np.asarray(array.read(tuple(full), threads=threads))
        return
    span = range(array.shape[axis])[full[axis]]
    others = [
        len(range(n)[part])
        for i, (n, part) in enumerate(zip(array.shape, full, strict=True))
        if i != axis and isinstance(part, slice)
    ]
    row = max(1, math.prod(others) * array.dtype.itemsize)
    # Whole chunks where they fit: each is decoded once then.
    step = max(1, SLAB // row)
    if step > array.chunks[axis]:
        step -= step % array.chunks[axis]
    for first in range(0, len(span), step):
        part = span[first : first + step]
        stop = part.stop if part.step > 0 or part.stop >= 0 else None
        full[axis] = slice(part.start, stop, part.step)
        yield np.asarray(array.read(tuple(full), threads=threads))


def whole_region(region: tuple[Any, ...], ndim: int) -> list[Any]:
    """A region with an entry for each axis."""
    full = list(region)
    if ... in full:
        place = full.index(...)
        full[place : place + 1] = [slice(None)] * (ndim - len(full) + 1)
    return full + [slice(None)] * (ndim - len(full))


def check_name(output: str) -> str:
    """How the file's name ends, "" for stdout; UsageError for endings that nothing is written as."""
    from zvcore.commands import UsageError

    if output == "-":
        return ""
    ending = os.path.splitext(output)[1].lower()
    if not ending or ending not in _WRITERS:
        raise UsageError(f"{output}: what the name ends with says what is written: {KINDS}")
    return ending


def put_bytes(output: str, data: bytes) -> None:
    with _written(output) as file:
        file.write(data)


def write_region(array: Any, region: tuple[Any, ...], output: str, threads: int | None, progress: bool = False) -> None:
    """A region of an array to a file, or to stdout."""
    from zvcore.progress import shown

    write = _WRITERS[check_name(output)]
    values = math.prod(_shape(array, region))
    with shown(progress, values, "reading", "value") as watch, _written(output) as file:
        write(file, array, region, threads, watch)


@contextmanager
def _written(output: str) -> Iterator[Any]:
    """A file to write to, which takes the place of what is there when it is complete."""
    if output == "-":
        yield sys.stdout.buffer
        sys.stdout.flush()
        return
    if os.path.exists(output) and not os.path.isfile(output):  # a pipe, a device
        with open(output, "wb") as file:
            yield file
        return
    partial = f"{output}.{os.getpid()}.partial"
    try:
        with open(partial, "wb") as file:
            yield file
        os.replace(partial, output)
    except BaseException:
        if os.path.exists(partial):
            os.remove(partial)
        raise


def _shape(array: Any, region: tuple[Any, ...]) -> tuple[int, ...]:
    from zvcore.engine import Selection

    return tuple(Selection.basic(region, array.shape).result_shape)


def _raw(file: Any, array: Any, region: tuple[Any, ...], threads: int | None, watch: Watch) -> None:
    import numpy as np

    little = array.dtype.newbyteorder("<")
    for values in slabs(array, region, threads, watch=watch):
        file.write(np.ascontiguousarray(values.astype(little, copy=False)).tobytes())


def _npy(file: Any, array: Any, region: tuple[Any, ...], threads: int | None, watch: Watch) -> None:
    import numpy as np

    descr = np.lib.format.dtype_to_descr(array.dtype.newbyteorder("<"))
    header = {"descr": descr, "fortran_order": False, "shape": _shape(array, region)}
    np.lib.format.write_array_header_1_0(file, header)
    _raw(file, array, region, threads, watch)


def _npz(file: Any, array: Any, region: tuple[Any, ...], threads: int | None, watch: Watch) -> None:
    """One member, `arr_0`, as numpy's `savez_compressed` calls what has no name."""
    import zipfile

    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("arr_0.npy", "w", force_zip64=True) as member,
    ):
        _npy(member, array, region, threads, watch)


def _tiff(file: Any, array: Any, region: tuple[Any, ...], threads: int | None, watch: Watch) -> None:
    from zvcore.commands.tiff import write_tiff

    write_tiff(file, array, whole_region(region, array.ndim), threads, watch)


_WRITERS = {"": _npy, ".npy": _npy, ".npz": _npz, ".raw": _raw, ".bin": _raw, ".tif": _tiff, ".tiff": _tiff}
