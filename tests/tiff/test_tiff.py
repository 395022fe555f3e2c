"""TIFF and OME-TIFF as a format among others: files made by tifffile, and files that lie."""

from __future__ import annotations

import pickle
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.commands.cli import main
from zvcore.errors import CorruptDataError, MetadataError, NotFoundError, UnsupportedError, ZvcoreError

if TYPE_CHECKING:
    from pathlib import Path

tifffile = pytest.importorskip("tifffile")

VALUES = np.random.default_rng(1).integers(0, 60000, (7, 153, 141)).astype("u2")
KINDS: dict[str, dict[str, Any]] = {
    "plain": {}, "strips": {"rowsperstrip": 10, "compression": "zlib"}, "tiles": {"tile": (64, 32)},
    "zlib": {"tile": (64, 64), "compression": "zlib", "predictor": True}, "lzw": {"compression": "lzw"},
    "zstd": {"tile": (32, 32), "compression": "zstd"},
    "volumes": {"tile": (16, 32, 32), "volumetric": True, "compression": "zlib"},
    "big-endian": {}, "bigtiff": {"compression": "zlib"}, "imagej": {},
}  # fmt: skip


def make(path: Path, kind: str, values: Any = VALUES, **options: Any) -> Path:
    whole = {"big-endian": {"byteorder": ">"}, "bigtiff": {"bigtiff": True}, "imagej": {"imagej": True}}.get(kind, {})
    with tifffile.TiffWriter(path, **whole) as writer:
        writer.write(values, **{"photometric": "minisblack", **KINDS[kind], **options})
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_what_tifffile_writes_is_read(tmp_path: Path, kind: str) -> None:
    path = make(tmp_path / "a.tif", kind)
    found = zvcore.open(path)
    assert found.format == "tiff" and found.shape == VALUES.shape and found.dtype == VALUES.dtype
    for key in (np.s_[...], np.s_[2:6, 5:150:3, -20:], np.s_[3], np.s_[:, 70, 0]):
        assert np.array_equal(found[key], VALUES[key])
    assert zvcore.verify(path).ok
    report = zvcore.convert(path, tmp_path / "out", format="zarr3", verify=True)
    assert report.ok and np.array_equal(zvcore.open(tmp_path / "out")[...], VALUES)
    assert np.array_equal(pickle.loads(pickle.dumps(found))[...], VALUES)


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((153, 141, 3), {"photometric": "rgb", "tile": (64, 64), "compression": "zlib"}),
        ((3, 153, 141), {"photometric": "rgb", "planarconfig": "separate", "tile": (64, 64), "compression": "zlib"}),
        ((2, 153, 141, 4), {"photometric": "rgb", "extrasamples": ["unassalpha"], "compression": "lzw"}),
        ((1, 141), {"compression": "zlib"}), ((153, 1), {"compression": "zlib"}),
        ((5, 1, 9, 9), {"compression": "zlib"}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["u1", "f4"])
def test_samples_and_odd_shapes(tmp_path: Path, shape: tuple[int, ...], options: dict[str, Any], dtype: str) -> None:
    values = np.random.default_rng(2).integers(0, 255, shape).astype(dtype)
    make(tmp_path / "a.tif", "plain", values, **options)
    found = zvcore.open(tmp_path / "a.tif")
    assert np.array_equal(found[...], tifffile.imread(tmp_path / "a.tif"))
    assert zvcore.verify(tmp_path / "a.tif").ok


def ome(path: Path, levels: int = 1, **options: Any) -> Path:
    metadata = {
        "axes": "CYX", "PhysicalSizeX": 0.25, "PhysicalSizeXUnit": "µm", "PhysicalSizeY": 500,
        "PhysicalSizeYUnit": "nm",
        "Channel": {"Name": [f"channel {n}" for n in range(len(VALUES))]},
    }  # fmt: skip
    with tifffile.TiffWriter(path, ome=True) as writer:
        settings: dict[str, Any] = {"tile": (64, 64), "compression": "zlib", "photometric": "minisblack", **options}
        writer.write(VALUES, subifds=levels - 1, metadata=metadata, **settings)
        for level in range(1, levels):
            writer.write(VALUES[:, :: 2**level, :: 2**level], subfiletype=1, **settings)
    return path


def test_ome_says_what_axes_are(tmp_path: Path) -> None:
    found = zvcore.open(ome(tmp_path / "a.ome.tif"))
    axes = zvcore.formats()["tiff"].read_axes(found)
    assert [(axis.name, axis.scale, axis.unit) for axis in axes] == [
        ("c", None, None), ("y", 500, "nm"), ("x", 0.25, "micrometer"),
    ]  # fmt: skip
    assert found.attrs["channel_names"][1] == "channel 1"


def test_an_image_of_one_level_becomes_an_image_with_its_sizes_and_channels(tmp_path: Path) -> None:
    path = ome(tmp_path / "a.ome.tif")
    assert zvcore.convert(path, tmp_path / "out", format="zarr3", verify=True).ok
    made = zvcore.formats()["zarr3"].read_image(zvcore.open(tmp_path / "out"))
    (level,) = made.levels
    assert np.array_equal(level.array[...], VALUES)
    assert [axis.scale for axis in level.axes[1:]] == [500, 0.25]
    assert [channel["label"] for channel in made.words["omero"]["channels"]] == [f"channel {n}" for n in range(7)]


def test_info_tells_axes_and_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(ome(tmp_path / "a.ome.tif", 2))]) == 0
    words = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["0", "c", "y", "x", "-", "500.0", "0.25", "0.0", "0.0", "0.0", "-", "nm", "micrometer"] in words
    assert ["1", "c", "y", "x", "-", "1000.0", "0.5", "0.0", "250.0", "0.125", "-", "nm", "micrometer"] in words


def test_an_array_alone_where_it_is_wished(tmp_path: Path) -> None:
    path = str(ome(tmp_path / "a.ome.tif"))
    assert main(["convert", "-q", path, str(tmp_path / "out"), "--format", "zarr3", "--ome", "no"]) == 0
    assert np.array_equal(zvcore.open(tmp_path / "out")[...], VALUES)


def test_a_pyramid_is_an_image_with_levels(tmp_path: Path) -> None:
    path = ome(tmp_path / "a.ome.tif", 3)
    image = zvcore.open(path)
    assert image.kind == "image" and list(image) == ["0", "1", "2"]
    assert np.array_equal(zvcore.open(f"{path}:/0/2")[...], VALUES[:, ::4, ::4])
    report = zvcore.convert(path, tmp_path / "out", format="zarr3", verify=True)
    assert report.ok
    made = zvcore.formats()["zarr3"].read_image(zvcore.open(tmp_path / "out"))
    assert [level.array.shape for level in made.levels] == [(7, 153, 141), (7, 77, 71), (7, 39, 36)]
    assert [axis.scale for axis in made.levels[1].axes[1:]] == [1000, 0.5]
    assert made.words["omero"]["channels"][2]["label"] == "channel 2"
    assert main(["preview", str(path), "-o", str(tmp_path / "b.png")]) == 0


def test_several_series_are_a_group(tmp_path: Path) -> None:
    with tifffile.TiffWriter(tmp_path / "a.tif") as writer:
        writer.write(VALUES, photometric="minisblack")
        writer.write(VALUES[0, :50].astype("u1"), photometric="minisblack")
    group = zvcore.open(tmp_path / "a.tif")
    assert group.kind == "group" and np.array_equal(group["1"][...], VALUES[0, :50].astype("u1"))
    assert np.array_equal(zvcore.open(f"{tmp_path}/a.tif:/0")[...], VALUES)
    with pytest.raises(NotFoundError):
        zvcore.open(f"{tmp_path}/a.tif:/2")


def test_sizes_in_the_words_of_imagej(tmp_path: Path) -> None:
    make(tmp_path / "a.tif", "imagej", resolution=(4, 2), metadata={"axes": "ZYX", "spacing": 3.0, "unit": "um"})
    axes = zvcore.formats()["tiff"].read_axes(zvcore.open(tmp_path / "a.tif"))
    assert [(axis.name, axis.scale, axis.unit) for axis in axes] == [
        ("z", 3, "micrometer"), ("y", 0.5, "micrometer"), ("x", 0.25, "micrometer"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("unit", "dots", "sizes"),
    [
        ("INCH", (25400, 12700), [(0.002, "millimeter"), (0.001, "millimeter")]),
        ("CENTIMETER", (20000, 10000), [(1e-4, "centimeter"), (5e-5, "centimeter")]),
        ("INCH", (72, 72), [(None, None)] * 2),
    ],
)
def test_sizes_that_only_the_tags_of_a_resolution_say(tmp_path: Path, unit: str, dots: Any, sizes: Any) -> None:
    tifffile.imwrite(tmp_path / "a.tif", VALUES[0], resolution=dots, resolutionunit=unit)
    report = zvcore.convert(tmp_path / "a.tif", tmp_path / "a.zarr", format="zarr3", ome=False)
    for array in (zvcore.open(tmp_path / "a.tif"), zvcore.open(tmp_path / "a.zarr")):
        axes = zvcore.formats()[array.format].read_axes(array)
        assert [(axis.scale, axis.unit) for axis in axes] == [(pytest.approx(n) if n else n, unit) for n, unit in sizes]
    assert not report.losses


def test_a_resolution_without_a_unit_is_told(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", VALUES[0], resolution=(4, 2), resolutionunit="NONE")
    losses = zvcore.convert(tmp_path / "a.tif", tmp_path / "a.zarr", format="zarr3").losses
    assert ["4 x 2 (x, y) without a unit" in str(loss) for loss in losses] == [True]
    make(tmp_path / "b.tif", "imagej", resolution=(1, 1), metadata={"axes": "ZYX", "spacing": 3.0})
    losses = zvcore.convert(tmp_path / "b.tif", tmp_path / "b.zarr", format="zarr3").losses
    assert ["the spacing 3 of ImageJ" in str(loss) for loss in losses] == [True]


def test_it_is_read_from_other_places_than_folders(tmp_path: Path) -> None:
    store = zvcore.stores.open_store("memory://tiff-test", "w")
    store.put("a.tif", make(tmp_path / "a.tif", "zlib").read_bytes())
    assert np.array_equal(zvcore.open("memory://tiff-test/a.tif")[...], VALUES)


def test_what_zvcore_writes_as_tiff_comes_back(tmp_path: Path) -> None:
    array = zvcore.create(
        tmp_path / "a.zarr", format="zarr3", data=VALUES, dimension_names=("z", "y", "x"),
    )  # fmt: skip
    assert array.shape == VALUES.shape
    assert main(["get", str(tmp_path / "a.zarr"), "-o", str(tmp_path / "b.tif")]) == 0
    assert np.array_equal(zvcore.open(tmp_path / "b.tif")[...], VALUES)


def test_a_file_that_lies_is_an_error_of_zvcore(tmp_path: Path) -> None:
    good = make(tmp_path / "good.tif", "zlib").read_bytes()
    random = np.random.default_rng(0)
    files = [b"", good[:4], good[:8], good[: len(good) // 2], b"II*\0" + b"\xff" * 500, b"x" * 500]
    (first,) = struct.unpack_from("<I", good, 4)
    for _ in range(60):
        raw = bytearray(good)
        for at in first + random.integers(0, 250, 3):
            raw[at] = random.integers(256)
        files.append(bytes(raw))
    for number, raw in enumerate(files):
        path = tmp_path / f"{number}.tif"
        path.write_bytes(raw)
        zvcore.verify(path)  # raises nothing, whatever it finds
        with suppress(ZvcoreError):
            zvcore.open(path)
        path.unlink()


def test_a_tile_that_is_damaged_is_named(tmp_path: Path) -> None:
    path = make(tmp_path / "a.tif", "zlib")
    with tifffile.TiffFile(path) as file:
        offset, count = file.pages[3].dataoffsets[2], file.pages[3].databytecounts[2]
    raw = bytearray(path.read_bytes())
    raw[offset : offset + count] = b"\xff" * count
    path.write_bytes(raw)
    report = zvcore.verify(path)
    assert report.status == "damaged" and report.problems


def test_a_size_that_no_memory_holds_is_refused(tmp_path: Path) -> None:
    path = make(tmp_path / "a.tif", "plain", VALUES[0])
    raw = bytearray(path.read_bytes())
    (first,) = struct.unpack_from("<I", raw, 4)
    (count,) = struct.unpack_from("<H", raw, first)
    for entry in range(first + 2, first + 2 + 12 * count, 12):
        if struct.unpack_from("<H", raw, entry)[0] in (256, 257, 278):
            struct.pack_into("<HII", raw, entry + 2, 4, 1, 2_000_000_000)
    path.write_bytes(raw)
    (problem,) = zvcore.verify(path).problems
    assert problem.where == "a.tif" and "too short for the values that it tells of" in problem.what
    with pytest.raises(ZvcoreError, match="too short"):
        zvcore.open(path)[...]


def test_without_tifffile_the_error_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(tmp_path / "a.tif", "plain")
    monkeypatch.setitem(__import__("sys").modules, "tifffile", None)
    with pytest.raises(UnsupportedError, match=r"tifffile.*zvcore\[tiff\]"):
        zvcore.open(path)


@pytest.mark.parametrize("compression", ["jpeg", "zlib"])
def test_a_tile_that_is_cut_off_is_told_with_its_place(tmp_path: Path, compression: str) -> None:
    pytest.importorskip("imagecodecs")
    values = np.random.default_rng(2).integers(0, 255, (64, 64), np.uint8)
    tifffile.imwrite(tmp_path / "a.tif", values, tile=(32, 32), compression=compression)
    with tifffile.TiffFile(tmp_path / "a.tif") as file:
        (counts,) = (tag for tag in file.pages[0].tags.values() if tag.name == "TileByteCounts")
        where, count, size = counts.valueoffset, counts.value[0], counts.valuebytecount // counts.count
        offset = file.pages[0].dataoffsets[0]
    stored = bytearray((tmp_path / "a.tif").read_bytes())
    stored[where : where + size] = (count * 3 // 4).to_bytes(size, "little")
    (tmp_path / "a.tif").write_bytes(stored)
    with pytest.raises(CorruptDataError) as caught:
        zvcore.open(tmp_path / "a.tif")[...]
    assert caught.value.offset == offset


CUT = {
    "plain": {"metadata": None}, "imagej": {"imagej": True}, "shaped": {}, "ome": {"ome": True},
    "bigtiff": {"bigtiff": True, "metadata": None}, "big-endian": {"byteorder": ">", "metadata": None},
    "zlib": {"compression": "zlib"}, "tiles": {"tile": (64, 64), "metadata": None},
}  # fmt: skip


@pytest.mark.parametrize("kind", CUT)
def test_pages_are_not_missing_without_a_word(tmp_path: Path, kind: str) -> None:
    """Where a directory leads nowhere, tifffile shows the pages before it as if they were all."""
    path = tmp_path / ("a.ome.tif" if kind == "ome" else "a.tif")
    tifffile.imwrite(path, VALUES, photometric="minisblack", **CUT[kind])
    whole = path.read_bytes()
    assert zvcore.verify(path).ok
    half = len(whole) // 2
    for data in (whole[:-900], whole[:half], whole[:half] + b"1234567" + whole[half:], whole[:3000] + whole[3007:]):
        path.write_bytes(data)
        assert zvcore.verify(path).status == "damaged"
        assert main(["convert", str(path), str(tmp_path / "copy"), "--format", "zarr3", "--overwrite"]) == 1


def test_the_words_of_an_image_are_not_missing_without_a_word(tmp_path: Path) -> None:
    """They lie at the end of the file; tifffile leaves out what it cannot read of them."""
    path = tmp_path / "a.ome.tif"
    tifffile.imwrite(path, VALUES, photometric="minisblack", metadata={"axes": "ZYX", "PhysicalSizeX": 0.5})
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptDataError, match="what tag 270 says lies behind the end of this TIFF"):
        zvcore.open(path)
    assert zvcore.verify(path).status == "damaged"


@pytest.mark.parametrize("bigtiff", [False, True])
def test_directories_that_lead_in_a_circle_are_refused(tmp_path: Path, bigtiff: bool) -> None:
    """tifffile would follow them for ever, page by page, as long as there is memory."""
    path = tmp_path / "a.tif"
    with tifffile.TiffWriter(path, bigtiff=bigtiff) as writer:
        for number in range(120):
            writer.write(np.full((8, 8 + number), number, "u1"), contiguous=False, metadata=None)
    with tifffile.TiffFile(path) as file:
        form, places = file.tiff, [page.offset for page in file.pages]
        # Behind the tags of each stands where the next one lies.
        ends = [page.offset + form.tagnosize + form.tagsize * len(page.tags) for page in file.pages]
    data = path.read_bytes()
    for last, first in ((0, 0), (5, 3), (119, 110)):
        leads = places[first].to_bytes(form.offsetsize, "little")
        path.write_bytes(data[: ends[last]] + leads + data[ends[last] + form.offsetsize :])
        with pytest.raises(MetadataError, match="circle"):
            zvcore.open(path)


def test_an_image_without_pixels_is_refused_in_words(tmp_path: Path) -> None:
    zvcore.create(tmp_path / "a.zarr", format="zarr3", shape=(0, 4), dtype="u1")
    with pytest.raises(UnsupportedError, match="no image without pixels"):
        zvcore.convert(tmp_path / "a.zarr", tmp_path / "a.tif")
    assert not (tmp_path / "a.tif").exists()


def test_levels_cannot_be_added_to_a_tiff_which_is_said(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((40, 50), "u1"))
    with pytest.raises(UnsupportedError, match="TIFF is read here, and not written"):
        zvcore.downsample(tmp_path / "a.tif", levels=1)


def losses(path: Path, **options: Any) -> list[str]:
    tifffile.imwrite(path, VALUES, photometric="minisblack", **options)
    found = zvcore.convert(path, path.with_suffix(".zarr"), format="zarr3", overwrite=True).losses
    if found:
        with pytest.raises(UnsupportedError):
            zvcore.convert(path, path.with_suffix(".zarr"), format="zarr3", overwrite=True, strict=True)
    return [problem.what.partition(" is not known")[0] for problem in found]


def test_tags_that_are_not_carried_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    tags = [(65000, 2, 0, "abc", True), (315, 2, 0, "me", True)]
    named = ["the tag 306 (DateTime)", "the tag 315 (Artist)", "the tag 65000"]
    assert losses(path, metadata=None, extratags=tags, datetime=True, software="x") == named
    for options in KINDS.values():
        assert not losses(path, **options)


def test_a_description_is_carried(tmp_path: Path) -> None:
    for metadata in ({}, {"metadata": None}):
        assert not losses(tmp_path / "a.tif", description="precious words", **metadata)
        assert zvcore.open(tmp_path / "a.zarr").attrs["description"] == "precious words"
    assert not losses(tmp_path / "a.tif")
    assert "description" not in zvcore.open(tmp_path / "a.zarr").attrs


def test_words_of_imagej_and_ome_that_are_not_carried_are_named(tmp_path: Path) -> None:
    told = {"axes": "ZYX", "unit": "um", "spacing": 2.0}
    assert not losses(tmp_path / "a.tif", imagej=True, metadata=told)
    assert losses(tmp_path / "a.tif", imagej=True, metadata={**told, "Info": "hello"}) == ["Info of ImageJ"]
    told = {"axes": "CYX", "PhysicalSizeX": 0.5, "Channel": {"Name": list("abcdefg")}}
    assert not losses(tmp_path / "a.ome.tif", metadata=told)
    more = {"Channel": {"Name": list("abcdefg"), "Color": [1] * 7}, "Description": "hi"}
    named = ["Description of OME", "Color of OME's Channel"]
    assert losses(tmp_path / "a.ome.tif", metadata={**told, **more}) == named


def test_a_stack_of_imagej_with_one_directory_is_read_whole_or_refused(tmp_path: Path) -> None:
    """So ImageJ writes what is larger than 4 GiB."""
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, VALUES, imagej=True)
    with tifffile.TiffFile(path) as file:
        page, form, begin = file.pages.first, file.tiff, file.pages.first.dataoffsets[0]
    data = bytearray(path.read_bytes()[: begin + VALUES.nbytes])
    end = page.offset + form.tagnosize + form.tagsize * len(page.tags)
    data[end : end + form.offsetsize] = bytes(form.offsetsize)
    path.write_bytes(data)
    assert zvcore.verify(path).ok
    assert np.array_equal(zvcore.open(path)[...], VALUES)
    path.write_bytes(data[:-1])
    with pytest.raises(CorruptDataError, match="planes"):
        zvcore.open(path)
    # One plane alone, with the words of the stack that it was in.
    path.write_bytes(data[: begin + VALUES[0].nbytes])
    assert np.array_equal(zvcore.open(path)[...], VALUES[0])


WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "compression": ({"compression": "zlib"}, {"compression": "lzw"}),
    "predictor": ({"compression": "zlib"}, {"compression": "zlib", "predictor": True}),
    "tile": ({"tile": (32, 32)}, {"tile": (16, 64)}), "strips and tiles": ({"rowsperstrip": 16}, {"tile": (32, 32)}),
    "sample format": ({"dtype": "u4"}, {"dtype": "f4"}), "photometric": ({}, {"photometric": "miniswhite"}),
}  # fmt: skip


def unlike(path: Path, one: dict[str, Any], other: dict[str, Any], **options: Any) -> Path:
    """A stack of ImageJ whose third page is stored in another way; tifffile reads all by the first one."""
    with tifffile.TiffWriter(path, **options) as writer:
        for number in range(4):
            own = {"photometric": "minisblack", "dtype": "u2", **(other if number == 2 else one)}
            values = VALUES[number, :64, :48].astype(own.pop("dtype"))
            words = "ImageJ=1.53t\nimages=4\nslices=4\n" if number == 0 else None
            writer.write(values, metadata=None, description=words, contiguous=False, **own)
    return path


@pytest.mark.parametrize("options", [{}, {"byteorder": ">"}, {"bigtiff": True}])
@pytest.mark.parametrize("way", WAYS)
def test_pages_that_are_stored_in_another_way_than_the_first_are_refused(
    tmp_path: Path, way: str, options: dict[str, Any]
) -> None:
    path = unlike(tmp_path / "a.tif", *WAYS[way], **options)
    with pytest.raises(UnsupportedError, match="stored in different ways"):
        zvcore.open(path)
    assert not zvcore.verify(path).ok


def test_pages_that_say_the_same_in_other_words_are_read(tmp_path: Path) -> None:
    path = unlike(tmp_path / "a.tif", {"compression": "zlib"}, {"compression": "zlib"}, byteorder="<")
    data = bytearray(path.read_bytes())
    with tifffile.TiffFile(path) as file:
        # As many rows of a strip as there may be, and one item for all samples by another type of numbers.
        rows = file.pages[2].aspage().tags[278]
        data[rows.offset + 2 : rows.offset + 12] = struct.pack("<HII", 4, 1, 2**32 - 1)
        bits = file.pages[2].aspage().tags[258]
        data[bits.offset + 2 : bits.offset + 12] = struct.pack("<HII", 4, 1, 16)
    path.write_bytes(data)
    assert np.array_equal(zvcore.open(path)[...], VALUES[:4, :64, :48])


def test_a_level_that_is_cut_off_is_told(tmp_path: Path) -> None:
    path = ome(tmp_path / "a.tif", 3)
    with tifffile.TiffFile(path) as file:
        parts = file.pages[3].aspage().tags[330]
        data = bytearray(path.read_bytes())
        struct.pack_into("<I", data, parts.valueoffset + 4, len(data) + 16)
    path.write_bytes(data)
    with pytest.raises(CorruptDataError, match="cut off"):
        zvcore.open(path)


def test_directories_that_share_bytes_are_refused(tmp_path: Path) -> None:
    # Each of 1800 words is the number of the tags of one directory, which has the same bytes as all others.
    path, many, tags = tmp_path / "a.tif", 1800, 300
    tifffile.imwrite(path, VALUES[0, :8, :8], photometric="minisblack", metadata=None)
    data = bytearray(path.read_bytes())
    data += bytes(-len(data) % 2)
    parts = len(data)
    data += struct.pack("<H", tags) * many + bytes(4 + 12 * tags)
    where = struct.pack(f"<{many}I", *range(parts, parts + 2 * many, 2))
    with tifffile.TiffFile(path) as file:
        tag = file.pages.first.tags[305]
    data[tag.offset : tag.offset + 12] = struct.pack("<HHII", 330, 4, many, len(data))
    path.write_bytes(bytes(data) + where)
    with pytest.raises(MetadataError, match="share bytes"):
        zvcore.open(path)


@pytest.mark.parametrize("kind", [6, 8, 9, 11, 12])
def test_places_that_are_no_whole_numbers_are_refused(tmp_path: Path, kind: int) -> None:
    """A fraction would be cut to 0, which means that nothing is stored there: zeros without a word."""
    path = make(tmp_path / "a.tif", "plain", VALUES[0], tile=(64, 64), compression="zlib")
    with tifffile.TiffFile(path) as file:
        tag = file.pages.first.tags[324]
    data = bytearray(path.read_bytes())
    struct.pack_into("<H", data, tag.offset + 2, kind)
    path.write_bytes(data)
    with pytest.raises(ZvcoreError, match="tag 324"):
        zvcore.open(path)
    assert zvcore.verify(path).status == "damaged"


@pytest.mark.parametrize("names", [None, "abcyx"])
def test_the_shape_of_more_axes_than_have_letters_is_kept(tmp_path: Path, names: str | None) -> None:
    """Five axes became three, in whose first the values of all others lay in a row, and nothing told of it."""
    values = np.arange(2 * 3 * 4 * 5 * 6, dtype="u2").reshape(2, 3, 4, 5, 6)
    named = {} if names is None else {"dimension_names": list(names)}
    zvcore.create(tmp_path / "a", format="zarr3", data=values, chunks=values.shape, **named)
    zvcore.convert(tmp_path / "a", tmp_path / "b.tif", format="tiff")
    found = zvcore.open(tmp_path / "b.tif")
    assert found.shape == values.shape and np.array_equal(found[...], values)
    assert np.array_equal(tifffile.imread(tmp_path / "b.tif"), values)


def test_axes_and_units_of_an_image_of_zarr_v2(tmp_path: Path) -> None:
    """Its arrays do not name their axes, the group does: channels became times, and OME has a sign for angstrom."""
    source = zvcore.create(tmp_path / "a.zarr", format="zarr3", shape=(2, 3, 4, 5), chunks=(1, 3, 4, 5), dtype="u1")
    source[...] = np.arange(120).reshape(2, 3, 4, 5)
    zvcore.convert(source, tmp_path / "b.zarr", format="zarr2", ome="0.4", axes="czyx", voxel_size="3,2,1angstrom")
    for path in (tmp_path / "b.zarr").glob("*/.zattrs"):
        path.unlink()
    zvcore.convert(tmp_path / "b.zarr", tmp_path / "c.ome.tif", format="tiff")
    with tifffile.TiffFile(tmp_path / "c.ome.tif") as file:
        assert file.series[0].axes == "CZYX" and 'PhysicalSizeXUnit="Å"' in file.ome_metadata
    axes = zvcore.formats()["tiff"].read_axes(zvcore.open(tmp_path / "c.ome.tif"))
    assert [(axis.name, axis.scale, axis.unit) for axis in axes[1:]] == [
        ("z", 3, "angstrom"), ("y", 2, "angstrom"), ("x", 1, "angstrom"),
    ]  # fmt: skip


@pytest.mark.parametrize("ending", [".ome.tif", ".nii", ".npy"])
def test_a_plan_tells_what_a_file_of_an_image_has_no_place_for(tmp_path: Path, ending: str) -> None:
    if ending == ".nii":
        pytest.importorskip("nibabel")
    source = zvcore.create(tmp_path / "a.zarr", format="zarr3", data=VALUES[:, :8, :8], chunks=(7, 8, 8))
    source.attrs["mine"] = 1
    zvcore.convert(source, tmp_path / "b.zarr", format="zarr3", ome=True, voxel_size="3,2,1um", levels=1)
    planned = zvcore.plan(tmp_path / "b.zarr", tmp_path / f"c{ending}").losses
    done = zvcore.convert(tmp_path / "b.zarr", tmp_path / f"c{ending}").losses
    assert list(map(str, planned)) == list(map(str, done))
    assert any("'mine'" in str(loss) for loss in planned)


@pytest.mark.parametrize(
    ("sizes", "inside", "beside"),
    [({"SizeX": 10**13}, "<TiffData/>", ""), ({"SizeC": 10**26}, "<TiffData/>", ""),
     ({}, f'<TiffData PlaneCount="{10**10}"/>', ""), ({}, f'<TiffData IFD="0" NumPlanes="{10**10}"/>', ""),
     ({}, '<TiffData PlaneCount="1000"/>' * 5000, ""), ({}, "<TiffData/>", "<ModuloAlongC Start='0' End='1e12'/>"),
     ({}, "<TiffData/>", "<ModuloAlongZ Start='0' End='1' Step='1e-30'/>")],
)  # fmt: skip
def test_planes_that_a_description_claims_take_no_memory(
    tmp_path: Path, sizes: dict[str, int], inside: str, beside: str
) -> None:
    """tifffile makes lists of as many places, and of labels, before it looks at what is there."""
    said = {"SizeX": 5, "SizeY": 4, "SizeZ": 1, "SizeC": 1, "SizeT": 1, **sizes}
    pixels = " ".join(f'{name}="{size}"' for name, size in said.items())
    annotation = f'<XMLAnnotation ID="a" Namespace="modulo"><Value><Modulo>{beside}</Modulo></Value></XMLAnnotation>'
    text = (
        '<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06">'
        f"<StructuredAnnotations>{annotation}</StructuredAnnotations>"
        f'<Image ID="Image:0"><Pixels DimensionOrder="XYZCT" {pixels}>{inside}</Pixels></Image></OME>'
    )
    tifffile.imwrite(tmp_path / "a.ome.tif", np.zeros((4, 5), "u1"), description=text, metadata=None)
    with pytest.raises(UnsupportedError, match="an OME description of more planes than this"):
        zvcore.open(tmp_path / "a.ome.tif")


def test_planes_that_an_index_of_micro_manager_claims_take_no_memory(tmp_path: Path) -> None:
    """tifffile makes a list of as many places."""
    summary = b'{"MicroManagerVersion": "1", "Frames": 1}'
    index = struct.pack("<12I", 3453623, 2, 0, 0, 3 * 10**9, 0, 0, *[0] * 5)
    at = 40 + len(summary)
    values, directory = at + len(index), at + len(index) + 20
    tags = [(256, 4, 1, 5), (257, 4, 1, 4), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1), (273, 4, 1, values),
            (277, 3, 1, 1), (278, 4, 1, 4), (279, 4, 1, 20), (51123, 2, 8, directory + 126)]  # fmt: skip
    (tmp_path / "a.tif").write_bytes(
        struct.pack("<4s9I", b"II*\0", directory, 54773648, at, 483765892, 0, 99384722, 0, 2355492, len(summary))
        + summary + index + bytes(20) + struct.pack("<H", len(tags))
        + b"".join(struct.pack("<HHII", *tag) for tag in tags) + bytes(4) + b'{"a":1}\0'
    )  # fmt: skip
    with pytest.raises(UnsupportedError, match="an index of Micro-Manager of more planes than this"):
        zvcore.open(tmp_path / "a.tif")


def test_channels_that_a_description_of_flimage_claims_take_no_memory(tmp_path: Path) -> None:
    text = "FLIMimage parameters\r\nState.Acq.nChannels = 3000000000;\r\nState.Acq.pixelsPerLine = 5;\r\n"
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((4, 5), "u2"), description=text, metadata=None)
    with pytest.raises(UnsupportedError, match="a description of FLIMage of more planes than this"):
        zvcore.open(tmp_path / "a.tif")
