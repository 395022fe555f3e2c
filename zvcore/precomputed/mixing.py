"""Numbers of 64 bits that look random, and depend on nothing but other numbers and a seed."""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt

__all__ = ["SECRET", "mixed"]

U64 = npt.NDArray[np.uint64]

# A seed that nobody can foresee: stored numbers cannot be chosen so that they collide.
SECRET = int.from_bytes(os.urandom(8), "little")


def mixed(values: U64, seed: int) -> U64:
    """A number for each value, as `splitmix64` has it: others for other values."""
    with np.errstate(over="ignore"):
        found = values + np.uint64((seed * 0x9E3779B97F4A7C15 + 0x9E3779B97F4A7C15) % 2**64)
        found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        found ^= found >> np.uint64(31)
    return found
