"""BigDataViewer's datasets: its XML with N5 and HDF5, read as one image, written, and XML that lies."""

from __future__ import annotations

import json
import pickle
import shutil
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
import pytest

import zvcore
from zvcore.commands.cli import main
from zvcore.errors import MetadataError, NotFoundError, UnsupportedError, ZvcoreError
from zvcore.report import What

if TYPE_CHECKING:
    from pathlib import Path

VALUES = np.random.default_rng(1).integers(0, 60000, (3, 2, 20, 37, 41)).astype("u2")
AXES = "tczyx"
CALIBRATION = "0.1 0 0 5 0 0.2 0 6 0 0 0.5 7"


def validated(path: Path) -> dict[str, Any]:
    """What a group says of its image, in the eyes of ome-zarr-models too."""
    models = pytest.importorskip("ome_zarr_models")
    models.open_ome_zarr(__import__("zarr").open_group(path, mode="r"))
    found: dict[str, Any] = json.loads((path / "zarr.json").read_text())["attributes"]["ome"]
    return found


def xml_of(
    setups: int = 2, last: int = 2, *, affine: str = CALIBRATION, loader: str = "bdv.n5", name: str = "raw.n5",
    missing: str = "", points: str | None = None, extra: str = "",
) -> str:  # fmt: skip
    """As Fiji's exporter writes it."""
    kind = loader.rpartition(".")[2]
    several = "".join(
        f"<ViewSetup><id>{n}</id><name>setup {n}</name><size>41 37 20</size><voxelSize><unit>micron</unit>"
        f"<size>0.1 0.2 0.5</size></voxelSize><attributes><channel>{n + 1}</channel>{extra}</attributes></ViewSetup>"
        for n in range(setups)
    )
    registered = "".join(
        f'<ViewRegistration timepoint="{t}" setup="{n}"><ViewTransform type="affine"><Name>moved</Name><affine>'
        f'1 0 0 0 0 1 0 0 0 0 1 0</affine></ViewTransform><ViewTransform type="affine"><affine>{affine}</affine>'
        "</ViewTransform></ViewRegistration>"
        for t in range(last + 1)
        for n in range(setups)
    )
    points = points or f'<Timepoints type="range"><first>0</first><last>{last}</last></Timepoints>'
    channels = "".join(f"<Channel><id>{n + 1}</id><name>{'DG'[n % 2]}</name></Channel>" for n in range(setups))
    return (
        '<?xml version="1.0" encoding="UTF-8"?><SpimData version="0.2"><BasePath type="relative">.</BasePath>'
        f'<SequenceDescription><ImageLoader format="{loader}"><{kind} type="relative">{name}</{kind}></ImageLoader>'
        f'<ViewSetups>{several}<Attributes name="channel">{channels}</Attributes></ViewSetups>{points}'
        f"<MissingViews>{missing}</MissingViews></SequenceDescription>"
        f"<ViewRegistrations>{registered}</ViewRegistrations></SpimData>"
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two channels at three times, in two levels, as BigDataViewer lays them out."""
    root = zvcore.open(tmp_path / "raw.n5", "w", format="n5")
    for channel in range(2):
        (tmp_path / f"raw.n5/setup{channel}").mkdir()
        (tmp_path / f"raw.n5/setup{channel}/attributes.json").write_text(
            '{"downsamplingFactors": [[1, 1, 1], [2, 2, 1]], "dataType": "uint16"}'
        )
        for time in range(3):
            for level, step in enumerate((1, 2)):
                values = VALUES[time, channel, :, ::step, ::step].T
                root.create_dataset(
                    f"setup{channel}/timepoint{time}/s{level}", shape=values.shape, dtype="u2", chunks=(16, 16, 16),
                    codec="gzip",
                )[...] = values  # fmt: skip
    (tmp_path / "raw.xml").write_text(xml_of())
    return tmp_path / "raw.xml"


def test_setups_and_time_points_are_one_image(path: Path) -> None:
    node = zvcore.open(path)
    assert (node.kind, node.format, list(node)) == ("image", "bdv", ["s0", "s1"])
    assert node["s0"].shape == VALUES.shape and node["s0"].chunks == (1, 1, 16, 16, 16)
    assert np.array_equal(node["s0"][...], VALUES)
    assert np.array_equal(node["s1"][1:, 1, 3:9], VALUES[1:, 1, 3:9, ::2, ::2])
    again = pickle.loads(pickle.dumps(node["s0"]))
    assert np.array_equal(again[2, 0], VALUES[2, 0])
    assert zvcore.verify(path).ok and zvcore.inspect(path)["setups"] == 2


def test_a_size_that_is_not_that_of_the_values_is_told(path: Path, tmp_path: Path) -> None:
    text = path.read_text().replace("<size>41 37 20</size>", "<size>41 37 21</size>", 1)
    path.write_text(text)
    said = "the size of the setup 0 that the XML says (41 x 37 x 21; stored are 41 x 37 x 20)"
    told = [one for one in zvcore.verify(path).problems if one.kind is What.DISAGREEMENT]
    assert [(one.what, one.fatal) for one in told] == [(f"{said} is not that of its values", False)]
    report = zvcore.convert(path, tmp_path / "out", format="zarr3")
    assert [loss.what for loss in report.losses] == [f"{said} is not known, and is not carried"]


def test_what_it_takes_is_the_xml_and_the_values(path: Path) -> None:
    files = [path, *(one for one in (path.parent / "raw.n5").rglob("*") if one.is_file())]
    found = zvcore.inspect(path)
    assert (found["objects"], found["stored_bytes"]) == (len(files), sum(one.stat().st_size for one in files))


def test_an_image_becomes_ome_zarr_with_its_places_and_channels(path: Path, tmp_path: Path) -> None:
    report = zvcore.convert(path, tmp_path / "out", format="zarr3", verify=True)
    assert report.ok and not report.losses
    attributes = validated(tmp_path / "out")
    scale, move = attributes["multiscales"][0]["datasets"][1]["coordinateTransformations"]
    assert scale["scale"] == [1, 1, 0.5, 0.4, 0.2]
    assert move["translation"] == pytest.approx([0, 0, 7, 6.1, 5.05])
    axes = attributes["multiscales"][0]["axes"]
    assert [axis["name"] for axis in axes] == list(AXES) and axes[2]["unit"] == "micrometer"
    assert [one["label"] for one in attributes["omero"]["channels"]] == ["D", "G"]
    assert np.array_equal(zvcore.open(tmp_path / "out")["0"][...], VALUES)


def test_there_and_back_is_what_bigdataviewer_reads(path: Path, tmp_path: Path) -> None:
    zvcore.convert(path, tmp_path / "there", format="zarr3", shards=True)
    report = zvcore.convert(tmp_path / "there", tmp_path / "back", format="bdv", verify=True)
    assert report.ok and [loss.what for loss in report.losses] == [
        "of omero, the names of the channels are kept, and no colours and windows"
    ]
    root = ElementTree.parse(tmp_path / "back/dataset.xml").getroot()
    assert root.find("SequenceDescription/ImageLoader").get("format") == "bdv.n5"
    assert [one.text for one in root.iter("Name") if one.text != "calibration"] == []
    assert len(root.findall("ViewRegistrations/ViewRegistration")) == 6
    affine = root.findtext("ViewRegistrations/ViewRegistration/ViewTransform/affine")
    assert [float(n) for n in affine.split()] == [float(n) for n in CALIBRATION.split()]
    assert root.findtext("SequenceDescription/ViewSetups/ViewSetup/voxelSize/size") == "0.1 0.2 0.5"
    setup = json.loads((tmp_path / "back/dataset.n5/setup1/attributes.json").read_text())
    assert setup == {"downsamplingFactors": [[1, 1, 1], [2, 2, 1]], "dataType": "uint16"}
    plain = zvcore.open(tmp_path / "back/dataset.n5/setup1/timepoint2/s0")
    assert np.array_equal(plain[...].T, VALUES[2, 1])
    for place in ("back", "back/dataset.xml"):
        assert np.array_equal(zvcore.open(tmp_path / place)["s0"][...], VALUES)
        assert zvcore.verify(tmp_path / place).ok
    again = zvcore.convert(tmp_path / "there", tmp_path / "back", format="bdv")
    assert again.already_finished


def test_a_volume_is_one_setup_and_gets_its_levels(tmp_path: Path) -> None:
    volume = VALUES[0, 0]
    zvcore.convert(volume, tmp_path / "a", format="bdv", levels=1, voxel_size="0.5,0.1,0.1um", name="cells")
    found = zvcore.open(tmp_path / "a")
    assert found["s0"].shape == (1, 1, 20, 37, 41) and np.array_equal(found["s0"][0, 0], volume)
    zvcore.convert(tmp_path / "a", tmp_path / "b", format="precomputed", verify=True)
    assert zvcore.open(tmp_path / "b")[0].resolution == (100, 100, 500)
    assert b"<name>cells</name>" in (tmp_path / "a/dataset.xml").read_bytes()
    with pytest.raises(UnsupportedError, match="folder"):
        zvcore.convert(volume, tmp_path / "c.xml", format="bdv")
    with pytest.raises(UnsupportedError, match="dtype='uint8'"):
        zvcore.convert(volume > 9, tmp_path / "c", format="bdv")


@pytest.mark.parametrize("command", ["info", "tree", "ls", "verify"])
def test_the_folder_is_looked_at_as_its_xml_is(command: str, path: Path, tmp_path: Path, capsys: Any) -> None:
    zvcore.convert(path, tmp_path / "folder", format="bdv")
    assert main([command, str(tmp_path / "folder")]) == 0


def test_the_command_line_reads_and_writes_it(path: Path, tmp_path: Path, capsys: Any) -> None:
    assert main(["info", str(path)]) == 0 and "bdv" in capsys.readouterr().out
    assert main(["verify", str(path)]) == 0
    assert main(["convert", str(path), str(tmp_path / "out"), "--format", "bdv", "--verify"]) == 0
    assert main(["verify", str(tmp_path / "out")]) == 0
    assert main(["preview", str(path), "-o", str(tmp_path / "a.png")]) == 0
    assert main(["ls", str(tmp_path)]) == 0 and "raw.xml" in capsys.readouterr().out


def test_what_an_image_of_these_axes_cannot_say_is_lost_by_name(path: Path, tmp_path: Path) -> None:
    turned = xml_of(affine="0 -1 0 0 1 0 0 0 0 0 1 0", missing='<MissingView timepoint="1" setup="0"/>')
    path.write_text(turned)
    report = zvcore.convert(path, tmp_path / "out", format="zarr3")
    told = " ".join(map(str, report.losses))
    assert "affine transform of setup 0, setup 1" in told and "1 views are missing" in told
    scale = validated(tmp_path / "out")["multiscales"][0]["datasets"][0]["coordinateTransformations"][0]["scale"]
    assert scale == [1, 1, 0.5, 0.2, 0.1]


@pytest.mark.parametrize("loader", ["bdv.n5", "bdv.hdf5"])
@pytest.mark.parametrize("said", ["", '<MissingView timepoint="1" setup="1"/>'])
def test_a_view_that_is_not_stored_reads_as_zeros_and_is_told(
    path: Path, tmp_path: Path, loader: str, said: str
) -> None:
    """Also where the XML does not call it missing. Of HDF5 with chunks, it could not be read alone."""
    path.write_text(xml_of(missing=said, loader=loader, name="raw.n5" if loader == "bdv.n5" else "raw.h5"))
    if loader == "bdv.n5":
        shutil.rmtree(tmp_path / "raw.n5/setup1/timepoint1")
    else:
        h5py = pytest.importorskip("h5py")
        with h5py.File(tmp_path / "raw.h5", "w") as file:
            for setup in range(2):
                file[f"s{setup:02}/resolutions"] = [[1.0, 1, 1]]
                for time in {0, 1, 2} - ({1} if setup else set()):
                    values = VALUES[time, setup].view("i2")
                    file.create_dataset(f"t{time:05}/s{setup:02}/0/cells", data=values, chunks=(8, 16, 16))
    array = zvcore.open(path)["s0"]
    assert np.array_equal(array[1, 0], VALUES[1, 0]) and np.array_equal(array[2, 1], VALUES[2, 1])
    assert (
        array[1, 1].shape == VALUES.shape[2:] and not array[1, 1].any() and array.vindex[[1], [1], [2], [3], [4]] == 0
    )
    report = zvcore.convert(path, tmp_path / "out", format="zarr3")
    assert "1 views are missing" in " ".join(map(str, report.losses))
    verified = zvcore.verify(path)
    assert verified.ok and ["not stored" in one.what for one in verified.problems] == [True] * (not said)


def test_a_setup_of_which_nothing_is_stored_is_told(path: Path, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "raw.n5/setup1")
    assert zvcore.open(path)["s0"].shape[:2] == (3, 1)
    assert "the setup 1" in " ".join(map(str, zvcore.plan(path, tmp_path / "out", format="zarr3").losses))
    assert len(zvcore.verify(path).problems) == 3


def test_setups_that_are_not_alike_are_images_of_their_own(path: Path, tmp_path: Path) -> None:
    text = xml_of()
    at = text.index("<channel>2")
    path.write_text(text[:at] + "<tile>1</tile>" + text[at:])
    node = zvcore.open(path)
    assert list(node) == ["setup0", "setup1"]
    assert np.array_equal(node["setup1/s0"][:, 0], VALUES[:, 1])
    report = zvcore.convert(path, tmp_path / "out", format="zarr3", verify=True)
    assert report.ok
    assert np.array_equal(zvcore.open(tmp_path / "out/setup1/0")[...], VALUES[:, 1])


def test_time_points_are_told_in_three_ways_and_need_not_be_there(path: Path) -> None:
    for points in (
        '<Timepoints type="pattern"><integerpattern>0-2:2, 7</integerpattern></Timepoints>',
        '<Timepoints type="list"><Timepoint><id>0</id></Timepoint><Timepoint><id>2</id></Timepoint>'
        "<Timepoint><id>7</id></Timepoint></Timepoints>",
    ):
        path.write_text(xml_of(points=points))
        found = zvcore.open(path)["s0"][...]
        assert np.array_equal(found[:2], VALUES[::2]) and not found[2].any()


LIES = {
    "bomb": '<!DOCTYPE a [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>' + xml_of().partition("?>")[2],
    "many time points": xml_of(points='<Timepoints type="range"><first>0</first><last>999999999</last></Timepoints>'),
    "pattern": xml_of(points='<Timepoints type="pattern"><integerpattern>0-9:0</integerpattern></Timepoints>'),
    "huge number": xml_of(points='<Timepoints type="range"><first>0</first><last>1e400</last></Timepoints>'),
    "affine": xml_of(affine="1 2 3"),
    "nan": xml_of(affine=CALIBRATION.replace("5", "nan")),
    "infinite": xml_of(affine=CALIBRATION.replace("0.1", "1e308").replace("0.2", "1e999")),
    "outside": xml_of(name="../raw.n5"),
    "elsewhere": xml_of(name="/etc"),
    "nothing": xml_of(name="none.n5"),
    "no name": xml_of(name=""),
    "loader": xml_of(loader="bdv.imaris"),
    "no setups": xml_of(setups=0),
    "deep": "<SpimData>" + "<a>" * 1000 + "</a>" * 1000 + "</SpimData>",
    "cut": xml_of()[:700],
    "empty": "",
    "another root": "<a/>",
}


@pytest.mark.parametrize("lie", LIES)
def test_xml_that_lies_is_an_error_of_zvcore(path: Path, lie: str) -> None:
    path.write_text(LIES[lie])
    with pytest.raises((MetadataError, UnsupportedError, NotFoundError)):
        zvcore.open(path, format="bdv")
    with pytest.raises(ZvcoreError):
        zvcore.open(path)
    assert not zvcore.verify(path).ok


def test_views_that_differ_from_the_first_are_refused_by_name(path: Path) -> None:
    other = path.parent / "raw.n5/setup1/timepoint2/s0/attributes.json"
    document = json.loads(other.read_text())
    other.write_text(json.dumps({**document, "dataType": "int16"}))
    with pytest.raises(UnsupportedError, match="setup1/timepoint2"):
        zvcore.open(path)
    assert not zvcore.verify(path).ok
    other.write_text(json.dumps(document))
    (path.parent / "raw.n5/setup0/timepoint1/s0/1/1/0").write_bytes(b"\0\0\0\3" + b"\0\0\0\x10" * 3 + b"no gzip")
    report = zvcore.verify(path)
    assert not report.ok and "raw.n5/setup0/timepoint1/s0/1/1/0" in str(report.problems[0])


def test_hdf5_of_bigdataviewer_is_read_by_the_engine(path: Path, tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "raw.h5", "w") as file:
        for channel in range(2):
            file[f"s{channel:02}/resolutions"] = np.array([[1, 1, 1], [2, 2, 1.0]])
            file[f"s{channel:02}/subdivisions"] = np.array([[16, 16, 16], [16, 16, 16]])
            for time in range(3):
                for level, step in enumerate((1, 2)):
                    if (time, channel) == (1, 1):
                        continue
                    file.create_dataset(
                        f"t{time:05}/s{channel:02}/{level}/cells", chunks=(16, 16, 16), compression="gzip",
                        data=VALUES[time, channel, :, ::step, ::step].view("i2"),
                    )  # fmt: skip
    path.write_text(xml_of(loader="bdv.hdf5", name="raw.h5"))
    node = zvcore.open(path)
    expected = VALUES.copy()
    expected[1, 1] = 0
    assert type(node["s0"].layout).__name__ == "StackedLayout"
    assert np.array_equal(node["s0"][...], expected) and node["s0"].dtype == np.uint16
    assert np.array_equal(pickle.loads(pickle.dumps(node["s1"]))[...], expected[..., ::2, ::2])
    report = zvcore.convert(path, tmp_path / "out", format="zarr3", verify=True)
    assert report.ok and zvcore.verify(path).ok
    validated(tmp_path / "out")
    sizes = [one.stat().st_size for one in (path, tmp_path / "raw.h5")]
    found = zvcore.inspect(path)
    assert (found["objects"], found["stored_bytes"]) == (2, sum(sizes))


def test_sizes_in_several_units_are_said_in_that_of_x(tmp_path: Path) -> None:
    """They were taken for numbers of it: 0.04 micrometers became 0.04 nanometers."""
    source = zvcore.create(tmp_path / "a.n5", format="n5", shape=(8, 8, 8), chunks=(8, 8, 8), dtype="u1")
    source[...] = 1
    source.attrs["transform"] = {
        "axes": ["z", "y", "x"], "scale": [0.04, 4, 8], "translate": [0.08, 0, 16], "units": ["um", "nm", "nm"],
    }  # fmt: skip
    report = zvcore.convert(tmp_path / "a.n5", tmp_path / "made", format="bdv")
    assert any("all sizes are said in the unit of x" in str(loss) for loss in report.losses)
    image = zvcore.formats()["bdv"].read_image(zvcore.open(tmp_path / "made"))
    assert [(axis.scale, axis.offset, axis.unit) for axis in image.axes[2:]] == [
        (40, 80, "nanometer"), (4, 0, "nanometer"), (8, 16, "nanometer"),
    ]  # fmt: skip
