"""The names of a group's members are looked for once, whoever asks how many they are before the first one."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest
from zarr.storage import MemoryStore

import zvcore
from tests.stores.watched import Watched

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(params=["zarr3", "zarr2", "n5"])
def watched(request: pytest.FixtureRequest) -> Watched:
    watched = Watched(MemoryStore())
    group = zvcore.open(watched, "w", format=request.param)
    for name in "abc":
        make(group, name)
    return watched


def make(group: Any, name: str) -> None:
    group.create_array(name, shape=(2,), dtype="u1", chunks=(2,))


@pytest.mark.parametrize(
    "names",
    [list, sorted, lambda group: [*group], lambda group: [*group.keys()], lambda group: list(group.keys())],
    ids=["list", "sorted", "unpacked", "keys unpacked", "list of keys"],
)
def test_names_are_listed_once(watched: Watched, names: Callable[[Any], list[str]]) -> None:
    group = zvcore.open(watched)
    watched.forget()
    assert names(group) == ["a", "b", "c"]
    assert watched.asked["list"] == 1


def test_their_number_is_what_it_is_now(watched: Watched) -> None:
    group = zvcore.open(watched, "r+")
    names = iter(group)
    make(group, "d")
    assert len(group) == 4
    assert [*names] == ["a", "b", "c", "d"]
    names = iter(group)
    assert next(names) == "a"
    make(group, "e")
    assert len(group) == 5
    names = iter(group)
    assert len(group) == 5
    make(group, "f")
    assert len(group) == 6


def test_another_group_is_another_matter(watched: Watched) -> None:
    group = zvcore.open(watched, "r+")
    inner = group.create_group("inner")
    names, others = iter(inner), iter(group)
    make(inner, "x")
    assert (len(inner), len(group)) == (1, 4)
    assert ([*names], [*others]) == (["x"], ["a", "b", "c", "inner"])


def test_a_group_that_was_listed_can_be_sent_by_pickle(tmp_path: Any) -> None:
    group = zvcore.open(tmp_path / "g", "w", format="zarr3")
    make(group, "a")
    names = iter(group)
    assert [*pickle.loads(pickle.dumps(group))] == [*names] == ["a"]
