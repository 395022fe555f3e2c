"""Scales, resolutions, units and offsets, as the programs that wrote them describe them."""

import json

import pytest

import zvcore
from zvcore.errors import MetadataError, NotFoundError, UnsupportedError
from zvcore.n5 import Level, Multiscale


@pytest.fixture
def container(tmp_path):
    return zvcore.open(tmp_path / "c.n5", "w", format="n5")


def levels(group, count=3, rank=3, prefix="", **attrs):
    for i in range(count):
        own = {name: value[i] for name, value in attrs.items()}
        group.create_dataset(f"{prefix}s{i}", shape=(64 >> i,) * rank, dtype="u1", attrs=own)


HALVES = [[1, 1, 1], [2, 2, 1], [4, 4, 2]]


def test_n5_viewer(container):
    group = container.create_group("c0")
    resolution = {"dimensions": [0.5, 0.5, 2], "unit": "um"}
    levels(group, downsamplingFactors=HALVES, pixelResolution=[resolution] * 3)
    found = group.multiscale()
    assert found.convention == "n5-viewer"
    assert [level.path for level in found.levels] == ["s0", "s1", "s2"]
    assert found[1].factors == (2, 2, 1)
    assert found[1].resolution == (1, 1, 2)
    assert found[2].resolution == (2, 2, 4)
    assert found[1].offset == (0.25, 0.25, 0)
    assert found[2].offset == (0.75, 0.75, 1)
    assert found.unit == found[2].unit == "um"
    assert found.axes == ("x", "y", "z")
    # The container knows no scales itself, but says where some may be.
    with pytest.raises(NotFoundError, match="ask one of c0"):
        container.multiscale()


def test_n5_viewer_without_details(container):
    """Factors by the names, resolution as a plain list or not at all."""
    levels(container, count=2)
    found = container.multiscale()
    assert [level.factors for level in found.levels] == [(1, 1, 1), (2, 2, 2)]
    assert found[1].resolution == (2, 2, 2)
    assert found.unit == "pixel"
    for i in range(2):
        container[f"s{i}"].attrs["pixelResolution"] = [4, 4, 40]
    assert container.multiscale()[1].resolution == (8, 8, 80)
    # Older ones say it in the group.
    container.attrs.update(scales=[[1, 1, 1], [3, 3, 1]], pixelResolution={"dimensions": [1, 1, 2], "unit": "mm"})
    assert container.multiscale()[1].factors == (3, 3, 1)


def test_n5_viewer_affine(container):
    levels(container, count=2, downsamplingFactors=HALVES[:2])
    for i in range(2):
        container[f"s{i}"].attrs["affineTransform"] = [2, 0, 0, 10, 0, 3, 0, 20, 0, 0, 4, 30]
    found = container.multiscale()
    assert found[1].resolution == (4, 6, 4)
    assert found[1].offset == (11, 21.5, 30)
    container["s0"].attrs["affineTransform"] = [2, 1, 0, 10, 0, 3, 0, 20, 0, 0, 4, 30]
    with pytest.raises(UnsupportedError, match="turns or shears"):
        container.multiscale()


def test_big_data_viewer(container):
    setup = container.create_group("setup0", {"downsamplingFactors": HALVES})
    setup.set_attribute("dataType", "uint8")
    time = setup.create_group("timepoint0", {"multiScale": True, "resolution": [0.4, 0.4, 1.0]})
    levels(time, downsamplingFactors=HALVES)
    for group, prefix in ((setup, "timepoint0/"), (time, "")):
        found = group.multiscale()
        assert found.convention == "bdv"
        assert [level.path for level in found.levels] == [f"{prefix}s{i}" for i in range(3)]
        assert found[2].factors == (4, 4, 2)
        assert found[2].resolution == (1.6, 1.6, 2)
        assert found[1].offset == (0.2, 0.2, 0)
    with pytest.raises(NotFoundError, match="ask one of setup0"):
        container.multiscale()


@pytest.mark.parametrize("version", ["dicts", "names", "none"])
def test_cosem(version, container):
    transforms = [
        {
            "axes": ["z", "y", "x"],
            "scale": [3.24 * 2**i, 4.0 * 2**i, 4.0 * 2**i],
            "translate": [1.62 * (2**i - 1), 2.0 * (2**i - 1), 2.0 * (2**i - 1)],
            "units": ["nm", "nm", "nm"],
        }
        for i in range(3)
    ]
    levels(container, transform=transforms)
    if version == "dicts":
        entries = [{"path": f"s{i}", "transform": transforms[i]} for i in range(3)]
        container.attrs["multiscales"] = [{"datasets": entries, "name": "raw"}]
    elif version == "names":
        container.attrs["multiscales"] = ["s0", "s1", "s2"]
    found = container.multiscale()
    assert found.convention == "cosem"
    assert found.axes == ("x", "y", "z")
    assert found[1].resolution == (8, 8, 6.48)
    assert found[1].offset == (2, 2, 1.62)
    assert found[1].factors == (2, 2, 2)
    assert found.unit == "nm"


def test_cosem_in_n5s_order(container):
    transform = {
        "ordering": "F",
        "axes": ["x", "y", "z"],
        "scale": [1, 2, 3],
        "translate": [4, 5, 6],
        "units": ["nm"] * 3,
    }
    levels(container, count=1, transform=[transform])
    found = container.multiscale()[0]
    assert (found.axes, found.resolution, found.offset) == (("x", "y", "z"), (1, 2, 3), (4, 5, 6))


def test_neuroglancer(container):
    container.attrs.update(
        axes=["x", "y", "z"], units=["um", "um", "nm"], resolution=[1, 1, 40], downsamplingFactors=HALVES
    )
    levels(container)
    found = container.multiscale()
    assert found.convention == "neuroglancer"
    assert found[2].resolution == (4, 4, 80)
    assert found[0].units == ("um", "um", "nm")
    assert found.unit is None
    container.attrs["scales"] = container.attrs["downsamplingFactors"]
    del container.attrs["downsamplingFactors"]
    assert len(container.multiscale()) == 3


def test_paintera(container):
    source = container.create_group("raw", {"painteraData": {"type": "raw"}})
    data = source.create_group("data", {"multiScale": True, "resolution": [4, 4, 40], "offset": [100, 200, 300]})
    levels(data, downsamplingFactors=HALVES)
    found = source.multiscale()
    assert found.convention == "paintera"
    assert found[0].path == "data/s0"
    assert found[0].offset == (100, 200, 300)
    assert found[1].offset == (102, 202, 300)
    assert data.multiscale()[1].resolution == (8, 8, 40)


@pytest.mark.parametrize("convention", ["n5-viewer", "neuroglancer"])
def test_writing(convention, container):
    levels(container)
    made = Multiscale(
        tuple(
            Level(
                f"s{i}",
                tuple(HALVES[i]),
                tuple(f * r for f, r in zip(HALVES[i], (0.5, 0.5, 2), strict=True)),
                tuple((f - 1) / 2 * r for f, r in zip(HALVES[i], (0.5, 0.5, 2), strict=True)),
                ("um",) * 3,
                ("x", "y", "z"),
            )
            for i in range(3)
        ),
        convention,
    )
    container.write_multiscale(made, convention)
    found = container.multiscale()
    assert found == made
    if convention == "neuroglancer":
        assert dict(container.attrs) == {
            "axes": ["x", "y", "z"], "units": ["um"] * 3, "resolution": [0.5, 0.5, 2], "downsamplingFactors": HALVES,
        }  # fmt: skip
    else:
        assert dict(container["s1"].attrs) == {
            "downsamplingFactors": [2, 2, 1],
            "pixelResolution": {"dimensions": [0.5, 0.5, 2], "unit": "um"},
        }


def test_writing_what_cannot_be_said(container):
    levels(container, count=1)
    good = Level("s0", (1, 1, 1), (1, 1, 1), (0, 0, 0), ("nm",) * 3, ("x", "y", "z"))
    for level, error in [
        (
            Level("other", *[getattr(good, n) for n in ("factors", "resolution", "offset", "units", "axes")]),
            UnsupportedError,
        ),
        (Level("s0", (1, 1, 1), (1, 1, 1), (5, 0, 0), ("nm",) * 3, ("x", "y", "z")), UnsupportedError),
        (Level("s0", (1, 1, 1), (1, 1, 1), (0, 0, 0), ("nm", "nm", "um"), ("x", "y", "z")), UnsupportedError),
        (Level("s0", (1, 1, 1), (1, 1, 1), (0, 0, 0), ("nm",) * 3, ("x", "y", "c")), UnsupportedError),
    ]:
        with pytest.raises(error):
            container.write_multiscale(Multiscale((level,), "n5-viewer"))
    with pytest.raises(ValueError, match="convention"):
        container.write_multiscale(Multiscale((good,), "n5-viewer"), "ome")
    with pytest.raises(NotFoundError):
        container.create_group("g").write_multiscale(Multiscale((good,), "n5-viewer"))


@pytest.mark.parametrize(
    "attrs",
    [
        {"downsamplingFactors": [[1, 1]]},
        {"downsamplingFactors": [["a", 1, 1]]},
        {"downsamplingFactors": [[0, 1, 1]]},
        {"pixelResolution": [{"dimensions": 3}]},
        {"pixelResolution": [{"dimensions": [1, 1, 1], "unit": 5}]},
        {"transform": [{"scale": [1, 2]}]},
        {"transform": [{"scale": [1, 2, 3], "units": "nm"}]},
    ],
    ids=json.dumps,
)
def test_wrong_descriptions(attrs, container):
    levels(container, count=1, **attrs)
    with pytest.raises(MetadataError, match=r"s0/attributes\.json"):
        container.multiscale()


def test_nothing_there(container):
    with pytest.raises(NotFoundError, match="no scales"):
        container.multiscale()
