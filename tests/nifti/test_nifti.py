"""NIfTI as a format among others: files made by nibabel, and files that lie."""

from __future__ import annotations

import gzip
import pickle
import struct
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.commands.cli import main
from zvcore.errors import CorruptDataError, UnsupportedError, ZvcoreError
from zvcore.stores import LocalStore

if TYPE_CHECKING:
    from pathlib import Path

nibabel = pytest.importorskip("nibabel")

VALUES = np.random.default_rng(1).integers(0, 30000, (57, 43, 31)).astype("i2")
AFFINE = np.array([[0, -2.0, 0, 10], [1.5, 0, 0, -20], [0, 0, 3.0, 5], [0, 0, 0, 1]])


def make(path: Path, values: Any = VALUES, kind: Any = None, scale: tuple[float, float] | None = None) -> Path:
    image = (kind or nibabel.Nifti1Image)(values, AFFINE)
    image.header.set_xyzt_units("mm", "sec")
    if scale is not None:
        image.header.set_slope_inter(*scale)
    nibabel.save(image, path)
    return path


@pytest.mark.parametrize("ending", [".nii", ".nii.gz"])
@pytest.mark.parametrize("kind", [nibabel.Nifti1Image, nibabel.Nifti2Image])
@pytest.mark.parametrize("dtype", ["u1", "<i2", ">i4", "<f4", "f8"])
def test_what_nibabel_saves_is_read(tmp_path: Path, ending: str, kind: Any, dtype: str) -> None:
    values = VALUES.astype(dtype)
    image = kind(values, AFFINE)
    if dtype[0] == ">":
        image = kind(values, AFFINE, image.header.as_byteswapped(">"))
    image.header.set_data_dtype(dtype)
    nibabel.save(image, tmp_path / f"a{ending}")
    found = zvcore.open(tmp_path / f"a{ending}")
    assert found.format == "nifti" and found.dtype == values.dtype.newbyteorder("=") and found.order == "F"
    assert np.array_equal(found[...], values) and np.array_equal(found[5, 3:9, ::-2], values[5, 3:9, ::-2])
    assert np.allclose(found.attrs["affine"], AFFINE)
    assert zvcore.verify(tmp_path / f"a{ending}").ok


@pytest.mark.parametrize("ending", [".nii", ".nii.gz"])
def test_scaled_values_are_those_that_nibabel_gives(tmp_path: Path, ending: str) -> None:
    path = make(tmp_path / f"a{ending}", scale=(0.5, 3.0))
    expected = np.asanyarray(nibabel.load(path).dataobj)
    found = zvcore.open(path)
    assert found.dtype == expected.dtype and np.array_equal(found[...], expected)


@pytest.mark.parametrize("dtype", ["u1", ">i4", "u8", "<f4", "f8", "c8", "c16"])
def test_values_of_every_type_are_scaled_as_nibabel_does(tmp_path: Path, dtype: str) -> None:
    """nibabel writes scales of whole numbers alone, and reads all of them."""
    header = nibabel.Nifti1Header(endianness=">" if dtype[0] == ">" else "<")
    header.set_data_dtype(dtype)
    header.set_data_shape(VALUES.shape)
    header["scl_slope"], header["scl_inter"], header["vox_offset"] = 0.1, 3, 352
    (tmp_path / "a.nii").write_bytes(header.binaryblock + bytes(4) + VALUES.astype(dtype).tobytes(order="F"))
    expected = np.asanyarray(nibabel.load(tmp_path / "a.nii").dataobj)
    found = zvcore.open(tmp_path / "a.nii")
    assert found.dtype == expected.dtype and np.array_equal(found[...], expected)
    assert zvcore.verify(tmp_path / "a.nii").ok


@pytest.mark.parametrize("ending", [".nii", ".nii.gz"])
def test_a_volume_is_converted_with_sizes_and_affine(tmp_path: Path, ending: str) -> None:
    path = make(tmp_path / f"a{ending}")
    assert zvcore.convert(path, tmp_path / "out", format="zarr3", verify=True).ok
    made = zvcore.open(tmp_path / "out")
    found = made["0"]
    assert found.dimension_names == ("z", "y", "x") and np.array_equal(found[...].T, VALUES)
    axes = zvcore.formats()["zarr3"].read_image(made).levels[0].axes
    assert [(axis.scale, axis.unit) for axis in axes] == [(3, "millimeter"), (2, "millimeter"), (1.5, "millimeter")]
    assert np.allclose(found.attrs["affine"], AFFINE)
    zvcore.convert(path, tmp_path / "volume", format="precomputed", verify=True)
    assert zvcore.open(tmp_path / "volume")[0].resolution == (1_500_000, 2_000_000, 3_000_000)


def test_a_series_in_time_has_four_axes(tmp_path: Path) -> None:
    path = make(tmp_path / "a.nii", VALUES.reshape(19, 3, 43, 31))
    assert zvcore.open(path).shape == (19, 3, 43, 31)
    zvcore.convert(path, tmp_path / "out", format="zarr3", verify=True)
    assert zvcore.open(tmp_path / "out")["0"].dimension_names == ("t", "z", "y", "x")


def test_parts_of_a_long_stream_are_found_from_places_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zvcore.borrowed import unpacking

    monkeypatch.setattr(unpacking, "_APART", 1 << 20)
    monkeypatch.setattr(unpacking, "_OUT", 1 << 16)
    monkeypatch.setattr(unpacking, "_SHORT", 1 << 20)
    values = np.random.default_rng(3).integers(0, 99, (200, 200, 100)).astype("i2")
    nibabel.save(nibabel.Nifti1Image(values, None), tmp_path / "a.nii.gz")
    found = zvcore.open(tmp_path / "a.nii.gz")
    for plane in (99, 0, 50, 51, 10, 98):
        assert np.array_equal(found[..., plane], values[..., plane])
    assert len(found.layout.blocks.source._marks) > 4


@pytest.mark.parametrize("short", [1 << 26, 0])
def test_a_stream_is_unpacked_once_to_be_read_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short: int
) -> None:
    from zvcore.borrowed.unpacking import Unpacked

    asked: list[int] = []
    stored = LocalStore.get

    def get(store: LocalStore, key: str, *more: Any, **named: Any) -> Any:
        data = stored(store, key, *more, **named)
        asked.append(len(data or b""))
        return data

    values = np.random.default_rng(3).integers(0, 99, (200, 200, 190)).astype("i2")
    nibabel.save(nibabel.Nifti1Image(values, None), tmp_path / "a.nii.gz")
    monkeypatch.setattr("zvcore.borrowed.unpacking._SHORT", short)
    found = zvcore.open(tmp_path / "a.nii.gz")
    assert isinstance(found.layout.blocks.source, Unpacked)
    monkeypatch.setattr(LocalStore, "get", get)
    assert np.array_equal(found[...], values)
    assert sum(asked) < 1.2 * (tmp_path / "a.nii.gz").stat().st_size
    asked.clear()
    assert np.array_equal(found[..., 3], values[..., 3])
    assert bool(asked) is (not short), "what is short is kept"


def test_several_members_of_gzip_are_one_stream(tmp_path: Path) -> None:
    raw = make(tmp_path / "a.nii").read_bytes()
    (tmp_path / "b.nii.gz").write_bytes(
        gzip.compress(raw[:1000]) + gzip.compress(raw[1000:70000]) + gzip.compress(raw[70000:])
    )
    assert np.array_equal(zvcore.open(tmp_path / "b.nii.gz")[...], VALUES)


@pytest.mark.parametrize("cut", [1, 4, 8, 9])
def test_a_stream_of_gzip_that_is_cut_at_its_end_is_not_sound(tmp_path: Path, cut: int) -> None:
    """All values may be there without it, but not the checksum that tells whether they are right."""
    good = make(tmp_path / "a.nii.gz").read_bytes()
    (tmp_path / "b.nii.gz").write_bytes(good[:-cut])
    assert not zvcore.verify(tmp_path / "b.nii.gz").ok
    with pytest.raises(CorruptDataError, match="cut off"):
        zvcore.open(tmp_path / "b.nii.gz")[...]


def test_what_follows_a_stream_of_gzip_is_another_one_or_zeros(tmp_path: Path) -> None:
    raw = make(tmp_path / "a.nii").read_bytes()
    good = gzip.compress(raw)
    path = tmp_path / "b.nii.gz"
    for behind in (bytes(1), bytes(600_000), bytes(20) + gzip.compress(bytes(3_000_000))):
        path.write_bytes(good + behind)
        assert zvcore.verify(path).ok and np.array_equal(zvcore.open(path)[...], VALUES)
    for behind in (b"x", b"garbage" * 9, bytes(300_000) + b"garbage", gzip.compress(bytes(3_000_000))[:-1]):
        path.write_bytes(good + behind)
        assert not zvcore.verify(path).ok


@pytest.mark.parametrize("ending", [".nii", ".nii.gz"])
@pytest.mark.parametrize("kind", [nibabel.Nifti1Image, nibabel.Nifti2Image])
def test_what_the_header_says_besides_goes_along_or_is_named(tmp_path: Path, ending: str, kind: Any) -> None:
    image = kind(VALUES, np.eye(4))
    said: dict[str, Any] = {"cal_max": 250.5, "cal_min": -2, "aux_file": "more.txt", "toffset": 3.5, "slice_code": 1}
    if kind is nibabel.Nifti1Image:
        said["db_name"] = "a study"
    for name, value in said.items():
        image.header[name] = value
    nibabel.save(image, tmp_path / f"a{ending}")
    source = zvcore.open(tmp_path / f"a{ending}")
    assert {name: source.attrs.get(name) for name in said} == said
    zvcore.convert(tmp_path / f"a{ending}", tmp_path / "a.zarr", strict=True)
    attrs = zvcore.open(tmp_path / "a.zarr/0").attrs
    assert {name: attrs.get(name) for name in said} == said
    report = zvcore.convert(tmp_path / "a.zarr", tmp_path / "b.nii")
    found = nibabel.load(tmp_path / "b.nii").header
    assert found["cal_max"] == 250.5 and found["cal_min"] == -2 and found["aux_file"].item() == b"more.txt"
    told = " ".join(loss.what for loss in report.losses)
    assert "toffset" in told and "slice_code" in told and "cal_max" not in told and "aux_file" not in told


@pytest.mark.parametrize("target", ["b.zarr", "b.tif"])
def test_extensions_of_the_header_are_named_as_lost(tmp_path: Path, target: str) -> None:
    image = nibabel.Nifti1Image(VALUES, np.eye(4))
    image.header.extensions.append(nibabel.nifti1.Nifti1Extension("comment", b"said by somebody"))
    nibabel.save(image, tmp_path / "a.nii.gz")
    with pytest.raises(UnsupportedError, match=r"extends the header .* code 6"):
        zvcore.convert(tmp_path / "a.nii.gz", tmp_path / target, strict=True)
    report = zvcore.convert(tmp_path / "a.nii.gz", tmp_path / target)
    assert "what extends the header" in str(report)


def test_the_commands_take_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(make(tmp_path / "a.nii.gz"))
    assert main(["info", path]) == 0
    assert "57 43 31" in capsys.readouterr().out
    assert main(["verify", path, "-q"]) == 0
    assert main(["preview", path, "-o", str(tmp_path / "b.png")]) == 0
    assert main(["get", path, ":,:,3", "-o", str(tmp_path / "b.npy")]) == 0
    assert np.array_equal(np.load(tmp_path / "b.npy"), VALUES[..., 3])


def test_a_volume_is_pickled_as_its_place(tmp_path: Path) -> None:
    for ending in (".nii", ".nii.gz"):
        stored = pickle.dumps(zvcore.open(make(tmp_path / f"a{ending}")))
        assert len(stored) < 2000 and np.array_equal(pickle.loads(stored)[...], VALUES)


def test_a_file_that_lies_is_an_error_of_zvcore(tmp_path: Path) -> None:
    good = make(tmp_path / "good.nii").read_bytes()
    random = np.random.default_rng(0)
    files = [b"", good[:4], good[:348], good[:400], good[:-1], b"x" * 500]
    for _ in range(60):
        raw = bytearray(good)
        for at in random.integers(0, 352, 4):
            raw[at] = random.integers(256)
        files.append(bytes(raw))
    for number, raw in enumerate(files):
        for ending, content in (
            (".nii", raw),
            (".nii.gz", gzip.compress(raw, 1)),
            (".nii.gz", gzip.compress(raw, 1)[:-9]),
        ):
            path = tmp_path / f"{number}{ending}"
            path.write_bytes(content)
            with suppress(ZvcoreError):
                zvcore.open(path)
            path.unlink()
    for raw in (good[:-1], good[:400]):
        (tmp_path / "a.nii").write_bytes(raw)
        (tmp_path / "b.nii.gz").write_bytes(gzip.compress(raw))
        (tmp_path / "c.nii.gz").write_bytes(gzip.compress(good)[:-100])
        for name in ("a.nii", "b.nii.gz", "c.nii.gz"):
            assert zvcore.verify(tmp_path / name).status == "damaged"


def test_values_in_another_file_are_refused(tmp_path: Path) -> None:
    raw = bytearray(make(tmp_path / "a.nii").read_bytes())
    raw[344:348] = b"ni1\0"
    (tmp_path / "a.nii").write_bytes(raw)
    with pytest.raises(UnsupportedError, match="another file"):
        zvcore.open(tmp_path / "a.nii")


def test_colours_are_not_scaled(tmp_path: Path) -> None:
    values = np.zeros((4, 5, 6), [("R", "u1"), ("G", "u1"), ("B", "u1")])
    values["G"] = 7
    path = make(tmp_path / "a.nii", values)
    stored = bytearray(path.read_bytes())
    stored[112:120] = np.array([2, 1], "<f4").tobytes()
    path.write_bytes(stored)
    assert np.array_equal(zvcore.open(path)[...], values)


def test_sizes_without_a_unit_are_not_made_millimeters(tmp_path: Path) -> None:
    image = nibabel.Nifti1Image(VALUES, AFFINE)
    image.header.set_xyzt_units("unknown", "unknown")
    nibabel.save(image, tmp_path / "a.nii")
    zvcore.convert(tmp_path / "a.nii", tmp_path / "a.ome.zarr")
    zvcore.convert(tmp_path / "a.ome.zarr", tmp_path / "back.nii")
    back = nibabel.load(tmp_path / "back.nii")
    assert back.header.get_xyzt_units() == ("unknown", "unknown")
    assert np.allclose(back.affine, AFFINE) and np.allclose(back.header.get_zooms(), image.header.get_zooms())
    zvcore.convert(make(tmp_path / "mm.nii"), tmp_path / "again.nii")
    assert nibabel.load(tmp_path / "again.nii").header.get_xyzt_units()[0] == "mm"


def test_verify_looks_at_the_end_of_a_stream(tmp_path: Path) -> None:
    """Where a stream is cut behind its values, its checksum is gone: gzip itself refuses it."""
    stored = make(tmp_path / "a.nii.gz").read_bytes()
    other = bytearray(stored)
    other[-6] ^= 1
    more = gzip.compress(b"more")
    wrong = [stored[:-cut] for cut in range(1, 10)] + [bytes(other), stored + b"garbage", stored + more[:-3]]
    for data, sound in [(one, False) for one in wrong] + [(stored, True), (stored + more + bytes(700_000), True)]:
        (tmp_path / "b.nii.gz").write_bytes(data)
        assert zvcore.verify(tmp_path / "b.nii.gz").ok == sound
        try:
            gzip.decompress(data)
        except (EOFError, OSError, zlib.error):
            assert not sound
        else:
            assert sound


@pytest.mark.parametrize("to", ["a.zarr", "b.nii.gz"])
def test_what_a_header_says_and_is_not_carried_is_named(tmp_path: Path, to: str) -> None:
    image = nibabel.Nifti1Image(VALUES, AFFINE)
    nibabel.save(image, tmp_path / "a.nii.gz")
    assert not zvcore.convert(tmp_path / "a.nii.gz", tmp_path / to).losses
    image.header.extensions.append(nibabel.nifti1.Nifti1Extension("comment", b"precious"))
    image.header["aux_file"], image.header["cal_max"] = b"aux", 5
    image.set_qform(np.diag([1.0, 2, 3, 1]), code=1)
    nibabel.save(image, tmp_path / "a.nii.gz")
    report = zvcore.convert(tmp_path / "a.nii.gz", tmp_path / to, overwrite=True)
    named = {problem.what.partition(" is not known")[0] for problem in report.losses}
    qform = "the affine of the header's qform, which is another one than that of its sform"
    assert qform in named and len(named) == 2
    with pytest.raises(UnsupportedError):
        zvcore.convert(tmp_path / "a.nii.gz", tmp_path / to, overwrite=True, strict=True)


@pytest.mark.parametrize("format", ["zarr3", "n5"])
def test_axes_beyond_the_fourth_are_not_called_as_another(tmp_path: Path, format: str) -> None:
    """The fifth has no name in NIfTI, and was a second `t`, which no reader of OME-Zarr takes."""
    make(tmp_path / "a.nii", np.zeros((3, 4, 5, 2, 6), "u1"))
    zvcore.convert(tmp_path / "a.nii", tmp_path / "a", format=format)
    image = zvcore.formats()[format].read_image(zvcore.open(tmp_path / "a"))
    names = [axis.name for axis in image.axes]
    assert names in (["c", "t", "z", "y", "x"], ["x", "y", "z", "t", "c"])


@pytest.mark.parametrize(("kind", "place", "form"), [("Nifti1Image", 108, "<f"), ("Nifti2Image", 168, "<q")])
@pytest.mark.parametrize("begin", [-1, 10, 351])
def test_values_do_not_begin_in_the_header(tmp_path: Path, kind: str, place: int, form: str, begin: int) -> None:
    """Parts of the header were read as values."""
    getattr(nibabel, kind)(np.ones((4, 4, 4), "u1"), np.eye(4)).to_filename(tmp_path / "a.nii")
    raw = bytearray((tmp_path / "a.nii").read_bytes())
    struct.pack_into(form, raw, place, begin)
    (tmp_path / "a.nii").write_bytes(raw)
    with pytest.raises(CorruptDataError, match="the values would begin in the header"):
        zvcore.open(tmp_path / "a.nii")
    (tmp_path / "b.nii.gz").write_bytes(gzip.compress(raw))
    assert zvcore.verify(tmp_path / "b.nii.gz").status == "damaged"


def test_a_region_does_not_say_the_place_of_the_whole(tmp_path: Path) -> None:
    affine = np.diag([2.0, 3, 4, 1])
    affine[:3, 3] = -90, -126, -72
    nibabel.save(nibabel.Nifti1Image(np.zeros((3, 4, 5), "i2"), affine), tmp_path / "a.nii")
    lost = "the attribute 'affine' says where the voxels of the whole lie, of which only a part is converted"
    zvcore.convert(tmp_path / "a.nii", tmp_path / "whole", format="zarr3")
    for source, name in ((tmp_path / "a.nii", "one"), (tmp_path / "whole", "two")):
        report = zvcore.convert(source, tmp_path / name, format="zarr3", region=np.s_[1:, 1:, 1:])
        assert lost in [loss.what for loss in report.losses]
        assert "affine" not in zvcore.open(tmp_path / name)["0"].attrs


@pytest.mark.parametrize("shape", [(0,), (0, 4), (2, 0, 3)])
def test_an_image_without_voxels_is_refused_in_words(tmp_path: Path, shape: tuple[int, ...]) -> None:
    zvcore.create(tmp_path / "a.zarr", format="zarr3", shape=shape, dtype="u1")
    with pytest.raises(UnsupportedError, match="no image without voxels"):
        zvcore.convert(tmp_path / "a.zarr", tmp_path / "a.nii")
    assert not (tmp_path / "a.nii").exists()


def test_one_early_part_of_a_packed_volume_is_unpacked_without_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who reads more of it gets all of it at once."""
    from zvcore.borrowed.unpacking import Unpacked

    values = np.random.default_rng(6).integers(0, 90, (64, 64, 800)).astype("<i2")
    nibabel.save(nibabel.Nifti1Image(values, np.eye(4)), tmp_path / "a.nii.gz")
    calls = []
    at_once = Unpacked._at_once
    monkeypatch.setattr(Unpacked, "_at_once", lambda self: calls.append(self) or at_once(self))
    array = zvcore.open(tmp_path / "a.nii.gz")
    assert (array[..., 20] == values[..., 20]).all()
    assert not calls
    assert (array[..., 790] == values[..., 790]).all()
    assert (array[..., 20] == values[..., 20]).all()
    assert (array[...] == values).all()
    assert len(calls) == 1
    late = zvcore.open(tmp_path / "a.nii.gz")
    assert (late[..., 790] == values[..., 790]).all()
    assert len(calls) == 2
