"""What no array of another format can hold: told, and no reason to lose the rest of a group."""

from __future__ import annotations

import numpy as np
import pytest

import zvcore
from zvcore.errors import CorruptDataError, UnsupportedError


@pytest.fixture
def container(tmp_path):
    group = zvcore.open(tmp_path / "c.n5", "w", format="n5")
    group.create_dataset("good", shape=(4, 4), dtype="u1", chunks=(2, 2))[...] = np.arange(16).reshape(4, 4)
    return group


def test_objects(container, tmp_path):
    texts = container.create_dataset("a/texts", shape=(2,), dtype="string", chunks=(1,))
    texts.write_block((0,), ["abc"])
    report = zvcore.convert(tmp_path / "c.n5", tmp_path / "out", format="zarr3", verify=True)
    assert [problem.where for problem in report.problems if problem.fatal] == ["a/texts"]
    assert "left out" in str(report)
    assert np.array_equal(zvcore.open(tmp_path / "out")["good"][...].T, container["good"][...])
    with pytest.raises(UnsupportedError, match="read_block"):
        zvcore.convert(tmp_path / "c.n5/a/texts", tmp_path / "other", format="zarr3")


def test_a_block_of_variable_length_is_named_with_its_array(container, tmp_path):
    odd = container.create_dataset("a/odd", shape=(4,), dtype="u1", chunks=(4,))
    odd.write_block((0,), np.arange(7, dtype="u1"), mode="varlength")
    with pytest.raises(CorruptDataError, match="variable length") as caught:
        zvcore.convert(tmp_path / "c.n5", tmp_path / "out", format="zarr3")
    assert caught.value.key == "a/odd/0"


def test_a_group_of_which_nothing_can_be_converted_is_refused_before_anything_is_written(container, tmp_path):
    container.create_dataset("a/texts", shape=(2,), dtype="string", chunks=(1,))
    container.create_dataset("a/more", shape=(2,), dtype="string", chunks=(1,))
    with pytest.raises(UnsupportedError, match=r"no array here that can be converted: more: .*texts: "):
        zvcore.convert(tmp_path / "c.n5/a", tmp_path / "out", format="zarr3")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("format", ["n5", "zarr3"])
def test_attributes_without_a_place_are_losses(format, tmp_path):
    source = zvcore.create(
        tmp_path / "src", format=format, shape=(4, 4, 4), dtype="u1", chunks=(2, 2, 2), attrs={"b": 1, "a": [2]}
    )
    source[...] = 1
    report = zvcore.convert(tmp_path / "src", tmp_path / "volume", format="precomputed")
    assert report.ok and not report.problems
    assert [loss.what.split("'")[1] for loss in report.losses] == ["a", "b"]
    assert not any(loss.fatal for loss in report.losses)
    assert "lost: the attribute 'a' has no place" in str(report)
    assert [loss["what"] for loss in report.to_json()["losses"]] == [loss.what for loss in report.losses]
    # The way back has nothing to lose.
    assert zvcore.convert(tmp_path / "volume", tmp_path / "back", format=format).losses == []


def test_an_offset_that_is_rounded_is_a_loss(tmp_path):
    axes = {"resolution": [4, 4, 4], "transform": {
        "axes": ["z", "y", "x"], "scale": [4, 4, 4], "translate": [2, 0, 0], "units": ["nm", "nm", "nm"],
    }}  # fmt: skip
    source = zvcore.create(tmp_path / "src", format="n5", shape=(4, 4, 4), dtype="u1", chunks=(2, 2, 2), attrs=axes)
    source[...] = 1
    report = zvcore.convert(tmp_path / "src", tmp_path / "volume", format="precomputed")
    assert ["rounded" in loss.what for loss in report.losses] == [True]
