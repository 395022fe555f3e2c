"""What a header of NIfTI says that no other format here has a place for."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["untold_of"]

# Fields that say something of the data; the others are the sizes and places of values, or are called unused.
_FIELDS = ("dim_info", "intent_p1", "intent_p2", "intent_p3", "cal_max", "cal_min", "slice_start", "slice_end",
           "slice_code", "slice_duration", "toffset", "aux_file", "db_name")  # fmt: skip


def untold_of(header: Any, extended: bool) -> list[str]:
    """In words. `extended`: whether extensions follow the header."""
    names = header.template_dtype.names
    found = [f"the header's {name}" for name in _FIELDS if name in names and _says(header[name])]
    if extended:
        found.append("an extension of the header")
    if _has_two_affines(header):
        found.append("the affine of the header's qform, which is another one than that of its sform")
    return found


def _has_two_affines(header: Any) -> bool:
    """Whether there is a second affine besides the one that is taken."""
    sform = header.get_sform(coded=True)[0]
    try:
        qform = header.get_qform(coded=True)[0]
    except Exception:  # no rotation: it says nothing
        return False
    return qform is not None and sform is not None and not np.allclose(qform, sform, rtol=1e-4, atol=1e-3)


def _says(value: Any) -> bool:
    return bool(value.tobytes().strip(b"\0")) if isinstance(value, np.ndarray) else bool(value)
