"""Values that are assigned to an array: what numpy would store, or an error before anything is stored."""

from __future__ import annotations

import numpy as np
import pytest

import zvcore


@pytest.mark.parametrize(
    ("dtype", "item"), [(bytes, b"xyz"), ("U3", "x"), ("S3", b"x"), ("uint8", 7)], ids=["bytes", "U3", "S3", "uint8"]
)
def test_one_item_in_an_array_of_one_axis_more_than_the_region(tmp_path, dtype, item):
    a = zvcore.create(tmp_path / "a", format="zarr3", shape=(3,), dtype=dtype, chunks=(2,))
    one = np.empty((1, 1), a.dtype)
    one[...] = item
    a[1] = one
    a[2] = one[0]
    assert a[1:].tolist() == [item, item]
