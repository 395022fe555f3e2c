"""What is said about arrays goes along: names, units and sizes of axes, offsets, pyramids, attributes."""

from __future__ import annotations

import json

import numpy as np
import pytest

import zvcore
from zvcore.errors import UnsupportedError

RESOLUTION = (4.0, 4.0, 40.0)


def values(shape=(12, 20, 30)):
    return np.random.default_rng(0).integers(0, 250, shape).astype("uint8")


def array(path, fmt, **options):
    data = values() if fmt == "zarr3" else values().T
    made = zvcore.create(path, format=fmt, shape=data.shape, dtype="uint8", chunks=(8, 8, 8), **options)
    made[...] = data if fmt != "precomputed" else data[..., None]
    return made


def test_n5_becomes_named_axes(tmp_path):
    array(
        tmp_path / "src", "n5", attrs={"pixelResolution": {"dimensions": [4, 4, 40], "unit": "nm"}, "lab": {"a": [1]}}
    )
    zvcore.convert(tmp_path / "src", tmp_path / "dst", format="zarr3")
    made = zvcore.open(tmp_path / "dst")
    assert made.shape == (12, 20, 30)
    assert made.dimension_names == ("z", "y", "x")
    assert dict(made.attrs) == {
        "lab": {"a": [1]},
        "transform": {
            "axes": ["z", "y", "x"], "scale": [40, 4, 4], "translate": [0, 0, 0],
            "units": ["nanometer", "nanometer", "nanometer"],
        },
    }  # fmt: skip


@pytest.mark.parametrize("middle", ["zarr3", "n5"])
def test_a_volume_there_and_back(middle, tmp_path):
    array(tmp_path / "src", "precomputed", resolution=(4, 4, 40), voxel_offset=(100, -50, 7))
    zvcore.convert(tmp_path / "src", tmp_path / "middle", format=middle)
    zvcore.convert(tmp_path / "middle", tmp_path / "dst", format="precomputed")
    first, second = zvcore.open(tmp_path / "src")[0], zvcore.open(tmp_path / "dst")[0]
    assert second.resolution == first.resolution and second.voxel_offset == first.voxel_offset
    assert np.array_equal(first[...], second[...])


def test_other_units(tmp_path):
    made = array(
        tmp_path / "src", "n5", attrs={"resolution": [0.5, 0.5, 2], "units": ["um"] * 3, "axes": ["x", "y", "z"]}
    )
    assert made.shape == (30, 20, 12)
    zvcore.convert(tmp_path / "src", tmp_path / "dst", format="precomputed")
    assert zvcore.open(tmp_path / "dst")[0].resolution == (500, 500, 2000)


@pytest.mark.parametrize("target", ["zarr3", "n5", "precomputed"])
@pytest.mark.parametrize("source", ["zarr3", "n5", "precomputed"])
def test_pyramids_between_all(source, target, tmp_path):
    array(tmp_path / "one", "precomputed", resolution=(4, 4, 40), voxel_offset=(8, 16, 24))
    zvcore.convert(tmp_path / "one", tmp_path / "src", format=source, levels=2, factors=(2, 2, 2))
    zvcore.convert(tmp_path / "src", tmp_path / "dst", format=target)
    zvcore.convert(tmp_path / "dst", tmp_path / "back", format="precomputed")
    volume = zvcore.open(tmp_path / "back")
    assert [(s["size"], s["resolution"], s["voxel_offset"]) for s in volume.info["scales"]] == [
        ([30, 20, 12], [4, 4, 40], [8, 16, 24]),
        ([15, 10, 6], [8, 8, 80], [4, 8, 12]),
        ([8, 5, 3], [16, 16, 160], [2, 4, 6]),
    ]
    first = zvcore.open(tmp_path / "src")
    last = [first[name] for name in first][-1]
    data = last[...][..., 0].T if source == "precomputed" else last[...] if source == "zarr3" else last[...].T
    assert np.array_equal(volume[2][..., 0].T, data)


def test_ome_zarr_is_written(tmp_path):
    array(tmp_path / "src", "precomputed", resolution=(4, 4, 40))
    zvcore.convert(tmp_path / "src", tmp_path / "fly.zarr", format="zarr3", levels=1, factors=(2, 2, 2))
    document = json.loads((tmp_path / "fly.zarr" / "zarr.json").read_text())
    assert document["attributes"]["ome"] == {
        "version": "0.5",
        "multiscales": [
            {
                "name": "fly.zarr",
                "axes": [{"name": name, "type": "space", "unit": "nanometer"} for name in "zyx"],
                "datasets": [
                    {
                        "path": "0",
                        "coordinateTransformations": [
                            {"type": "scale", "scale": [40, 4, 4]},
                            {"type": "translation", "translation": [0, 0, 0]},
                        ],
                    },
                    {
                        "path": "1",
                        "coordinateTransformations": [
                            {"type": "scale", "scale": [80, 8, 8]},
                            {"type": "translation", "translation": [20, 2, 2]},
                        ],
                    },
                ],
                "type": "mean",
            }
        ],
    }
    for name in ("0", "1"):
        level = json.loads((tmp_path / "fly.zarr" / name / "zarr.json").read_text())
        assert level["dimension_names"] == ["z", "y", "x"]


def ome(path, axes, shape, scales, **extra):
    group = zvcore.open(path, "w", format="zarr3")
    datasets = []
    for i, scale in enumerate(scales):
        extent = tuple(-(-n // round(s / b)) for n, s, b in zip(shape, scale, scales[0], strict=True))
        level = group.create_dataset(f"scale{i}", shape=extent, dtype="uint16", chunks=tuple(min(n, 8) for n in extent))
        level[...] = np.arange(np.prod(extent)).reshape(extent) % 1000
        datasets.append({"path": f"scale{i}", "coordinateTransformations": [{"type": "scale", "scale": list(scale)}]})
    entry = {"axes": axes, "datasets": datasets, **extra}
    group.attrs.update({"ome": {"version": "0.5", "multiscales": [entry], "omero": {"channels": []}}, "mine": 1})
    return group


AXES = [
    {"name": "c", "type": "channel"},
    {"name": "z", "type": "space", "unit": "micrometer"},
    {"name": "y", "type": "space", "unit": "micrometer"},
    {"name": "x", "type": "space", "unit": "micrometer"},
]


def test_ome_zarr_with_channels_is_read(tmp_path):
    group = ome(tmp_path / "src", AXES, (2, 8, 20, 24), [(1, 2, 0.5, 0.5), (1, 4, 1, 1)])
    zvcore.convert(tmp_path / "src", tmp_path / "dst", format="precomputed")
    volume = zvcore.open(tmp_path / "dst")
    assert volume.num_channels == 2 and list(volume) == ["500_500_2000", "1000_1000_4000"]
    for i in range(2):
        assert np.array_equal(volume[i][...].T, group[f"scale{i}"][...])
    # From there to N5, channels are the slowest axis.
    zvcore.convert(tmp_path / "src", tmp_path / "n5", format="n5")
    scales = zvcore.open(tmp_path / "n5").multiscale()
    assert scales[1].resolution[:3] == (1, 1, 4) and scales.axes == ("x", "y", "z", "c")


def test_ome_zarr_to_ome_zarr_keeps_the_rest(tmp_path):
    ome(tmp_path / "src", AXES, (2, 8, 20, 24), [(1, 2, 0.5, 0.5), (1, 4, 1, 1)], name="mine")
    zvcore.convert(
        tmp_path / "src",
        tmp_path / "dst",
        format="zarr3",
        codec={"name": "zstd", "level": 9},
        levels=1,
        factors=(1, 2, 2, 2),
    )
    group = zvcore.open(tmp_path / "dst")
    assert group.attrs["mine"] == 1
    entry = group.attrs["ome"]["multiscales"][0]
    assert entry["name"] == "mine"
    assert entry["axes"] == AXES
    assert [one["path"] for one in entry["datasets"]] == ["scale0", "scale1", "2"]
    assert entry["datasets"][2]["coordinateTransformations"][0]["scale"] == [1, 8, 2, 2]
    assert group.attrs["ome"]["omero"] == {"channels": []}


def test_channels_last(tmp_path):
    data = np.random.default_rng(0).integers(0, 250, (16, 20, 3)).astype("uint8")
    made = zvcore.create(
        tmp_path / "src",
        format="zarr3",
        shape=data.shape,
        dtype="uint8",
        chunks=(8, 8, 3),
        dimension_names=("y", "x", "c"),
    )
    made[...] = data
    zvcore.convert(tmp_path / "src", tmp_path / "dst", format="precomputed", levels=1)
    volume = zvcore.open(tmp_path / "dst")
    assert volume[0].shape == (20, 16, 1, 3)
    assert np.array_equal(volume[0][...][:, :, 0, :], data.transpose(1, 0, 2))
    assert volume[1].shape == (10, 8, 1, 3)


def n5_tree(path):
    root = zvcore.open(path, "w", format="n5")
    root.attrs.update({"title": "all"})
    root.create_group("volumes", attrs={"who": "me"})
    for name in ("volumes/raw", "volumes/mask"):
        made = root.create_dataset(name, shape=(10, 12, 14), dtype="uint8", chunks=(8, 8, 8), attrs={"of": name})
        made[...] = values((10, 12, 14))
    pyramid = root.create_group("image")
    for i in range(2):
        made = pyramid.create_dataset(
            f"s{i}", shape=(10 >> i, 12 >> i, 14 >> i), dtype="uint8", chunks=(8, 8, 8),
            attrs={"downsamplingFactors": [2**i] * 3, "pixelResolution": {"dimensions": [4, 4, 40], "unit": "nm"}},
        )  # fmt: skip
        made[...] = i + 1
    return root


def test_a_whole_container(tmp_path):
    root = n5_tree(tmp_path / "src")
    report = zvcore.convert(tmp_path / "src", tmp_path / "dst", format="zarr3", verify=True)
    assert report.verified
    group = zvcore.open(tmp_path / "dst")
    assert group.attrs["title"] == "all" and group["volumes"].attrs["who"] == "me"
    for name in ("volumes/raw", "volumes/mask"):
        assert group[name].attrs["of"] == name
        assert np.array_equal(group[name][...], root[name][...].T)
    entry = group["image"].attrs["ome"]["multiscales"][0]
    assert [one["path"] for one in entry["datasets"]] == ["s0", "s1"]
    assert entry["datasets"][1]["coordinateTransformations"][0]["scale"] == [80, 8, 8]
    zvcore.convert(tmp_path / "dst", tmp_path / "back", format="n5")
    back = zvcore.open(tmp_path / "back")
    assert back["image"].multiscale().levels == root["image"].multiscale().levels
    assert np.array_equal(back["volumes/raw"][...], root["volumes/raw"][...])


def test_a_group_is_no_volume(tmp_path):
    n5_tree(tmp_path / "src")
    with pytest.raises(UnsupportedError, match="one image"):
        zvcore.convert(tmp_path / "src", tmp_path / "dst", format="precomputed")
    assert not (tmp_path / "dst").exists() or not list((tmp_path / "dst").iterdir())
    zvcore.convert(tmp_path / "src" / "image", tmp_path / "dst", format="precomputed")
    assert list(zvcore.open(tmp_path / "dst")) == ["4_4_40", "8_8_80"]


def test_cosem_offsets(tmp_path):
    root = zvcore.open(tmp_path / "src", "w", format="n5")
    transform = {"axes": ["z", "y", "x"], "scale": [5.2, 4, 4], "translate": [10.4, 8, 0], "units": ["nm"] * 3}
    coarse = {**transform, "scale": [10.4, 8, 8], "translate": [13, 10, 2]}
    for i, one in enumerate((transform, coarse)):
        made = root.create_dataset(f"s{i}", shape=(20 >> i, 16 >> i, 12 >> i), dtype="uint8", attrs={"transform": one})
        made[...] = values((20 >> i, 16 >> i, 12 >> i))
    root.attrs.update({"multiscales": [{"datasets": [{"path": "s0"}, {"path": "s1"}]}]})
    zvcore.convert(tmp_path / "src", tmp_path / "dst", format="precomputed")
    scales = zvcore.open(tmp_path / "dst").info["scales"]
    assert [s["resolution"] for s in scales] == [[4, 4, 5.2], [8, 8, 10.4]]
    assert [s["voxel_offset"] for s in scales] == [[0, 2, 2], [0, 1, 1]]
    zvcore.convert(tmp_path / "src", tmp_path / "again", format="n5")
    again = zvcore.open(tmp_path / "again").multiscale()
    assert again.levels == root.multiscale().levels


def test_a_region_knows_where_it_lies(tmp_path):
    array(tmp_path / "src", "precomputed", resolution=(4, 4, 40), voxel_offset=(100, 50, 7))
    source = zvcore.open(tmp_path / "src")[0]
    zvcore.convert(source, tmp_path / "dst", format="precomputed", region=(slice(8, 24), slice(0, 8), slice(4, 12)))
    made = zvcore.open(tmp_path / "dst")[0]
    assert made.voxel_offset == (108, 50, 11)
    assert np.array_equal(made[...], source[8:24, 0:8, 4:12])


def test_what_a_format_cannot_say_is_named(tmp_path):
    array(tmp_path / "src", "zarr3", attrs={"dimensions": [1, 2], "kept": True})
    report = zvcore.convert(tmp_path / "src", tmp_path / "dst", format="n5")
    assert report.ok and "dimensions" in str(report)
    assert dict(zvcore.open(tmp_path / "dst").attrs)["kept"] is True


def foreign_words(path):
    array(path, "zarr3", codec="zstd")
    file = path / "zarr.json"
    document = json.loads(file.read_text())
    document["chunk_grid"] |= {"aligned": True}
    document["chunk_grid"]["configuration"] |= {"origin": [0, 0, 0]}
    document["codecs"][0] |= {"must_understand": False, "by": "me"}
    document["codecs"][1]["configuration"] |= {"window": 20}
    file.write_text(json.dumps(document))


@pytest.mark.parametrize("target", ["zarr3", "zarr2", "n5"])
def test_what_no_format_has_in_objects_of_a_document_is_named(target, tmp_path):
    foreign_words(tmp_path / "src")
    losses = [loss.what for loss in zvcore.convert(tmp_path / "src", tmp_path / "dst", format=target).losses]
    told = ["chunk_grid.aligned", "chunk_grid.configuration.origin", "codecs[0].by"]
    beyond = [] if target == "zarr3" else ["the member 'window' of the codec 'zstd' is not carried"]
    assert losses == [*(f"the member {name!r} of its document is not carried" for name in told), *beyond]
    if target == "zarr3":
        assert json.loads((tmp_path / "dst" / "zarr.json").read_text())["codecs"][1]["configuration"]["window"] == 20


def test_another_codec_of_the_same_format_has_no_words_of_the_first(tmp_path):
    foreign_words(tmp_path / "src")
    report = zvcore.convert(tmp_path / "src", tmp_path / "dst", format="zarr3", codec="gzip")
    assert "the member 'window' of the codec 'zstd' is not carried" in [loss.what for loss in report.losses]


def test_migrating_names_what_a_codec_says_beyond_its_parameters(tmp_path):
    array(tmp_path / "src", "zarr2", codec="zstd")
    file = tmp_path / "src" / ".zarray"
    document = json.loads(file.read_text())
    file.write_text(json.dumps({**document, "compressor": {**document["compressor"], "window": 20}}))
    losses = zvcore.migrate(tmp_path / "src").losses
    assert [loss.what for loss in losses] == ["the member 'window' of the codec 'zstd' is not carried"]
