""".trk and .tck as zvcore reads them: beside nibabel, piece by piece, and where what they say is not so."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import zvcore
from tests.tractograms.test_tractograms import DATA, FILES
from zvcore.errors import CorruptDataError, MetadataError, UnsupportedError, ZvcoreError

if TYPE_CHECKING:
    from pathlib import Path

nibabel = pytest.importorskip("nibabel")
pytest.importorskip("nibabel.streamlines")

RANDOM = np.random.default_rng(9)
GRID = np.array([[0.0, -2.0, 0, 90], [2, 0, 0, -126], [0, 0, 2.5, -72], [0, 0, 0, 1]], "f4")


def some_lines(*lengths: int) -> list[Any]:
    return [(RANDOM.random((length, 3)) * 90).astype("f4") for length in lengths]


def trk(path: Path, lines: list[Any], **data: Any) -> Path:
    header = nibabel.streamlines.TrkFile.create_empty_header()
    header.update(voxel_to_rasmm=GRID, voxel_sizes=[2, 2, 2.5], dimensions=[9, 8, 7], voxel_order=b"LAS")
    made = nibabel.streamlines.Tractogram(lines, affine_to_rasmm=np.eye(4), **data)
    nibabel.streamlines.TrkFile(made, header).save(str(path))
    return path


def tck(path: Path, lines: list[Any], dtype: str = "<f4", end: bytes | None = None, **header: str) -> Path:
    """A .tck by hand: nibabel writes only one type of numbers. Fields that are given as "" are left out."""
    names = {"f4": "Float32", "f8": "Float64"}
    said = {"count": str(len(lines)), "datatype": names[dtype[1:]] + {"<": "LE", ">": "BE"}[dtype[0]], **header}
    text = "".join(f"{name}: {value}\n" for name, value in said.items() if value)
    begin = len("mrtrix tracks\n") + len(text) + len("file: . 000\nEND\n")
    place = header.get("file", f". {begin:03}")
    parts = [part for line in lines for part in (line, np.full((1, 3), np.nan))]
    stored = np.concatenate([np.zeros((0, 3)), *parts, np.full((1 if end is None else 0, 3), np.inf)]).astype(dtype)
    head = f"mrtrix tracks\n{text}" + (f"file: {place}\n" if place else "") + "END\n"
    path.write_bytes(head.encode() + stored.tobytes() + (end or b""))
    return path


def contents(path: Path) -> tuple[list[Any], dict[str, list[Any]], Any]:
    opened = zvcore.open(path)
    lines: list[Any] = []
    values: dict[str, list[Any]] = {name: [] for name in opened.attributes}
    for batch in opened.batches():
        assert batch.ids.tolist() == list(range(len(lines), len(lines) + len(batch.ids)))
        assert batch.positions.dtype.isnative and batch.offsets.dtype == np.int64
        lines += np.split(batch.positions, batch.offsets[1:-1])
        for name, found in values.items():
            dtype, numbers = opened.attributes[name]
            value = batch.attributes[name]
            assert value.dtype == dtype and value.shape == (len(batch.positions), numbers)[: 1 + (numbers > 1)]
            found += np.split(value, batch.offsets[1:-1])
    return lines, values, opened.of_objects


def as_nibabel_has_it(path: Path) -> None:
    theirs = nibabel.streamlines.load(str(path))
    lines, values, of_objects = contents(path)
    assert len(lines) == len(theirs.streamlines)
    for one, other in zip(lines, theirs.streamlines, strict=True):
        assert one.dtype == np.float32 and np.allclose(one, other, rtol=1e-6, atol=2e-5)
    of_points, of_lines = theirs.tractogram.data_per_point, theirs.tractogram.data_per_streamline
    assert list(values) == list(of_points) and list(of_objects) == list(of_lines)
    for name, found in values.items():
        for one, other in zip(found, of_points[name], strict=True):
            assert np.array_equal(one.reshape(len(one), -1), other, equal_nan=True)
    for name, found in of_objects.items():
        assert found.dtype == np.float32 and np.array_equal(found.reshape(len(lines), -1), of_lines[name])


@pytest.fixture(params=[None, 64], ids=["whole", "piece by piece"])
def pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param is not None:
        monkeypatch.setattr("zvcore.tractograms.window._BYTES", request.param)


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("name", FILES)
def test_files_are_read_as_nibabel_reads_them(name: str) -> None:
    as_nibabel_has_it(DATA / name)


@pytest.mark.usefixtures("pieces")
def test_names_of_several_numbers_and_long_lines(tmp_path: Path) -> None:
    lines = some_lines(3, 1, 500, 2, 40)
    path = trk(
        tmp_path / "a.trk", lines,
        data_per_point={"b": [RANDOM.random((len(one), 3)) for one in lines], "a": [one[:, :1] for one in lines]},
        data_per_streamline={"mean": RANDOM.random((5, 2)), "bundle": np.arange(5)[:, None]},
    )  # fmt: skip
    found, values, of_objects = contents(path)
    assert all(np.allclose(a, b, atol=1e-4) for a, b in zip(found, lines, strict=True))
    assert list(values) == ["a", "b"] and list(of_objects) == ["bundle", "mean"]
    assert of_objects["bundle"].tolist() == [0, 1, 2, 3, 4] and of_objects["mean"].shape == (5, 2)


@pytest.mark.usefixtures("pieces")
def test_lines_of_a_trk_without_vertices_are_lines(tmp_path: Path) -> None:
    path = trk(tmp_path / "a.trk", some_lines(3, 2), data_per_streamline={"n": np.arange(2)[:, None]})
    raw = path.read_bytes()
    empty = np.array([0], "<i4").tobytes() + np.array([7], "<f4").tobytes()
    path.write_bytes(raw[:1000] + empty + raw[1000:1044] + empty * 2 + raw[1044:] + empty)
    found, _, of_objects = contents(changed(path, 988, 6, "<i4"))
    assert [len(one) for one in found] == [0, 3, 0, 0, 2, 0] and of_objects["n"].tolist() == [7, 0, 7, 7, 1, 7]
    lines = zvcore.formats()["trk"].read_lines(zvcore.open(path))
    assert lines is not None and (lines.empty, lines.count, lines.vertices) == (4, 6, 5)


def swapped(raw: bytes) -> bytes:
    """The same .trk in the other order of bytes."""
    dtype = nibabel.streamlines.trk.header_2_dtype
    header = np.frombuffer(raw[:1000], dtype).astype(dtype.newbyteorder())
    return header.tobytes() + np.frombuffer(raw[1000:], "<u4").byteswap().tobytes()


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("named", [False, True])
def test_both_orders_of_bytes_hold_the_same_lines(tmp_path: Path, named: bool) -> None:
    lines = some_lines(3, 1, 200, 2)
    data: dict[str, Any] = {
        "data_per_point": {"fa": [one[:, :1] for one in lines]}, "data_per_streamline": {"n": np.arange(4)[:, None]},
    }  # fmt: skip
    path = trk(tmp_path / "a.trk", lines, **(data if named else {}))
    (tmp_path / "b.trk").write_bytes(swapped(path.read_bytes()))
    one, other = contents(path), contents(tmp_path / "b.trk")
    assert all(np.array_equal(a, b) for a, b in zip(one[0], other[0], strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(one[1].get("fa", []), other[1].get("fa", []), strict=True))
    assert all(np.array_equal(one[2][name], other[2][name]) for name in one[2])
    as_nibabel_has_it(tmp_path / "b.trk")


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", ">f8"])
def test_a_tck_has_numbers_of_either_size_and_order(tmp_path: Path, dtype: str) -> None:
    lines = [one.astype(dtype[1:]) + (1e-9 if dtype[1:] == "f8" else 0) for one in some_lines(5, 1, 300, 2)]
    path = tck(tmp_path / "a.tck", lines, dtype)
    found, _, of_objects = contents(path)
    assert not of_objects and [one.dtype for one in found] == [np.dtype(dtype[1:])] * 4
    assert all(np.array_equal(a, b) for a, b in zip(found, lines, strict=True))
    if dtype[1:] == "f4":
        as_nibabel_has_it(path)
    zvcore.convert(path, tmp_path / "a.trx")
    (batch,) = zvcore.open(tmp_path / "a.trx").batches()
    assert np.array_equal(batch.positions, np.concatenate(lines))


LENGTHS = st.lists(st.integers(0, 30), max_size=20)
# nibabel does not write lines without vertices as what they are.
THERE = st.lists(st.integers(1, 30), min_size=1, max_size=20)


@settings(max_examples=60, deadline=None)
@given(lengths=THERE, numbers=st.tuples(st.integers(0, 4), st.integers(0, 3)), piece=st.integers(4, 600))
def test_any_trk_is_read_in_any_pieces(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], numbers: tuple[int, int], piece: int
) -> None:
    lines = some_lines(*lengths)
    of_points, of_lines = numbers
    data: dict[str, Any] = {}
    if of_points:
        data["data_per_point"] = {"p": [RANDOM.random((len(one), of_points)) for one in lines]}
    if of_lines:
        data["data_per_streamline"] = {"q": RANDOM.random((len(lines), of_lines))}
    path = trk(tmp_path_factory.mktemp("any") / "a.trk", lines, **data)
    whole = contents(path)
    assert [len(one) for one in whole[0]] == [len(one) for one in lines]
    assert all(np.allclose(a, b, atol=1e-4) for a, b in zip(whole[0], lines, strict=True))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("zvcore.tractograms.window._BYTES", piece)
        patched.setattr("zvcore.tractograms.trk_reading._LINES", 3)
        parts = contents(path)
    for one, other in zip(whole[:2], parts[:2], strict=True):
        a, b = (found if isinstance(found, list) else found.get("p", []) for found in (one, other))
        assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
    assert all(np.array_equal(whole[2][name], parts[2][name]) for name in whole[2])
    if of_points:
        made = np.concatenate(data["data_per_point"]["p"]).astype("f4")
        assert np.array_equal(np.concatenate(whole[1]["p"]).reshape(made.shape), made)
    if of_lines:
        made = data["data_per_streamline"]["q"].astype("f4")
        assert np.array_equal(whole[2]["q"].reshape(made.shape), made)


@settings(max_examples=60, deadline=None)
@given(lengths=LENGTHS, dtype=st.sampled_from(["<f4", ">f8"]), piece=st.integers(8, 600))
def test_any_tck_is_read_in_any_pieces(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], dtype: str, piece: int
) -> None:
    lines = some_lines(*lengths)
    # What is no number in one coordinate is a vertex that lies nowhere, and no end of a line.
    for line in lines[::3]:
        line[len(line) // 2 :, 0] = np.nan
        line[: len(line) // 4, 2] = np.inf
    path = tck(tmp_path_factory.mktemp("any") / "a.tck", lines, dtype)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("zvcore.tractograms.window._BYTES", piece)
        found, _, _ = contents(path)
    there = [one for one in lines if len(one)]
    assert len(found) == len(there)
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(found, there, strict=True))


def told_of(path: Path) -> ZvcoreError:
    """The error of a file that cannot be read, which `verify` tells, too."""
    with pytest.raises(ZvcoreError) as caught:
        zvcore.open(path).lines()
    assert not zvcore.verify(path).ok
    assert str(path) in str(caught.value) and caught.value.offset is not None
    assert caught.value.expected is not None and caught.value.found is not None
    return caught.value


def changed(path: Path, at: int, value: Any, dtype: str) -> Path:
    raw = bytearray(path.read_bytes())
    new = np.array(value, dtype).tobytes()
    raw[at : at + len(new)] = new
    path.write_bytes(raw)
    return path


@pytest.mark.usefixtures("pieces")
def test_a_line_of_fewer_vertices_than_none(tmp_path: Path) -> None:
    path = changed(trk(tmp_path / "a.trk", some_lines(3, 2, 4)), 1000 + 4 + 36, -5, "<i4")
    error = told_of(path)
    assert isinstance(error, CorruptDataError) and (error.offset, error.found) == (1040, -5)


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("claimed", [3, 2**28, 2**31 - 1])
def test_a_line_that_claims_more_than_there_is_gets_no_room(tmp_path: Path, claimed: int) -> None:
    path = changed(trk(tmp_path / "a.trk", some_lines(3, 2)), 1040, claimed, "<i4")
    tracemalloc.start()
    try:
        error = told_of(path)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
    assert isinstance(error, CorruptDataError) and error.offset == 1040
    assert (error.expected, error.found) == (f"{4 + 12 * claimed} bytes", 28)


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("cut", [1, 2, 5, 27])
def test_a_trk_that_is_cut_within_a_line(tmp_path: Path, cut: int) -> None:
    path = trk(tmp_path / "a.trk", some_lines(3, 2))
    path.write_bytes(path.read_bytes()[:-cut])
    error = told_of(path)
    assert isinstance(error, CorruptDataError) and (error.offset, error.found) == (1040, 28 - cut)


def test_a_trk_whose_header_is_cut(tmp_path: Path) -> None:
    path = trk(tmp_path / "a.trk", some_lines(3))
    path.write_bytes(path.read_bytes()[:999])
    error = told_of(path)
    assert (error.offset, error.expected, error.found) == (0, "1000 bytes", 999)


FIELDS = [("nb_streamlines", 988, -3, "<i4"), ("nb_scalars_per_point", 36, -1, "<i2"),
          ("nb_properties_per_streamline", 238, -2, "<i2")]  # fmt: skip


@pytest.mark.parametrize(("field", "at", "value", "dtype"), FIELDS)
def test_numbers_below_zero_in_a_header(tmp_path: Path, field: str, at: int, value: int, dtype: str) -> None:
    error = told_of(changed(trk(tmp_path / "a.trk", some_lines(3)), at, value, dtype))
    assert isinstance(error, MetadataError) and error.offset == at and error.found == value and field in str(error)


def test_names_that_claim_other_numbers_than_there_are(tmp_path: Path) -> None:
    lines = some_lines(3, 2)
    path = trk(tmp_path / "a.trk", lines, data_per_point={"fa": [one[:, :2] for one in lines]})
    raw = path.read_bytes()
    for name, expected in {b"fa\x001": ["fa", "scalars"], b"fa\x0099": ["fa"], b"": ["scalars"]}.items():
        path.write_bytes(raw[:38] + name.ljust(20, b"\0") + raw[58:])
        opened = zvcore.open(path)
        assert list(opened.attributes) == expected
        assert sum(number for _, number in opened.attributes.values()) == 2
        (batch,) = opened.batches()
        table = np.concatenate([batch.attributes[one].reshape(5, -1) for one in expected], 1)
        assert np.array_equal(table, np.concatenate(lines)[:, :2])
    path.write_bytes(raw[:38] + b"fa\x00-7".ljust(20, b"\0") + raw[58:])
    error = told_of(path)
    assert error.offset == 38 and error.found[0] == b"fa\0-7"


def test_names_that_belong_to_no_numbers_are_not_read(tmp_path: Path) -> None:
    path = trk(tmp_path / "a.trk", some_lines(3, 2))
    raw = path.read_bytes()
    path.write_bytes(raw[:38] + b"fa\x00many".ljust(20, b"\0") + raw[58:])
    assert not zvcore.open(path).attributes and zvcore.verify(path).ok
    with pytest.raises(CorruptDataError, match="many"):
        zvcore.open(changed(path, 36, 1, "<i2"))


@pytest.mark.parametrize("kind", ["trk", "tck"])
def test_long_files_are_gone_through_in_little_memory(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.{kind}"
    if kind == "trk":
        raw = changed(trk(path, some_lines(3)), 988, 8000, "<i4").read_bytes()[:1000]
        line = np.array([600, *[0] * 1800], "<i4").tobytes()
    else:
        raw = tck(path, [], end=b"").read_bytes()
        line = np.ones(1800, "<f4").tobytes() + NO_NUMBER
    path.write_bytes(raw + line * 8000 + (MARK if kind == "tck" else b""))
    tracemalloc.start()
    try:
        assert sum(len(batch.ids) for batch in zvcore.open(path).batches()) == 8000
        assert tracemalloc.get_traced_memory()[1] < 32 << 20 < path.stat().st_size
    finally:
        tracemalloc.stop()


def test_sizes_of_voxels_that_lead_nowhere(tmp_path: Path) -> None:
    path = changed(trk(tmp_path / "a.trk", some_lines(3)), 12, [0, 0, 0], "<f4")
    with pytest.raises(ZvcoreError):
        zvcore.open(path)


@pytest.mark.usefixtures("pieces")
def test_a_trk_that_does_not_say_how_many_lines_it_has(tmp_path: Path) -> None:
    path = changed(trk(tmp_path / "a.trk", some_lines(3, 2, 7)), 988, 0, "<i4")
    assert zvcore.open(path).stated is None and len(contents(path)[0]) == 3
    assert zvcore.verify(path).ok and not zvcore.convert(path, tmp_path / "a.trx").losses


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("stated", [2, 4])
def test_a_trk_of_other_numbers_of_lines_than_its_header_says(tmp_path: Path, stated: int) -> None:
    path = changed(trk(tmp_path / "a.trk", some_lines(3, 2, 7)), 988, stated, "<i4")
    said = {
        2: "88 bytes behind the 2 lines that the header tells of are left out",
        4: "the header says that there are 4 lines, and there are 3",
    }[stated]
    (problem,) = zvcore.verify(path).problems
    assert problem.what == said and len(contents(path)[0]) == min(stated, 3)
    assert [str(loss) for loss in zvcore.convert(path, tmp_path / "a.trx").losses] == [said]


def test_a_trk_without_lines_has_names_all_the_same(tmp_path: Path) -> None:
    lines = some_lines(3)
    path = trk(
        tmp_path / "a.trk", lines, data_per_point={"fa": [lines[0][:, :1]]}, data_per_streamline={"n": np.ones((1, 1))}
    )
    path.write_bytes(changed(path, 988, 0, "<i4").read_bytes()[:1000])
    found, values, of_objects = contents(path)
    assert not found and list(values) == ["fa"] and of_objects["n"].shape == (0,)
    assert zvcore.verify(path).ok


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("lines", [[], [0], [3, 40, 2]])
def test_a_tck_without_its_end_marker(tmp_path: Path, lines: list[int]) -> None:
    path = tck(tmp_path / "a.tck", some_lines(*lines), end=b"")
    error = told_of(path)
    assert isinstance(error, CorruptDataError) and error.offset == path.stat().st_size and error.found == "0 bytes"


MARK, ROW = np.full(3, np.inf, "<f4").tobytes(), np.ones(3, "<f4").tobytes()
NO_NUMBER = np.full(3, np.nan, "<f4").tobytes()
ENDS = {
    "a line without its end": (ROW + MARK, "the last line has no end", 0),
    "a part of a vertex": (ROW[:7], "ends without its end marker", 0),
    "a part of the end": (MARK[:11], "ends without its end marker", 0),
    "bytes behind the end": (MARK + b"abc", "goes on behind its end", 12),
    "lines behind the end": (MARK + ROW + NO_NUMBER + MARK, "goes on behind its end", 12),
    "two ends": (MARK * 2, "goes on behind its end", 12),
}  # fmt: skip


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize(("end", "words", "behind"), ENDS.values(), ids=ENDS)
def test_a_tck_that_ends_otherwise_than_it_must(tmp_path: Path, end: bytes, words: str, behind: int) -> None:
    path = tck(tmp_path / "a.tck", some_lines(3, 10), end=end)
    error = told_of(path)
    assert isinstance(error, CorruptDataError) and words in str(error)
    assert error.offset == path.stat().st_size - len(end) + behind


@pytest.mark.parametrize("count", ["6", "2"])
def test_lines_of_a_tck_without_vertices_are_left_out_and_told(tmp_path: Path, count: str) -> None:
    path = tck(tmp_path / "a.tck", some_lines(0, 4, 0, 3, 0, 0), count=count)
    assert [len(one) for one in contents(path)[0]] == [4, 3]
    losses = [str(loss) for loss in zvcore.convert(path, tmp_path / "a.trx").losses if "vertices" in str(loss)]
    assert losses == ["4 lines without vertices are left out"]
    assert not any("the header says that there" in problem.what for problem in zvcore.verify(path).problems)


def test_a_tck_of_other_numbers_of_lines_than_its_header_says(tmp_path: Path) -> None:
    path = tck(tmp_path / "a.tck", some_lines(4, 3), count="0000000005")
    (problem,) = zvcore.verify(path).problems
    assert problem.what == "the header says that there are 5 lines, and there are 2"
    for count in ("", "0"):
        path = tck(tmp_path / "b.tck", some_lines(4, 3), count=count)
        assert zvcore.open(path).stated is None and zvcore.verify(path).ok


def test_what_the_header_of_a_tck_leaves_open_is_noted(tmp_path: Path) -> None:
    path = tck(tmp_path / "a.tck", some_lines(4, 3), datatype="", file="")
    assert [len(one) for one in contents(path)[0]] == [4, 3]
    report = zvcore.verify(path)
    assert report.ok and [problem.fatal for problem in report.problems] == [False, False]
    assert len(zvcore.convert(path, tmp_path / "a.trx").notes) == 2


WRONG: list[tuple[dict[str, str], type[ZvcoreError]]] = [
    ({"datatype": "Int32LE"}, UnsupportedError), ({"file": "other.dat 0"}, UnsupportedError),
    ({"file": ". 5"}, MetadataError), ({"file": ". 99999999999"}, MetadataError), ({"file": ". -1"}, MetadataError),
    ({"file": "."}, MetadataError), ({"file": ". ²"}, MetadataError), ({"count": "-1"}, MetadataError),
    ({"count": "many"}, MetadataError), ({"count": "9" * 5000}, MetadataError),
]  # fmt: skip


@pytest.mark.parametrize(("header", "kind"), WRONG)
def test_headers_of_a_tck_that_cannot_be(tmp_path: Path, header: dict[str, str], kind: type[ZvcoreError]) -> None:
    assert type(told_of(tck(tmp_path / "a.tck", some_lines(4), **header))) is kind


TEXTS = [b"", b"\n", b"\nabc: 1\n", b"\nno name\nEND\n", b"\nname: \xff\nEND\n", b"\n" + b"a" * (2 << 20)]


@pytest.mark.parametrize("text", TEXTS)
def test_headers_of_a_tck_that_do_not_end_or_are_no_text(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "a.tck"
    path.write_bytes(b"mrtrix tracks" + text)
    assert isinstance(told_of(path), MetadataError)


def test_a_header_of_a_tck_is_long_and_says_things_twice(tmp_path: Path) -> None:
    said = "".join(f"command: c{number}\r\n" for number in range(3000))
    text = f"mrtrix tracks\n\n{said}on\ndatatype: Float32LE\n"
    path = tmp_path / "a.tck"
    path.write_bytes(f"{text}file: . {len(text) + 18}\nEND\n".encode() + ROW + NO_NUMBER + MARK)
    theirs = nibabel.streamlines.load(str(path)).header
    header = zvcore.open(path).header()["header"]
    assert header["command"] == theirs["command"] and header["command"].endswith("c2999\non")
    assert list(header) == ["command", "voxel_to_rasmm"] and len(contents(path)[0]) == 1
