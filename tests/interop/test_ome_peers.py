"""OME-Zarr between its versions, checked by others: ome-zarr-py, ngff-zarr and ome-zarr-models read what we make of
images that the first two wrote, and xarray opens a data set equally in Zarr v2, in v3 and migrated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.interop.peers import ask

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.interop]

FORMATS = {"0.4": "zarr2", "0.5": "zarr3"}

# An image with two channels and labels.
OME_ZARR_PY = """
import sys, numpy as np, zarr
from ome_zarr.format import format_from_version
from ome_zarr.writer import write_image, write_labels
path, version = sys.argv[1:]
root = zarr.open_group(path, mode="w", zarr_format=2 if version == "0.4" else 3)
data = np.random.default_rng(0).integers(0, 4000, (2, 64, 96)).astype("u2")
axes = [{"name": "c", "type": "channel"}, {"name": "y", "type": "space", "unit": "micrometer"},
        {"name": "x", "type": "space", "unit": "micrometer"}]
omero = {"channels": [{"label": name, "color": color, "active": True, "window": {"min": 0, "max": 65535, "start": 0,
         "end": 4000}} for name, color in (("DAPI", "0000FF"), ("GFP", "00FF00"))]}
options = {"fmt": format_from_version(version)}
write_image(data, root, axes=axes, scale={"c": 1.0, "y": 0.5, "x": 0.25}, metadata={"omero": omero}, **options)
labels = (data[0] > 2000).astype("u4")
write_labels(labels, root, name="cells", axes=axes[1:], scale={"y": 0.5, "x": 0.25}, **options,
             label_metadata={"colors": [{"label-value": 1, "rgba": [255, 0, 0, 255]}]})
"""
# A volume, with levels in folders of their own.
NGFF_ZARR = """
import sys, numpy as np, ngff_zarr as nz
path, version = sys.argv[1:]
data = np.random.default_rng(0).integers(0, 4000, (16, 64, 96)).astype("u2")
image = nz.to_ngff_image(data, dims=["z", "y", "x"], scale={"z": 2.0, "y": 0.5, "x": 0.25},
                         translation={"z": 0.0, "y": 10.0, "x": 20.0}, axes_units=dict.fromkeys("zyx", "micrometer"))
nz.to_ngff_zarr(path, nz.to_multiscales(image, scale_factors=[2], chunks=32), version=version)
"""
# What ome-zarr-py and ngff-zarr see of each path.
LOOK = """
import hashlib, json, sys, numpy as np, ngff_zarr as nz
from ome_zarr.io import parse_url
from ome_zarr.reader import Reader
def look(path):
    nodes = []
    for node in Reader(parse_url(path, mode="r"))():
        if node.data:
            meta = node.metadata
            nodes.append({
                "levels": [[list(one.shape), hashlib.sha256(np.asarray(one).tobytes()).hexdigest()]
                           for one in node.data],
                "scales": [[one["scale"] for one in level if one["type"] == "scale"][0]
                           for level in meta["coordinateTransformations"]],
                "channels": meta.get("channel_names") or meta.get("name"),
                "colors": sorted(map(str, meta["color"].items())) if isinstance(meta.get("color"), dict) else None,
            })
    found = nz.from_ngff_zarr(path)
    images = [[list(image.dims), {k: float(v) for k, v in image.scale.items()},
               {k: float(v) for k, v in image.translation.items()}, list(image.data.shape), image.axes_units]
              for image in found.images]
    return {"ome-zarr-py": nodes, "ngff-zarr": images}
print(json.dumps([look(path) for path in sys.argv[1:]]))
"""


@pytest.mark.parametrize("version", ["0.4", "0.5"])
@pytest.mark.parametrize("writer", ["ome-zarr-py", "ngff-zarr"])
def test_readers_see_the_same_image_in_both_versions(tmp_path: Path, writer: str, version: str) -> None:
    ask("images", OME_ZARR_PY if writer == "ome-zarr-py" else NGFF_ZARR, tmp_path / "a.zarr", version)
    assert not [problem for problem in zvcore.verify(tmp_path / "a.zarr").problems if problem.fatal]
    other = "0.5" if version == "0.4" else "0.4"
    report = zvcore.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", format=FORMATS[other], verify=True)
    # ngff-zarr writes this to the groups of its levels, where it says nothing.
    assert all("'_ARRAY_DIMENSIONS'" in loss.what for loss in report.losses), report.losses
    zvcore.convert(tmp_path / "b.zarr", tmp_path / "c.zarr", format=FORMATS[version])
    seen, migrated, back = ask("images", LOOK, *(tmp_path / f"{name}.zarr" for name in "abc"))
    assert len(seen["ome-zarr-py"]) == (2 if writer == "ome-zarr-py" else 1) and len(seen["ngff-zarr"]) > 1
    assert migrated == seen
    assert back == seen


WRITE_DATASET = """
import sys, numpy as np, xarray as xr
values = np.arange(60, dtype="f4").reshape(5, 12)
values[2, 3] = np.nan
data = xr.Dataset(
    {"t2m": (("time", "x"), values, {"units": "K"}), "count": (("x",), np.arange(12, dtype="i2"))},
    coords={"time": np.array(["2020-01-0%d" % (i + 1) for i in range(5)], "M8[ns]"), "x": np.linspace(0, 1, 12)},
    attrs={"title": "a test"},
)
encoding = {"t2m": {"_FillValue": np.float32(-999), "chunks": (2, 5)}, "count": {"_FillValue": np.int16(7)}}
data.to_zarr(sys.argv[1], zarr_format=2, encoding=encoding, consolidated=True)
"""
OPEN_DATASET = """
import json, sys, xarray as xr
first, *others = [xr.open_zarr(path).load() for path in sys.argv[1:]]
for other in others:
    xr.testing.assert_identical(first, other)
print(json.dumps([int(first["t2m"].isnull().sum()), int(first["count"].isnull().sum()), str(first["time"].dtype)]))
"""


def test_xarray_opens_version_2_version_3_and_what_was_migrated_equally(tmp_path: Path) -> None:
    ask("images", WRITE_DATASET, tmp_path / "a.zarr")
    zvcore.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", format="zarr3", shards=True)
    zvcore.convert(tmp_path / "b.zarr", tmp_path / "c.zarr", format="zarr2")
    zvcore.convert(tmp_path / "a.zarr", tmp_path / "d.zarr", format="zarr2")
    paths = [tmp_path / f"{name}.zarr" for name in "abcd"]
    missing, masked, kind = ask("images", OPEN_DATASET, *paths)
    assert (missing, masked) == (1, 1) and kind.startswith("datetime64")
    before = ask("images", OPEN_DATASET, paths[0])
    zvcore.migrate(paths[0], format="zarr3")
    assert ask("images", OPEN_DATASET, *paths) == before
    # What others see of consolidated metadata follows the source.
    assert all((path / ".zmetadata").exists() for path in (paths[2], paths[3]))


def plate(path: Path, version: str) -> None:
    """A plate with two wells, one with two fields, as zvcore is told to make it by its words."""

    def words(**members: Any) -> dict[str, Any]:
        if version == "0.5":
            said = {
                name: {"version": "0.5", **one} if name in ("plate", "well") else one for name, one in members.items()
            }
            return {"ome": {"version": "0.5", **said}}
        return {
            name: [{"version": "0.4", **one[0]}] if name == "multiscales" else {"version": "0.4", **one}
            for name, one in members.items()
        }

    wells = [("A/1", 0, 0, ["0", "1"]), ("B/2", 1, 1, ["0"])]
    root = zvcore.open(path, "w", format=FORMATS[version])
    root.attrs.update(words(plate={
        "name": "p", "rows": [{"name": "A"}, {"name": "B"}], "columns": [{"name": "1"}, {"name": "2"}],
        "wells": [{"path": at, "rowIndex": row, "columnIndex": column} for at, row, column, _ in wells],
        "acquisitions": [{"id": 0, "name": "first", "maximumfieldcount": 2}], "field_count": 2,
    }))  # fmt: skip
    axes = [{"name": name, "type": "space", "unit": "micrometer"} for name in "yx"]
    for at, _, _, fields in wells:
        well = root.create_group(at)
        well.attrs.update(words(well={"images": [{"path": field, "acquisition": 0} for field in fields]}))
        for field in fields:
            datasets = [{"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [0.5, 0.5]}]}]
            image = well.create_group(field)
            image.attrs.update(words(multiscales=[{"name": field, "axes": axes, "datasets": datasets}]))
            options = {"dimension_separator": "/"} if version == "0.4" else {}
            image.create_array("0", shape=(8, 8), dtype="u1", chunks=(4, 4), dimension_names=["y", "x"], **options)[
                ...
            ] = np.arange(64).reshape(8, 8)


def models_of(path: Path, version: str) -> Any:
    import zarr

    models = pytest.importorskip("ome_zarr_models")
    return models.open_ome_zarr(zarr.open_group(path, mode="r", zarr_format=2 if version == "0.4" else 3))


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_ome_zarr_models_accepts_plates_wells_and_fields_in_both_versions(tmp_path: Path, version: str) -> None:
    other = "0.5" if version == "0.4" else "0.4"
    plate(tmp_path / "a", version)
    report = zvcore.convert(tmp_path / "a", tmp_path / "b", format=FORMATS[other], verify=True)
    assert not report.losses, report.losses
    zvcore.convert(tmp_path / "b", tmp_path / "c", format=FORMATS[version])
    for name, said in (("a", version), ("b", other), ("c", version)):
        assert type(models_of(tmp_path / name, said)).__name__ == "HCS"
        assert type(models_of(tmp_path / name / "A/1", said)).__name__ == "Well"
        assert type(models_of(tmp_path / name / "B/2/0", said)).__name__ == "Image"
        assert zvcore.verify(tmp_path / name).problems == []
    assert dict(zvcore.open(tmp_path / "c").attrs) == dict(zvcore.open(tmp_path / "a").attrs)


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_ome_zarr_models_accepts_what_bioformats2raw_lays_out(tmp_path: Path, version: str) -> None:
    import zarr

    other = "0.5" if version == "0.4" else "0.4"
    plate(tmp_path / "p", version)
    root = zvcore.open(tmp_path / "a", "w", format=FORMATS[version])
    layout = {"bioformats2raw.layout": 3}
    root.attrs.update(layout if version == "0.4" else {"ome": {"version": "0.5", **layout}})
    (tmp_path / "p/A/1/0").rename(tmp_path / "a/0")
    report = zvcore.convert(tmp_path / "a", tmp_path / "b", format=FORMATS[other], verify=True)
    assert not report.losses, report.losses
    zvcore.convert(tmp_path / "b", tmp_path / "c", format=FORMATS[version])
    for name, said in (("a", version), ("b", other), ("c", version)):
        kind = pytest.importorskip(f"ome_zarr_models.v{said.replace('.', '')}.bioformats2raw").BioFormats2Raw
        group = zarr.open_group(tmp_path / name, mode="r", zarr_format=2 if said == "0.4" else 3)
        assert kind.from_zarr(group) is not None
        assert type(models_of(tmp_path / name / "0", said)).__name__ == "Image"
