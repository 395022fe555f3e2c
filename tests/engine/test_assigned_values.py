"""Values that are assigned to an array: what numpy would store, or an error before anything is stored."""

from __future__ import annotations

import numpy as np
import pytest

import zvcore
from zvcore.errors import UnfitValueError


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


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
@pytest.mark.parametrize("item", [5, 1 << 40, True, 2.0, bytearray(b"ab"), [1, 2]], ids=repr)
def test_numbers_are_no_byte_strings(tmp_path, format, item):
    a = zvcore.create(tmp_path / "a", format=format, shape=(2,), dtype=bytes, chunks=(2,))
    a[...] = b"abc"
    with pytest.raises(TypeError, match=r"byte strings, not (int|bool|float)"):
        a[:] = item
    assert a[...].tolist() == [b"abc", b"abc"]


@pytest.mark.parametrize("dtype", ["f8", [("a", "i4"), ("b", "f8")]], ids=["numbers", "records"])
def test_masked_values_are_refused_and_what_has_no_mask_is_not(tmp_path, dtype):
    a = zvcore.create(tmp_path / "a", format="zarr3", shape=(3,), dtype=dtype, chunks=(2,))
    ones = np.ones(3, dtype)
    values = np.ma.masked_array(ones, np.array([False, True, False]).astype(np.ma.make_mask_descr(ones.dtype)))
    with pytest.raises(UnfitValueError, match="masked"):
        a[...] = values
    with pytest.raises(UnfitValueError, match="masked"):
        a[1] = np.ma.masked
    assert (a[...] == np.zeros(3, dtype)).all()
    a[...] = np.ma.masked_array(ones)
    assert (a[...] == ones).all()


class Unknown:
    """What pandas has for a missing value: it does not say whether it equals anything."""

    def __eq__(self, other):
        return self

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")

    __hash__ = None


@pytest.mark.parametrize("dtype", [str, "U4", "S4"])
@pytest.mark.parametrize("missing", [None, np.nan, Unknown()], ids=["None", "NaN", "NA"])
def test_missing_texts_are_no_words(tmp_path, dtype, missing):
    a = zvcore.create(tmp_path / "a", format="zarr3", shape=(2,), dtype=dtype, chunks=(1,))
    kept = np.array(["a", "b"]).astype(a.dtype)
    a[...] = ["a", "b"]
    given = [["a", missing], np.array(["a", missing], object)]
    if not isinstance(missing, Unknown):
        given.append(np.array(["a", missing], np.dtypes.StringDType(na_object=missing)))
    for values in given:
        with pytest.raises(UnfitValueError, match="texts are missing"):
            a[...] = values
    assert a[...].tolist() == kept.tolist()
    a[...] = np.array(["c", "d"], np.dtypes.StringDType(na_object=None))
    assert a[...].tolist() == np.array(["c", "d"]).astype(a.dtype).tolist()


RECORD = [("a", "i4"), ("b", "f8")]


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        (0, (1, 2.5)),
        (..., (1, 2.5)),
        (slice(0, 2), [(1, 2.5), (3, 4.5)]),
        (slice(0, 1), [(1, 2.5)]),
        (slice(1, 4), [(1, 2.5), (3, 4.5), (5, 6.5)]),
        (..., 5),
        (..., [1, 2, 3, 4]),
    ],
    ids=repr,
)
def test_tuples_are_records(tmp_path, format, key, value):
    a = zvcore.create(tmp_path / "a", format=format, shape=(4,), dtype=RECORD, chunks=(3,))
    mirror = np.zeros(4, RECORD)
    a[key] = value
    mirror[key] = value
    assert a[...].tolist() == mirror.tolist()


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
@pytest.mark.parametrize(("dtype", "item"), [(bytes, b"xyz"), (str, "xyz")], ids=["bytes", "str"])
def test_an_item_of_any_length_without_axes(tmp_path, format, dtype, item):
    for number, write in enumerate((
        lambda a: a.vindex.__setitem__(np.True_, np.array([item], a.dtype)),
        lambda a: a.__setitem__((), np.array([[item]], a.dtype)),
        lambda a: a.__setitem__(..., item),
    )):  # fmt: skip
        a = zvcore.create(tmp_path / str(number), format=format, shape=(), dtype=dtype)
        write(a)
        assert zvcore.open(tmp_path / str(number))[()] == item


@pytest.mark.parametrize(
    "item",
    [np.int64(300), np.uint64(2**64 - 1), np.float32("nan"), np.float64("inf"), np.float64(1e300)]
    + [np.datetime64("NaT", "s"), np.timedelta64(7, "s")],
    ids=repr,
)
def test_a_single_value_of_numpys_that_does_not_fit_is_refused_as_numpy_does(tmp_path, item):
    a = zvcore.create(tmp_path / "a", format="zarr3", shape=(3,), dtype="i1", chunks=(2,))
    for key in (0, ...):
        with pytest.raises((OverflowError, ValueError, TypeError)):
            np.zeros(3, "i1")[key] = item
        with pytest.raises((OverflowError, ValueError, TypeError)):
            a[key] = item
    a[1] = np.int64(-128)
    assert a[...].tolist() == [0, -128, 0]
