"""`.npy` and `.npz` as a format among others: files made by numpy, and files that lie."""

from __future__ import annotations

import io
import pickle
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.commands.cli import main
from zvcore.errors import NotFoundError, ReadOnlyError, UnsupportedError, ZvcoreError
from zvcore.npy import reading

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VALUES = np.random.default_rng(1).integers(0, 60000, (37, 53, 41)).astype("u2")


@pytest.mark.parametrize("dtype", ["?", "i1", "<u2", ">u2", "<i8", ">f4", "f8", "<f2", "c8", "S3", "M8[s]"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_what_numpy_saves_is_read(tmp_path: Path, dtype: str, order: str) -> None:
    values = np.asarray(VALUES[:9, :5, :7].astype("i8").astype(dtype), order=order)
    np.save(tmp_path / "a.npy", values)
    found = zvcore.open(tmp_path / "a.npy")
    assert found.format == "npy" and found.dtype == values.dtype.newbyteorder("=")
    assert np.array_equal(found[...], values) and np.array_equal(found[3:8, ::-2, 4], values[3:8, ::-2, 4])
    assert zvcore.verify(tmp_path / "a.npy").ok


@pytest.mark.filterwarnings("ignore:Stored array in format:UserWarning")
@pytest.mark.parametrize("name", ["größe", "中文", "\\\"'中"])
def test_later_versions_of_the_header(tmp_path: Path, name: str) -> None:
    """numpy writes the third for names in other letters than those of Latin-1."""
    values = np.array([(1, 2), (3, 4)], [("a", "<i2"), (name, "<i4")])
    np.save(tmp_path / "a.npy", values)
    found = zvcore.open(tmp_path / "a.npy")
    assert found.dtype == values.dtype and np.array_equal(found[...], values)
    zvcore.convert(tmp_path / "a.npy", tmp_path / "b.npy")
    back = np.load(tmp_path / "b.npy")
    assert back.dtype == values.dtype and np.array_equal(back, values)
    assert (tmp_path / "b.npy").read_bytes() == (tmp_path / "a.npy").read_bytes()


@pytest.mark.filterwarnings("ignore:Stored array in format:UserWarning")
def test_headers_that_numpy_does_not_read_by_itself(tmp_path: Path) -> None:
    values = np.zeros(3, [(f"field{number:05}", "<i2") for number in range(4000)])
    np.save(tmp_path / "a.npy", values)
    with pytest.raises(UnsupportedError, match="a header of this size"):
        zvcore.open(tmp_path / "a.npy")
    zvcore.create(tmp_path / "a.zarr", format="zarr2", data=values)
    with pytest.raises(UnsupportedError, match=r"the header of such a \.npy would be too long"):
        zvcore.convert(tmp_path / "a.zarr", tmp_path / "b.npy")
    assert not (tmp_path / "b.npy").exists()


@pytest.mark.parametrize("shape", [(), (0, 5), (1,), (3, 1, 4)])
def test_odd_shapes(tmp_path: Path, shape: tuple[int, ...]) -> None:
    values = np.arange(int(np.prod(shape)), dtype="i4").reshape(shape)
    np.save(tmp_path / "a.npy", values)
    assert np.array_equal(zvcore.open(tmp_path / "a.npy")[...], values)
    assert zvcore.verify(tmp_path / "a.npy").ok


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_file_is_converted_with_the_order_of_its_axes(tmp_path: Path, order: str) -> None:
    np.save(tmp_path / "a.npy", np.asarray(VALUES, order=order))
    report = zvcore.convert(tmp_path / "a.npy", tmp_path / "a.zarr", format="zarr3", shards=True, verify=True)
    assert report.ok and np.array_equal(zvcore.open(tmp_path / "a.zarr")[...], VALUES)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_of_an_archive_are_found_by_name(tmp_path: Path, save: Any) -> None:
    save(tmp_path / "a.npz", first=VALUES, **{"deep/second": VALUES[0]})
    group = zvcore.open(tmp_path / "a.npz")
    assert group.kind == "group" and np.array_equal(group["first"][2:9, 5], VALUES[2:9, 5])
    assert np.array_equal(zvcore.open(f"{tmp_path}/a.npz:/deep/second")[...], VALUES[0])
    assert zvcore.verify(tmp_path / "a.npz").counts["arrays"] == 2
    zvcore.convert(f"{tmp_path}/a.npz:/first", tmp_path / "a.zarr", format="zarr3", verify=True)
    zvcore.convert(tmp_path / "a.npz", tmp_path / "g.zarr", format="zarr3", verify=True)
    assert np.array_equal(zvcore.open(tmp_path / "g.zarr")["first"][...], VALUES)
    with pytest.raises(NotFoundError, match="third"):
        zvcore.open(f"{tmp_path}/a.npz:/third")


def test_a_file_is_pickled_as_its_place(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", VALUES)
    np.savez(tmp_path / "a.npz", one=VALUES)
    for path in (tmp_path / "a.npy", f"{tmp_path}/a.npz:/one"):
        stored = pickle.dumps(zvcore.open(path))
        assert len(stored) < 2000 and np.array_equal(pickle.loads(stored)[...], VALUES)


def test_the_commands_take_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "a.npy", VALUES)
    path = str(tmp_path / "a.npy")
    assert main(["info", path]) == 0
    assert "37 53 41" in capsys.readouterr().out
    assert main(["verify", path, "-q"]) == 0
    assert main(["get", path, "3:9,:,5", "-o", str(tmp_path / "b.npy")]) == 0
    assert np.array_equal(np.load(tmp_path / "b.npy"), VALUES[3:9, :, 5])
    assert main(["preview", path, "-o", str(tmp_path / "b.png")]) == 0
    assert main(["convert", path, str(tmp_path / "b.n5"), "--format", "n5", "-q"]) == 0
    assert np.array_equal(zvcore.open(tmp_path / "b.n5")[...].T, VALUES)


def saved(values: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


GOOD = saved(np.arange(1000, dtype="u2"))


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"\x93NUMPY", GOOD[:60], GOOD[:-1], GOOD[:128], b"x" * 500,
        GOOD.replace(b"(1000,)", b"(-100,)"), GOOD.replace(b"(1000,)", b"(9**9,)"),
        GOOD.replace(b"(1000,)", b"'abcde'"),
        GOOD.replace(b"'<u2'", b"'|O8'"), GOOD.replace(b"'<u2'", b"'<zz'"), GOOD.replace(b"'<u2'", b"'|V0'"),
        GOOD.replace(b"(1000,)", b"(" + b"9" * 40 + b",)"), GOOD.replace(b"\x93NUMPY\x01", b"\x93NUMPY\x07"),
    ],
    ids=str,
)  # fmt: skip
def test_a_file_that_lies_is_an_error_of_zvcore(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "a.npy").write_bytes(raw)
    with pytest.raises(ZvcoreError):
        zvcore.open(tmp_path / "a.npy")
    report = zvcore.verify(tmp_path / "a.npy")
    assert not report.ok and report.problems[0].where == "a.npy"


def test_a_file_that_became_another_is_not_read_on(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", VALUES)
    array = zvcore.open(tmp_path / "a.npy")
    (tmp_path / "a.npy").unlink()
    np.save(tmp_path / "a.npy", VALUES[::-1].astype("u4"))
    with pytest.raises(ZvcoreError, match=r"open it again|another|changed"):
        array[...]


def test_a_member_that_claims_too_much_is_refused_before_memory_is_taken(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", GOOD.replace(b"(1000,)", b"(9" + b"0" * 15 + b",)"))
        archive.writestr("b.npy", GOOD)
    report = zvcore.verify(tmp_path / "a.npz")
    assert [problem.where for problem in report.problems] == ["a.npy"]
    assert "too short" in report.problems[0].what
    assert report.counts["arrays"] == 1


def test_it_is_not_changed_and_written_as_a_whole(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", VALUES)
    with pytest.raises(UnsupportedError, match="not written"):
        zvcore.open(tmp_path / "a.npy", "r+")
    with pytest.raises(UnsupportedError):
        zvcore.create(tmp_path / "b.npy", format="npy", shape=(3,), dtype="u1")
    assert not (tmp_path / "b.npy").exists()
    zvcore.convert(tmp_path / "a.npy", tmp_path / "b.npy", format="npy")
    assert np.array_equal(np.load(tmp_path / "b.npy"), VALUES)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_verify_looks_at_the_checksums_of_an_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: Any
) -> None:
    monkeypatch.setattr("zvcore.stores.zip_archive._PIECE", 1 << 16)
    path = tmp_path / "a.npz"
    save(path, x=VALUES, y=VALUES[:3])
    assert zvcore.verify(path).ok
    archive = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as entries:
        at = entries.getinfo("y.npy").header_offset + entries.getinfo("y.npy").compress_size // 2
    archive[at] ^= 4
    path.write_bytes(archive)
    report = zvcore.verify(path)
    assert report.status == "damaged" and len(report.problems) == 1
    assert "y" in report.problems[0].where.removeprefix(str(tmp_path)) and "crc32" in report.problems[0].what
    assert main(["verify", str(path)]) == 1


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    "dtype", [[("a", ">i4"), ("b", ">f8")], [("a", "<i4"), ("b", ">f8"), ("c", "S3")], [("a", [("b", ">u2", (2,))])]]
)
def test_records_with_fields_in_the_other_byte_order(tmp_path: Path, dtype: list[Any], order: Any) -> None:
    values = np.zeros((3, 4), dtype, order=order)
    values[...] = np.frombuffer(bytes(range(12 * values.itemsize)), dtype).reshape(3, 4)
    np.save(tmp_path / "a.npy", values)
    array = zvcore.open(tmp_path / "a.npy")
    native = values.dtype.newbyteorder("=")
    assert array.dtype == native
    assert array[...].tobytes() == values.astype(native).tobytes()
    assert array[1:, ::-2].tobytes() == values[1:, ::-2].astype(native).tobytes()
    assert zvcore.verify(tmp_path / "a.npy").ok


def test_what_is_only_read_does_not_tell_to_open_it_for_writing(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", one=VALUES[0, 0])
    group = zvcore.open(tmp_path / "a.npz")
    array = group["one"]
    changes: list[Callable[[], Any]] = [
        lambda: array.write(..., 1), lambda: array.resize((5,)), lambda: array.delete_block((0,)),
        lambda: array.attrs.update(a=1), lambda: group.attrs.update(a=1), lambda: group.__delitem__("one"),
    ]  # fmt: skip
    for change in changes:
        with pytest.raises(ReadOnlyError, match="only read: convert it"):
            change()
    assert (array[...] == VALUES[0, 0]).all()


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [("<u2", (3, 4)), ("<u2", (5,)), ("<f8", ()), ("|b1", (2, 0, 3)), (">i4", (1, 2, 3)), ("|S7", (2,)), ("<c16", (2,)),
     ("<M8[s]", (2,)), ([("a", "<i2"), ("b", "<f4")], (3,)), ("<f2", (1,) * 30)],
)  # fmt: skip
@pytest.mark.parametrize("order", ["C", "F"])
def test_headers_are_understood_as_numpy_does(tmp_path: Path, dtype: Any, shape: tuple[int, ...], order: Any) -> None:
    """Usual ones without Python's parser, whose answer is the same."""
    values = np.asarray(np.ones(shape, dtype), order=order)
    np.save(tmp_path / "a.npy", values)
    head = (tmp_path / "a.npy").read_bytes()
    usual = reading._usual_values(head[: reading._FIRST])
    assert (usual is not None) == (values.dtype.kind in "biufc")
    assert usual in (None, reading._values(head, "a.npy"))
    assert np.array_equal(zvcore.open(tmp_path / "a.npy")[...], values)


@pytest.mark.parametrize(
    "said",
    ["'<u3', 'fortran_order': False, 'shape': (2,)", "'<u2', 'fortran_order': False, 'shape': (2)",
     "'<u2', 'fortran_order': False, 'shape': (02,)", "'<u2', 'fortran_order': False, 'shape': (9223372036854775807,)",
     "'<u2', 'fortran_order': False, 'shape': (99999999999999999999,)", "'<u2', 'fortran_order': 1, 'shape': (2,)",
     "'<u2', 'fortran_order': False, 'shape': (2,,)", "'<u2', 'fortran_order': False, 'shape': (,)",
     "'<u2', 'fortran_order': False, 'shape': (-2,)", "'<u2', 'fortran_order': False, 'shape': (1" + "1" * 120 + "x)"],
)  # fmt: skip
def test_headers_that_are_almost_usual_are_refused(tmp_path: Path, said: str) -> None:
    text = f"{{'descr': {said}, }}".ljust(246)
    head = b"\x93NUMPY\x01\x00" + (len(text) + 1).to_bytes(2, "little") + text.encode() + b"\n"
    assert len(head) > 200
    (tmp_path / "a.npy").write_bytes(head + bytes(64))
    with pytest.raises(ZvcoreError):
        zvcore.open(tmp_path / "a.npy")
    assert reading._usual_values(head[: reading._FIRST]) is None


def test_a_header_that_ends_elsewhere_than_it_says_is_left_to_numpy(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(4, dtype="<u2"))
    data = bytearray((tmp_path / "a.npy").read_bytes())
    length = int.from_bytes(data[8:10], "little")
    for other in (length - 2, length + 2):
        data[8:10] = other.to_bytes(2, "little")
        assert reading._usual_values(bytes(data)) is None
