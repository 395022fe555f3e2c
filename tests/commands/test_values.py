"""What `get`, `cat`, `preview` and `convert` take and write: coordinates, files by their names, limits."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.commands import cli

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = (64, 48, 20)
OFFSET = (1000, 2000, -7)
VALUES = np.random.default_rng(0).integers(0, 60000, SHAPE).astype("uint16")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("values")
    volume = zvcore.create(
        root / "em", format="precomputed", shape=SHAPE, dtype="uint16", chunks=(16, 16, 16), resolution=(10, 10, 40),
        voxel_offset=OFFSET,
    )  # fmt: skip
    volume[...] = VALUES[..., None]
    zvcore.convert(root / "em", root / "em.zarr", format="zarr3", levels=1)
    plain = zvcore.create(root / "plain.zarr", format="zarr3", shape=(300, 200), dtype="int32", chunks=(64, 64))
    plain[...] = np.arange(60000).reshape(300, 200)
    return root


def run(capfd: pytest.CaptureFixture[str], *arguments: Any, status: int = 0) -> tuple[str, str]:
    assert cli.main([str(argument) for argument in arguments]) == status, capfd.readouterr().err
    told = capfd.readouterr()
    return told.out, told.err


@pytest.mark.parametrize("name", ["em", "em.zarr"])
def test_get_takes_coordinates_of_the_volume(
    data: Path, name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    places = ["1030:1040", "20.05:20.2um", "0nm"]
    wanted = VALUES[30:40, 5:20, 7]
    place = ",".join(places if name == "em" else places[::-1])
    run(capfd, "get", data / name, "--at", place, "-o", tmp_path / "c.npy")
    found = np.load(tmp_path / "c.npy")
    assert np.array_equal(found[..., 0] if name == "em" else found.T, wanted)
    out, _ = run(capfd, "cat", data / name, "--at", place, "--json")
    assert np.array_equal(np.array(json.loads(out)), found)


def test_voxels_that_are_cut_are_taken_whole_and_named(
    data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _, err = run(capfd, "get", data / "em", "--at", "10305:10395nm", "-o", tmp_path / "c.npy")
    assert err == "x: 10305:10395nm cuts voxels of 10 nm; taken: 10300:10400 nm\n"
    assert np.load(tmp_path / "c.npy").shape == (10, 48, 20, 1)


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (["1030:1040,2050:2060,10"], "nothing lies in the region 1030:1040,2050:2060,10: axis 0 has 0:64"),
        ([":,48:"], "nothing lies in the region :,48:: axis 1 has 0:48"),
        (["5:3"], "nothing lies in the region 5:3"),
        (["--at", "0:10"], "0:10 does not lie within 1000:1064"),
        (["--at", "0:10nm"], "0:10nm does not lie within 10000:10640 nm"),
        (["--at", "somewhere"], "somewhere"),
        (["--at", "1010:1010"], "nothing lies in 1010:1010"),
        (["--at", "1010,2010,1,0,3"], "too many indices"),
    ],
)
@pytest.mark.parametrize("command", ["get", "cat"])
def test_an_empty_selection_is_an_error(
    data: Path, command: str, part: list[str], said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output = ["-o", tmp_path / "c.npy"] if command == "get" else []
    out, err = run(capfd, command, data / "em", *part, *output, status=2)
    assert out == "" and said in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["get", "cat"])
def test_a_voxel_that_is_not_there_is_looked_for_in_the_volumes_own_coordinates(
    data: Path, command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output = ["-o", tmp_path / "c.npy"] if command == "get" else []
    _, err = run(capfd, command, data / "em", "1030:1040,2050:2060,110", *output, status=2)
    assert "the volume's own coordinates are for --at" in err


def test_an_empty_array_is_written_as_it_is(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    zvcore.create(tmp_path / "none", format="zarr3", shape=(0, 5), dtype="uint8", chunks=(2, 2))
    run(capfd, "get", tmp_path / "none", "-o", tmp_path / "c.npy")
    assert np.load(tmp_path / "c.npy").shape == (0, 5)


def test_convert_takes_coordinates_of_the_volume(data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run(
        capfd,
        "convert",
        "-q",
        data / "em",
        tmp_path / "part",
        "--format",
        "precomputed",
        "--at",
        "10300:10400nm,2005:2020",
    )
    part = zvcore.open(tmp_path / "part")[0]
    assert part.voxel_offset == (1030, 2005, -7)
    assert np.array_equal(part[..., 0], VALUES[30:40, 5:20])
    run(capfd, "convert", "-q", data / "em", tmp_path / "no", "--format", "n5", "--at", "0:9", status=2)
    assert not (tmp_path / "no").exists()


def test_a_picture_of_the_plane_at_a_coordinate(data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run(capfd, "preview", "-q", data / "em", "--at", "0nm", "-o", tmp_path / "at.png")
    run(capfd, "preview", "-q", data / "em", "--index", 7, "-o", tmp_path / "index.png")
    assert (tmp_path / "at.png").read_bytes() == (tmp_path / "index.png").read_bytes()
    for bad in (["--at", "100"], ["--at", "0:2"], ["--at", "0", "--index", "3"]):
        run(capfd, "preview", data / "em", *bad, "-o", tmp_path / "no.png", status=2)


# --- files


def test_a_file_is_what_its_name_ends_with(data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("c.npy", "c.npz", "c.raw", "c.bin"):
        run(capfd, "get", data / "em", ":,:,3", "-o", tmp_path / name)
    wanted = VALUES[:, :, 3, None]
    assert np.array_equal(np.load(tmp_path / "c.npy"), wanted)
    with np.load(tmp_path / "c.npz") as found:
        assert np.array_equal(found["arr_0"], wanted)
    assert (tmp_path / "c.raw").read_bytes() == (tmp_path / "c.bin").read_bytes() == wanted.astype("<u2").tobytes()


@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_a_type_that_numpy_does_not_name_in_files_is_told(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    array = zvcore.create(tmp_path / "s.zarr", format="zarr3", shape=(4,), dtype="bfloat16", chunks=(4,))
    array[...] = np.arange(4, dtype=array.dtype)
    _, told = run(capfd, "get", tmp_path / "s.zarr", "-o", tmp_path / name)
    assert "lost: the type bfloat16" in told
    assert (tmp_path / name).exists()


@pytest.mark.parametrize("name", ["c.png", "c", "c.h5", "c.txt", "c.zarr"])
def test_other_names_are_refused_before_anything_is_read(
    data: Path, name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _, err = run(capfd, "get", data / "em", "-o", tmp_path / name, status=2)
    assert ".npy, .npz, .tif" in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["em", "em.zarr"])
def test_a_tiff_has_planes_and_sizes(data: Path, name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    tifffile = pytest.importorskip("tifffile")
    run(capfd, "get", data / name, "-o", tmp_path / "c.tif")
    with tifffile.TiffFile(tmp_path / "c.tif") as file:
        assert file.series[0].axes == "ZYX" and len(file.pages) == 20
        assert np.array_equal(file.asarray(), VALUES.T)
        assert 'PhysicalSizeX="10.0" PhysicalSizeXUnit="nm"' in file.ome_metadata
        assert 'PhysicalSizeZ="40.0"' in file.ome_metadata
    run(capfd, "get", data / name, "--at", "0,:,:" if name == "em.zarr" else ":,:,0", "-o", tmp_path / "plane.tif")
    assert np.array_equal(tifffile.imread(tmp_path / "plane.tif"), VALUES[:, :, 7].T)


def test_large_planes_of_a_tiff_are_in_tiles(
    data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tifffile = pytest.importorskip("tifffile")
    array = zvcore.create(
        tmp_path / "a.zarr", format="zarr3", shape=(3, 300, 520), dtype="uint64", chunks=(2, 128, 128)
    )
    values = np.random.default_rng(1).integers(0, 2**63, array.shape, "uint64")
    array[...] = values
    for slab in (32 << 20, 1 << 10):
        monkeypatch.setattr("zvcore.tiff.writing.SLAB", slab)
        for region in ([], ["::-2,5:290,::-1"], ["1"]):
            run(capfd, "get", tmp_path / "a.zarr", *region, "-o", tmp_path / "c.tiff")
            wanted = values if not region else values[1] if region == ["1"] else values[::-2, 5:290, ::-1]
            with tifffile.TiffFile(tmp_path / "c.tiff") as file:
                assert np.array_equal(file.asarray().reshape(wanted.shape), wanted)
                assert file.pages[0].is_tiled == (wanted.shape[-2] > 256)


def test_colours_of_a_tiff_are_planes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    tifffile = pytest.importorskip("tifffile")
    array = zvcore.create(
        tmp_path / "a",
        format="zarr3",
        shape=(8, 9, 3),
        dtype="uint8",
        chunks=(8, 9, 3),
        dimension_names=("y", "x", "c"),
    )
    array[...] = np.arange(8 * 9 * 3).reshape(8, 9, 3)
    run(capfd, "get", tmp_path / "a", "-o", tmp_path / "c.tif")
    assert np.array_equal(tifffile.imread(tmp_path / "c.tif"), array[...].transpose(2, 0, 1))


def test_what_is_no_picture_is_no_tiff(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tifffile")
    zvcore.create(tmp_path / "row", format="zarr3", shape=(8,), dtype="uint8", chunks=(8,))
    _, err = run(capfd, "get", tmp_path / "row", "-o", tmp_path / "c.tif", status=1)
    assert "a TIFF has two axes at least" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["row"]


def test_without_tifffile_the_error_names_it(
    data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tifffile", None)
    _, err = run(capfd, "get", data / "em", "-o", tmp_path / "c.tif", status=1)
    assert "pip install zvcore[tiff]" in err
    assert not list(tmp_path.iterdir())


def test_a_file_that_could_not_be_completed_is_not_there(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    array = zvcore.create(tmp_path / "a", format="n5", shape=(8, 8), dtype="uint8", chunks=(4, 4), codec="gzip")
    array[...] = 7
    array.write_encoded((1, 1), b"no block")
    (tmp_path / "c.npy").write_bytes(b"before")
    run(capfd, "get", tmp_path / "a", "-o", tmp_path / "c.npy", status=1)
    assert (tmp_path / "c.npy").read_bytes() == b"before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "c.npy"]


# --- limits


def test_cat_has_a_limit_and_says_what_it_left_out(data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out, err = run(capfd, "cat", "-q", data / "plain.zarr")
    assert len(out.split()) == 20_000 and out.split()[-1] == "19999"
    assert "20000 of 60000 values; 40000 are left out. --limit 0 prints all" in err
    out, err = run(capfd, "cat", data / "plain.zarr", "--limit", 250)
    assert [len(line.split()) for line in out.splitlines()] == [200, 50] and "250 of 60000" in err
    out, err = run(capfd, "cat", data / "plain.zarr", "--limit", 0)
    assert len(out.split()) == 60_000 and err == ""
    out, err = run(capfd, "cat", data / "plain.zarr", "2:4,:3")
    assert out.split() == ["400", "401", "402", "600", "601", "602"] and err == ""


def test_cat_reads_no_more_than_it_prints(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A row of a document that claims 2^31 values was read as a whole, before its first value was printed."""
    array = zvcore.create(tmp_path / "a", format="zarr3", shape=(2**31, 3, 2**31), dtype="f8", chunks=(4, 3, 64))
    array[:3, :, 0] = np.arange(9).reshape(3, 3)
    out, err = run(capfd, "cat", tmp_path / "a", "--limit", 4)
    assert out == "0.0 0.0 0.0 0.0\n" and "4 of 13835058055282163712 values" in err
    out, _ = run(capfd, "cat", tmp_path / "a", "2::-1,:,0:1", "--limit", 5)
    assert out.split() == ["6.0", "7.0", "8.0", "3.0", "4.0"]
    out, _ = run(capfd, "cat", tmp_path / "a", "1,::-1,1::-1", "--limit", 4)
    assert out == "0.0 5.0\n0.0 4.0\n"


def test_texts_of_any_length_have_no_bytes_to_print(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    zvcore.create(tmp_path / "a", format="zarr3", shape=(2,), dtype="string", chunks=(2,))[...] = "abc"
    assert "items of any length have no bytes" in run(capfd, "cat", tmp_path / "a", "--raw", status=2)[1]


def test_json_is_whole_or_refused(data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out, err = run(capfd, "cat", "--json", data / "plain.zarr", status=2)
    assert out == "" and "--limit 0 prints all" in err
    out, _ = run(capfd, "cat", "--json", "--limit", 0, data / "plain.zarr")
    assert np.array(json.loads(out)).shape == (300, 200)


def test_an_image_is_read_as_its_finest_level(data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out, _ = run(capfd, "cat", data / "em.zarr", "0,0,:3")
    assert [int(word) for word in out.split()] == VALUES[:3, 0, 0].tolist()


def test_a_region_may_stand_behind_options(data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    values = np.arange(60000).reshape(300, 200)
    for region, wanted in (("0:3,5", values[0:3, 5]), ("-5:,0:2", values[-5:, 0:2]), ("-1", values[-1])):
        run(capfd, "get", data / "plain.zarr", "-o", tmp_path / "a.npy", "--threads", "1", region)
        assert np.array_equal(np.load(tmp_path / "a.npy"), wanted)
        out, _ = run(capfd, "cat", data / "plain.zarr", "--json", region)
        assert json.loads(out) == wanted.tolist()
    with pytest.raises(SystemExit) as ended:
        cli.main(["get", str(data / "plain.zarr"), "0:3", "-o", str(tmp_path / "b.npy"), "5", "--nonsense"])
    assert ended.value.code == 2 and not (tmp_path / "b.npy").exists()
    assert "unrecognized arguments: 5 --nonsense" in capfd.readouterr().err


def test_a_destination_may_stand_behind_options(data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run(capfd, "convert", data / "plain.zarr", "--format", "n5", tmp_path / "a.n5", "-q")
    assert zvcore.verify(tmp_path / "a.n5").ok and zvcore.open(tmp_path / "a.n5").shape == (200, 300)


WRONG = (
    ["--chunks", "1,2"], ["--codec", "nope"], ["--codec", "zstd:level=99"], ["--codec", "zstd:levle=3"],
    ["--axes", "zzz"], ["--axes", "zy"], ["--voxel-size", "1,2"], ["--voxel-size", "abc"], ["--set", "nope=1"],
    ["--set", "chunks=1"], ["--set", "verify=1"], ["--set", "src=x"], ["--set", "fill_value=abc"],
    ["--sharding", "{}"], ["--levels", "2", "--factors", "2,2"], ["--region", "5:5"], ["--ome", "0.9"],
    ["--image", "no"], ["--channels", "a,b"], ["--channels", "a:xyz"], ["--part", "1/2", "--overwrite"],
)  # fmt: skip


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5", "precomputed"])
def test_options_that_make_no_sense_are_wrong_usage(
    tmp_path: Path, format: str, dry: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    values = np.arange(60, dtype="u2").reshape(3, 4, 5)
    zvcore.create(tmp_path / "a", format="zarr3", data=values, chunks=(2, 2, 2))
    for wrong in WRONG:
        if wrong[:1] == ["--part"] and dry:
            continue
        assert cli.main(["convert", str(tmp_path / "a"), str(tmp_path / "b"), "--format", format, *dry, *wrong]) == 2, (
            wrong
        )
        said = capsys.readouterr().err
        assert said.startswith("zvcore convert: ") and "Error" not in said and not (tmp_path / "b").exists()


def test_what_is_wrong_with_the_source_is_no_wrong_usage(tmp_path: Path) -> None:
    values = np.full((4, 4), 300, "u2")
    zvcore.create(tmp_path / "a", format="zarr3", data=values, chunks=(2, 2))
    command = ["convert", str(tmp_path / "a"), str(tmp_path / "b"), "--format", "zarr3"]
    # A value that has no place in the type is found while converting.
    assert cli.main([*command, "--dtype", "u1", "--chunks", "4,4"]) == 1
    (tmp_path / "a" / "c" / "0" / "0").write_bytes(b"damaged")
    assert cli.main([*command, "--overwrite", "--chunks", "4,4"]) == 1
    (tmp_path / "a" / "zarr.json").write_bytes(b"{}")
    assert cli.main([*command, "--overwrite", "--chunks", "4,4"]) == 1
    assert cli.main(["mesh", str(tmp_path / "a"), str(tmp_path / "m")]) == 1


@pytest.mark.parametrize("command", [["cat"], ["get", "-o", "-"]])
def test_a_region_of_nothing_is_wrong_usage_everywhere(tmp_path: Path, command: list[str]) -> None:
    zvcore.create(tmp_path / "a", format="zarr3", data=np.zeros((9, 9)), chunks=(2, 2))
    for region in ("5:5", "0:0", ":0", "3:5,9:", "20:30"):
        assert cli.main([*command, str(tmp_path / "a"), region]) == 2
    zvcore.create(tmp_path / "none", format="zarr3", shape=(0, 9), dtype="u1", chunks=(2, 2))
    assert cli.main(["cat", str(tmp_path / "none")]) == 0


def test_times_without_a_unit_are_shown_as_numbers(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """numpy has no text for them, and None instead of a value of Python's."""
    times = np.array([3, -4, 5], np.int64).view("M8")
    array = zvcore.create(tmp_path / "a", format="zarr3", shape=(4,), dtype="M8", chunks=(2,), fill_value=times[2])
    array[:2] = times[:2]
    assert run(capfd, "cat", tmp_path / "a")[0].split() == ["3", "-4", "5", "5"]
    assert json.loads(run(capfd, "cat", "--json", tmp_path / "a")[0]) == [3, -4, 5, 5]
    assert "no such data type" in run(capfd, "convert", tmp_path / "a", tmp_path / "b", "--format", "n5", status=1)[1]


@pytest.mark.parametrize(
    "given",
    [["--axis", "x"], ["--index", 3], ["--at", "3"], ["--max"], ["--channel", 0], ["--contrast", 0, 9], ["--image"]],
)
def test_the_sizes_of_chunks_are_seen_in_one_way(
    data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], given: list[Any]
) -> None:
    """These options were ignored."""
    _, err = run(capfd, "preview", data / "plain.zarr", "-o", tmp_path / "a.png", "--sizes", *given, status=2)
    assert "does not apply" in err and not (tmp_path / "a.png").exists()
    run(capfd, "preview", data / "plain.zarr", "-o", tmp_path / "a.png", "--sizes", "--level", 0)
