"""How much coarser levels are, unless somebody says it: by the sizes of voxels, the same in every format."""

from __future__ import annotations

import math

import numpy as np
import pytest

import zvcore
from zvcore.images import Axis, level_shapes, usual_factors
from zvcore.images.levels import spatial_axes


def zyx(*sizes, unit="nm"):
    return tuple(Axis(name, unit, size) for name, size in zip("zyx", sizes, strict=True))


def test_voxels_become_cubes_before_all_axes_become_coarser():
    found = level_shapes((64, 512, 512), zyx(40.0, 8.0, 8.0), 4, spatial=(0, 1, 2))
    assert found == [
        ((64, 256, 256), (1, 2, 2)),
        ((64, 128, 128), (1, 2, 2)),
        ((32, 64, 64), (2, 2, 2)),
        ((16, 32, 32), (2, 2, 2)),
    ]


@pytest.mark.parametrize(
    ("sizes", "factors"),
    [
        ((8.0, 8.0, 8.0), (2, 2, 2)),
        ((10.0, 8.0, 8.0), (2, 2, 2)),
        ((16.0, 8.0, 8.0), (1, 2, 2)),
        ((0.1 + 0.2 + 0.3, 0.3, 0.3), (1, 2, 2)),
        ((4.0, 8.0, 40.0), (2, 1, 1)),
        ((None, 8.0, 8.0), (2, 2, 2)),
        ((math.inf, 8.0, 8.0), (2, 2, 2)),
        ((math.nan, 8.0, 8.0), (2, 2, 2)),
        ((0.0, 8.0, 8.0), (2, 2, 2)),
        ((1e308, 1e-308, 1e-308), (1, 2, 2)),
    ],
)
def test_only_axes_whose_voxels_are_much_longer_wait(sizes, factors):
    assert usual_factors((100, 100, 100), zyx(*sizes), (0, 1, 2)) == factors


def test_sizes_of_several_units_of_length_are_compared():
    axes = (Axis("z", "micrometer", 0.04), Axis("y", "nm", 8.0), Axis("x", "nm", 8.0))
    assert usual_factors((100, 100, 100), axes, (0, 1, 2)) == (1, 2, 2)
    odd = (Axis("z", "parsec", 0.04), Axis("y", "nm", 8.0), Axis("x", "nm", 8.0))
    assert usual_factors((100, 100, 100), odd, (0, 1, 2)) == (2, 2, 2)


def test_an_axis_of_length_1_is_not_compared():
    assert usual_factors((1, 100, 100), zyx(1.0, 8.0, 8.0), (0, 1, 2)) == (1, 2, 2)
    assert level_shapes((50, 2, 2), zyx(40.0, 8.0, 8.0), 9, spatial=(0, 1, 2))[:2] == [
        ((50, 1, 1), (1, 2, 2)),
        ((25, 1, 1), (2, 1, 1)),
    ]


def test_nothing_is_made_of_what_has_nothing_to_make_smaller():
    assert level_shapes((1, 1), (Axis("y"), Axis("x")), 3, spatial=(0, 1)) == []
    assert level_shapes((), (), 3, spatial=()) == []


def test_factors_that_are_given_are_obeyed():
    found = level_shapes((64, 64, 64), zyx(40.0, 8.0, 8.0), 2, spatial=(0, 1, 2), factors=(2, 4, 4))
    assert found == [((32, 16, 16), (2, 4, 4)), ((16, 4, 4), (2, 4, 4))]


def test_axes_of_space_are_those_with_such_names_or_the_fastest():
    named = tuple(map(Axis, "tczyx"))
    assert spatial_axes(named, fastest_first=False) == (2, 3, 4)
    assert spatial_axes((Axis(),) * 4, fastest_first=False) == (1, 2, 3)
    assert spatial_axes((Axis(),) * 4, fastest_first=True) == (0, 1, 2)
    assert spatial_axes((Axis("a"), Axis("b")), fastest_first=True) == (0, 1)


@pytest.mark.parametrize("target", ["zarr3", "n5", "precomputed"])
def test_pyramids_of_flat_voxels_are_made_so_in_every_format(target, tmp_path):
    volume = zvcore.create(
        tmp_path / "em",
        format="precomputed",
        shape=(32, 32, 8),
        dtype="uint8",
        chunks=(16, 16, 8),
        resolution=(8, 8, 40),
    )
    volume[...] = np.arange(32 * 32 * 8, dtype="uint8").reshape(32, 32, 8, 1)
    zvcore.convert(tmp_path / "em", tmp_path / "out", format=target, levels=3)
    opened = zvcore.open(tmp_path / "out")
    shapes = [sorted(n for n in array.shape if n > 1) for array in opened.children().values()]
    assert sorted(shapes, reverse=True) == [[8, 32, 32], [8, 16, 16], [8, 8, 8], [4, 4, 4]]


def test_levels_added_later_follow_the_voxels_that_are_there(tmp_path):
    volume = zvcore.create(
        tmp_path / "em",
        format="precomputed",
        shape=(32, 32, 8),
        dtype="uint8",
        chunks=(16, 16, 8),
        resolution=(8, 8, 40),
    )
    volume[...] = 7
    zvcore.downsample(tmp_path / "em", levels=1)
    zvcore.downsample(tmp_path / "em", levels=2)
    assert list(zvcore.open(tmp_path / "em")) == ["8_8_40", "16_16_40", "32_32_40", "64_64_80"]
