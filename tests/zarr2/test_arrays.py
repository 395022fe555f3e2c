"""Arrays of Zarr v2: made, opened, written, made larger and smaller; documents that mean several things or nothing."""

from __future__ import annotations

import json
import pickle
import warnings
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.errors import (
    CodecNotFoundError,
    ConflictError,
    CorruptDataError,
    MetadataError,
    MisplacedChunksWarning,
    UnsupportedError,
    ZvcoreError,
)

if TYPE_CHECKING:
    from pathlib import Path

GOOD: dict[str, Any] = {
    "zarr_format": 2, "shape": [6, 5], "chunks": [4, 3], "dtype": "<u2", "compressor": None, "fill_value": 0,
    "order": "C", "filters": None,
}  # fmt: skip


def document(path: Path, **changes: Any) -> Path:
    """An array whose document says this; None leaves a member out."""
    path.mkdir(parents=True, exist_ok=True)
    said = {name: value for name, value in {**GOOD, **changes}.items() if value is not Ellipsis}
    (path / ".zarray").write_text(json.dumps(said))
    return path


def opened(path: Path, **changes: Any) -> Any:
    return zvcore.open(document(path, **changes))


# --- documents


def test_what_may_be_missing_or_spelled_otherwise_is_read(tmp_path: Path) -> None:
    for number, changes in enumerate((
        {"compressor": ..., "filters": ...},
        {"filters": []},
        {"dimension_separator": None},
        {"dimension_separator": "."},
        {"shape": [6.0, 5.0], "zarr_format": 2.0},
        {"somebody": "else", "_x": [1]},
        {"dtype": "uint16"},
        {"dtype": "|u2"},
        {"fill_value": 0.0},
    )):  # fmt: skip
        array = opened(tmp_path / str(number), **changes)
        assert array.shape == (6, 5) and array.dtype == "u2" and (array[...] == 0).all()


def test_a_byte_order_mark_and_bare_nan_are_read(tmp_path: Path) -> None:
    document(tmp_path)
    text = json.dumps({**GOOD, "dtype": "<f4", "fill_value": float("nan")})
    (tmp_path / ".zarray").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert np.isnan(zvcore.open(tmp_path)[...]).all()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"zarr_format": "2"}, "zarr_format"),
        ({"zarr_format": 3}, "zarr_format"),
        ({"zarr_format": True}, "zarr_format"),
        ({"shape": ...}, "shape"),
        ({"shape": [-1, 5]}, r"shape"),
        ({"shape": [6]}, "chunks"),
        ({"shape": "6"}, "shape"),
        ({"chunks": [0, 3]}, "chunks"),
        ({"chunks": [4]}, "another rank"),
        ({"order": ...}, "order"),
        ({"order": "c"}, "order"),
        ({"fill_value": ...}, "fill_value"),
        ({"dimension_separator": "-"}, "dimension_separator"),
        ({"compressor": "zlib"}, "compressor"),
        ({"compressor": {"level": 1}}, "compressor.id"),
        ({"filters": {"id": "delta"}}, "filters"),
        ({"filters": [1]}, r"filters"),
        ({"dtype": "<f3"}, "dtype"),
        ({"dtype": "i4,f8"}, "dtype"),
        ({"dtype": 7}, "dtype"),
        ({"dtype": "<M8[parsecs]"}, "dtype"),
        ({"dtype": "|S0"}, "dtype"),
        ({"dtype": "|S99999999999"}, "dtype"),
        ({"dtype": "|O"}, "objects need a codec"),
        ({"dtype": "|O", "filters": [{"id": "delta"}, {"id": "vlen-utf8"}]}, "objects need a codec"),
        ({"dtype": []}, "dtype"),
        ({"dtype": [["a"]]}, "field"),
        ({"dtype": [["a", "<u2"], ["a", "<u2"]]}, "different names"),
        ({"dtype": [["a", "|O"]]}, "dtype"),
        ({"dtype": [["a", "<u2", [0]]]}, "shape of a field"),
        ({"dtype": [["a", "<u2", [2**40]]]}, "more bytes"),
    ],
)
def test_a_document_that_is_wrong_is_refused_with_the_member_that_is(
    tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    with pytest.raises((MetadataError, UnsupportedError), match=told) as raised:
        opened(tmp_path, **changes)
    assert raised.value.key == ".zarray"
    assert not zvcore.verify(tmp_path).ok


def test_records_that_are_too_deep_are_refused(tmp_path: Path) -> None:
    dtype: Any = "<u2"
    for _ in range(40):
        dtype = [["a", dtype]]
    with pytest.raises(MetadataError, match="too deep"):
        opened(tmp_path, dtype=dtype)


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("|b1", True, True), ("|b1", 0, False), ("<u2", 7, 7), ("<u2", 7.0, 7), (">i4", -5, -5),
        ("<i8", -(2**63), -(2**63)),
        ("<u8", 2**64 - 1, 2**64 - 1), ("<f4", 1.5, 1.5), ("<f8", "Infinity", np.inf), ("<f2", "-Infinity", -np.inf),
        ("<c8", [1.5, "Infinity"], complex(1.5, np.inf)), ("|S5", "YWI=", b"ab"), ("|S5", "YWIAAAA=", b"ab"),
        ("<U3", "hé", "hé"), (">U3", "", ""), ("<M8[D]", 3, np.datetime64("1970-01-04")),
        ("<m8[s]", 5, np.timedelta64(5, "s")),
        ("<u2", None, 0), ("<f4", None, 0), ("|b1", None, False), ("<U2", None, ""), ("|S2", None, b""),
    ],
)  # fmt: skip
def test_fill_values_are_what_the_document_says(tmp_path: Path, dtype: str, value: Any, expected: Any) -> None:
    array = opened(tmp_path, dtype=dtype, fill_value=value)
    assert array.fill_value == expected
    assert (array[...] == np.array(expected, array.dtype)).all()


@pytest.mark.parametrize("dtype", ["<M8[ns]", ">m8[s]"])
@pytest.mark.parametrize("value", [None, "NaT", -(2**63)])
def test_no_time_is_a_fill_value(tmp_path: Path, dtype: str, value: Any) -> None:
    assert np.isnat(opened(tmp_path, dtype=dtype, fill_value=value)[...]).all()


def test_nan_is_a_fill_value(tmp_path: Path) -> None:
    assert np.isnan(opened(tmp_path, dtype=">f8", fill_value="NaN")[...]).all()


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("<u2", 1.5), ("<u2", -1), ("<u2", 65536), ("<u2", "3"), ("<u2", True), ("<u2", []), ("<u2", 10**400),
        ("<f4", "nan"),
        ("<f4", "1.5"), ("<f4", True), ("<f8", 10**400), ("<c8", 0), ("<c8", [1]), ("|b1", 2), ("|b1", "true"),
        ("|S3", 0),
        ("|S3", "abcd!"), ("|S3", "YWJjZA=="), ("<U2", 0), ("<U2", "abc"), ("|V3", "YWI="), ("<M8[s]", 1.5),
        ("<M8[s]", "now"),
    ],
)  # fmt: skip
def test_a_fill_value_that_others_read_as_another_is_refused(tmp_path: Path, dtype: str, value: Any) -> None:
    with pytest.raises(MetadataError, match="not a fill value") as raised:
        opened(tmp_path, dtype=dtype, fill_value=value)
    assert raised.value.member == "$.fill_value"


def test_records_are_read_and_written(tmp_path: Path) -> None:
    dtype = np.dtype([("x", "<f4"), ("y", "|u1", (2, 3)), ("n", [("a", ">i2")])])
    values = np.zeros((6, 5), dtype)
    values["x"] = np.arange(30).reshape(6, 5)
    values["y"][2, 3] = 9
    values["n"]["a"] = -300
    array = zvcore.create(tmp_path, format="zarr2", shape=(6, 5), dtype=dtype, chunks=(4, 3), order="F", codec="blosc")
    array[...] = values
    said = json.loads((tmp_path / ".zarray").read_text())
    assert said["dtype"] == [["x", "<f4"], ["y", "|u1", [2, 3]], ["n", [["a", ">i2"]]]]
    assert said["fill_value"] == "AAAAAAAAAAAAAAAA"
    found = zvcore.open(tmp_path)[...]
    assert found.dtype == dtype and (found == values).all()
    assert zvcore.verify(tmp_path).ok


def test_items_without_a_codec_of_their_own_are_stored_as_they_lie(tmp_path: Path) -> None:
    array = zvcore.create(
        tmp_path, format="zarr2", shape=(4, 6), dtype=">u2", chunks=(4, 6), order="F", codec=None,
        dimension_separator="/",
    )  # fmt: skip
    array[...] = np.arange(24).reshape(4, 6)
    assert (tmp_path / "0" / "0").read_bytes()[:8].hex() == "00000006000c0012"


# --- chunks


@pytest.mark.parametrize("size", [0, 15, 16, 40])
@pytest.mark.parametrize("filters", [None, [{"id": "delta", "dtype": "<u2"}]])
def test_a_blosc_chunk_that_was_cut_is_an_error_and_never_values(tmp_path: Path, size: int, filters: Any) -> None:
    array = zvcore.create(
        tmp_path, format="zarr2", shape=(64,), dtype="<u2", chunks=(64,), codec="blosc", filters=filters
    )
    array[...] = np.random.default_rng(1).integers(0, 60000, 64)
    chunk = tmp_path / "0"
    chunk.write_bytes(chunk.read_bytes()[:size])
    with pytest.raises(CorruptDataError) as raised:
        zvcore.open(tmp_path)[...]
    assert raised.value.key == "0"
    assert not zvcore.verify(tmp_path).ok


@pytest.mark.parametrize("codec", [None, "zlib", "gzip", "zstd", "blosc", "bz2", "lzma", "lz4"])
def test_chunks_of_another_size_are_errors(tmp_path: Path, codec: str | None) -> None:
    for name, length in (("short", 10), ("long", 14)):
        made = zvcore.create(
            tmp_path / name, format="zarr2", shape=(length,), dtype="<u2", chunks=(length,), codec=codec
        )
        made[...] = np.arange(length) + 1
        said = json.loads((tmp_path / name / ".zarray").read_text())
        (tmp_path / name / ".zarray").write_text(json.dumps({**said, "shape": [12], "chunks": [12]}))
        with pytest.raises(CorruptDataError):
            zvcore.open(tmp_path / name)[...]
        assert not zvcore.verify(tmp_path / name).ok


def test_what_overhangs_the_end_of_the_array_means_nothing(tmp_path: Path) -> None:
    document(tmp_path)
    (tmp_path / "1.1").write_bytes(np.arange(12, dtype="<u2").tobytes())
    assert zvcore.open(tmp_path)[4:, 3:].tolist() == [[0, 1], [3, 4]]
    assert zvcore.verify(tmp_path).ok


def test_where_what_is_not_stored_has_no_value_all_chunks_are_stored(tmp_path: Path) -> None:
    array = zvcore.create(tmp_path, format="zarr2", shape=(6, 5), dtype="u1", chunks=(4, 3), fill_value=None)
    array[...] = 0
    assert len(list(tmp_path.glob("[0-9]*"))) == 4
    assert json.loads((tmp_path / ".zarray").read_text())["fill_value"] is None


def test_negative_zero_is_not_the_fill_value(tmp_path: Path) -> None:
    array = zvcore.create(tmp_path, format="zarr2", shape=(4,), dtype="f4", chunks=(4,))
    array[...] = -0.0
    assert np.signbit(zvcore.open(tmp_path)[...]).all()


def test_bitround_is_refused_in_chunks_of_order_f(tmp_path: Path) -> None:
    options: dict[str, Any] = {"format": "zarr2", "shape": (4, 6), "dtype": "f4", "chunks": (4, 6)}
    rounded = {"filters": [{"id": "bitround", "keepbits": 3}]}
    zvcore.create(tmp_path / "c", **options, **rounded)[...] = 1.3
    with pytest.raises(UnsupportedError, match="bitround"):
        zvcore.create(tmp_path / "f", order="F", **options, **rounded)[...] = 1.3


def test_codecs_that_run_what_the_data_says_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="pickle"):
        opened(tmp_path / "a", dtype="|O", filters=[{"id": "pickle", "protocol": 5}])
    array = opened(tmp_path / "b", filters=[{"id": "pickle", "protocol": 5}])
    with pytest.raises(UnsupportedError, match="any program"):
        array[...]


def test_an_unknown_codec_breaks_only_decoding(tmp_path: Path) -> None:
    array = opened(tmp_path, compressor={"id": "mystery", "strength": 3})
    assert array.shape == (6, 5) and dict(array.attrs) == {}
    with pytest.raises(CodecNotFoundError, match="mystery"):
        array[...]
    assert zvcore.verify(tmp_path).status == "unsupported"
    assert zvcore.inspect(tmp_path)["codecs"] == [{"name": "mystery", "strength": 3}]


@pytest.mark.parametrize(("id", "given"), [("json2", [1, "a", None, {"b": 2}]), ("msgpack2", [1, "a", None, "x"])])
def test_objects_that_a_codec_makes_bytes_of_are_read_and_written(tmp_path: Path, id: str, given: list[Any]) -> None:
    pytest.importorskip("msgpack") if id == "msgpack2" else None
    array = zvcore.create(
        tmp_path, format="zarr2", shape=(4,), dtype=object, chunks=(4,), filters=[{"id": id}], fill_value=0
    )
    values = np.empty(4, object)
    values[:] = given
    array[...] = values
    assert zvcore.open(tmp_path)[...].tolist() == given


# --- where chunks lie


def nested(path: Path) -> Path:
    document(path)
    (path / "0").mkdir()
    (path / "0" / "0").write_bytes(np.ones(12, "<u2").tobytes())
    return path


def test_chunks_in_folders_that_the_document_does_not_tell_of_are_warned_of(tmp_path: Path) -> None:
    with pytest.warns(MisplacedChunksWarning, match="dimension_separator"):
        assert (zvcore.open(nested(tmp_path / "a"))[...] == 0).all()
    report = zvcore.verify(tmp_path / "a")
    assert not report.ok and "dimension_separator" in str(report) and len(report.problems) == 1
    (tmp_path / ".zgroup").write_text('{"zarr_format": 2}')
    with pytest.warns(MisplacedChunksWarning):
        zvcore.open(tmp_path)["a"]
    document(tmp_path / "a", dimension_separator="/")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (zvcore.open(tmp_path / "a")[:4, :3] == 1).all()


@pytest.mark.parametrize(("separator", "chunk"), [(".", "0/1"), ("/", "0.1")])
def test_verify_tells_of_chunks_with_the_other_separator(tmp_path: Path, separator: str, chunk: str) -> None:
    document(tmp_path, dimension_separator=separator)
    (tmp_path / chunk).parent.mkdir(exist_ok=True)
    (tmp_path / chunk).write_bytes(bytes(24))
    report = zvcore.verify(tmp_path)
    assert [problem.where for problem in report.problems] == [chunk]
    assert not report.ok and repr(separator) in str(report)


def test_what_belongs_to_nothing_is_odd(tmp_path: Path) -> None:
    document(tmp_path)
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "9.9").write_bytes(bytes(24))
    report = zvcore.verify(tmp_path)
    assert report.ok and {problem.where for problem in report.problems} == {"notes.txt", "9.9"}


# --- the whole


@pytest.mark.parametrize("order", "CF")
def test_what_resize_cuts_off_does_not_come_back(tmp_path: Path, order: str) -> None:
    array = zvcore.create(tmp_path, format="zarr2", shape=(6, 5), dtype="u2", chunks=(4, 3), order=order, fill_value=7)
    array[...] = np.arange(30).reshape(6, 5)
    array.resize((3, 5))
    array.resize((9, 6))
    expected = np.full((9, 6), 7)
    expected[:3, :5] = np.arange(15).reshape(3, 5)
    assert (zvcore.open(tmp_path)[...] == expected).all()
    with pytest.raises(MetadataError):
        array.resize((3,))


def test_attributes_have_a_document_of_their_own(tmp_path: Path) -> None:
    array = opened(tmp_path)
    assert dict(array.attrs) == {} and not (tmp_path / ".zattrs").exists()
    array = zvcore.open(tmp_path, "r+")
    array.attrs["a"] = [1, {"b": None}]
    assert json.loads((tmp_path / ".zattrs").read_text()) == {"a": [1, {"b": None}]}
    del array.attrs["a"]
    assert dict(zvcore.open(tmp_path).attrs) == {}
    (tmp_path / ".zattrs").write_text("[1]")
    broken = zvcore.open(tmp_path)
    assert (broken[...] == 0).all()
    with pytest.raises(MetadataError, match="not a JSON object"):
        dict(broken.attrs)
    assert [problem.where for problem in zvcore.verify(tmp_path).problems] == [".zattrs"]


def test_names_of_axes_are_those_of_xarray(tmp_path: Path) -> None:
    array = zvcore.create(tmp_path, format="zarr2", shape=(6, 5), dtype="u2", dimension_names=["y", "x"])
    assert array.dimension_names == ("y", "x")
    assert json.loads((tmp_path / ".zattrs").read_text()) == {"_ARRAY_DIMENSIONS": ["y", "x"]}
    with pytest.raises(MetadataError, match="dimension_names"):
        zvcore.create(tmp_path / "b", format="zarr2", shape=(6, 5), dtype="u2", dimension_names=["y"])


def test_an_array_that_was_pickled_is_the_same(tmp_path: Path) -> None:
    array = zvcore.create(
        tmp_path, format="zarr2", shape=(6, 5), dtype="<u2", chunks=(4, 3), filters=[{"id": "delta", "dtype": "<u2"}]
    )
    array[...] = np.arange(30).reshape(6, 5)
    array.attrs["a"] = 1
    again = pickle.loads(pickle.dumps(array))
    assert (again[...] == array[...]).all() and dict(again.attrs) == {"a": 1}


@pytest.mark.parametrize(
    "options",
    [
        {"codec": "mystery"}, {"dtype": object}, {"dtype": "M8"}, {"order": "A"}, {"dimension_separator": "-"},
        {"chunks": (0, 3)}, {"fill_value": "x"}, {"filters": [{"id": "pickle"}]},
        {"codec": {"name": "lz4", "framing": "frame"}}, {"dtype": ("u1", 3)},
    ],
)  # fmt: skip
def test_what_cannot_be_written_is_refused_before_anything_is(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ZvcoreError):
        zvcore.create(tmp_path / "a", **{"format": "zarr2", "shape": (6, 5), "dtype": "u2", **options})
    assert not (tmp_path / "a").exists() or not any((tmp_path / "a").iterdir())


def test_what_is_there_is_not_written_over(tmp_path: Path) -> None:
    zvcore.create(tmp_path, format="zarr2", shape=(6, 5), dtype="u2", attrs={"a": 1})[...] = 5
    with pytest.raises(ConflictError):
        zvcore.create(tmp_path, format="zarr2", shape=(6, 5), dtype="u2")
    again = zvcore.create(tmp_path, format="zarr2", shape=(3,), dtype="u1", overwrite=True)
    assert dict(again.attrs) == {} and (again[...] == 0).all()


def test_repair_takes_out_chunks_that_cannot_be_decoded(tmp_path: Path) -> None:
    array = zvcore.create(tmp_path, format="zarr2", shape=(6, 5), dtype="u2", chunks=(4, 3), codec="gzip")
    array[...] = np.arange(30).reshape(6, 5)
    (tmp_path / "0.1").write_bytes(b"no gzip")
    report = zvcore.repair(tmp_path)
    assert [loss.where for loss in report.losses] == ["0.1"] and (tmp_path / "0.1.bak").exists()
    assert zvcore.verify(tmp_path).ok
    assert (zvcore.open(tmp_path)[:4, 3:] == 0).all()


def test_the_newer_documents_are_meant_where_both_stand(tmp_path: Path) -> None:
    zvcore.create(tmp_path, format="zarr3", shape=(3,), dtype="u1")
    document(tmp_path)
    assert zvcore.open(tmp_path).format == "zarr3"
    assert zvcore.open(tmp_path, format="zarr2").format == "zarr2"


@pytest.mark.parametrize(
    "changes",
    [
        {"dtype": "|O", "filters": [{"id": "vlen-utf8"}], "fill_value": ""},
        {"filters": [{"id": "delta", "dtype": "<u2"}]},
        {"compressor": {"id": "zlib", "level": 1}},
        {"compressor": {"id": "blosc"}, "order": "F"},
    ],
)
def test_chunks_of_impossible_size_cost_nothing(tmp_path: Path, changes: dict[str, Any]) -> None:
    array = opened(tmp_path, shape=[2**60, 2**40], chunks=[2**40, 2**30], **changes)
    (tmp_path / "0.0").write_bytes(zlib.compress(bytes(1000)))
    with pytest.raises(ZvcoreError):
        array[0, 0]
    assert not zvcore.verify(tmp_path).ok


@pytest.mark.parametrize("order", ["C", "F"])
def test_chunks_that_nothing_encodes_are_read_where_they_belong(tmp_path: Path, order: Any) -> None:
    values = np.arange(60, dtype="u2").reshape(10, 6)
    array = zvcore.create(
        tmp_path, format="zarr2", shape=(10, 6), chunks=(4, 3), dtype="u2", codec=None, order=order, fill_value=9
    )
    array[...] = values
    out = np.full((6, 5), 77, "u2", order=order)
    array.read((slice(4, 8), slice(3, 6)), out=out[1:5, 1:4])
    assert (out[1:5, 1:4] == values[4:8, 3:6]).all()
    out[1:5, 1:4] = 77
    assert (out == 77).all()
    assert (array[8:, 3:] == values[8:, 3:]).all()
    for stored in (b"", bytes(23), bytes(25)):
        (tmp_path / "1.1").write_bytes(stored)
        with pytest.raises(CorruptDataError, match=r"1\.1"):
            array[4:8, 3:6]
        with pytest.raises(CorruptDataError, match=r"1\.1"):
            array.read((slice(4, 8), slice(3, 6)), out=out[1:5, 1:4])
        assert (out[0] == 77).all() and (out[5] == 77).all() and (out[:, 0] == 77).all() and (out[:, 4] == 77).all()
    (tmp_path / "1.1").unlink()
    assert (array[4:8, 3:6] == 9).all()


def test_the_bits_of_another_nan_are_told_where_documents_cannot_say_them(tmp_path: Path) -> None:
    other = np.array([0x7FC01234], "u4").view("f4")[0]
    with pytest.warns(zvcore.errors.LostMetadataWarning, match="0x7fc01234"):
        zvcore.create(tmp_path / "a", format="zarr2", shape=4, dtype="f4", fill_value=other)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        zvcore.create(tmp_path / "b", format="zarr2", shape=4, dtype=">f4", fill_value=np.nan)
        source = zvcore.create(tmp_path / "c", format="zarr3", shape=4, chunks=2, dtype="f4", fill_value=other)
        source[:2] = 1
        report = zvcore.convert(tmp_path / "c", tmp_path / "d", format="zarr2")
        same = zvcore.convert(tmp_path / "c", tmp_path / "e", format="zarr3")
    assert ["the fill value nan" in loss.what for loss in report.losses] == [True] and not same.losses
    assert zvcore.open(tmp_path / "d")[...].view("u4").tolist() == source[...].view("u4").tolist()


def test_texts_whose_fill_value_is_a_number_are_told(tmp_path: Path) -> None:
    zvcore.create(tmp_path / "a", format="zarr2", shape=4, dtype=str)
    assert not zvcore.verify(tmp_path / "a").problems
    document = json.loads((tmp_path / "a/.zarray").read_text())
    (tmp_path / "a/.zarray").write_text(json.dumps({**document, "fill_value": 0}))
    assert zvcore.open(tmp_path / "a")[...].tolist() == [""] * 4
    (problem,) = zvcore.verify(tmp_path / "a").problems
    assert "reads as '' here, and as '0' in zarr-python 3" in str(problem) and not problem.fatal
