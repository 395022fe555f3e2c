"""Volumes of MRC, whose headers mrcfile understands."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from zvcore.borrowed.array import BorrowedArray
from zvcore.borrowed.file import library, reading
from zvcore.borrowed.flat import FlatLayout, Values
from zvcore.errors import MetadataError, UnsupportedError
from zvcore.images import Axis

if TYPE_CHECKING:
    from zvcore.stores import Store

__all__ = ["read"]

Header: TypeAlias = dict[str, Any]
_FORMAT, _TITLE = "mrc", "MRC"
_HEAD = 1024
# From here on, space groups stand for stacks of volumes.
_STACKS = 401


def read(store: Store) -> BorrowedArray:
    """The volume, [z, y, x], or a stack of volumes."""
    assert store.file is not None
    library("mrcfile", "mrc", _TITLE)
    head = bytes(store.get(store.file, 0, _HEAD) or b"")
    if len(head) < _HEAD:
        raise MetadataError("the header is cut off", key=store.file, offset=0, expected=_HEAD, found=len(head))
    from mrcfile import dtypes, utils

    with reading(store.file, _TITLE):
        raw = np.frombuffer(head, dtypes.HEADER_DTYPE)[0]
        order = utils.byte_order_from_machine_stamp(raw["machst"])
        # To turn the type of a header takes longer than to read it.
        if np.dtype(f"{order}i4").isnative:
            found = raw
        else:
            found = np.frombuffer(head, dtypes.HEADER_DTYPE.newbyteorder(order))[0]
        # As numbers of Python, all at once: to ask numpy for one takes as long.
        header = dict(zip(dtypes.HEADER_DTYPE.names, found.item(), strict=True))
    try:
        dtype = np.dtype(utils.dtype_from_mode(header["mode"])).newbyteorder(order)
    except ValueError as error:
        raise UnsupportedError(f"values of such a mode: {error}", key=store.file, offset=12) from error
    layout = FlatLayout(
        store, store.file, Values(_HEAD + _extended(header, store.file), _shape(header, store.file), dtype)
    )
    labels = [bytes(one).rstrip(b"\0 ").decode("latin-1") for one in header["label"][: max(0, int(header["nlabl"]))]]
    attrs = {"labels": labels, "space_group": int(header["ispg"]), **_of_the_cell(header)}
    axes = _axes(header, len(layout.shape))
    return BorrowedArray(
        layout, format=_FORMAT, store=store, attrs=attrs, axes=axes, image={"convention": _TITLE},
        untold=_untold(header),
    )  # fmt: skip


def _of_the_cell(header: Header) -> dict[str, Any]:
    """Where in its cell a volume begins, and angles of the cell that are not right ones."""
    start = [int(header[f"n{name}start"]) for name in "xyz"]
    angles = [float(angle) for angle in header["cellb"]]
    found: dict[str, Any] = {"start": start} if any(start) else {}
    return found if angles in ([0.0] * 3, [90.0] * 3) else {**found, "cell_angles": angles}


def _untold(header: Header) -> tuple[str, ...]:
    size, kind = int(header["nsymbt"]), bytes(header["exttyp"]).rstrip(b"\0 ").decode("latin-1")
    return (f"the extended header ({size} bytes{f' of the type {kind}' if kind else ''})",) if size else ()


def _extended(header: Header, key: str) -> int:
    """How many bytes lie between the header and the values."""
    size = int(header["nsymbt"])
    if size < 0:
        raise MetadataError("the extended header has no size", key=key, offset=92, found=size)
    return size


def _shape(header: Header, key: str) -> tuple[int, ...]:
    shape = tuple(int(header[name]) for name in ("nz", "ny", "nx"))
    if any(n < 1 for n in shape):
        raise MetadataError("the header has no shape", key=key, offset=0, found=shape)
    deep = int(header["mz"])
    if int(header["ispg"]) >= _STACKS and deep > 0 and shape[0] % deep == 0:
        return (shape[0] // deep, deep, *shape[1:])
    return shape


def _axes(header: Header, rank: int) -> tuple[Axis, ...]:
    """Which axis of space columns, rows and sections go along, and how large voxels are, in angstrom."""
    order = [int(header[name]) for name in ("maps", "mapr", "mapc")]
    if sorted(order) != [1, 2, 3]:
        order = [3, 2, 1]
    axes = []
    for number in order:
        name = "xyz"[number - 1]
        cells, extent = int(header[f"m{name}"]), float(header["cella"][number - 1])
        size = extent / cells if cells > 0 and math.isfinite(extent) and extent > 0 else None
        offset = float(header["origin"][number - 1])
        axes.append(Axis(name, "angstrom", size, offset if size and math.isfinite(offset) else 0.0, "space"))
    return (*[Axis()] * (rank - 3), *axes)
