"""What the tests of the kernels share: each vector path in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from zvcore.kernels import cpu

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(params=cpu.available_paths())
def simd_path(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every path of this machine in turn, forced for the time of one test."""
    before = cpu.simd_path()
    cpu.force_path(request.param)
    yield request.param
    cpu.force_path(before)
