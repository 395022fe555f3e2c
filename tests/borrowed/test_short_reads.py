"""Few values that lie together in a file are read from there at once; what numpy would give is what all others give."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest

import zvcore
from zvcore.borrowed.flat import FlatLayout
from zvcore.errors import ZvcoreError

if TYPE_CHECKING:
    from pathlib import Path

ORDERS: tuple[Literal["C", "F"], ...] = ("C", "F")
VALUES = np.random.default_rng(3).integers(0, 1 << 16, (6, 5, 4, 3)).astype("<u2")
PARTS: list[Any] = [
    ..., 2, (2, 3), (2, 3, 1), (2, 3, 1, 2), (-1,), (..., 1), (slice(None), 2), (slice(1, 3),), (2, slice(1, 4)),
    (2, slice(1, 4), slice(None), slice(None)), (2, slice(1, 4), 1), (2, slice(None, None, 2)),
    (slice(None, None, -1),),
    (3, 2, slice(None, None, -1)), (slice(5, None, 7),), (slice(5, 4, -1), 2), (0, 0, 0, slice(0, 0)),
    (slice(4, 5), slice(2, 3), slice(1, 3)), (..., slice(2, 4), slice(None), slice(None)), (..., 1, 2, 0), (..., 3, 1),
    (slice(None), slice(None), slice(None), 1), (slice(None), slice(None), slice(1, 3), 2),
]  # fmt: skip


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each part was read so."""
    found: list[bool] = []
    own = FlatLayout.read_at_once

    def noted(self: FlatLayout, selection: Any, out: Any) -> bool:
        found.append(own(self, selection, out))
        return found[-1]

    monkeypatch.setattr(FlatLayout, "read_at_once", noted)
    return found


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<u2", ">u2", "<c8", "S3"])
def test_parts_are_those_that_numpy_gives(tmp_path: Path, order: Any, dtype: str, at_once: list[bool]) -> None:
    values = np.asarray(VALUES.astype(dtype), order=order)
    np.save(tmp_path / "a.npy", values)
    array = zvcore.open(tmp_path / "a.npy")
    for key in PARTS:
        found = array[key]
        assert np.shape(found) == values[key].shape
        assert np.array_equal(found, values[key]), key
    assert any(at_once) == (dtype != ">u2")
    assert not all(at_once)


def test_parts_in_fortran_order_and_into_memory_of_the_caller(tmp_path: Path, at_once: list[bool]) -> None:
    from_nifti = pytest.importorskip("nibabel")
    from_nifti.save(from_nifti.Nifti1Image(VALUES.astype("<i2"), np.eye(4)), tmp_path / "a.nii")
    values = np.asarray(from_nifti.load(tmp_path / "a.nii").dataobj)
    array = zvcore.open(tmp_path / "a.nii")
    for key in PARTS:
        assert np.array_equal(array[key], values[key]), key
        for memory in ORDERS:
            out = np.full(np.shape(values[key]), 7, array.dtype, memory)
            assert np.array_equal(array.read(key, out=out), values[key]), key
    assert True in at_once


def test_a_file_that_is_another_one_by_now_is_refused(tmp_path: Path, at_once: list[bool]) -> None:
    path = tmp_path / "a.npy"
    np.save(path, VALUES)
    array = zvcore.open(path)
    assert (array[1] == VALUES[1]).all()
    np.save(tmp_path / "b.npy", VALUES + 1)
    os.replace(tmp_path / "b.npy", path)
    with pytest.raises(ZvcoreError, match="another one by now"):
        array[1]
    path.unlink()
    with pytest.raises(ZvcoreError):
        array[1]
    assert at_once == [True, False, False]


def test_many_read_at_once(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", VALUES)
    array = zvcore.open(tmp_path / "a.npy")
    wrong: list[int] = []

    def read(number: int) -> None:
        wrong.extend(1 for _ in range(50) if not (array[number] == VALUES[number]).all())

    threads = [threading.Thread(target=read, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
