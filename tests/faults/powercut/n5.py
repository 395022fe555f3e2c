"""Writes of N5 blocks, datasets and groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import zvcore
from tests.faults.powercut.kind import (
    Kind,
    array_of,
    by_unit,
    check_attributes,
    kinds_of_groups,
    new,
    rewritten,
    step_attributes,
    value_of,
)

if TYPE_CHECKING:
    from pathlib import Path

    from zvcore.stores import LocalStore


def step_block(store: LocalStore, value: int) -> None:
    zvcore.open(store, mode="r+").write_block((1, 1), np.full((16, 16), value, "u4"))


def step_delete_block(store: LocalStore, value: int) -> None:
    zvcore.open(store, mode="r+").delete_block((value, 0))


def check_deleted(path: Path) -> list[int]:
    values = zvcore.open(path)[...]
    return [3 if value_of(values[48:64]) == 0 else 2 if value_of(values[32:48]) == 0 else 1]


def kinds() -> list[Kind]:
    array = {"format": "n5", "shape": (48, 32), "chunks": (16, 16)}
    rows = {"format": "n5", "shape": (64, 16), "chunks": (16, 16), "codec": None}
    blocks = {"format": "n5", "shape": (32, 32), "chunks": (16, 16), "codec": None}
    corner = (slice(16, 32), slice(16, 32))
    return [
        rewritten("n5 blocks, raw", array | {"codec": None}, (16, 16)),
        rewritten("n5 blocks, zstd", array | {"codec": "zstd"}, (16, 16)),
        new("n5 blocks, new", array | {"codec": None}, (16, 16)),
        Kind("n5 write_block", array_of(**blocks), step_block, by_unit((16, 16), corner)),
        Kind("n5 delete_block", array_of(**rows), step_delete_block, check_deleted),
        Kind("n5 attributes", array_of(**rows), step_attributes, check_attributes),
        *kinds_of_groups("n5", "n5"),
    ]
