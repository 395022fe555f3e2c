"""Pictures show what is stored: checked by an independent PNG decoder and by hand."""

import struct
from pathlib import Path

import imagecodecs
import numpy as np
import pytest

import zvcore
from zvcore import zvf
from zvcore.commands.cli import main
from zvcore.errors import UnsupportedError
from zvcore.pictures import png_bytes, preview
from zvcore.pictures.colours import contrast, grey, label_colours
from zvcore.pictures.drawing import Drawing
from zvcore.pictures.sizes import chunk_sizes, plot_sizes


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (5, 3, 3), (1, 200), (200, 1, 3)])
def test_png(shape: tuple[int, ...]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    assert np.array_equal(imagecodecs.png_decode(png_bytes(pixels)).reshape(shape), pixels)
    assert np.array_equal(imagecodecs.png_decode(png_bytes(pixels[:, ::-1])).reshape(shape), pixels[:, ::-1])


@pytest.mark.parametrize(
    "pixels", [np.zeros((2, 2), "u2"), np.zeros((2, 2, 4), "u1"), np.zeros((0, 2), "u1"), np.zeros(3, "u1")]
)
def test_png_of_what_is_no_picture(pixels: np.ndarray) -> None:
    with pytest.raises(ValueError, match="picture"):
        png_bytes(pixels)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float32", "complex64"])
def test_grey(dtype: str) -> None:
    values = np.arange(100).reshape(10, 10).astype(dtype)
    shown = grey(values, *contrast(values))
    assert (shown.min(), shown.max()) == (0, 255)
    assert (np.diff(shown.reshape(-1).astype(int)) >= 0).all()


def test_contrast_leaves_out_what_is_rare_and_what_is_no_number() -> None:
    values = np.r_[np.linspace(10, 20, 1000), 1e9, np.nan, np.inf, -np.inf]
    low, high = contrast(values)
    assert 10 <= low < 10.2 and 19.8 < high <= 20
    assert grey(values, low, high)[-4:].tolist() == [255, 0, 255, 0]
    assert contrast(np.full(9, 7)) == (6.5, 7.5)
    assert contrast(np.array([np.nan])) == (0, 1)
    few = np.zeros(10_000)
    few[3] = 5
    assert contrast(few) == (0, 5)


def test_labels_have_colours_of_their_own() -> None:
    labels = np.array([*range(200), 2**63 + 5], "u8")
    colours = label_colours(labels)
    assert colours[0].tolist() == [0, 0, 0]
    assert (colours[1:].max(1) > 100).all()
    assert len(np.unique(colours, axis=0)) > 150
    assert np.array_equal(label_colours(labels[::-1])[::-1], colours)
    assert np.array_equal(label_colours(labels[:200].astype("i4")), colours[:200])


def volume() -> np.ndarray:
    """[z, y, x] whose planes are all different."""
    return np.random.default_rng(1).integers(0, 200, (12, 20, 30), np.uint8)


@pytest.fixture(params=["zarr3", "n5", "n5-C", "precomputed"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> object:
    values = volume()
    format, _, order = request.param.partition("-")
    turned = values if format == "zarr3" else values.T
    a = zvcore.create(tmp_path / "a", format=format, shape=turned.shape, dtype="u1", chunks=(5, 7, 9))
    a[...] = turned[..., None] if format == "precomputed" else turned
    return zvcore.open(tmp_path / "a", **({"order": "C"} if order else {}))


def test_planes(stored: object) -> None:
    values = volume()
    for axis, index, expected in (
        ("z", 3, values[3]), ("z", -1, values[-1]), ("y", 5, values[:, 5]), ("x", 8, values[:, :, 8]),
        (None, None, values[6]),
    ):  # fmt: skip
        shown = preview(stored, axis=axis, index=index, limits=(0, 255))
        assert np.array_equal(shown, expected)
    assert np.array_equal(preview(stored, projection=True, limits=(0, 255)), values.max(0))
    assert np.array_equal(preview(stored, axis="x", projection=True, limits=(0, 255)), values.max(2))
    assert np.array_equal(preview(stored, index=0, size=10, limits=(0, 255)), values[0, ::2, ::3])
    window = preview(stored, index=0, window=10, limits=(0, 255))
    assert np.array_equal(window, values[0, 5:15, 10:20])


def test_projection_in_slabs(stored: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zvcore.pictures.planes._SLAB", 2000)
    assert np.array_equal(preview(stored, projection=True, limits=(0, 255)), volume().max(0))


def test_projection_of_labels_shows_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zvcore.pictures.planes._SLAB", 4000)
    labels = volume().astype("u8")
    labels[labels < 180] = 0
    a = zvcore.create(tmp_path / "a", format="zarr3", shape=labels.shape, dtype="u8", chunks=(5, 7, 9))
    a[...] = labels
    first = labels[(labels != 0).argmax(0), *np.indices(labels.shape[1:])]
    assert (first == 0).any()
    assert np.array_equal(preview(a, projection=True), label_colours(first))


@pytest.mark.parametrize("shape", [(7,), (7, 9), (2, 7, 9, 11), (2, 3, 7, 9, 11)])
def test_other_numbers_of_axes(tmp_path: Path, shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(2).integers(0, 255, shape, np.uint8)
    a = zvcore.create(tmp_path / "a", format="zarr3", shape=shape, dtype="u1", chunks=(2,) * len(shape))
    a[...] = values
    middle = values.reshape(-1, *shape[-3:])[0][shape[-3] // 2] if len(shape) > 2 else np.atleast_2d(values)
    assert np.array_equal(preview(a, limits=(0, 255)), middle)


def test_colour_channels(tmp_path: Path) -> None:
    values = np.random.default_rng(3).integers(0, 255, (10, 8, 4, 3), np.uint8)
    a = zvcore.create(tmp_path / "a", format="precomputed", shape=values.shape, dtype="u1", chunks=(4, 4, 4))
    a[...] = values
    assert np.array_equal(preview(a, index=1), values[:, :, 1].transpose(1, 0, 2))
    assert np.array_equal(preview(a, index=1, channel=2, limits=(0, 255)), values[:, :, 1, 2].T)


def test_pyramids_show_the_level_that_fills_the_picture(tmp_path: Path) -> None:
    root = zvcore.open(tmp_path / "p", "w", format="n5")
    for level, extent in enumerate((64, 32, 16)):
        a = root.create_dataset(f"s{level}", shape=(extent,) * 3, dtype="u1", chunks=(16, 16, 16))
        a[...] = np.arange(extent, dtype="u1")[:, None, None] + 100 * level
    root.attrs["scales"] = [[1, 1, 1], [2, 2, 2], [4, 4, 4]]
    assert preview(root, size=20, limits=(0, 255)).shape == (16, 16)
    assert preview(root, size=64, limits=(0, 255)).shape == (64, 64)
    assert preview(root, level=2, limits=(0, 255)).shape == (16, 16)
    with pytest.raises(IndexError, match="level 3"):
        preview(root, level=3)


def test_lines(tmp_path: Path) -> None:
    diagonal = np.array([[0, 0, 5], [100, 100, 5]], "f4")
    flat = np.array([[0, 100, 5], [100, 100, 5]], "f4")
    zvf.write_polylines(tmp_path / "l", [diagonal, flat], chunk_shape=(200, 200, 200))
    shown = preview(zvcore.open(tmp_path / "l"), size=105)
    lit = shown.any(2)
    assert lit[2:103, 2:103].diagonal().all()
    assert lit[102, 2:103].all()
    assert not lit[10, 60:].any()
    assert len(np.unique(shown[lit], axis=0)) == 2
    side = preview(zvcore.open(tmp_path / "l"), axis="x", size=105).any(2)
    assert side.any()


def test_points(tmp_path: Path) -> None:
    points = np.array([[0, 0, 0], [100, 50, 0], [np.nan, 0, 0]], "f4")[:2]
    zvf.write_points(tmp_path / "p", points, chunk_shape=(200, 200, 200))
    lit = preview(zvcore.open(tmp_path / "p"), size=105).any(2)
    assert lit.shape == (55, 105)
    assert lit[2, 2] and lit[52, 102]
    assert lit.sum() == 18


@pytest.mark.parametrize("format", ["zarr3", "zarr3-shards", "n5", "precomputed", "precomputed-shards"])
def test_chunk_sizes(tmp_path: Path, format: str) -> None:
    format, _, sharded = format.partition("-")
    options = {} if not sharded else {"shards": (64, 64, 64)} if format == "zarr3" else {"sharding": "advise"}
    values = np.random.default_rng(4).integers(0, 9, (100, 90, 80), np.uint8)
    values[32:64, 32:64, 32:64] = 0
    a = zvcore.create(tmp_path / "a", format=format, shape=values.shape, dtype="u1", chunks=(32, 32, 32), **options)
    a[...] = values[..., None] if format == "precomputed" else values
    found = chunk_sizes(a)
    expected = []
    for position in np.ndindex(*a.grid):
        data = a.read_encoded(position)
        if data is not None:
            expected.append(len(data))
    assert found.stored.tolist() == expected
    assert (len(expected), found.looked, found.chunks) == (35, 36, 36)
    assert found.decoded.sum() == values.size - 32**3
    some = chunk_sizes(a, most=10)
    assert some.looked <= 10
    assert set(some.stored.tolist()) <= set(expected)


def test_plots(tmp_path: Path) -> None:
    a = zvcore.create(tmp_path / "a", format="zarr3", shape=(64, 64), dtype="u1", chunks=(8, 8))
    empty = plot_sizes(chunk_sizes(a), "empty <&>")
    assert b"none of 64 chunks" in empty.svg() and b"empty &lt;&amp;&gt;" in empty.svg()
    a[...] = np.random.default_rng(0).integers(0, 9, (64, 64))
    plot = plot_sizes(chunk_sizes(a), "a")
    assert b"64 of 64 chunks stored" in plot.svg()
    pixels = plot.pixels()
    assert pixels.shape == (380, 880, 3)
    assert (pixels == (66, 113, 174)).all(2).any()


def test_drawing() -> None:
    sheet = Drawing(40, 30)
    sheet.box(10, 5, 4, 3, (255, 0, 0))
    sheet.words(0, 12, "L")
    pixels = sheet.pixels()
    assert (pixels == (255, 0, 0)).all(2).sum() == 12
    assert (pixels[12:22, 0:2] == 40).all() and (pixels[20:22, 0:6] == 40).all()
    sheet.words(-50, -50, "outside")
    assert np.array_equal(sheet.pixels(), pixels)


def test_the_command(tmp_path: Path, stored: object, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a"
    out = tmp_path / "x.png"
    assert main(["preview", str(path), "-o", str(out), "--index", "2", "--contrast", "0", "255"]) == 0
    assert np.array_equal(imagecodecs.png_decode(out.read_bytes()), volume()[2])
    assert "30 x 20 pixels" in capsys.readouterr().err
    assert main(["preview", str(path), "-o", str(out), "--max", "--axis", "y", "--contrast", "0", "255", "-q"]) == 0
    assert np.array_equal(imagecodecs.png_decode(out.read_bytes()), volume().max(1))
    assert main(["preview", str(path), "-o", str(out), "--labels"]) == 0
    assert imagecodecs.png_decode(out.read_bytes()).shape == (20, 30, 3)
    for name in ("sizes.png", "sizes.svg"):
        assert main(["preview", str(path), "--sizes", "-o", str(tmp_path / name)]) == 0
    assert imagecodecs.png_decode((tmp_path / "sizes.png").read_bytes()).shape == (380, 880, 3)
    assert (tmp_path / "sizes.svg").read_bytes().startswith(b"<svg")


@pytest.mark.parametrize(
    "arguments",
    [["-o", "x.jpg"], ["-o", "x.svg"], ["-o", "x.png", "--size", "0"], ["-o", "x.png", "--index", "99"],
     ["-o", "x.png", "--axis", "q"], ["-o", "x.png", "--max", "--index", "1"], ["-o", "x.png", "--level", "7"],
     ["-o", "x.png", "--channel", "5"], ["-o", "x.png", "--contrast", "5", "5"],
     ["-o", "x.png", "--sizes", "--level", "3"]],
)  # fmt: skip
def test_wrong_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    zvcore.create("a", format="zarr3", shape=(4, 4, 4), dtype="u1", chunks=(2, 2, 2))
    assert main(["preview", "a", *arguments]) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a"]


def test_what_has_no_picture(tmp_path: Path) -> None:
    group = zvcore.open(tmp_path / "g", "w", format="zarr3")
    with pytest.raises(UnsupportedError):
        preview(group)
    with pytest.raises(UnsupportedError):
        preview(group.create_array("empty", shape=(0, 4), dtype="u1", chunks=(2, 2)))
    with pytest.raises(UnsupportedError):
        preview(group.create_array("words", shape=(4, 4), dtype="str", chunks=(2, 2)))


def test_no_more_is_read_than_the_plane_needs(tmp_path: Path) -> None:
    """One broken chunk in another plane does no harm."""
    a = zvcore.create(tmp_path / "a", format="zarr3", shape=(8, 8, 8), dtype="u1", chunks=(4, 8, 8), codec="gzip")
    a[...] = 9
    (tmp_path / "a/c/1/0/0").write_bytes(struct.pack("<Q", 0))
    assert preview(a, index=1, limits=(0, 255)).tolist() == [[9] * 8] * 8
    with pytest.raises(zvcore.errors.CorruptDataError):
        preview(a, index=5)


@pytest.mark.parametrize(("dtype", "value"), [("f4", 1e20), ("f8", -1e300), ("i8", 2**60), ("u8", 2**63 + 5)])
def test_large_numbers_that_are_all_the_same_are_grey(tmp_path, dtype, value):
    a = zvcore.create(tmp_path / "a", format="zarr3", shape=(4, 4), dtype=dtype, chunks=(4, 4))
    a[...] = value
    assert np.unique(preview(a, labels=False)).tolist() == [128]


@pytest.mark.parametrize(("dtype", "value"), [("f2", 60000), ("f4", 3e38), ("f8", 1.5e308)])
def test_contrast_of_numbers_as_far_apart_as_can_be(tmp_path, dtype, value):
    a = zvcore.create(tmp_path / "a", format="zarr3", shape=(3, 4), dtype=dtype, chunks=(4, 4))
    a[...] = np.array([[-value], [0], [value]])
    assert preview(a)[:, 0].tolist() == [0, 128, 255]
