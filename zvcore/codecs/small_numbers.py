"""Numbers that numpy does not have: bfloat16, floats of 8, 6 and 4 bits, integers of 4 and 2. `ml_dtypes` has them.

Each is stored in a byte of its own, bfloat16 in two. Of integers and floats of fewer than 8 bits, the upper bits of the
byte mean nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.errors import UnsupportedError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["FLOATS", "INTEGERS", "kind_of", "limits_of", "limits_of_floats", "small_number"]

FLOATS = (
    "bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn",
)  # fmt: skip
INTEGERS = ("int2", "int4", "uint2", "uint4")


def small_number(name: str, key: str | None = None) -> np.dtype[Any]:
    """numpy's dtype for one of these names."""
    import numpy as np

    try:
        import ml_dtypes
    except ImportError as error:
        what = f"the data type {name!r} needs the package ml_dtypes: pip install 'zvcore[ml]'"
        raise UnsupportedError(what, key=key) from error
    found = getattr(ml_dtypes, name, None)
    if found is None:
        raise UnsupportedError(f"ml_dtypes {ml_dtypes.__version__} has no {name!r}: a newer one may", key=key)
    dtype: np.dtype[Any] = np.dtype(found)
    return dtype


def kind_of(dtype: np.dtype[Any]) -> str:
    """`dtype.kind`, which calls the numbers of ml_dtypes nothing but bytes."""
    if dtype.isbuiltin != 2:
        return dtype.kind
    return "f" if dtype.name in FLOATS else dtype.name[0] if dtype.name in INTEGERS else dtype.kind


def limits_of(dtype: np.dtype[Any]) -> tuple[int, int]:
    """The least and the largest of integers."""
    import numpy as np

    if dtype.isbuiltin != 2:
        limits = np.iinfo(dtype)
        return int(limits.min), int(limits.max)
    bits = int(dtype.name.removeprefix("u").removeprefix("int"))
    return (0, 2**bits - 1) if dtype.name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def limits_of_floats(dtype: np.dtype[Any]) -> tuple[float, float]:
    """The least and the largest finite one of floats. Of those beyond 64 bits, that is infinite as Python has it."""
    import numpy as np

    if dtype.isbuiltin != 2:
        numpys = np.finfo(dtype)
        return float(numpys.min), float(numpys.max)
    import ml_dtypes

    finfo: Any = ml_dtypes.finfo  # has no types
    return float(finfo(dtype).min), float(finfo(dtype).max)
