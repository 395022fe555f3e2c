"""What a NIfTI's header says besides the shape, the places and the values of voxels: attributes, by its own names."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.documents.values import is_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zvcore.report import Report

__all__ = ["SAYABLE", "further_fields", "header_extensions", "say_fields", "second_affine"]

# Those that say the same of the values wherever they go.
SAYABLE = ("cal_max", "cal_min", "aux_file", "db_name", "data_type")
# Without what ANALYZE's headers have in common (`extents`, `regular`) and what is counted of the values (`glmax`).
_FURTHER = (
    *SAYABLE, "session_error", "dim_info", "intent_p1", "intent_p2", "intent_p3", "slice_start", "slice_end",
    "slice_code", "slice_duration", "toffset",
)  # fmt: skip
# In front of the values: the size of an extension and its code, after four bytes that say whether there is one.
_FLAG, _SMALLEST = 4, 16
# About what numbers of 32 bits hold.
_LARGEST = 1e38


def further_fields(header: Any) -> dict[str, Any]:
    """The fields that are not 0, or text that is not empty. The second version of the format lacks some of them."""
    found: dict[str, Any] = {}
    names = header.structarr.dtype.names
    for name in _FURTHER:
        value = np.asarray(header[name]).item() if name in names else 0
        value = value.rstrip(b"\0").decode("latin-1") if isinstance(value, bytes) else value
        if value:
            found[name] = value
    return found


def header_extensions(head: bytes, header: Any) -> tuple[str, ...]:
    """Extensions of the header, in words."""
    length = int(header["sizeof_hdr"])
    size = int(header.get_data_offset()) - length - _FLAG
    if size < _SMALLEST or not head[length : length + 1].strip(b"\0"):
        return ()
    at = length + _FLAG
    code = int.from_bytes(head[at + 4 : at + 8], "big" if header.endianness == ">" else "little", signed=True)
    return (f"what extends the header ({size} bytes, the first of them with the code {code})",)


def second_affine(header: Any) -> tuple[str, ...]:
    """That there is one besides the one that is taken, in words."""
    sform = header.get_sform(coded=True)[0]
    try:
        qform = header.get_qform(coded=True)[0]
    except Exception:  # no rotation: it says nothing
        return ()
    if qform is None or sform is None or np.allclose(qform, sform, rtol=1e-4, atol=1e-3):
        return ()
    return ("the affine of the header's qform, which is another one than that of its sform",)


def say_fields(header: Any, attrs: Mapping[str, Any], report: Report) -> None:
    """Put attributes of a NIfTI that was converted into the header of another one."""
    for name in SAYABLE:
        value = attrs.get(name)
        if value is None:
            continue
        before = np.array(header[name]) if name in header.structarr.dtype.names else None
        if before is None or not _put(header, name, before.dtype.kind, value):
            report.lose("", f"the attribute {name!r} has no place in a NIfTI")
            if before is not None:
                header[name] = before


def _put(header: Any, name: str, kind: str, value: Any) -> bool:
    """Whether a field of such a kind holds a value."""
    if kind == "S" and isinstance(value, str):
        header[name] = value.encode("latin-1", "replace")
        return bool(np.asarray(header[name]).item().decode("latin-1") == value)
    if kind == "f" and is_number(value) and abs(value) <= _LARGEST:
        header[name] = value
        return math.isclose(np.asarray(header[name]).item(), value, rel_tol=1e-6)
    return False
