"""How large the data of benchmarks is: small data is enough when the times do not matter (`make bench-smoke`)."""

from __future__ import annotations

import os
from typing import TypeVar

__all__ = ["BRIEF", "SMALL", "pick"]

# bench/conftest.py sets it where pytest runs benchmarks without timing them.
SMALL = os.environ.get("ZVCORE_BENCH_SMALL", "") not in ("", "0")

# `make bench` sets it, and leaves out what takes minutes to prepare.
BRIEF = os.environ.get("ZVCORE_BENCH_BRIEF", "") not in ("", "0")

T = TypeVar("T")


def pick(full: T, small: T) -> T:
    return small if SMALL else full
