"""Files of streamlines as formats: TRX as trx-python has it, .trk and .tck as nibabel has them, and files that lie."""

from __future__ import annotations

import json
import os
import tracemalloc
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zvcore
from zvcore.commands.cli import main
from zvcore.errors import ConflictError, CorruptDataError, MetadataError, UnsupportedError, ZvcoreError

nibabel = pytest.importorskip("nibabel")
pytest.importorskip("nibabel.streamlines")

DATA = Path(nibabel.__file__).parent / "tests" / "data"
FILES = ["standard.trk", "standard.LPS.trk", "complex.trk", "complex_big_endian.trk", "simple.trk", "standard.tck"]
RANDOM = np.random.default_rng(5)
LENGTHS = [4, 1, 9, 3000, 2]
OFFSETS = np.cumsum([0, *LENGTHS])
AFFINE = [[0.0, -2.0, 0, 90], [2, 0, 0, -126], [0, 0, 2.5, -72], [0, 0, 0, 1]]


def same_as_nibabel(one: Path, other: Path) -> None:
    ours, theirs = nibabel.streamlines.load(one), nibabel.streamlines.load(other)
    for member, value in theirs.header.items():
        assert member == "endianness" or np.array_equal(value, ours.header[member]), member
    assert len(ours.streamlines) == len(theirs.streamlines)
    assert all(np.allclose(a, b, atol=1e-4) for a, b in zip(ours.streamlines, theirs.streamlines, strict=True))
    for kind in ("data_per_point", "data_per_streamline"):
        mine, yours = getattr(ours.tractogram, kind), getattr(theirs.tractogram, kind)
        assert sorted(mine) == sorted(yours)
        assert all(np.array_equal(a, b) for name in mine for a, b in zip(mine[name], yours[name], strict=True))


@pytest.mark.parametrize("name", FILES)
def test_files_come_back_from_stores_with_header_and_attributes(tmp_path: Path, name: str) -> None:
    back = tmp_path / f"back{Path(name).suffix}"
    assert main(["convert", "-q", str(DATA / name), str(tmp_path / "store"), "--format", "zvf"]) == 0
    assert main(["convert", "-q", str(tmp_path / "store"), str(back), "--format", back.suffix[1:]]) == 0
    same_as_nibabel(back, DATA / name)
    for path in (tmp_path / "store", back):
        assert main(["verify", "-q", str(path)]) == 0


@pytest.mark.parametrize("name", ["standard.trk", "complex.trk"])
def test_trx_takes_what_a_trk_has_and_gives_it_back(tmp_path: Path, name: str) -> None:
    assert not zvcore.convert(DATA / name, tmp_path / "a.trx", format="trx").losses
    assert not zvcore.convert(tmp_path / "a.trx", tmp_path / "back.trk", format="trk").losses
    same_as_nibabel(tmp_path / "back.trk", DATA / name)


def arrays(positions: str = "float16", offsets: Any = OFFSETS) -> dict[str, Any]:
    count = int(OFFSETS[-1])
    return {
        f"positions.3.{positions}": (RANDOM.random((count, 3)) * 50).astype(positions), "offsets.uint64": offsets,
        "dpv/fa.float16": RANDOM.random(count).astype("f2"), "dpv/colour.3.uint8": RANDOM.integers(0, 255, (count, 3)),
        "dps/bundle.uint8": np.arange(5), "dps/mean.3.float64": RANDOM.random((5, 3)),
        "groups/left.uint32": np.array([3, 0]), "groups/right.uint32": np.array([1, 2, 4]),
        "groups/none.uint32": np.zeros(0), "dpg/left/weight.float32": np.array([0.1]),
    }  # fmt: skip


def make(path: Path, members: dict[str, Any], **header: Any) -> Path:
    said = {
        "DIMENSIONS": [91, 109, 91], "VOXEL_TO_RASMM": AFFINE, "NB_VERTICES": int(OFFSETS[-1]), "NB_STREAMLINES": 5,
        **header,
    }  # fmt: skip
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps(said))
        for name, values in members.items():
            kind = "bool" if name.endswith(".bit") else name.rpartition(".")[2]
            archive.writestr(name, np.ascontiguousarray(values, kind).tobytes())
    return path


def contents(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        found = {name: archive.read(name) for name in archive.namelist()}
    return {**found, "header.json": json.loads(found["header.json"])}


@pytest.mark.parametrize("positions", ["float16", "float32", "float64"])
def test_all_of_a_trx_comes_back_from_a_store_byte_by_byte(tmp_path: Path, positions: str) -> None:
    path = make(tmp_path / "a.trx", arrays(positions))
    zvcore.convert(path, tmp_path / "store", format="zvf")
    report = zvcore.convert(tmp_path / "store", tmp_path / "b.trx", format="trx")
    assert not report.losses and contents(tmp_path / "b.trx") == contents(path)


def test_trx_python_reads_what_is_written_and_the_reverse(tmp_path: Path) -> None:
    module = pytest.importorskip("trx.trx_file_memmap")
    path = make(tmp_path / "a.trx", arrays("float32"))
    zvcore.convert(path, tmp_path / "store", format="zvf")
    zvcore.convert(tmp_path / "store", tmp_path / "b.trx", format="trx")
    ours, theirs = module.load(str(tmp_path / "b.trx")), module.load(str(path))
    assert all(np.array_equal(a, b) for a, b in zip(ours.streamlines, theirs.streamlines, strict=True))
    assert np.array_equal(ours.header["VOXEL_TO_RASMM"], theirs.header["VOXEL_TO_RASMM"])
    assert all(np.array_equal(ours.groups[name], theirs.groups[name]) for name in ("left", "right"))
    assert np.array_equal(ours.data_per_group["left"]["weight"], theirs.data_per_group["left"]["weight"])
    for name in ("bundle", "mean"):
        assert np.array_equal(ours.data_per_streamline[name], theirs.data_per_streamline[name])
    module.save(theirs, str(tmp_path / "c.trx"))
    lines = zvcore.formats()["trx"].read_lines(zvcore.open(tmp_path / "c.trx"))
    assert lines is not None and lines.count == 5 and sorted(lines.groups) == ["left", "none", "right"]
    for one in (ours, theirs):
        one.close()


def test_older_files_without_the_last_offset_are_read(tmp_path: Path) -> None:
    path = make(tmp_path / "a.trx", arrays(offsets=OFFSETS[:-1]))
    (batch,) = zvcore.open(path).batches()
    assert batch.offsets.tolist() == OFFSETS.tolist()


def test_long_files_are_read_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("trx_reading._BATCH", "trk_reading._LINES"):
        monkeypatch.setattr(f"zvcore.tractograms.{name}", 2)
    path = make(tmp_path / "a.trx", arrays("float32"))
    batches = list(zvcore.open(path).batches())
    assert [one.ids.tolist() for one in batches] == [[0, 1], [2, 3], [4]]
    assert b"".join(one.positions.tobytes() for one in batches) == contents(path)["positions.3.float32"]
    zvcore.convert(path, tmp_path / "a.trk", format="trk")
    assert [len(one.ids) for one in zvcore.open(tmp_path / "a.trk").batches()] == [2, 2, 1]


def test_millimeters_are_nanometers_in_skeletons(tmp_path: Path) -> None:
    path = make(tmp_path / "a.trx", arrays("float32"))
    report = zvcore.convert(path, tmp_path / "skeletons", format="precomputed")
    told = " ".join(loss.what for loss in report.losses)
    assert all(word in told for word in ("left", "bundle", "header"))
    (batch,) = zvcore.open(path).batches()
    found = zvcore.open(tmp_path / "skeletons").get_many([0])[0]
    assert np.allclose(found.vertices, batch.positions[:4] * 1e6)
    zvcore.convert(tmp_path / "skeletons", tmp_path / "back.tck", format="tck")
    back = nibabel.streamlines.load(tmp_path / "back.tck").streamlines
    assert np.allclose(back[2], batch.positions[5:14], rtol=1e-5)


def test_what_a_format_has_no_place_for_is_told(tmp_path: Path) -> None:
    path = make(tmp_path / "a.trx", arrays("float32"))
    told = [loss.what for loss in zvcore.convert(path, tmp_path / "a.tck", format="tck").losses]
    assert any("'fa'" in one for one in told) and any("'left'" in one for one in told)
    planned = [loss.what for loss in zvcore.plan(path, tmp_path / "a.trk", format="trk").losses]
    told = [loss.what for loss in zvcore.convert(path, tmp_path / "a.trk", format="trk").losses]
    for one in (planned, told):
        assert "'mean' of type float64 is stored as float32" in one
        assert "'fa' of type float16 is stored as float32, with the same values" in one
        assert "'bundle' of type uint8 is stored as float32, with the same values" in one
    header = nibabel.streamlines.load(tmp_path / "a.trk").header
    assert header["voxel_order"].decode() == "".join(nibabel.aff2axcodes(np.array(AFFINE)))
    assert header["dimensions"].tolist() == [91, 109, 91]
    assert np.array_equal(header["voxel_to_rasmm"], np.array(AFFINE, "f4"))


def test_the_command_line_shows_and_draws_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(make(tmp_path / "a.trx", arrays("float32")))
    assert main(["info", path]) == 0
    shown = capsys.readouterr().out
    assert "3016" in shown and "left (2)" in shown and "colour (uint8 x 3)" in shown
    assert main(["ls", str(tmp_path)]) == 0 and "a.trx" in capsys.readouterr().out
    assert main(["preview", path, "-o", str(tmp_path / "a.png")]) == 0
    assert main(["get", path, "-o", str(tmp_path / "a.tck")]) == 0
    assert len(nibabel.streamlines.load(tmp_path / "a.tck").streamlines) == 5
    capsys.readouterr()
    assert main(["ls", path]) == 0


def test_a_line_of_more_vertices_than_the_file_has_gets_no_room(tmp_path: Path) -> None:
    path = tmp_path / "a.trk"
    line = nibabel.streamlines.Tractogram([np.ones((3, 3), "f4")], affine_to_rasmm=np.eye(4))
    nibabel.streamlines.save(line, str(path))
    data = path.read_bytes()
    path.write_bytes(data[:1000] + (2**28).to_bytes(4, "little") + data[1004:])
    tracemalloc.start()
    try:
        with pytest.raises(CorruptDataError):
            zvcore.open(path).lines()
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def test_a_file_without_lines_does_not_replace_a_store(tmp_path: Path) -> None:
    zvcore.zvf.write_polylines(tmp_path / "a.zv", [np.ones((3, 3), "f4")], chunk_shape=(8.0, 8.0, 8.0))
    empty = nibabel.streamlines.Tractogram([], affine_to_rasmm=np.eye(4))
    nibabel.streamlines.save(empty, str(tmp_path / "empty.tck"))
    with pytest.raises(UnsupportedError, match="at least one line"):
        zvcore.convert(tmp_path / "empty.tck", tmp_path / "a.zv", format="zvf", overwrite=True)
    assert zvcore.open(tmp_path / "a.zv").level(0).vertex_count == 3


@pytest.mark.parametrize("place", [np.nan, 1e30])
def test_lines_that_lie_nowhere_are_no_fault_of_the_caller(tmp_path: Path, place: float) -> None:
    line = np.ones((3, 3), "f4")
    line[1, 0] = place
    path = tmp_path / "a.tck"
    nibabel.streamlines.save(nibabel.streamlines.Tractogram([line], affine_to_rasmm=np.eye(4)), str(path))
    with pytest.raises(ZvcoreError, match="finite"):
        zvcore.convert(path, tmp_path / "a.zv", format="zvf", chunk_shape=(1.0, 1.0, 1.0))


def test_a_file_that_is_there_is_not_replaced_by_itself(tmp_path: Path) -> None:
    (tmp_path / "a.trk").write_bytes(b"mine")
    with pytest.raises(ConflictError):
        zvcore.convert(DATA / "simple.trk", tmp_path / "a.trk", format="trk")
    with pytest.raises(ConflictError):
        zvcore.convert(DATA / "standard.tck", tmp_path / "a.trk", format="trk")
    zvcore.convert(DATA / "standard.tck", tmp_path / "a.trk", format="trk", overwrite=True)
    assert zvcore.verify(tmp_path / "a.trk").ok
    with pytest.raises(ValueError, match=r"end with \.trk"):
        zvcore.convert(DATA / "standard.tck", tmp_path / "a.nii", format="trk")


LIES: list[dict[str, Any]] = [
    {"NB_VERTICES": 10}, {"NB_STREAMLINES": 4}, {"NB_STREAMLINES": -1}, {"NB_VERTICES": 2**70}, {"NB_VERTICES": "x"},
    {"NB_STREAMLINES": None},
]  # fmt: skip
DAMAGE: list[dict[str, Any]] = [
    {"offsets.uint64": OFFSETS[::-1]}, {"offsets.uint64": OFFSETS + 2**40}, {"groups/left.uint32": [5]},
    {"dpv/fa.float16": [1]}, {"dps/bundle.uint8": [1, 2]}, {"positions.3.float16": np.zeros((3, 3))},
    {"dpv/x.y.float16": []}, {"elsewhere/a.uint8": [1]}, {"dpv/x.99999999999.uint8": [1]}, {"dpv/x.object": []},
]  # fmt: skip


@pytest.mark.parametrize("header", LIES)
def test_headers_that_lie_are_told(tmp_path: Path, header: dict[str, Any]) -> None:
    path = make(tmp_path / "a.trx", arrays(), **header)
    assert not zvcore.verify(path).ok
    with pytest.raises(ZvcoreError):
        list(zvcore.open(path).batches())


@pytest.mark.parametrize("damage", DAMAGE)
def test_arrays_that_lie_are_told(tmp_path: Path, damage: dict[str, Any]) -> None:
    members = arrays()
    with zipfile.ZipFile(tmp_path / "a.trx", "w") as archive:
        archive.writestr("header.json", json.dumps({"NB_VERTICES": int(OFFSETS[-1]), "NB_STREAMLINES": 5}))
        for name, values in {**members, **damage}.items():
            kind = name.rpartition(".")[2]
            archive.writestr(name, np.asarray(values).astype("u1" if kind == "object" else kind).tobytes())
    assert not zvcore.verify(tmp_path / "a.trx").ok


@pytest.mark.parametrize("name", ["complex.trk", "standard.tck", "a.trx"])
def test_damaged_files_are_errors_of_zvcore(tmp_path: Path, name: str) -> None:
    good = make(tmp_path / "good.trx", arrays()).read_bytes() if name == "a.trx" else (DATA / name).read_bytes()
    random = np.random.default_rng(0)
    files = [b"", good[:6], good[: len(good) // 2], good[:-3]]
    for _ in range(60):
        changed = bytearray(good)
        for at in random.integers(0, min(len(changed), 1200), 4):
            changed[at] = random.integers(256)
        files.append(bytes(changed))
    for raw in files:
        (tmp_path / name).write_bytes(raw)
        zvcore.verify(tmp_path / name)  # raises nothing, whatever it finds
        with suppress(ZvcoreError):
            for _ in zvcore.open(tmp_path / name).batches():
                pass
        os.unlink(tmp_path / name)


def test_a_member_that_is_cut_off_is_named(tmp_path: Path) -> None:
    path = make(tmp_path / "a.trx", arrays())
    raw = bytearray(path.read_bytes())
    at = raw.find(contents(path)["positions.3.float16"][:40])
    raw[at : at + 40] = bytes(40)
    path.write_bytes(raw)
    with pytest.raises(CorruptDataError):
        list(zvcore.open(path).batches())


def test_what_deflate_makes_of_a_few_bytes_is_not_held_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zvcore.codecs, "max_decoded_size", 100_000)
    groups = {f"groups/g{number}.uint32": np.zeros(20_000) for number in range(2)}
    of_lines = {f"dps/d{number}.2000.float64": np.zeros((5, 2000)) for number in range(2)}
    for more, ask in ((groups, "groups"), (of_lines, "of_objects")):
        found = zvcore.open(make(tmp_path / "a.trx", {**arrays("float32"), **more}))
        with pytest.raises(UnsupportedError, match="at most 100000 bytes, found "):
            getattr(found, ask)
        assert len(list(found.batches())) == 1
    wide = {"dpv/wide.999.float64": np.zeros((int(OFFSETS[-1]), 999))}
    found = zvcore.open(make(tmp_path / "a.trx", {**arrays("float32"), **wide}))
    with pytest.raises(UnsupportedError, match="at most 100000 bytes, found "):
        list(found.batches())


def test_lines_with_much_data_are_read_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zvcore.tractograms.trx_reading._BATCH_BYTES", 1000)
    path = make(tmp_path / "a.trx", arrays("float32"))
    batches = list(zvcore.open(path).batches())
    # One line may have more vertices than are read at once.
    assert len(batches) > 2 and [int(id) for one in batches for id in one.ids] == [0, 1, 2, 3, 4]
    assert b"".join(one.positions.tobytes() for one in batches) == contents(path)["positions.3.float32"]


def with_header(path: Path, ending: str, header: dict[str, Any]) -> Path:
    """Lines in a store that has kept such a header of a file."""
    zvcore.zvf.write_polylines(path, [np.ones((3, 3), "f4"), np.ones((4, 3), "f4")], chunk_shape=(8.0, 8.0, 8.0))
    document = json.loads((path / "zarr.json").read_text())
    document["attributes"]["tractogram"] = {"format": ending, "header": header}
    (path / "zarr.json").write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("value", ["12:30", "a\nEND\nb", "\ud800", "a\nfile: . 5"])
def test_what_a_tck_cannot_say_in_its_header_is_told(tmp_path: Path, value: str) -> None:
    path = with_header(tmp_path / "a.zv", ".tck", {"odd": value, "plain": "one\ntwo"})
    (loss,) = zvcore.convert(path, tmp_path / "a.tck").losses
    assert "'odd'" in loss.what
    header = nibabel.streamlines.load(tmp_path / "a.tck").header
    assert header["plain"] == "one\ntwo" and "odd" not in header


def test_odd_fields_of_a_header_are_told_in_another_format(tmp_path: Path) -> None:
    header = {"voxel_to_rasmm": np.eye(4).tolist(), "dimensions": [1, 2, 3], "odd": [[1], [1, 2]], "empty": [[0], []]}
    (loss,) = zvcore.convert(with_header(tmp_path / "a.zv", ".trk", header), tmp_path / "a.trx").losses
    assert "place for odd of" in loss.what
    header["voxel_to_rasmm"][0][0] = 1e300
    with pytest.raises(MetadataError):
        zvcore.convert(with_header(tmp_path / "b.zv", ".trk", header), tmp_path / "a.trk")


@pytest.mark.parametrize("names", [["1", 1], ["2", "b"], ["a", "b"]])
def test_groups_that_are_called_the_same_stay_apart(tmp_path: Path, names: list[Any]) -> None:
    lines = [np.full((3, 3), number, "f4") for number in range(4)]
    groups = {0: [0], 1: [1, 2], 2: [3]}
    zvcore.zvf.write_polylines(tmp_path / "a.zv", lines, chunk_shape=(8.0, 8.0, 8.0), groups=groups)
    document = json.loads((tmp_path / "a.zv/zarr.json").read_text())
    document["attributes"]["group_names"] = names
    (tmp_path / "a.zv/zarr.json").write_text(json.dumps(document))
    zvcore.convert(tmp_path / "a.zv", tmp_path / "a.trx")
    found = zvcore.open(tmp_path / "a.trx").groups
    assert sorted(map(tuple, map(np.ndarray.tolist, found.values()))) == [(0,), (1, 2), (3,)]
    assert names != ["a", "b"] or sorted(found) == ["2", "a", "b"]


def test_a_file_that_was_cut_between_two_lines_is_told_of_by_a_conversion(tmp_path: Path) -> None:
    whole = (DATA / "standard.trk").read_bytes()
    last = nibabel.streamlines.load(DATA / "standard.trk").streamlines[-1]
    (tmp_path / "cut.trk").write_bytes(whole[: -4 - 12 * len(last)])
    said = "the header says that there are 120 lines, and there are 119"
    for name in ("a.trx", "a.zarrvectors", "a.tck", "a.precomputed"):
        report = zvcore.convert(tmp_path / "cut.trk", tmp_path / name)
        assert said in [loss.what for loss in report.losses], name
    with pytest.raises(UnsupportedError, match=said):
        zvcore.convert(tmp_path / "cut.trk", tmp_path / "strict.trx", strict=True)
    assert not (tmp_path / "strict.trx").exists()


def _store(path: Path, lines: list[Any], **options: Any) -> Path:
    zvcore.zvf.write_polylines(path, lines, chunk_shape=(1e5,) * len(lines[0][0]), **options)
    return path


@pytest.mark.parametrize("format", ["trk", "tck", "precomputed"])
def test_positions_that_are_stored_in_fewer_bits_are_told(tmp_path: Path, format: str) -> None:
    path = _store(tmp_path / "a.zv", [np.full((2, 3), 1e7 + 1 / 3)], dtype="float64")
    told = zvcore.convert(path, tmp_path / f"a.{format}", format=format).losses
    assert any(loss.where == "positions" and "float32" in loss.what for loss in told)
    exact = _store(tmp_path / "exact.zv", [np.full((2, 3), 1e6)], dtype="float64")
    told = zvcore.convert(exact, tmp_path / f"b.{format}", format=format).losses
    assert not any(loss.where == "positions" for loss in told)


@pytest.mark.parametrize("format", ["trk", "tck", "precomputed"])
def test_positions_that_float32_cannot_hold_are_refused(tmp_path: Path, format: str) -> None:
    path = tmp_path / "a.zv"
    zvcore.zvf.write_polylines(path, [np.full((2, 3), 1e60)], chunk_shape=(1e60,) * 3, dtype="float64")
    with pytest.raises(UnsupportedError, match="float32 cannot hold"):
        zvcore.convert(path, tmp_path / f"a.{format}", format=format)


@pytest.mark.parametrize("format", ["trx", "trk", "tck", "precomputed"])
def test_lines_in_a_plane_lie_in_space_at_0(tmp_path: Path, format: str) -> None:
    path = _store(tmp_path / "a.zv", [np.array([[1, 2], [3, 4]], "f4") * 1e6])
    zvcore.convert(path, tmp_path / f"a.{format}", format=format)
    (batch,) = zvcore.open(tmp_path / f"a.{format}").batches() if format != "precomputed" else [None]
    found = zvcore.open(tmp_path / "a.precomputed")[0].vertices / 1e6 if batch is None else batch.positions
    assert np.allclose(found, [[1, 2, 0], [3, 4, 0]], atol=1e-5)


@pytest.mark.parametrize("place", [np.nan, np.inf])
@pytest.mark.parametrize("coordinates", [slice(None), slice(0, 1)])
def test_a_vertex_that_lies_nowhere_does_not_cut_a_tck(tmp_path: Path, place: float, coordinates: slice) -> None:
    found = arrays("float32")
    found["positions.3.float32"][6, coordinates] = place
    path = make(tmp_path / "a.trx", found)
    with pytest.raises(UnsupportedError, match="lie nowhere"):
        zvcore.convert(path, tmp_path / "a.tck", format="tck")
    assert not (tmp_path / "a.tck").exists()


@pytest.mark.parametrize("format", ["trx", "trk", "tck"])
def test_ids_that_a_file_has_no_place_for_are_told(tmp_path: Path, format: str) -> None:
    path = _store(tmp_path / "a.zv", [np.ones((2, 3), "f4")] * 2, object_ids=[7, 3])
    (loss,) = zvcore.convert(path, tmp_path / f"a.{format}", format=format).losses
    assert "no ids" in loss.what


def test_positions_that_came_later_are_not_rounded_to_those_of_the_first_file(tmp_path: Path) -> None:
    zvcore.convert(make(tmp_path / "a.trx", arrays("float16")), tmp_path / "a.zv", format="zvf")
    level = zvcore.open(tmp_path / "a.zv").level(0)
    later = np.full((2, 3), 1e5 + 0.125, "f4")
    more: dict[str, Any] = {"append": True, "object_attributes": {}, "vertex_attributes": {}}
    for name in level.object_attribute_names():
        more["object_attributes"][name] = level.object_attribute(name)[:1]
    for name in level.attribute_names():
        more["vertex_attributes"][name] = [level.read_objects([0], [name]).attributes[name][:2]]
    zvcore.zvf.write_polylines(tmp_path / "a.zv", [later], **more)
    zvcore.convert(tmp_path / "a.zv", tmp_path / "back.trx", format="trx")
    *_, last = zvcore.open(tmp_path / "back.trx").batches()
    assert np.array_equal(last.positions[-2:], later)


def test_lines_that_are_refused_late_do_not_cost_the_store_that_they_were_to_replace(tmp_path: Path) -> None:
    _store(tmp_path / "a.zv", [np.ones((3, 3), "f4")])
    found = arrays("float32")
    found["positions.3.float32"][-1] = np.nan
    with pytest.raises(UnsupportedError):
        zvcore.convert(make(tmp_path / "a.trx", found), tmp_path / "a.zv", format="zvf", overwrite=True)
    assert zvcore.open(tmp_path / "a.zv").level(0).vertex_count == 3


@pytest.mark.parametrize("name", ["a/b", "..", "zarr.json"])
def test_a_name_that_a_store_cannot_have_is_told(tmp_path: Path, name: str) -> None:
    lines = [np.ones((2, 3), "f4")]
    made = nibabel.streamlines.Tractogram(
        lines, data_per_point={name: [np.ones((2, 1))]}, data_per_streamline={name: [1.0]}, affine_to_rasmm=np.eye(4)
    )
    nibabel.streamlines.save(made, str(tmp_path / "a.trk"))
    report = zvcore.convert(tmp_path / "a.trk", tmp_path / "a.zv", format="zvf")
    assert sum(repr(name) in loss.what for loss in report.losses) == 2
    assert zvcore.verify(tmp_path / "a.zv").ok and zvcore.open(tmp_path / "a.zv").level(0).vertex_count == 2


def test_lines_without_any_vertex_are_refused_by_a_store(tmp_path: Path) -> None:
    members = {"positions.3.float32": np.zeros((0, 3)), "offsets.uint64": np.zeros(3)}
    path = make(tmp_path / "a.trx", members, NB_VERTICES=0, NB_STREAMLINES=2)
    with pytest.raises(UnsupportedError, match="at least one line"):
        zvcore.convert(path, tmp_path / "a.zv", format="zvf")


@pytest.mark.parametrize("format", ["trx", "trk"])
def test_vertices_that_lie_nowhere_are_told(tmp_path: Path, format: str) -> None:
    found = arrays("float32")
    found["positions.3.float32"][6, 0] = np.nan
    path = make(tmp_path / "a.trx", found)
    report = zvcore.convert(path, tmp_path / f"b.{format}", format=format)
    assert any("1 vertices have no place" in problem.what for problem in report.problems)
    with pytest.raises(UnsupportedError, match="lie nowhere"):
        zvcore.convert(path, tmp_path / "b.precomputed", format="precomputed")


@pytest.mark.parametrize("of", ["vertex_attributes", "object_attributes"])
def test_values_that_a_trk_cannot_hold_do_not_become_infinite(tmp_path: Path, of: str) -> None:
    values: Any = [np.array([1, 1e300])] if of == "vertex_attributes" else np.array([1e300])
    path = _store(tmp_path / "a.zv", [np.ones((2, 3), "f4")], **{of: {"far": values}})
    with pytest.raises(UnsupportedError, match="'far' has values that float32 cannot hold"):
        zvcore.convert(path, tmp_path / "a.trk", format="trk")
    assert not (tmp_path / "a.trk").exists()


@pytest.mark.parametrize("names", [("standard.trk", "a.tck"), ("standard.tck", "a.trk"), ("standard.tck", "a.trx")])
@pytest.mark.parametrize("through", [False, True], ids=["file", "store"])
def test_a_plan_tells_what_of_a_header_the_conversion_tells(
    tmp_path: Path, names: tuple[str, str], through: bool
) -> None:
    source = DATA / names[0]
    if through:
        zvcore.convert(source, tmp_path / "store", format="zvf")
        source = tmp_path / "store"
    ending = Path(names[0]).suffix
    planned = [str(loss) for loss in zvcore.plan(source, tmp_path / names[1]).losses]
    assert planned == [str(loss) for loss in zvcore.convert(source, tmp_path / names[1]).losses]
    assert any(f"header of a {ending} file" in loss for loss in planned), planned


@pytest.mark.parametrize("format", ["trk", "tck"])
def test_lines_without_vertices_have_no_place_in_files_that_nibabel_reads(tmp_path: Path, format: str) -> None:
    members = {"positions.3.float32": np.eye(3), "offsets.uint64": [0, 0, 2, 2, 3], "dps/o.float32": np.arange(4)}
    header = {"NB_VERTICES": 3, "NB_STREAMLINES": 4, "VOXEL_TO_RASMM": np.eye(4).tolist()}
    source, target = make(tmp_path / "a.trx", members, **header), tmp_path / f"b.{format}"
    plan, report = zvcore.plan(source, target), zvcore.convert(source, target)
    assert "2 lines without vertices" in str(report.losses) and plan.losses == report.losses
    assert report.counts["lines"] == 2 and zvcore.verify(target).ok
    found = nibabel.streamlines.load(str(target))
    assert [line.tolist() for line in found.streamlines] == [np.eye(3)[:2].tolist(), np.eye(3)[2:].tolist()]
    if format == "trk":
        assert found.tractogram.data_per_streamline["o"].tolist() == [[1], [3]]


def test_lines_without_vertices_in_a_store_are_told_with_their_groups(tmp_path: Path) -> None:
    lines = [np.ones((2, 3), "f4"), np.ones((0, 3), "f4")]
    zvcore.zvf.write_polylines(tmp_path / "a.zv", lines, chunk_shape=(9, 9, 9), groups={0: [0, 1]})
    plan = zvcore.plan(tmp_path / "a.zv", tmp_path / "b.trx")
    report = zvcore.convert(tmp_path / "a.zv", tmp_path / "b.trx")
    told = ["1 lines without vertices are left out", "the group '0' has 1 lines that are not there, or left out"]
    assert [str(loss) for loss in report.losses] == told and plan.losses == report.losses


def test_data_of_a_group_that_there_is_not_are_told(tmp_path: Path) -> None:
    members = {**arrays(), "dpg/nowhere/weight.float32": np.array([0.5])}
    zvcore.convert(make(tmp_path / "a.trx", members), tmp_path / "a.zv", format="zvf")
    plan = zvcore.plan(tmp_path / "a.zv", tmp_path / "b.trx")
    assert ["'nowhere'" in str(loss) for loss in plan.losses] == [True]
    assert zvcore.convert(tmp_path / "a.zv", tmp_path / "b.trx").losses == plan.losses


def test_an_affine_that_is_flat_has_no_place_in_a_trk(tmp_path: Path) -> None:
    source = make(tmp_path / "a.trx", arrays("float32"), VOXEL_TO_RASMM=np.zeros((4, 4)).tolist())
    plan = zvcore.plan(source, tmp_path / "a.trk")
    assert "the header of a .trx file has no place in a .trk file" in str(plan.losses)
    assert zvcore.convert(source, tmp_path / "a.trk").losses == plan.losses
    assert len(nibabel.streamlines.load(tmp_path / "a.trk").streamlines) == 5
