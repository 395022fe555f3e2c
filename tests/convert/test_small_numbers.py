"""Conversions from and to the numbers of ml_dtypes, which numpy calls nothing but bytes."""

from __future__ import annotations

import numpy as np
import pytest

import zvcore
from zvcore.converting.casts import cast
from zvcore.stores import MemoryStore

ml_dtypes = pytest.importorskip("ml_dtypes")


@pytest.mark.parametrize(
    ("source", "values", "target", "nearest"),
    [
        ("bfloat16", [1.5, 300, -2, np.nan], "uint8", [2, 255, 0, 0]),
        ("float8_e5m2", [1.5, np.inf, -2, 8], "int4", [2, 7, -2, 7]),
        ("int16", [300, -1, 7, -9], "int4", [7, -1, 7, -8]),
        ("float32", [3.5, -1, 2, 1e9], "uint2", [3, 0, 2, 3]),
        ("int4", [-8, 7, -1, 1], "uint8", [0, 7, 0, 1]),
    ],
)
def test_what_does_not_fit_is_refused_or_the_nearest(source, values, target, nearest) -> None:
    given, wanted = (np.dtype(getattr(ml_dtypes, name, name)) for name in (source, target))
    array = np.array(values, given)
    with pytest.raises(OverflowError, match=r"does not fit into u?int"):
        cast(array, wanted, clip=False)
    clipped = cast(array, wanted, clip=True)
    assert clipped.dtype == wanted and clipped.astype("i8").tolist() == nearest
    fine = np.array([1, 2], given)
    assert cast(fine, wanted, clip=False).astype("i8").tolist() == [1, 2]


def test_a_conversion_to_bytes_loses_no_large_number_in_silence() -> None:
    source = zvcore.create(MemoryStore(), format="zarr3", shape=(4,), dtype="bfloat16", chunks=(2,))
    source[...] = [1, 2, 300, 4]
    with pytest.raises(OverflowError, match="300"):
        zvcore.convert(source, MemoryStore(), format="zarr3", dtype="uint8")
    store = MemoryStore()
    assert zvcore.convert(source, store, format="zarr3", dtype="uint8", clip=True, verify=True).verified
    assert zvcore.open(store)[...].tolist() == [1, 2, 255, 4]


@pytest.mark.parametrize(
    ("source", "values", "target", "nearest"),
    [
        ("float64", [1e300, -1e300, 2], "bfloat16", [3.3895313892515355e38, -3.3895313892515355e38, 2]),
        ("float32", [500, np.inf, -500], "float8_e4m3fn", [448, 448, -448]),
        ("float32", [6.9, 7.1, -9, np.inf, np.nan], "float4_e2m1fn", [6, 6, -6, 6, 0]),
        ("float32", [0, -1, 4], "float8_e8m0fnu", [2.0**-127, 2.0**-127, 4]),
        ("bfloat16", [2.0**17, 1], "float16", [65504, 1]),
        ("int4", [-8, 7], "float8_e8m0fnu", [2.0**-127, 8]),
    ],
)
def test_floats_that_do_not_fit_are_refused_or_the_nearest(source, values, target, nearest) -> None:
    given, wanted = (np.dtype(getattr(ml_dtypes, name, name)) for name in (source, target))
    with pytest.raises(OverflowError, match="does not fit into"):
        cast(np.array(values, given), wanted, clip=False)
    assert cast(np.array(values, given), wanted, clip=True).astype("f8").tolist() == nearest
    assert cast(np.array([1, 2], given), wanted, clip=False).astype("f8").tolist() == [1, 2]


@pytest.mark.parametrize("name", ["bfloat16", "float8_e5m2", "int4"])
def test_small_numbers_are_asked_for_by_name(name: str) -> None:
    source = zvcore.create(MemoryStore(), format="zarr3", shape=(4,), dtype="float32", chunks=(2,))
    source[...] = [1, 2, 3, 4]
    store = MemoryStore()
    assert zvcore.convert(source, store, format="zarr3", dtype=name, verify=True).verified
    assert zvcore.open(store).dtype == np.dtype(getattr(ml_dtypes, name))
