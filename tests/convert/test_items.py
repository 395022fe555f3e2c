"""Items of all kinds: what another data type cannot hold is not lost in silence, and texts of any length come whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr

import zvcore
from zvcore.converting.casts import cast
from zvcore.errors import MetadataError, UnsupportedError
from zvcore.stores import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path


def texts(place: Any, shape: tuple[int, ...]) -> zvcore.Array:
    array = zvcore.create(place, format="zarr3", shape=shape, dtype="string", chunks=shape)
    array[...] = np.array(["hello", "", "a longer text than any that lies in place"], np.dtypes.StringDType())[
        : shape[0]
    ]
    return array


@pytest.mark.filterwarnings("ignore:The data type")
@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_a_single_text_of_any_length(tmp_path: Path, format: str) -> None:
    source = zvcore.create(tmp_path / "s", format="zarr3", shape=(), dtype="string", chunks=())
    source[...] = "hello"
    assert zvcore.convert(source, tmp_path / "d", format=format, verify=True).verified
    assert zarr.open_array(tmp_path / "d", mode="r")[()] == "hello"
    texts(tmp_path / "s3", (3,))
    assert zvcore.convert(tmp_path / "s3", tmp_path / "d3", format=format, region=np.s_[0], verify=True).verified
    assert zarr.open_array(tmp_path / "d3", mode="r")[()] == "hello"


def test_a_volume_of_texts_is_refused_in_words(tmp_path: Path) -> None:
    zvcore.create(tmp_path / "s", format="zarr3", shape=(2, 2, 2), dtype="string", chunks=(2, 2, 2))
    with pytest.raises(MetadataError, match="volumes do not hold this data type"):
        zvcore.convert(tmp_path / "s", tmp_path / "d", format="precomputed")
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("chunks", [(2,), ((2, 1),)])
def test_texts_are_read_into_an_array_that_is_given(chunks: Any) -> None:
    source = zvcore.create(MemoryStore(), format="zarr3", shape=(3,), dtype="string", chunks=chunks)
    source[...] = np.array(["a", "bc", "def"], np.dtypes.StringDType())
    out = np.empty(3, np.dtypes.StringDType())
    assert source.read(..., out=out) is out
    assert out.tolist() == ["a", "bc", "def"]


def stored(values: Any) -> zvcore.Array:
    array = zvcore.create(MemoryStore(), format="zarr3", shape=values.shape, dtype=values.dtype, chunks=(2,))
    array[...] = values
    return array


LARGEST = float(np.finfo("f4").max)


@pytest.mark.parametrize(
    ("source", "target", "bad", "nearest"),
    [
        ("c8", "f4", 1 + 2j, 1),
        ("c8", "i4", 1 + 2j, 1),
        ("c16", "u1", 300, 255),
        ("f8", "f4", 1e300, LARGEST),
        ("f8", "f4", -1e300, -LARGEST),
        ("c16", "c8", 1e300 - 1j, LARGEST - 1j),
        ("c16", "c8", 2 - 1e300j, 2 - LARGEST * 1j),
        ("f8", "c8", 1e300, LARGEST),
        ("i4", "f2", 70000, 65504),
        ("f4", "f2", 65520, 65504),
        ("U5", "U3", "hello", "hel"),
        ("S5", "S3", b"hello", b"hel"),
        ("string", "U2", "hello", "he"),
    ],
)
def test_what_does_not_fit_is_an_error_or_the_nearest(source: str, target: str, bad: Any, nearest: Any) -> None:
    dtype = np.dtypes.StringDType() if source == "string" else np.dtype(source)
    fine = "ab" if isinstance(bad, str) else b"ab" if isinstance(bad, bytes) else 3
    array = stored(np.array([fine, fine, fine, bad, fine], dtype))
    with pytest.raises(OverflowError, match=r"at \(3,\) does not fit into"):
        zvcore.convert(array, MemoryStore(), format="zarr3", dtype=target)
    store = MemoryStore()
    assert zvcore.convert(array, store, format="zarr3", dtype=target, clip=True, verify=True).verified
    assert zvcore.open(store)[...].tolist() == [fine, fine, fine, nearest, fine]
    with pytest.raises(OverflowError):
        zvcore.convert(array, MemoryStore(), format="zarr3", dtype=target, region=np.s_[3])
    one = MemoryStore()
    zvcore.convert(array, one, format="zarr3", dtype=target, clip=True, region=np.s_[3])
    assert zvcore.open(one)[()] == nearest


@pytest.mark.parametrize(
    ("source", "target", "values"),
    [
        ("f8", "f4", [0.1, np.inf, -np.inf, np.nan, 65519]),
        ("f8", "f2", [65519, np.inf, np.nan, 1e-30]),
        ("c16", "c8", [1 + 2j, complex(np.inf, 1)]),
        ("c8", "f8", [1, 2.5, -3]),
        ("i8", "f4", [2**63 - 1, -(2**63)]),
        ("u8", "c8", [2**64 - 1]),
        ("?", "f2", [True, False]),
        ("M8[s]", "M8[ns]", [5, "NaT"]),
        ("m8[ms]", "m8[s]", [5000, -1000]),
        ("U3", "U7", ["abc", ""]),
        ("U3", "string", ["abc", ""]),
        ("U5", "U3", ["abc", "ab"]),
    ],
)
def test_what_fits_becomes_what_numpy_makes_of_it(source: str, target: str, values: list[Any]) -> None:
    given = np.array(values, source)
    store = MemoryStore()
    assert zvcore.convert(stored(given), store, format="zarr3", dtype=target, verify=True).verified
    found = zvcore.open(store)[...]
    wanted = given.real if given.dtype.kind == "c" and target[0] != "c" else given
    assert str(found.tolist()) == str(wanted.astype(found.dtype).tolist())


NUMPYS = ["?", "u1", "i8", "f4", "c8", "M8[s]", "m8[s]", "U3", "S3", "V4"]
ALIKE = [{"?", "u1", "i8", "f4", "c8"}, *({one} for one in NUMPYS[5:])]


@pytest.mark.parametrize("source", NUMPYS)
@pytest.mark.parametrize("target", [*NUMPYS, "string"])
def test_kinds_that_have_nothing_in_common_are_refused_before_anything_is_written(source: str, target: str) -> None:
    array = zvcore.create(MemoryStore(), format="zarr3", shape=(4,), dtype=source, chunks=(2,))
    store = MemoryStore()
    if any({source, target} <= one for one in [*ALIKE, {"U3", "string"}]):
        zvcore.plan(array, store, format="zarr3", dtype=target)
        return
    for ask in (zvcore.plan, zvcore.convert):
        with pytest.raises(UnsupportedError, match="are not converted to"):
            ask(array, store, format="zarr3", dtype=target)
    assert not [*store.list()]


def test_a_time_that_a_finer_unit_cannot_count_is_an_error() -> None:
    for clip in (False, True):
        with pytest.raises(OverflowError, match=r"\[2:4\] does not fit into datetime64\[ns\]"):
            cast(np.array([2**40, 5], "M8[s]"), np.dtype("M8[ns]"), clip, ((2, 4),))


def test_records_are_converted_field_by_field() -> None:
    array = stored(np.array([(1, 2.5), (300, 3.5)], [("a", "i4"), ("b", "f8")]))
    narrow = np.dtype([("a", "u1"), ("b", "f4")])
    with pytest.raises(OverflowError, match=r"300 at \(1,\)"):
        zvcore.convert(array, MemoryStore(), format="zarr3", dtype=narrow)
    store = MemoryStore()
    zvcore.convert(array, store, format="zarr3", dtype=narrow, clip=True, verify=True)
    assert zvcore.open(store)[...].tolist() == [(1, 2.5), (255, 3.5)]
    with pytest.raises(UnsupportedError, match="are not converted"):
        zvcore.plan(array, MemoryStore(), format="zarr3", dtype=[("a", "u1"), ("c", "f4")])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("source", "target", "fill", "made"),
    [
        ("c8", "f4", 1 + 2j, 0),
        ("c8", "f4", 5, 5),
        ("f8", "f4", 1e300, 0),
        ("f8", "f4", np.nan, np.nan),
        ("M8[ns]", "M8[s]", np.datetime64("NaT", "ns"), np.datetime64("NaT", "s")),
        ("U5", "U3", "hello", ""),
        ("U5", "U3", "hel", "hel"),
    ],
)
def test_fill_values_that_do_not_fit_are_stored(source: str, target: str, fill: Any, made: Any) -> None:
    array = zvcore.create(MemoryStore(), format="zarr3", shape=(4,), dtype=source, chunks=(2,), fill_value=fill)
    store = MemoryStore()
    report = zvcore.convert(array, store, format="zarr3", dtype=target, clip=True, verify=True)
    found = zvcore.open(store)
    assert report.verified and str(found.fill_value) == str(np.array(made, target)[()])
    assert str(found[...].tolist()) == str(cast(array[...], found.dtype, True).tolist())


@pytest.mark.parametrize("format", ["n5", "precomputed"])
@pytest.mark.parametrize("fill", [b"\0\0\0\0", b"\1\2\3\4"])
def test_raw_bytes_are_refused_in_words_whatever_their_fill_value_is(tmp_path: Path, format: str, fill: bytes) -> None:
    zvcore.create(
        tmp_path / "a", format="zarr3", shape=(4, 4, 4), chunks=(2, 2, 2), dtype="V4", fill_value=np.void(fill)
    )
    for use in (zvcore.plan, zvcore.convert):
        with pytest.raises((MetadataError, UnsupportedError), match="data type"):
            use(tmp_path / "a", tmp_path / "b", format=format)
    zvcore.convert(tmp_path / "a", tmp_path / "c", format="zarr2", strict=True)
    assert zvcore.open(tmp_path / "c").fill_value.tobytes() == fill


@pytest.mark.parametrize("dtype", ["string", bytes])
def test_a_single_item_that_ends_with_nul_is_compared_as_it_is(tmp_path: Path, dtype: Any) -> None:
    array = zvcore.create(tmp_path / "a", format="zarr3", shape=(), dtype=dtype, chunks=())
    array[...] = "é\0" if dtype == "string" else b"x\0"
    report = zvcore.convert(tmp_path / "a", tmp_path / "b", format="zarr2", verify=True)
    assert report.status == "sound"
    assert zvcore.open(tmp_path / "b")[...].item() == array[...].item()
