"""Stacks of images as a format among others: files that other libraries made, and files that lie."""

from __future__ import annotations

import io
import json
import pickle
import struct
import warnings
import zlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.commands.cli import main
from zvcore.errors import (
    CorruptDataError,
    MetadataError,
    MissingImagesWarning,
    NotFoundError,
    UnsupportedError,
    ZvcoreError,
)
from zvcore.stack.names import belong_together, images_in, missing_numbers, told_numbers

if TYPE_CHECKING:
    from collections.abc import Callable

imagecodecs = pytest.importorskip("imagecodecs")
tifffile = pytest.importorskip("tifffile")
pytest.importorskip("simplejpeg")

VALUES = np.random.default_rng(1).integers(0, 60000, (12, 30, 41)).astype("u2")
SMOOTH = np.clip(np.add.outer(np.arange(12) * 5, np.add.outer(np.arange(32), np.arange(48))), 0, 255).astype("u1")


def png(folder: Path, values: Any = VALUES, name: str = "slice_{}.png") -> Path:
    return written(folder, values, name, lambda path, one: path.write_bytes(imagecodecs.png_encode(one)))


def tiff(folder: Path, values: Any = VALUES, name: str = "slice_{}.tif", **options: Any) -> Path:
    return written(folder, values, name, lambda path, one: tifffile.imwrite(path, one, **options))


def jpeg(folder: Path, values: Any = SMOOTH, name: str = "slice_{}.jpg") -> Path:
    return written(folder, values, name, lambda path, one: path.write_bytes(imagecodecs.jpeg8_encode(one, level=95)))


def written(folder: Path, values: Any, name: str, write: Callable[[Path, Any], Any]) -> Path:
    """Files called by 1, 2, ...: 10 stands before 2 in a listing."""
    folder.mkdir(exist_ok=True)
    for number, one in enumerate(values, 1):
        write(folder / name.format(number), np.ascontiguousarray(one))
    return folder


# --- what is read


@pytest.mark.parametrize(
    "options",
    [{}, {"compression": "zlib"}, {"compression": "zlib", "tile": (16, 16), "predictor": True}, {"compression": "lzw"},
     {"bigtiff": True}, {"byteorder": ">"}, {"rowsperstrip": 7, "compression": "zlib"}],
    ids=["plain", "zlib", "tiles", "lzw", "big", "big-endian", "strips"],
)  # fmt: skip
def test_tiff_files_are_one_array_in_the_order_of_their_numbers(tmp_path: Path, options: dict[str, Any]) -> None:
    folder = tiff(tmp_path / "a", **options)
    found = zvcore.open(folder)
    assert found.format == "stack" and found.dtype == "u2"
    assert np.array_equal(found[...], VALUES)
    assert np.array_equal(found[3:9:2, 5, ::-2], VALUES[3:9:2, 5, ::-2])
    assert np.array_equal(found[...], tifffile.imread([folder / f"slice_{n}.tif" for n in range(1, 13)]))
    assert found.chunks[0] == 1
    assert zvcore.verify(folder).ok


@pytest.mark.parametrize("channels", [(), (2,), (3,), (4,)])
@pytest.mark.parametrize("dtype", ["u1", "u2"])
def test_png_files_are_one_array(tmp_path: Path, dtype: str, channels: tuple[int, ...]) -> None:
    values = np.random.default_rng(2).integers(0, 255, (3, 20, 21, *channels)).astype(dtype)
    found = zvcore.open(png(tmp_path / "a", values))
    assert found.dtype == dtype and found.chunks == (1, *values.shape[1:])
    assert np.array_equal(found[...], values)
    assert [axis.name for axis in zvcore.formats()["stack"].read_axes(found)] == ["z", "y", "x", "c"][: values.ndim]


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "LA", "I;16"])
def test_png_files_of_pillow_are_read_as_it_reads_them(tmp_path: Path, mode: str) -> None:
    image = pytest.importorskip("PIL.Image")
    gray = image.fromarray(SMOOTH[0])
    made = [(image.fromarray(VALUES[n]) if mode == "I;16" else gray.convert(mode)) for n in range(3)]
    for number, one in enumerate(made):
        one.save(tmp_path / f"{number}.png")
    found = zvcore.open(tmp_path)
    expected = made[0].convert({"1": "L", "P": "RGB"}.get(mode, mode))
    assert np.array_equal(found[0], np.asarray(expected).astype(found.dtype))
    assert zvcore.verify(tmp_path).ok


@pytest.mark.parametrize("channels", [(), (3,)])
def test_jpeg_files_are_one_array(tmp_path: Path, channels: tuple[int, ...]) -> None:
    image = pytest.importorskip("PIL.Image")
    values = SMOOTH[..., None].repeat(3, -1) if channels else SMOOTH
    folder = jpeg(tmp_path / "a", values)
    found = zvcore.open(folder)
    assert found.shape == values.shape and found.dtype == "u1"
    with image.open(folder / "slice_2.jpg") as opened:
        assert np.abs(found[1].astype(int) - np.asarray(opened).astype(int)).max() <= 2
    assert np.abs(found[...].astype(int) - values).max() < 12


def test_what_images_say_is_told(tmp_path: Path) -> None:
    """What is carried or told of a single file was left out of a stack of such in silence."""
    tiff(tmp_path / "plain")
    assert not zvcore.plan(tmp_path / "plain", tmp_path / "out", format="zarr3").losses
    colours = np.arange(3 * 256, dtype="u2").reshape(3, 256)
    turned = [(274, 3, 1, 6, True)]
    tiff(tmp_path / "many", VALUES.astype("u1"), photometric="palette", colormap=colours, datetime=True,
         description="seen by us", metadata=None, extratags=turned)  # fmt: skip
    for where in ("many", "many/slice_1.tif"):
        losses = zvcore.plan(tmp_path / where, tmp_path / "out", format="zarr3").losses
        told = {one.what.partition(" of the first image")[0].partition(" is not known")[0] for one in losses}
        tags = {f"the tag {tag}" for tag in ("274 (Orientation)", "306 (DateTime)", "320 (ColorMap)")}
        assert told == tags | ({"the attribute 'description'"} if where == "many" else set())


def test_tiles_of_images_stay_chunks(tmp_path: Path) -> None:
    found = zvcore.open(tiff(tmp_path / "a", compression="zlib", tile=(16, 16)))
    assert found.chunks == (1, 16, 16)
    zvcore.convert(tmp_path / "a", tmp_path / "out", format="zarr3")
    assert zvcore.open(tmp_path / "out").chunks == (1, 16, 16)


def test_a_pattern_names_some_files_of_a_folder(tmp_path: Path) -> None:
    folder = png(tmp_path / "a")
    tiff(folder, VALUES[:5] + 1)
    (folder / "notes.txt").write_text("what was seen")
    assert np.array_equal(zvcore.open(str(folder / "*.png"))[...], VALUES)
    assert np.array_equal(zvcore.open(folder / "*.tif")[...], VALUES[:5] + 1)
    assert np.array_equal(zvcore.open(str(folder / "slice_[2-4].png"))[...], VALUES[1:4])
    assert np.array_equal(zvcore.open(f"file://{folder}/slice_*.png")[...], VALUES)
    with pytest.raises(NotFoundError):
        zvcore.open(str(folder / "*.jpg"))
    with pytest.raises(NotFoundError):
        zvcore.open(str(folder / "*.png"), "r+")
    with pytest.raises(UnsupportedError, match="not written"):
        zvcore.open(png(tmp_path / "b"), "r+")


def test_images_of_several_kinds_need_a_pattern(tmp_path: Path) -> None:
    folder = png(tmp_path / "a")
    tiff(folder, VALUES[:5])
    with pytest.raises(UnsupportedError, match="no format"):
        zvcore.open(folder)
    with pytest.raises(UnsupportedError, match=r"a pattern says which.*\*\.png"):
        zvcore.open(folder, format="stack")


def test_a_file_that_is_called_like_a_pattern_is_that_file(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a*.tif", VALUES[0])
    tifffile.imwrite(tmp_path / "ab.tif", VALUES[1])
    assert zvcore.open(tmp_path / "a*.tif").format == "tiff"


def test_images_in_an_object_store_are_a_stack_too(tmp_path: Path) -> None:
    store = zvcore.stores.open_store("memory://stack-of-images", "w")
    for number, one in enumerate(VALUES[:3]):
        store.put(f"{number}.png", imagecodecs.png_encode(one))
    assert np.array_equal(zvcore.open("memory://stack-of-images")[...], VALUES[:3])
    assert np.array_equal(zvcore.open("memory://stack-of-images/*.png")[...], VALUES[:3])


def test_files_that_hold_more_than_an_image_are_stacked_by_a_pattern_alone(tmp_path: Path) -> None:
    tiff(tmp_path / "a", VALUES.reshape(3, 4, 30, 41), photometric="minisblack")
    with pytest.raises(UnsupportedError, match="no format"):
        zvcore.open(tmp_path / "a")
    report = zvcore.verify(tmp_path / "a")
    assert report.ok and sorted(report.datasets) == ["slice_1.tif", "slice_2.tif", "slice_3.tif"]
    assert np.array_equal(zvcore.open(tmp_path / "a" / "*.tif")[...], VALUES.reshape(3, 4, 30, 41))


def test_sizes_of_pixels_go_along(tmp_path: Path) -> None:
    tiff(tmp_path / "a", imagej=True, resolution=(1 / 0.25, 1 / 0.25), metadata={"unit": "um"})
    zvcore.convert(tmp_path / "a", tmp_path / "out", format="zarr3")
    axes = zvcore.formats()["zarr3"].read_image(zvcore.open(tmp_path / "out")).axes
    assert [axis.name for axis in axes] == ["z", "y", "x"]
    assert np.allclose([axis.scale for axis in axes[1:]], 0.25) and axes[1].unit == "micrometer"


def test_an_image_of_other_sizes_of_pixels_is_told(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for number, dots in enumerate((4, 4.00001, 8, 4)):
        plane = np.full((32, 32), number, "u1")
        path = tmp_path / f"a/p{number}.tif"
        tifffile.imwrite(path, plane, imagej=True, resolution=(dots, dots), metadata={"unit": "um"})
    told = zvcore.verify(tmp_path / "a")
    assert [(problem.where, problem.fatal) for problem in told.problems] == [("p2.tif", False)]
    assert "sizes of pixels" in str(told) and told.ok
    with pytest.warns(zvcore.errors.LostMetadataWarning, match="p2.tif: this image says other"):
        values = zvcore.open(tmp_path / "a")[...]
    assert values[:, 0, 0].tolist() == [0, 1, 2, 3]


def test_images_of_which_some_have_0_as_white_are_no_stack(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for number, colours in enumerate(("minisblack", "miniswhite", "minisblack")):
        tifffile.imwrite(tmp_path / f"a/p{number}.tif", np.zeros((8, 8), "u1"), photometric=colours)
    (problem,) = zvcore.verify(tmp_path / "a").problems
    assert problem.where == "p1.tif" and "0 stands for white" in problem.what and problem.fatal
    with pytest.raises(CorruptDataError, match=r"p1\.tif.*0 stands for white"):
        zvcore.open(tmp_path / "a")[...]
    losses = zvcore.convert(tmp_path / "a" / "p1.tif", tmp_path / "one", format="n5").losses
    assert ["0 stands for white" in str(loss) for loss in losses] == [True], "of one image it is told"


def test_opening_costs_one_listing_and_one_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = png(tmp_path / "a")
    from zvcore.stores.local import LocalStore

    asked: list[str] = []
    get, listing = LocalStore.get, LocalStore.list_dir

    def counted(self: Any, key: str, *rest: Any, **named: Any) -> Any:
        asked.append(key)
        return get(self, key, *rest, **named)

    def listed(self: Any, *rest: Any) -> Any:
        asked.append("the listing")
        return listing(self, *rest)

    monkeypatch.setattr(LocalStore, "get", counted)
    monkeypatch.setattr(LocalStore, "list_dir", listed)
    array = zvcore.open(folder / "*.png")
    assert {key for key in asked if key.endswith(".png")} == {"slice_1.png"}
    asked.clear()
    assert np.array_equal(array[7, 3:5], VALUES[7, 3:5])
    assert asked == ["slice_8.png"]


def test_a_stack_is_pickled(tmp_path: Path) -> None:
    for folder in (png(tmp_path / "a"), tiff(tmp_path / "b", compression="zlib"), tiff(tmp_path / "c")):
        for path in (folder, folder / "*"):
            assert np.array_equal(pickle.loads(pickle.dumps(zvcore.open(path)))[...], VALUES)


def test_folders_that_cannot_or_shall_not_be_listed_are_no_stacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zvcore.opening import detect
    from zvcore.stores.local import LocalStore

    folder = png(tmp_path / "a", VALUES[:3])
    store = LocalStore(folder)
    assert detect(store).name == "stack"
    asked = []

    def refused(self: Any, prefix: str = "") -> Any:
        asked.append(prefix)
        raise UnsupportedError("this server lists nothing")

    monkeypatch.setattr(LocalStore, "list_dir", refused)
    assert detect(store) is None and asked
    asked.clear()
    monkeypatch.setattr(LocalStore, "remote", True)
    assert detect(store) is None and not asked


def test_of_a_folder_of_many_other_files_only_the_first_entries_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zvcore.opening import detect
    from zvcore.stores.local import LocalStore

    for number in range(120):
        (tmp_path / f"{number}").touch()

    def never(self: Any, prefix: str = "") -> Any:
        raise AssertionError("all of it was listed")

    monkeypatch.setattr(LocalStore, "list_dir", never)
    assert detect(LocalStore(tmp_path)) is None


# --- names


def test_numbers_in_names_are_in_order_whatever_stands_around_them() -> None:
    names = ["a2b10.png", "a10b1.png", "a2b9.PNG", "b1.png", "a02b1.png", ".hidden1.png", "a1.txt"]
    assert images_in(names) == ["a02b1.png", "a2b9.PNG", "a2b10.png", "a10b1.png", "b1.png"]
    assert images_in([f"{'9' * 5000}.png", f"1{'0' * 5000}.png"]) == [f"{'9' * 5000}.png", f"1{'0' * 5000}.png"]


@pytest.mark.parametrize(
    ("names", "gaps"),
    [
        (["1", "2", "3"], ""), (["001", "002", "004"], "3"), (["0", "10", "20"], ""), (["0", "10", "30"], "20"),
        (["1", "5", "6", "9"], "2 to 4, 7 to 8"), (["7"], ""), (["a", "b"], ""), (["t1_z1", "t2_z4"], ""),
        (["x3_1", "x3_3", "x3_4"], "2"), (["9" * 30, "9" * 29 + "1"], ""),
    ],
)  # fmt: skip
def test_gaps_in_the_numbers_are_found(names: list[str], gaps: str) -> None:
    assert told_numbers(missing_numbers(images_in([f"{name}.png" for name in names]))) == gaps


def test_many_gaps_are_counted(tmp_path: Path) -> None:
    names = [f"{number}.png" for number in range(1000) if number % 3]
    assert told_numbers(missing_numbers(names)).endswith("57, 60 and 312 more gaps")


def test_names_that_differ_in_texts_belong_together_by_a_pattern_alone(tmp_path: Path) -> None:
    assert belong_together(["a1.png", "a2.png", "notes.txt"])
    for names in (["a.png", "b.png"], ["a1.png", "b2.png"], ["a1.png"], ["a1.png", "a2.jpg"], []):
        assert not belong_together(names)


def test_two_images_of_one_number_are_refused(tmp_path: Path) -> None:
    folder = png(tmp_path / "a", VALUES[:3])
    (folder / "slice_02.png").write_bytes((folder / "slice_2.png").read_bytes())
    with pytest.raises(MetadataError, match=r"slice_02\.png.*same number"):
        zvcore.open(folder)
    assert not zvcore.verify(folder).ok


def test_missing_numbers_are_told_and_never_only_closed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = png(tmp_path / "a")
    for number in (4, 7, 8):
        (folder / f"slice_{number}.png").unlink()
    with pytest.warns(MissingImagesWarning, match="missing 4, 7 to 8"):
        found = zvcore.open(folder)
    assert np.array_equal(found[...], np.delete(VALUES, [3, 6, 7], 0))
    assert found.attrs["missing_images"] == [[4, 4], [7, 8]]
    report = zvcore.verify(folder)
    assert report.ok and ["gaps: 4, 7 to 8" in problem.what for problem in report.problems] == [True]
    with pytest.warns(MissingImagesWarning):
        assert zvcore.inspect(folder)["missing"] == "4, 7 to 8"
    with warnings.catch_warnings(action="always"):  # which is not an error, as it is here
        assert main(["info", str(folder)]) == 0
    said = capsys.readouterr()
    assert "missing  4, 7 to 8" in said.out and "MissingImagesWarning" in said.err
    with pytest.warns(MissingImagesWarning):
        zvcore.convert(folder, tmp_path / "out", format="zarr3")
    assert zvcore.open(tmp_path / "out").attrs["missing_images"] == [[4, 4], [7, 8]]


# --- commands, the server


def test_the_commands_take_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tiff(tmp_path / "a")
    for path in (str(folder), f"{folder}/*.tif"):
        assert main(["info", path]) == 0
        assert "12 30 41" in capsys.readouterr().out
        assert main(["verify", path]) == 0 and main(["ls", path]) == 0 and main(["tree", path]) == 0
        assert main(["preview", path, "-o", str(tmp_path / "p.png")]) == 0
        out = tmp_path / f"out-{'*' in path}"
        assert main(["convert", path, str(out), "--format", "zarr3", "--verify"]) == 0
        assert np.array_equal(zvcore.open(out)[...], VALUES)
    assert main(["get", f"{folder}/*.tif", "2:4,:,5", "-o", str(tmp_path / "q.npy")]) == 0
    assert np.array_equal(np.load(tmp_path / "q.npy"), VALUES[2:4, :, 5])


def test_the_server_shows_it_as_one_dataset(tmp_path: Path) -> None:
    from tests.serving.conftest import served

    png(tmp_path / "a", SMOOTH)
    tiff(tmp_path / "b", SMOOTH)
    tifffile.imwrite(tmp_path / "other.tif", SMOOTH)
    with served(tmp_path) as client:
        found = json.loads(client.ask("/.zvcore/datasets.json").body)
        rows = {row["path"]: row for row in found["datasets"]}
        assert sorted(rows) == ["a", "b", "other.tif"] and rows["a"]["format"] == "stack"
    with served(tmp_path / "b") as client:
        rows = json.loads(client.ask("/.zvcore/datasets.json").body)["datasets"]
        assert [row["format"] for row in rows] == ["stack"]


# --- files that lie


def test_an_image_of_another_shape_or_type_is_refused_by_its_name(tmp_path: Path) -> None:
    for make in (png, tiff):
        for number, odd in enumerate((VALUES[0, 1:], VALUES[0].astype("u1"), VALUES[0][..., None].repeat(3, -1))):
            folder = make(tmp_path / f"{make.__name__}{number}")
            make(folder, [odd], name=f"slice_5{'.png' if make is png else '.tif'}")
            array = zvcore.open(folder)
            assert np.array_equal(array[3], VALUES[3])
            with pytest.raises(CorruptDataError, match=r"slice_5\..*one shape and one type"):
                array[4]
            report = zvcore.verify(folder)
            assert [Path(problem.where).name.partition(".")[0] for problem in report.problems] == ["slice_5"]
            with pytest.raises(CorruptDataError, match="slice_5"):
                zvcore.convert(folder, tmp_path / "out", format="zarr3", overwrite=True)


def bomb(width: int, height: int) -> bytes:
    def part(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    data = zlib.compress(bytes(1000))
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", data) + part(b"IEND", b"")


def test_a_header_that_claims_too_much_is_refused_before_anything_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import simplejpeg

    def never(*given: Any, **named: Any) -> None:
        raise AssertionError("it was decoded")

    monkeypatch.setattr(imagecodecs, "png_decode", never)
    monkeypatch.setattr(simplejpeg, "decode_jpeg", never)
    (tmp_path / "1.png").write_bytes(bomb(60000, 60000))
    large = bytearray(imagecodecs.jpeg8_encode(SMOOTH[0]))
    at = large.index(b"\xff\xc0")
    large[at + 5 : at + 9] = b"\xff\xff\xff\xff"
    (tmp_path / "1.jpg").write_bytes(large)
    for pattern in ("*.png", "*.jpg"):
        with pytest.raises(CorruptDataError, match="claims a size"):
            zvcore.open(tmp_path / pattern)
    with pytest.raises(CorruptDataError, match="claims a size"):
        zvcore.inspect(tmp_path / "*.png")


@pytest.mark.parametrize("between", [b"\xff\x01", b"\xff\xd0", b"\xff\xd7", b"\xff\x00"])
def test_a_header_behind_which_another_is_hidden_is_read_as_libjpeg_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, between: bytes
) -> None:
    """Behind some markers stands no length: who takes the next bytes for one jumps over what libjpeg goes by."""
    import simplejpeg

    def never(*given: Any, **named: Any) -> None:
        raise AssertionError("it was decoded")

    monkeypatch.setattr(simplejpeg, "decode_jpeg", never)
    small = bytes(imagecodecs.jpeg8_encode(SMOOTH[0]))
    at = small.index(b"\xff\xc0")
    large = bytearray(small)
    large[at + 5 : at + 9] = b"\xff\xff\xff\xff"
    claimed = int.from_bytes(b"\xff\xc0", "big")
    hidden = (small[:at] + between + large[at:]).ljust(at + 2 + claimed, b"\0")
    (tmp_path / "1.jpg").write_bytes(hidden + small[at:])
    with pytest.raises(CorruptDataError, match=r"claims a size|no readable header"):
        zvcore.open(tmp_path / "*.jpg")


def test_a_later_image_that_claims_too_much_is_refused_by_its_header(tmp_path: Path) -> None:
    folder = png(tmp_path / "a", SMOOTH)
    (folder / "slice_3.png").write_bytes(bomb(60000, 60000))
    with pytest.raises(CorruptDataError, match=r"slice_3\.png.*one shape"):
        zvcore.open(folder)[2]


def test_black_images_are_no_bombs(tmp_path: Path) -> None:
    png(tmp_path / "a", np.zeros((2, 2000, 2000), "u2"))
    assert not zvcore.open(tmp_path / "a")[...].any()
    jpeg(tmp_path / "b", np.zeros((2, 2000, 2000, 3), "u1"))
    assert not zvcore.open(tmp_path / "b")[...].any()


@pytest.mark.parametrize("make", [png, jpeg, tiff])
def test_a_damaged_image_is_told_by_its_name(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    folder = make(tmp_path / "a")
    (victim,) = folder.glob("slice_5.*")
    victim.write_bytes(victim.read_bytes()[: victim.stat().st_size * 2 // 3])
    report = zvcore.verify(folder)
    assert {Path(problem.where).name for problem in report.problems} == {victim.name}
    assert report.status == "damaged"
    array = zvcore.open(folder)
    with pytest.raises(CorruptDataError, match="slice_5"):
        array[4]
    assert array[5].any()


@pytest.mark.parametrize("make", [png, jpeg, tiff])
def test_changed_bytes_raise_nothing_but_errors_of_zvcore(tmp_path: Path, make: Callable[..., Path]) -> None:
    folder = make(tmp_path / "a", SMOOTH[:2])
    (victim,) = folder.glob("slice_1.*")
    sound = victim.read_bytes()
    random = np.random.default_rng(5)
    for _ in range(150):
        damaged = bytearray(sound)
        for at in random.integers(0, min(len(sound), 700), random.integers(1, 5)):
            damaged[at] = random.integers(0, 256)
        victim.write_bytes(damaged[: random.integers(1, len(damaged) + 1)] if random.random() < 0.3 else damaged)
        with suppress(ZvcoreError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            zvcore.open(folder / "slice_*")[...]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            zvcore.verify(folder / "slice_*")


def test_an_image_that_goes_away_is_told(tmp_path: Path) -> None:
    for make in (png, tiff):
        folder = make(tmp_path / make.__name__)
        array = zvcore.open(folder)
        (victim,) = folder.glob("slice_5.*")
        victim.unlink()
        with pytest.raises(ZvcoreError, match="slice_5"):
            array[4]


def test_the_library_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    folder = png(tmp_path / "a")
    monkeypatch.setitem(sys.modules, "imagecodecs", None)
    with pytest.raises(UnsupportedError, match=r"zvcore\[images\]"):
        zvcore.open(folder)


def test_a_cmyk_picture_is_refused(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    data = io.BytesIO()
    image.new("CMYK", (8, 8)).save(data, "jpeg")
    (tmp_path / "1.jpg").write_bytes(data.getvalue())
    with pytest.raises(UnsupportedError, match="gray and in RGB"):
        zvcore.open(tmp_path / "*.jpg")


def test_images_that_are_asked_for_are_checked_in_whichever_order_they_are_named(tmp_path: Path) -> None:
    folder = png(tmp_path / "a", np.zeros((6, 5, 4), "u1"))
    names = images_in(path.name for path in folder.iterdir())
    whole = (folder / names[5]).read_bytes()
    (folder / names[5]).write_bytes(whole[: len(whole) // 2])
    # The last that is named is as far from the first as if all of them lay beside each other.
    report = zvcore.verify(folder, only=[names[0], names[5], names[2]])
    assert [problem.where for problem in report.problems] == [names[5]]
    assert report.counts["images"] == 3


def exif(orientation: int, order: str = "<") -> bytes:
    mark = b"II" if order == "<" else b"MM"
    return mark + struct.pack(f"{order}HIHHHIHHI", 42, 8, 1, 0x0112, 3, 1, orientation, 0, 0)


def turn(path: Path, said: bytes) -> None:
    data = path.read_bytes()
    if path.suffix == ".png":
        chunk = b"eXIf" + said
        path.write_bytes(
            data[:33] + struct.pack(">I", len(said)) + chunk + struct.pack(">I", zlib.crc32(chunk)) + data[33:]
        )
    else:
        part = b"Exif\0\0" + said
        path.write_bytes(data[:2] + b"\xff\xe1" + struct.pack(">H", len(part) + 2) + part + data[2:])


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("make", [png, jpeg])
def test_an_orientation_is_told_and_pixels_stay_as_they_are_stored(make: Any, order: str, tmp_path: Path) -> None:
    folder = make(tmp_path / "a", SMOOTH)
    plain = zvcore.open(folder)[...]
    assert not zvcore.plan(folder, tmp_path / "out", format="zarr3").losses
    ending = next(folder.iterdir()).suffix
    turn(folder / f"slice_1{ending}", exif(6, order))
    turn(folder / f"slice_3{ending}", exif(3, order))
    turn(folder / f"slice_4{ending}", exif(1, order))
    turn(folder / f"slice_5{ending}", exif(6, order)[:-9])
    assert np.array_equal(zvcore.open(folder)[...], plain)
    losses = [loss.what for loss in zvcore.plan(folder, tmp_path / "out", format="zarr3").losses]
    assert len(losses) == 1 and losses[0].startswith("the orientation 6 of Exif")
    report = zvcore.verify(folder)
    assert report.ok
    assert [one.where for one in report.problems] == [f"slice_1{ending}", f"slice_3{ending}"]
