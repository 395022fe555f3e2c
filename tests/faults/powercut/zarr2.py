"""Writes of Zarr v2: chunks, attributes and groups."""

from __future__ import annotations

from tests.faults.powercut.kind import (
    Kind,
    array_of,
    check_attributes,
    kinds_of_groups,
    new,
    rewritten,
    step_attributes,
)


def kinds() -> list[Kind]:
    array = {"format": "zarr2", "shape": (32, 64), "chunks": (16, 16)}
    return [
        rewritten("zarr2 chunks, raw", array | {"codec": None}, (16, 16)),
        rewritten("zarr2 chunks, zstd", array | {"codec": "zstd"}, (16, 16)),
        new("zarr2 chunks, new", array | {"codec": None}, (16, 16)),
        Kind("zarr2 attributes", array_of(**array), step_attributes, check_attributes),
        *kinds_of_groups("zarr2", "zarr2"),
    ]
