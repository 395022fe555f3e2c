"""Fill values stay what they are, or are refused by arrays of both versions of Zarr."""

from __future__ import annotations

import numpy as np
import pytest

import zvcore
from zvcore.errors import MetadataError

RECORD = [("a", "i4"), ("b", "f4")]

OTHERS = [
    ("u1", 1.7), ("u1", 300), ("u1", float("nan")), ("u1", 1j), ("i8", 2**63),
    ("?", "False"), ("?", 2), ("?", 0.5),
    ("f4", 1e300), ("f4", 10**400), ("c8", 1e300),
    ("int4", 8), ("int4", 1.5), ("bfloat16", 1e39),
    ("U2", "abc"), ("S2", b"abc"), ("V3", b"ab"), ("V3", b"abcd"), ("V3", np.void(b"ab")),
    (str, b"x"), (str, float("nan")), (bytes, 5), (bytes, 1.5),
    ("M8[s]", np.datetime64("2020-01-01T00:00:00.5")),
    (RECORD, (1.5, 2)), (RECORD, np.void(b"12345678")),
]  # fmt: skip
SAME = [
    ("u1", 2.0, 2), ("u1", np.array(3), 3), ("u1", "5", 5), ("?", 1, True), ("?", np.False_, False),
    ("f4", 0.1, np.float32(0.1)), ("f4", "-Infinity", -np.inf), ("f4", np.inf, np.inf),
    ("f4", 2**70, np.float32(2**70)),
    ("int4", -8, -8), ("U2", "ab", "ab"), ("S2", b"a\0", b"a"), ("V3", b"abc", np.void(b"abc")),
    (str, "", ""), (bytes, b"x", b"x"), ("M8[s]", "2020-01-01", np.datetime64("2020-01-01", "s")),
    (RECORD, (1, 2.5), np.array((1, 2.5), RECORD)), (RECORD, 0, np.zeros((), RECORD)),
    (RECORD, np.array((7, 8), RECORD)[()], np.array((7, 8), RECORD)),
]  # fmt: skip


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
@pytest.mark.parametrize(("dtype", "given"), OTHERS, ids=repr)
def test_what_would_become_another_value_is_refused(tmp_path, format, dtype, given):
    with pytest.raises(MetadataError, match="not a fill value"):
        zvcore.create(tmp_path / "a", format=format, shape=(2,), dtype=dtype, fill_value=given)
    assert not (tmp_path / "a").exists() or not [*(tmp_path / "a").iterdir()]


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
@pytest.mark.parametrize(("dtype", "given", "found"), SAME, ids=repr)
def test_what_stays_itself_is_read_where_nothing_is_stored(tmp_path, format, dtype, given, found):
    zvcore.create(tmp_path / "a", format=format, shape=(2,), dtype=dtype, fill_value=given)
    assert zvcore.open(tmp_path / "a")[0] == found
