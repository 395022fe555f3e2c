"""napari's reader, asked as napari asks it: through npe2, without a window."""

from __future__ import annotations

import numpy as np
import pytest

import zvcore
from zvcore.tools import napari_reader

pytest.importorskip("dask.array")
# npe2 warns when it is imported, of its own use of pydantic.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

VALUES = np.arange(20 * 30 * 40, dtype="u2").reshape(20, 30, 40)


@pytest.fixture
def read():
    """What npe2 gives for a path, by this distribution's own manifest."""
    npe2 = pytest.importorskip("npe2")
    manager = npe2.PluginManager.instance()
    manager.register(npe2.PluginManifest.from_distribution("zvcore"))
    yield lambda path: npe2.read([str(path)], stack=False, plugin_name="zvcore")
    manager.unregister("zvcore")


def test_an_image_with_its_levels(tmp_path, read):
    zvcore.create(tmp_path / "plain.zarr", format="zarr3", data=VALUES, chunks=(10, 10, 10))
    zvcore.convert(
        tmp_path / "plain.zarr",
        tmp_path / "x.zarr",
        format="zarr3",
        levels=2,
        voxel_size=(3, 2, 1),
        unit="um",
        axes="zyx",
    )
    ((levels, told, kind),) = read(tmp_path / "x.zarr")
    assert (kind, told["multiscale"], len(levels)) == ("image", True, 3)
    assert told["scale"] == [3, 2, 1]
    assert np.array_equal(np.asarray(levels[0]), VALUES)
    assert all(hasattr(level, "dask") for level in levels), "nothing is read before it is shown"


def test_a_volume_is_turned_and_labels_are_labels(tmp_path, read):
    segments = VALUES.astype("u8").T[..., None]
    zvcore.create(
        tmp_path / "v", format="precomputed", data=segments, chunks=(10, 10, 10), type="segmentation",
        resolution=(8, 8, 40), voxel_offset=(1, 2, 3),
    )  # fmt: skip
    ((data, told, kind),) = read(tmp_path / "v")
    assert (kind, told["scale"], told["translate"]) == ("labels", [40, 8, 8], [120, 16, 8])
    assert np.array_equal(np.asarray(data), VALUES)


def test_channels_are_layers(tmp_path, read):
    zvcore.create(tmp_path / "plain.zarr", format="zarr3", data=VALUES[:2], chunks=(1, 10, 10))
    zvcore.convert(
        tmp_path / "plain.zarr", tmp_path / "x.zarr", format="zarr3", ome="0.5", axes="cyx", channels="DAPI:0000FF,GFP"
    )
    ((data, told, kind),) = read(tmp_path / "x.zarr")
    assert (kind, told["channel_axis"], told["name"]) == ("image", 0, ["DAPI", "GFP"])
    assert np.array_equal(np.asarray(data)[1], VALUES[1])


def test_lines_and_points(tmp_path, read):
    lines = [np.random.default_rng(n).uniform(0, 90, (5, 3)).astype("f4") for n in range(7)]
    zvcore.zvf.write_polylines(tmp_path / "lines", lines, chunk_shape=(50, 50, 50))
    ((paths, told, kind),) = read(tmp_path / "lines")
    assert (kind, told["shape_type"], len(paths)) == ("shapes", "path", 7)
    assert {tuple(p[0]) for p in paths} <= {tuple(line[0, ::-1]) for line in lines}
    points = np.random.default_rng(0).uniform(0, 90, (20, 3)).astype("f4")
    zvcore.zvf.write_points(tmp_path / "points", points, chunk_shape=(50, 50, 50))
    ((found, told, kind),) = read(tmp_path / "points")
    assert kind == "points"
    assert {tuple(p) for p in np.asarray(found).tolist()} == {tuple(p) for p in points[:, ::-1].tolist()}


def test_annotations_that_are_lines_are_vectors(tmp_path, read):
    columns = {"point_a": np.zeros((3, 3), "f4"), "point_b": np.arange(9, dtype="f4").reshape(3, 3)}
    dimensions = dict.fromkeys("xyz", (4e-09, "m"))
    zvcore.precomputed.write_annotations(tmp_path / "a", "line", columns, dimensions=dimensions)
    ((vectors, told, kind),) = read(tmp_path / "a")
    assert (kind, [round(one, 6) for one in told["scale"]]) == ("vectors", [4, 4, 4])
    assert sorted(vectors[:, 1, 0].tolist()) == [2, 5, 8]


def test_what_zvcore_does_not_know_is_left_to_others(tmp_path):
    (tmp_path / "x.zzz").write_bytes(b"nothing")
    assert napari_reader.get_reader(str(tmp_path / "x.zzz")) is None
    assert napari_reader.get_reader([str(tmp_path / "missing.zarr")]) is None
