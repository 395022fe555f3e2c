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
