"""Several that make the same thing at once: one makes it, and the others are told."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.errors import ConflictError
from zvcore.stores import LocalStore, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from zvcore.stores import Store

SIZES: dict[str, Any] = {"dtype": "uint8", "chunks": (4, 4)}


def between(monkeypatch: pytest.MonkeyPatch, module: str, name: str, other: Callable[[], object]) -> None:
    """Let another work once, as soon as `name` has looked whether the place is free."""
    look = getattr(__import__(module, fromlist=[name]), name)

    def look_and_wait(*args: Any) -> Any:
        found = look(*args)
        monkeypatch.setattr(f"{module}.{name}", look)
        other()
        return found

    monkeypatch.setattr(f"{module}.{name}", look_and_wait)


@pytest.mark.parametrize("kind", ["folder", "memory", "no-locks"])
@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_of_two_that_create_an_array_the_second_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str, kind: str
) -> None:
    store: Store = LocalStore(tmp_path) if kind == "folder" else MemoryStore()

    def other() -> None:
        zvcore.create(store, format=format, shape=(8, 8), data=np.ones((8, 8), "u1"), attrs={"by": "other"}, **SIZES)

    between(monkeypatch, f"zvcore.{format}.creating", "make_room", other)
    if kind == "no-locks":
        monkeypatch.setattr(MemoryStore, "can_lock", False)
    with pytest.raises(ConflictError, match="somebody else has made something here"):
        zvcore.create(store, format=format, shape=(4, 4), attrs={"by": "us"}, **SIZES)
    array = zvcore.open(store)
    assert array.shape == (8, 8)
    assert (array[...] == 1).all()
    # Attributes of Zarr v2 lie beside the document, and are the other's where there is a lock.
    assert array.attrs["by"] == "other" or (format == "zarr2" and kind == "no-locks")


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_a_group_that_another_makes_meanwhile_keeps_its_attributes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    root = zvcore.open(tmp_path / "root", "w", format=format)
    between(
        monkeypatch, f"zvcore.{format}.creating", "make_room", lambda: root.create_group("sub", attrs={"by": "other"})
    )
    root.create_dataset("sub/array", shape=(4, 4), **SIZES)[...] = 3
    found = zvcore.open(tmp_path / "root")["sub"]
    assert dict(found.attrs) == {"by": "other"}
    assert found["array"][0, 0] == 3


def test_of_two_that_write_the_same_points_the_second_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"chunk_shape": (50, 50, 50), "bounds": ((0, 0, 0), (99, 99, 99))}

    def write(first: int) -> None:
        points = np.full((2, 3), 1, "f4")
        zvcore.zvf.write_points(tmp_path / "store", points, object_ids=[first, first + 1], **options)

    between(monkeypatch, "zvcore.zvf.jobs", "_shape_of", lambda: write(10))
    with pytest.raises(ConflictError, match="exists already"):
        write(20)
    assert list(zvcore.zvf.open(tmp_path / "store").level(0).object_ids()) == [10, 11]
    assert zvcore.verify(tmp_path / "store").ok


def _skeletons(path: Path, id: int, **options: Any) -> None:
    skeleton = zvcore.precomputed.Skeleton(np.zeros((2, 3), "f4"), np.array([[0, 1]], "u4"))
    zvcore.precomputed.write_skeletons(path, ((one, skeleton) for one in pausing([id])), **options)


def _meshes(path: Path, id: int, **options: Any) -> None:
    mesh = (np.eye(3, dtype="f4"), np.array([[0, 1, 2]], "u4"))
    zvcore.precomputed.write_meshes(path, ((one, *mesh) for one in pausing([id])), kind="legacy", **options)


def _sharded(path: Path, id: int, **options: Any) -> None:
    spec = zvcore.precomputed.ShardingSpec.advise(count=10, bytes=100)
    zvcore.precomputed.write_sharded(path, spec, ((one, b"value") for one in pausing([id])), **options)


_pauses: list[Callable[[], object]] = []


def pausing(items: list[int]) -> Iterator[int]:
    """Values that are given while another works, once, if one is to."""
    if _pauses:
        _pauses.pop()()
    yield from items


@pytest.mark.parametrize("options", [{}, {"overwrite": True}], ids=["new", "overwrite"])
@pytest.mark.parametrize("write", [_skeletons, _meshes, _sharded], ids=["skeletons", "meshes", "sharded"])
def test_of_two_that_write_a_set_the_second_is_told(
    tmp_path: Path, write: Callable[..., None], options: dict[str, Any]
) -> None:
    told: list[BaseException] = []

    def other() -> None:
        try:
            write(tmp_path / "set", 2, **options)
        except ConflictError as error:
            told.append(error)

    def at_once() -> None:
        # No thread takes a lock twice.
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    _pauses.append(at_once)
    write(tmp_path / "set", 1, **options)
    assert [error.message for error in told] == ["somebody else is writing here"]
    assert not [name for name in (tmp_path / "set").iterdir() if "zvcore-writing" in name.name]
    # And whoever comes later may replace it.
    write(tmp_path / "set", 3, overwrite=True)


@pytest.mark.parametrize("kind", ["annotations", "segment_properties"])
def test_of_two_that_write_annotations_or_properties_the_second_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    def annotate(ids: list[int]) -> None:
        units = dict.fromkeys("xyz", (1e-9, "m"))
        zvcore.precomputed.write_annotations(
            tmp_path / "set", "point", {"point": np.ones((2, 3))}, ids=ids, dimensions=units
        )

    def describe(ids: list[int]) -> None:
        zvcore.precomputed.write_segment_properties(tmp_path / "set", ids, {"label": ["a", "b"]})

    write, module, name = {
        "annotations": (annotate, "annotation_writing", "_bounds"),
        "segment_properties": (describe, "segment_property_set", "as_ids"),
    }[kind]
    between(monkeypatch, f"zvcore.precomputed.{module}", name, lambda: write([10, 11]))
    with pytest.raises(ConflictError, match=r"there is an info already|somebody else has made something here"):
        write([20, 21])
    found = zvcore.open(tmp_path / "set")
    ids = found.ids() if kind == "annotations" else found.ids
    assert sorted(ids) == [10, 11]
    assert zvcore.verify(tmp_path / "set").ok
