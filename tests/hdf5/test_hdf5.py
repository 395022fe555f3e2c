"""HDF5 as a format among others: files made by h5py, and files that lie."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.commands.cli import main
from zvcore.errors import NotFoundError, UnsupportedError, ZvcoreError
from zvcore.hdf5 import reading
from zvcore.hdf5.links import child, inner, members_of

if TYPE_CHECKING:
    from pathlib import Path

h5py = pytest.importorskip("h5py")

VALUES = np.random.default_rng(1).integers(0, 60000, (37, 53, 41)).astype("u2")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        deep = file.create_group("deep")
        deep.attrs["by"] = "us"
        packed = deep.create_dataset("packed", data=VALUES, chunks=(16, 16, 16), compression="gzip", shuffle=True)
        packed.attrs["element_size_um"] = [4.0, 0.5, 0.5]
        file["plain"] = VALUES.astype(">i4")
        file["truth"] = VALUES[0] > 30000
        file["alone"] = 7.5
        file["texts"] = ["a", "b"]
        file["other name"] = h5py.SoftLink("/plain")
    return tmp_path / "a.h5"


def test_groups_and_arrays_are_found_by_name(path: Path) -> None:
    root = zvcore.open(path)
    assert root.kind == "group" and root.format == "hdf5" and "other name" not in root
    assert root["deep"].attrs == {"by": "us"} and list(root["deep"]) == ["packed"]
    assert np.array_equal(root["deep/packed"][3:30, ::2, 5], VALUES[3:30, ::2, 5])
    found = zvcore.open(f"{path}:/deep/packed")
    assert np.array_equal(found[...], VALUES)
    assert np.array_equal(root["plain"][...], VALUES) and root["plain"].dtype == np.dtype("i4")
    assert np.array_equal(root["truth"][...], VALUES[0] > 30000) and root["alone"][()] == 7.5
    with pytest.raises(UnsupportedError, match="size"):
        root["texts"]
    for missing in ("deep/none", "plain/x", "/deep/../plain"):
        with pytest.raises(NotFoundError):
            zvcore.open(f"{path}:/{missing}")


@pytest.mark.parametrize("key", [..., 0, np.s_[:2]])
def test_a_group_that_is_indexed_like_an_array_says_what_it_takes(path: Path, key: Any) -> None:
    groups = [zvcore.open(path)]
    for format in ("zarr3", "zarr2", "n5"):
        zvcore.open(path.parent / format, mode="w", format=format)
        groups.append(zvcore.open(path.parent / format))
    for group in groups:
        with pytest.raises(TypeError, match="a path is a str"):
            group[key]


@pytest.mark.parametrize("format", ["zarr3", "n5", "precomputed"])
def test_an_array_is_converted_with_its_sizes(path: Path, tmp_path: Path, format: str) -> None:
    report = zvcore.convert(f"{path}:/deep/packed", tmp_path / "out", format=format, verify=True)
    assert report.ok
    found = zvcore.open(tmp_path / "out")
    if format == "precomputed":
        assert np.array_equal(found[0][..., 0].T, VALUES) and found[0].resolution == (500, 500, 4000)
    else:
        assert np.array_equal(found[...] if format == "zarr3" else found[...].T, VALUES)
        sizes = [axis.scale for axis in zvcore.formats()[format].read_axes(found)]
        assert sorted(sizes) == [0.5, 0.5, 4]


def test_a_file_is_converted_with_all_its_groups(path: Path, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="texts"):
        zvcore.convert(path, tmp_path / "out", format="zarr3")
    report = zvcore.convert(path, tmp_path / "out", format="zarr3", skip_unsupported=True, verify=True)
    assert any("texts" in str(loss) for loss in report.losses)
    found = zvcore.open(tmp_path / "out")
    assert found["deep"].attrs["by"] == "us" and np.array_equal(found["deep/packed"][...], VALUES)


def test_the_commands_take_it(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(path)]) == 0 and main(["info", f"{path}:/deep/packed"]) == 0
    told = capsys.readouterr().out
    assert "16 16 16" in told and "unsupported" in told
    assert main(["verify", f"{path}:/deep", "-q"]) == 0
    assert main(["preview", f"{path}:/plain", "-o", str(tmp_path / "b.png")]) == 0
    assert main(["get", f"{path}:/plain", "3:9,:,5", "-o", str(tmp_path / "b.npy")]) == 0
    assert np.array_equal(np.load(tmp_path / "b.npy"), VALUES[3:9, :, 5])
    assert main(["ls", str(path)]) == 0 and main(["tree", str(path)]) == 0


def test_verify_reads_everything(path: Path) -> None:
    report = zvcore.verify(path)
    assert report.counts["arrays"] == 4 and [problem.status for problem in report.problems] == ["unsupported"]
    raw = bytearray(path.read_bytes())
    with h5py.File(path) as file:
        place = file["deep/packed"].id.get_chunk_info(5)
    raw[place.byte_offset : place.byte_offset + place.size] = b"\xff" * place.size
    path.write_bytes(raw)
    (problem,) = zvcore.verify(f"{path}:/deep").problems
    assert problem.status == "damaged" and "packed" in problem.where


def test_an_array_is_pickled_as_its_place(path: Path) -> None:
    stored = pickle.dumps(zvcore.open(f"{path}:/deep/packed"))
    assert len(stored) < 2000 and np.array_equal(pickle.loads(stored)[...], VALUES)


def test_a_group_is_pickled_as_its_place(path: Path) -> None:
    for group in (zvcore.open(path), zvcore.open(path)["deep"]):
        again = pickle.loads(pickle.dumps(group))
        assert list(again) == list(group) and dict(again.attrs) == dict(group.attrs)
        assert again.store.root == group.store.root
    assert np.array_equal(again["packed"][...], VALUES)


def test_it_is_read_from_other_places_than_folders(path: Path) -> None:
    store = zvcore.stores.open_store("memory://hdf5-test", "w")
    store.put("a.h5", path.read_bytes())
    assert np.array_equal(zvcore.open("memory://hdf5-test/a.h5:/deep/packed")[...], VALUES)


def test_nothing_is_read_of_other_files(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret" * 100)
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["a"] = VALUES
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["link"] = h5py.ExternalLink("other.h5", "/a")
        file.create_dataset("raw", (600,), "u1", external=[(str(tmp_path / "secret"), 0, 600)])
        layout = h5py.VirtualLayout(VALUES.shape, "u2")
        layout[...] = h5py.VirtualSource(str(tmp_path / "other.h5"), "a", VALUES.shape)
        file.create_virtual_dataset("virtual", layout)
    root = zvcore.open(tmp_path / "a.h5")
    for name in ("raw", "virtual", "link"):
        assert name in root and name in list(root)
        with pytest.raises(UnsupportedError, match="other file"):
            root[name]
    with pytest.raises(UnsupportedError, match="another file"):
        zvcore.open(f"{tmp_path}/a.h5:/link")


def test_what_a_group_holds_besides_arrays_and_is_not_carried_is_told(tmp_path: Path) -> None:
    """A link into another file is refused, or told, as arrays are that cannot be converted: it was left out unsaid."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"] = VALUES
        file["deep/link"] = h5py.ExternalLink("other.h5", "/a")
        file["soft"] = h5py.SoftLink("/a")
        file["nowhere"] = h5py.SoftLink("/none")
        file["type"] = np.dtype("f4")
        file["deep"].attrs["turns"] = 1 + 2j
    with pytest.raises(UnsupportedError, match="deep/link"):
        zvcore.convert(tmp_path / "a.h5", tmp_path / "refused", format="zarr3")
    with pytest.raises(UnsupportedError, match="deep/link"):
        zvcore.references(tmp_path / "a.h5")
    for format in ("zarr3", "n5"):
        made = zvcore.convert(tmp_path / "a.h5", tmp_path / format, format=format, skip_unsupported=True)
        assert {(loss.where, loss.what.split(" is not known")[0].split(":")[0]) for loss in made.losses} == {
            ("", "the link 'soft' to '/a'"), ("", "the link 'nowhere' to '/none'"), ("", "the named data type 'type'"),
            ("deep", "the attribute 'turns'"), ("deep/link", "it cannot be converted"),
        }  # fmt: skip
        assert list(zvcore.open(tmp_path / format)) == ["a", "deep"]


def test_attributes_and_names_of_axes_are_carried_or_told(tmp_path: Path) -> None:
    """CLASS and NAME were taken for words about scales, texts that are none were bent, names of scales were dropped."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, said in (("x", "x"), ("y", "north"), ("z", "")):
            file[name] = np.arange(4.0)
            file[name].make_scale(said)
        file["t"] = np.zeros(4)
        file["t"].make_scale("This is a netCDF dimension but not a netCDF variable         4")
        values = file.create_dataset("values", data=np.zeros((4, 4, 4, 4)))
        for axis, name in enumerate("tzyx"):
            values.dims[axis].attach_scale(file[name])
        values.dims[1].label = "depth"
        values.dims[2].attach_scale(file["x"])
        values.attrs.update(CLASS="IMAGE", NAME="mine", text=np.bytes_("µ".encode()), bent=np.bytes_(b"\xb5m"))
        values.attrs["records"] = np.array([(1, 2.5)], [("a", "i4"), ("b", "f8")])
        kind = h5py.enum_dtype({"in": 0, "out": 1}, basetype="u1")
        file["states"] = np.array([0, 1], kind)
    made = zvcore.convert(tmp_path / "a.h5", tmp_path / "a.zarr", format="zarr3")
    found = dict(zvcore.open(tmp_path / "a.zarr").items())
    assert found["values"].dimension_names == ("t", "depth", "north", "x")
    assert [found[name].dimension_names for name in "xyzt"] == [("x",), ("north",), ("z",), None]
    records = [{"a": 1, "b": 2.5}]
    assert found["values"].attrs == {"CLASS": "IMAGE", "NAME": "mine", "text": "µ", "records": records}
    assert {(loss.where, loss.what.split(" is not known")[0]) for loss in made.losses} == {
        ("values", "the attribute 'bent'"), ("values", "the scale 'z' of axis 1"),
        ("values", "the scale 'x' of axis 2"),
        ("states", "what the values of an enumeration are called"),
    }  # fmt: skip


def test_dimensions_of_netcdf_without_values_are_told_and_are_no_arrays(tmp_path: Path) -> None:
    """As arrays they would be zeros that nobody has written."""
    with h5py.File(tmp_path / "a.nc", "w") as file:
        file.create_dataset("x", shape=(4,), dtype=">f4").make_scale(
            "This is a netCDF dimension but not a netCDF variable         4"
        )
        file.create_dataset("y", shape=(3,), dtype="f4").make_scale("y")
        values = file.create_dataset("values", data=np.arange(12.0).reshape(3, 4))
        values.dims[0].attach_scale(file["y"])
        values.dims[1].attach_scale(file["x"])
    assert list(zvcore.open(tmp_path / "a.nc")) == ["values", "y"], "a variable without values is one all the same"
    report = zvcore.convert(tmp_path / "a.nc", tmp_path / "a.zarr", format="zarr3")
    assert sorted(zvcore.open(tmp_path / "a.zarr")) == ["values", "y"]
    (told,) = [loss.what for loss in report.losses if not loss.where]
    assert told.startswith("the dimension 'x' of netCDF, which has 4 places and no values,")


def test_axes_are_called_as_dimensions_of_netcdf_without_a_variable(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.nc", "w") as file:
        for place in ("x", "deep/y"):
            file.create_dataset(place, shape=(4,), dtype=">f4").make_scale(
                "This is a netCDF dimension but not a netCDF variable         4"
            )
        file["apart/z"] = np.zeros(4)
        file["apart/z"].make_scale("")
        values = file.create_dataset("deep/values", data=np.zeros((4, 4, 4)))
        for axis, place in enumerate(("x", "deep/y", "apart/z")):
            values.dims[axis].attach_scale(file[place])
    report = zvcore.convert(tmp_path / "a.nc", tmp_path / "a.zarr", format="zarr3")
    assert zvcore.open(tmp_path / "a.zarr")["deep/values"].dimension_names == ("x", "y", None)
    (told,) = [loss.what for loss in report.losses if loss.where == "deep/values"]
    assert told.startswith("a scale without a name of axis 2")


def test_groups_that_lie_in_themselves_end(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        group = file.create_group("a")
        group["again"] = group
        group["once more"] = group
        group["values"] = VALUES
    report = zvcore.verify(tmp_path / "a.h5")
    assert not report.ok and len(report.problems) < 10


def test_a_pyramid_of_bigdataviewer_is_one_image(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for level, step in enumerate((1, 2)):
            file[f"t00000/s00/{level}/cells"] = VALUES[::step, ::step, ::step].astype("i2")
        file["s00/resolutions"] = np.array([[1, 1, 1], [2, 2, 2.0]])
        file["s00/subdivisions"] = np.array([[16, 16, 16], [16, 16, 16]])
    place = f"{tmp_path}/a.h5:/t00000/s00"
    assert zvcore.open(place).kind == "image"
    zvcore.convert(place, tmp_path / "out", format="precomputed", verify=True)
    found = zvcore.open(tmp_path / "out")
    assert len(found) == 2 and np.array_equal(found[1][..., 0].T, VALUES[::2, ::2, ::2].astype("i2"))


def files_that_lie(good: bytes) -> list[bytes]:
    random = np.random.default_rng(0)
    found = [b"", good[:8], good[:96], good[: len(good) // 2], b"x" * 5000, good[:-1]]
    for _ in range(40):
        raw = bytearray(good)
        for at in random.integers(8, min(len(raw), 6000), 6):
            raw[at] = random.integers(256)
        found.append(bytes(raw))
    return found


def test_a_file_that_lies_is_an_error_of_zvcore(path: Path) -> None:
    for number, raw in enumerate(files_that_lie(path.read_bytes())):
        other = path.parent / f"{number}.h5"
        other.write_bytes(raw)
        zvcore.verify(other)  # raises nothing, whatever it finds
        try:
            node: Any = zvcore.open(other)
            for name in node:
                node[name]
        except ZvcoreError:
            pass
        other.unlink()


def test_no_link_leads_out_of_a_file_by_another_link(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["a"] = VALUES
        file["s00/resolutions"] = [[2.0, 2, 2]]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["link"] = h5py.ExternalLink("other.h5", "/")
        file["soft"] = h5py.SoftLink("/link/a")
        file["circle"] = h5py.SoftLink("/circle")
        file["here/a"] = VALUES
        file["good"] = h5py.SoftLink("here/a")
        file["t00000/s00/0/cells"] = VALUES
        file["s00"] = h5py.ExternalLink("other.h5", "/s00")
    assert np.array_equal(zvcore.open(f"{tmp_path}/a.h5:/good")[...], VALUES)
    for name in ("soft", "circle", "link/a"):
        with pytest.raises(UnsupportedError, match="too many others" if name == "circle" else "another file"):
            zvcore.open(f"{tmp_path}/a.h5:/{name}")
    image = zvcore.open(f"{tmp_path}/a.h5:/t00000/s00").read_image()
    assert image is None or [axis.scale for axis in image.axes] == [None] * 3


def test_a_group_that_is_only_called_like_a_view_is_a_group(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["t00000/s00/0"] = VALUES
        file["t00000/s01/0"] = 3
    group = zvcore.open(f"{tmp_path}/a.h5:/t00000/s00")
    assert np.array_equal(group["0"][...], VALUES) and group.read_image() is None
    assert list(zvcore.open(f"{tmp_path}/a.h5:/t00000/s01")) == ["0"]


@pytest.mark.parametrize("name", ["DataSet", "DataSet/ResolutionLevel 0", "DataSetInfo"])
def test_an_image_of_imaris_that_lies_in_another_file_is_none(tmp_path: Path, name: str) -> None:
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["DataSet/ResolutionLevel 0/TimePoint 0/Channel 0/Data"] = VALUES
        file.create_group("DataSetInfo")
    with h5py.File(tmp_path / "a.ims", "w") as file:
        file[name] = h5py.ExternalLink("other.h5", f"/{name}")
        for other in ("DataSet", "DataSetInfo"):
            file.require_group(other) if other not in name else None
    assert zvcore.open(tmp_path / "a.ims").kind == "group"


def test_links_that_each_lead_over_many_others_are_not_all_followed(tmp_path: Path) -> None:
    """A path of eight links to a path of eight links ...: five such names are 32,768 steps, ten a thousand million."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["links0"] = file["/"]
        for number in range(5):
            file[f"links{number + 1}"] = h5py.SoftLink("/".join([f"links{number}"] * 8))
        file["DataSet"] = h5py.SoftLink("links5")
        assert child(file, "links1", "") == file
        with pytest.raises(UnsupportedError, match="too many others"):
            child(file, "links5", "")
        assert inner(file, "DataSet/ResolutionLevel 0") is None


def test_a_path_that_leads_into_a_file_as_into_a_folder_is_told_how_it_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["g/raw"] = np.arange(6, dtype="u1")
    wrong, right = f"{tmp_path}/a.h5/g/raw", f"{tmp_path}/a.h5:/g/raw"
    assert zvcore.open(right).shape == (6,)
    with pytest.raises(NotFoundError, match=r"a\.h5:/g/raw"):
        zvcore.open(wrong)
    for command in (["info"], ["verify"], ["cat"]):
        assert main([*command, wrong]) == 2
        assert right in capsys.readouterr().err
    assert main(["info", f"{tmp_path}/b.h5/g"]) == 2
    assert ":/g" not in capsys.readouterr().err


def test_how_much_of_a_file_its_members_take_is_not_said_to_be_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["g/raw"] = np.arange(6, dtype="u1")
        file["top"] = np.arange(6, dtype="u1")
    for command in (["ls", "-l"], ["tree"], ["info"]):
        assert main([*command, str(tmp_path / "a.h5")]) == 0
        told = capsys.readouterr().out
        assert "top" in told and " 0 B" not in told
    assert main(["info", str(tmp_path / "a.h5") + ":/top"]) == 0
    assert "in 1 files" in capsys.readouterr().out


def test_a_classic_netcdf_file_is_no_damaged_hdf5(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.nc").write_bytes(b"CDF\x01" + bytes(60))
    with pytest.raises(UnsupportedError, match="netCDF file of the classic format"):
        zvcore.open(tmp_path / "a.nc")
    assert main(["verify", str(tmp_path / "a.nc")]) == 3
    assert "NOT sound" not in capsys.readouterr().out


def test_a_group_that_is_looked_up_again_is_not_listed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        for number in range(40):
            file[f"{number}/a"] = np.arange(number)
        file.create_group("none")
    listed: list[str] = []

    def noted(group: Any) -> Any:
        listed.append(group.name)
        return members_of(group)

    monkeypatch.setattr(reading, "members_of", noted)
    found = zvcore.open(path)
    for _ in range(3):
        assert all(found["7"]["a"][...] == np.arange(7)) and len(found["none"]) == 0
    assert listed == ["/", "/7", "/none"]
    # Only some of them are kept.
    assert [len(found[f"{number}/a"]) for number in range(40)] == [*range(40)]
    assert len(found["7/a"]) == 7 and listed.count("/7") == 2


def test_damaged_labels_of_axes_do_not_end_the_process(tmp_path: Path) -> None:
    """The library's own function for them reads what is not there."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["a"] = np.arange(6).reshape(2, 3)
        file["a"].dims[1].label = "x"
    assert zvcore.formats()["hdf5"].read_axes(zvcore.open(path)["a"])[1].name == "x"
    # The heap in which texts of any length lie.
    path.write_bytes(path.read_bytes().replace(b"GCOL", b"LOCG"))
    code = f"import zvcore; print(zvcore.open({str(path)!r})['a'][1, 2])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "5\n"), done.stderr


def test_items_that_are_arrays_are_not_called_damaged(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", shape=(3,), dtype=np.dtype(("i4", (2, 2))))
        file["b"] = np.arange(3)
    with pytest.raises(UnsupportedError, match="items that are arrays themselves"):
        zvcore.open(tmp_path / "a.h5")["a"]
    assert zvcore.verify(tmp_path / "a.h5").status == "unsupported"


def test_a_file_that_others_have_changed_is_read_as_it_is_while_somebody_has_it_open(tmp_path: Path) -> None:
    """The library would answer from what it had read before. Others write where nothing is locked (NFS, clusters)."""
    for name, values in (("a.h5", np.zeros(0, "i4")), ("b.h5", np.arange(10, dtype="i4"))):
        with h5py.File(tmp_path / name, "w") as file:
            file.create_dataset("x", (100,), "i4", chunks=(10,), compression="gzip")[: len(values)] = values
    held = zvcore.open(f"{tmp_path / 'a.h5'}:/x")
    assert not held[...].any()
    (tmp_path / "a.h5").write_bytes((tmp_path / "b.h5").read_bytes())
    with pytest.raises(ZvcoreError, match="open it again"):
        held[...]
    assert zvcore.open(f"{tmp_path / 'a.h5'}:/x")[...].sum() == 45
    zvcore.convert(f"{tmp_path / 'a.h5'}:/x", tmp_path / "x.zarr", format="zarr3")
    assert zvcore.open(tmp_path / "x.zarr")[...].sum() == 45
    assert zvcore.verify(tmp_path / "a.h5").counts["chunks"] == 1


def test_what_the_same_program_writes_is_read_through_its_own_handle(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", (4,), "i4")
        held = zvcore.open(f"{tmp_path / 'a.h5'}:/x")
        assert held.shape == (4,)
        file["y"] = np.arange(5)
        file.flush()
        assert zvcore.open(f"{tmp_path / 'a.h5'}:/y").shape == (5,)


def test_values_that_were_never_stored_are_not_looked_at(tmp_path: Path) -> None:
    """Of 2 KiB, verify read a terabyte of fill values."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("never", shape=(2**50,), dtype="u1")
        file["some"] = np.arange(6)
    report = zvcore.verify(tmp_path / "a.h5")
    assert report.ok and (report.counts["arrays"], report.counts["chunks"]) == (2, 1)
    assert zvcore.open(tmp_path / "a.h5")["never"][-3:].tolist() == [0, 0, 0]
