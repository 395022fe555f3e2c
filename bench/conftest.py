"""Lets benchmarks say `from bench.data import volume`, from wherever pytest was started; small data when not timing."""

import os
import sys
from pathlib import Path

import pytest

root = str(Path(__file__).parent.parent)
if root not in sys.path:
    sys.path.insert(0, root)


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("benchmark_enable", default=False):
        os.environ.setdefault("ZVCORE_BENCH_SMALL", "1")
