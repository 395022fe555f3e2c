"""Object stores take names that are no keys: what has one is of no dataset, and is told without ending the work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.errors import InvalidKeyError
from zvcore.report import What

if TYPE_CHECKING:
    from pathlib import Path

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def bucket() -> Any:
    from zvcore.stores.fsspec_client import FsspecClient
    from zvcore.stores.remote import RemoteStore

    files = fsspec.filesystem("memory", skip_instance_cache=True)
    files.store = {}
    store = RemoteStore(FsspecClient(files), "memory://b/d.zarr", "/b/d.zarr", read_only=False)
    zvcore.create(store, format="zarr3", data=np.ones((4, 4), "u1"), chunks=(2, 2))
    files.pipe_file("/b/d.zarr//x", b"hello")
    files.pipe_file("/b/d.zarr/c/..", b"hello")
    return store


def test_whoever_asks_for_all_objects_is_told(bucket: Any) -> None:
    with pytest.raises(InvalidKeyError, match="cannot be asked for"):
        bucket.list()
    told: list[str] = []
    assert len([*bucket.list_readable(lambda key, error: told.append(key))]) == 5
    assert sorted(told) == ["/x", "c/.."]


def test_verify_names_it_once_and_checks_the_rest(bucket: Any) -> None:
    report = zvcore.verify(bucket)
    assert report.ok and report.counts["chunks"] == 4
    assert sorted((one.where, one.kind) for one in report.problems) == [("/x", What.STRAY), ("c/..", What.STRAY)]


def test_a_copy_has_everything_else_and_says_so(bucket: Any, tmp_path: Path) -> None:
    report = zvcore.copy(bucket, tmp_path / "copy")
    assert (zvcore.open(tmp_path / "copy")[...] == 1).all()
    assert not report.ok
    assert [one.where for one in report.problems if "it is not copied" in one.what] == ["/x", "c/.."]


def test_a_repaired_copy_has_everything_else(bucket: Any, tmp_path: Path) -> None:
    report = zvcore.repair(bucket, out=tmp_path / "copy")
    assert (zvcore.open(tmp_path / "copy")[...] == 1).all()
    assert [one.where for one in report.losses] == ["/x", "c/.."]
