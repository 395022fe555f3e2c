"""A few seconds of what `make soak MINUTES=10` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import zvcore
from tests.faults import soak

if TYPE_CHECKING:
    from pathlib import Path


def test_processes_that_read_and_write_one_store() -> None:
    done = soak.run(3, workers=4)
    assert done["writes"] > 0


def test_the_comparison_sees_a_lost_value(tmp_path: Path) -> None:
    soak.make(tmp_path, 2)
    answers = [{"written": {("n5", str(soak.cells_of(0, 2)[0])): 5}}, {"written": {}}]
    with pytest.raises(AssertionError, match="n5"):
        soak.compare(tmp_path, answers)
    array = zvcore.open(tmp_path / "n5", mode="r+")
    array[soak.cells_of(0, 2)[0]] = 5
    soak.compare(tmp_path, answers)
    array[0, 0] = 6
    with pytest.raises(AssertionError, match="torn"):
        soak.compare(tmp_path, answers)
