"""What Python and numpy do with an array without being asked: loops, `in`, truth, equality, copies."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore

if TYPE_CHECKING:
    from pathlib import Path

VALUES = np.arange(60, dtype="i4").reshape(10, 6)


@pytest.fixture(params=["zarr3", "n5"])
def array(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return zvcore.create(tmp_path / "a", format=request.param, data=VALUES, chunks=(4, 3))


def reads_of(array: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    asked: list[Any] = []
    read = zvcore.Array.__getitem__
    monkeypatch.setattr(zvcore.Array, "__getitem__", lambda self, key: (asked.append(key), read(self, key))[1])
    return asked


def test_a_loop_reads_each_chunk_once(array: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = reads_of(array, monkeypatch)
    rows = list(array)
    np.testing.assert_array_equal(np.array(rows), VALUES)
    assert asked == [slice(0, 4), slice(4, 8), slice(8, 12)]
    assert all(row.base is None or row.base.nbytes == row.nbytes for row in rows), "a row keeps no others in memory"


def test_a_loop_over_large_rows_takes_one_at_a_time(array: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zvcore.transfer.iterating._AT_ONCE", 50)
    asked = reads_of(array, monkeypatch)
    np.testing.assert_array_equal(np.array(list(array)), VALUES)
    assert asked == list(range(10))


def test_items_of_one_axis_are_numbers(tmp_path: Path) -> None:
    array = zvcore.create(tmp_path / "a", format="zarr3", data=np.arange(5, dtype="u2"), chunks=(2,))
    assert [type(item) for item in array] == [np.uint16] * 5 and list(array) == [0, 1, 2, 3, 4]
    texts = zvcore.create(tmp_path / "b", format="zarr3", data=np.array(["a", "", "ccc"], "T"))
    assert list(texts) == ["a", "", "ccc"]


def test_in_does_not_search(array: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = reads_of(array, monkeypatch)
    with pytest.raises(TypeError, match=r"`in` searches no arrays.*\(array\[...\] == item\).any\(\)"):
        assert 5 in array
    assert asked == []
    assert array in {array: 1}


def test_without_axes(tmp_path: Path) -> None:
    array = zvcore.create(tmp_path / "a", format="zarr3", shape=(), dtype="i4")
    assert not array
    array[...] = 5
    assert array
    with pytest.raises(TypeError, match="iteration over a 0-d array"):
        list(array)


def test_truth_is_that_there_is_something(array: Any) -> None:
    array[...] = 0
    assert array
    array.resize((0, 6))
    assert not array


def test_numpy_takes_the_values(array: Any) -> None:
    assert array in {array, None} and array != zvcore.open(array.store.root)
    assert (array == VALUES).all()
    np.testing.assert_array_equal(np.add(array, 1), VALUES + 1)
    np.testing.assert_array_equal(VALUES + array, VALUES * 2)
    assert np.sum(array) == VALUES.sum()
    np.testing.assert_array_equal(np.array(array, dtype="f8", copy=True), VALUES.astype("f8"))
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(array, copy=False)
    with pytest.raises(TypeError):
        array + 1


def test_copies_are_other_objects_of_the_same_array(array: Any) -> None:
    for one in (copy.copy(array), copy.deepcopy(array)):
        assert one != array
        one[0, 0] = 99
        assert array[0, 0] == 99
        array[0, 0] = 0


FAR = [2**31, 2**62, 2**63 - 1, 2**63, 2**64, 10**30]


@pytest.mark.parametrize("far", [*FAR, *(-far for far in FAR)])
@pytest.mark.parametrize("name", ["start", "stop", "step"])
def test_slices_beyond_all_arrays(far: int, name: str, array: Any) -> None:
    for here in (None, 0, 1, 3, 9, -1, -4):
        for other in (None, 2, -3):
            steps = (1, None, -1) if name != "step" else (far,)
            for step in steps:
                given = {"start": (far, here, step), "stop": (here, far, step), "step": (here, other, far)}[name]
                key = (slice(*given), slice(*given))
                np.testing.assert_array_equal(array[key], VALUES[key], str(key))
                changed = VALUES.copy()
                changed[key] = 7
                array[key] = 7
                np.testing.assert_array_equal(array[...], changed, str(key))
                array[...] = VALUES
    with pytest.raises(IndexError, match="out of bounds"):
        array[far]
