"""Annotations in a bucket: all levels of the spatial index are read at once."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import numpy as np
import pytest

import zvcore
from zvcore.precomputed import write_annotations

if TYPE_CHECKING:
    from pathlib import Path

    from tests.stores.servers import S3, Together


@pytest.mark.parametrize("sharding", ["advise", None])
def test_the_levels_of_a_box_are_read_together(
    s3: S3, together: type[Together], tmp_path: Path, sharding: str | None
) -> None:
    points = np.random.default_rng(0).random((3000, 3)).astype("f4") * 100
    nm = dict.fromkeys("xyz", (1e-9, "m"))
    write_annotations(tmp_path / "here", "point", {"point": points}, dimensions=nm, limit=300, sharding=sharding)
    url = s3.url(f"annotations-{uuid.uuid4()}")
    zvcore.copy(tmp_path / "here", url, storage_options=s3.options)
    found = zvcore.open(url, storage_options=s3.options)
    low, high = (0, 0, 0), (1, 1, 1)  # a cell of each level
    found.in_box(low, high)
    counting = together()
    counting.only = r"spatial\d"
    corner = found.in_box(low, (30, 30, 30), levels=1)
    assert counting.most == 1
    whole = found.in_box(low, high)
    assert counting.enough
    here = zvcore.open(tmp_path / "here")
    np.testing.assert_array_equal(whole["id"], here.in_box(low, high)["id"])
    np.testing.assert_array_equal(corner["id"], here.in_box(low, (30, 30, 30), levels=1)["id"])
    np.testing.assert_array_equal(
        np.sort(found.in_box(low, (30, 40, 50))["id"]), np.flatnonzero((points <= (30, 40, 50)).all(axis=1))
    )
