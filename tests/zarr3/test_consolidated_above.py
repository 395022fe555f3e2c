"""What a group tells of the nodes below it follows what is written there."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pytest
import zarr

import zvcore
from zvcore.errors import OutdatedMetadataWarning
from zvcore.stores import LocalStore, MemoryStore, Store
from zvcore.zarr2.consolidated import consolidate as zarr2_consolidate
from zvcore.zarr3.consolidating import consolidate as zarr3_consolidate

if TYPE_CHECKING:
    from pathlib import Path


def consolidated(path: Path) -> Path:
    """a, and b/c; the group at the top tells of all of them."""
    group = zarr.open_group(path, mode="w", zarr_format=3)
    group.create_array("a", shape=(8,), dtype="u2", chunks=(4,))[:] = 1
    group.create_group("b").create_array("c", shape=(8,), dtype="u2", chunks=(4,))
    with warnings.catch_warnings(action="ignore"):  # that no specification has it
        zarr.consolidate_metadata(path)
    return path


def told(path: Path) -> Any:
    """As zarr-python reads it: it asks the group, and no member."""
    return zarr.open_consolidated(path, zarr_format=3)


@pytest.mark.parametrize("opened", ["by itself", "through the group"])
def test_attributes_and_shapes_that_change_are_told(tmp_path: Path, opened: str) -> None:
    path = consolidated(tmp_path / "g")
    for name in ("a", "b/c"):
        array = zvcore.open(path / name, mode="r+") if opened == "by itself" else zvcore.open(path, mode="r+")[name]
        array.attrs["unit"] = "nm"
        array.resize((6,))
        assert told(path)[name].attrs.asdict() == {"unit": "nm"} and told(path)[name].shape == (6,)
        assert dict(zvcore.open(path)[name].attrs) == {"unit": "nm"}
    group = zvcore.open(path, mode="r+")["b"]
    group.attrs["kind"] = "labels"
    assert told(path)["b"].attrs.asdict() == {"kind": "labels"} and list(told(path)["b"]) == ["c"]
    assert zvcore.verify(path).ok and not zvcore.verify(path).problems


def test_members_that_come_and_go_are_told(tmp_path: Path) -> None:
    path = consolidated(tmp_path / "g")
    group = zvcore.open(path, mode="r+")
    group.create_array("b/d/e", shape=(4,), dtype="u1")
    zvcore.create(path / "f", format="zarr3", shape=(4,), dtype="u1", attrs={"x": 1})
    assert sorted(name for name, _ in told(path).members(max_depth=None)) == ["a", "b", "b/c", "b/d", "b/d/e", "f"]
    assert told(path)["f"].attrs.asdict() == {"x": 1}
    del group["b"]
    zvcore.create(path / "f", format="zarr3", shape=(9,), dtype="u1", overwrite=True)
    assert sorted(name for name, _ in told(path).members(max_depth=None)) == ["a", "f"]
    assert told(path)["f"].shape == (9,) and zvcore.verify(path).ok and not zvcore.verify(path).problems


def test_a_group_that_tells_nothing_is_left_as_it_is(tmp_path: Path) -> None:
    zarr.open_group(tmp_path, mode="w", zarr_format=3)
    before = (tmp_path / "zarr.json").read_bytes()
    zvcore.open(tmp_path, mode="r+").create_array("a", shape=(4,), dtype="u1").attrs["x"] = 1
    assert (tmp_path / "zarr.json").read_bytes() == before


@pytest.mark.parametrize("told", ["[]", '{"metadata": 1}', "null"])
def test_what_tells_nothing_that_can_be_understood_stands_in_nobodys_way(tmp_path: Path, told: str) -> None:
    zvcore.create(tmp_path / "a", format="zarr3", shape=(4,), dtype="u1")
    text = f'{{"zarr_format": 3, "node_type": "group", "consolidated_metadata": {told}}}'
    (tmp_path / "zarr.json").write_text(text)
    zvcore.open(tmp_path / "a", mode="r+").attrs["x"] = 1
    assert (tmp_path / "zarr.json").read_text() == text


def test_where_folders_have_no_parents_the_groups_that_a_node_was_opened_through_tell_of_it(tmp_path: Path) -> None:
    store = MemoryStore()
    local = LocalStore(consolidated(tmp_path / "g"))
    for key in local.list():
        store.put(key, bytes(local.get(key) or b""))
    zvcore.zarr3.open(store, mode="r+")["b"]["c"].attrs["x"] = 1
    assert dict(zvcore.zarr3.open(store)["b/c"].attrs) == {"x": 1}


def test_of_two_writers_at_once_the_last_one_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that wrote first may tell last: it tells what is there, not what it wrote."""
    path = consolidated(tmp_path / "g")
    first, second = (zvcore.open(path / "a", mode="r+") for _ in range(2))
    store: Store = first._document.store
    change = store.change

    def and_then_the_other(key: str, make: Any) -> None:
        change(key, make)
        second.attrs["two"] = 2

    monkeypatch.setattr(store, "change", and_then_the_other)
    first.attrs["one"] = 1
    assert told(path)["a"].attrs.asdict() == {"one": 1, "two": 2}


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
def test_what_a_conversion_replaces_is_no_longer_told(tmp_path: Path, format: str) -> None:
    path = consolidated(tmp_path / "g")
    zvcore.create(tmp_path / "a", format="n5", shape=(4,), dtype="u1", chunks=(2,))[...] = 1
    zvcore.convert(tmp_path / "a", path / "b", format=format, overwrite=True)
    assert sorted(told(path)) == (["a", "b"] if format == "zarr3" else ["a"])
    assert "b/c" not in told(path) and zvcore.verify(path).ok


def test_of_a_group_that_vectors_replace_nothing_is_told(tmp_path: Path) -> None:
    path = consolidated(tmp_path / "g")
    (tmp_path / "points.csv").write_text("x,y,z\n1,2,3\n4,5,6\n")
    zvcore.convert(tmp_path / "points.csv", path / "b", format="zvf", overwrite=True)
    assert "b/c" not in told(path) and zvcore.verify(path).ok


@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_groups_that_a_path_goes_through_tell_of_what_is_at_its_end(format: str) -> None:
    store = MemoryStore()
    module: Any = getattr(zvcore, format)
    group = module.create_group(store)
    group.create_array("b/c/d", shape=(4,), dtype="u1")
    consolidate = {"zarr3": zarr3_consolidate, "zarr2": zarr2_consolidate}[format]
    consolidate(store.child("b"))
    group["b/c/d"].attrs["x"] = 1
    group.create_array("b/e", shape=(4,), dtype="u1")
    assert dict(module.open(store.child("b"))["c/d"].attrs) == {"x": 1} and "e" in module.open(store.child("b"))
    del group["b/c"]
    assert list(module.open(store.child("b"))) == ["e"]


@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_what_is_made_again_while_it_is_being_forgotten_is_told(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = zvcore.open(tmp_path, "w", format=format)
    group.create_array("a/b", shape=(4,), dtype="u1")
    {"zarr3": zarr3_consolidate, "zarr2": zarr2_consolidate}[format](LocalStore(tmp_path))
    remove = LocalStore.delete_prefix

    def and_made_again(store: LocalStore, prefix: str) -> int:
        removed = remove(store, prefix)
        monkeypatch.undo()
        zvcore.open(tmp_path, "r+").create_array("a/c", shape=(4,), dtype="u1")
        return removed

    monkeypatch.setattr(LocalStore, "delete_prefix", and_made_again)
    del group["a"]
    assert list(zvcore.open(tmp_path)) == ["a"] and list(zvcore.open(tmp_path)["a"]) == ["c"]


def test_what_is_written_while_a_group_is_consolidated_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = consolidated(tmp_path / "g")
    array = zvcore.open(path / "a", mode="r+")
    change = LocalStore.change

    def after_another(store: LocalStore, key: str, make: Any) -> None:
        monkeypatch.undo()
        array.attrs["x"] = 1
        change(store, key, make)

    monkeypatch.setattr(LocalStore, "change", after_another)
    zarr3_consolidate(LocalStore(path))
    assert dict(zvcore.open(path)["a"].attrs) == {"x": 1}


@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_a_change_is_whole_where_a_group_above_cannot_tell_of_it(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = zvcore.open(tmp_path, "w", format=format)
    group.create_array("a", shape=(8,), dtype="u1", chunks=(2,))[...] = 7
    {"zarr3": zarr3_consolidate, "zarr2": zarr2_consolidate}[format](LocalStore(tmp_path))
    array = zvcore.open(tmp_path / "a", "r+")
    change = LocalStore.change

    def refused(store: LocalStore, key: str, make: Any) -> None:
        if store.root == str(tmp_path):
            raise PermissionError(f"{key} is another's")
        change(store, key, make)

    monkeypatch.setattr(LocalStore, "change", refused)
    with pytest.warns(OutdatedMetadataWarning, match=r"is out of date.*another's") as caught:
        array.resize((4,))
    assert {one.filename for one in caught} == {__file__}, "it points at who has asked for the change"
    assert array.shape == (4,)
    with pytest.warns(OutdatedMetadataWarning):
        array.resize((8,))
    assert list(array) == [7] * 4 + [0] * 4
    with pytest.warns(OutdatedMetadataWarning) as caught:
        assert zvcore.create(tmp_path / "b", format=format, shape=(4,), dtype="u1").shape == (4,)
    assert {one.filename for one in caught} == {__file__}
