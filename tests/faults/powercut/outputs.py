"""What is made whole, in a place of its own each time: conversions of several arrays, annotations, meshes, files."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

import zvcore
from tests.faults.powercut.kind import STEPS, Kind, array_of, in_order, nothing, opened, value_of
from tests.faults.powercut.precomputed import SPEC
from tests.faults.powercut.stores import is_unfinished
from zvcore import precomputed
from zvcore.errors import CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from zvcore.stores import LocalStore

POINTS = np.arange(60, dtype="f4").reshape(20, 3)
FACES = np.array([[0, 1, 2], [0, 2, 3], [0, 3, 1], [1, 3, 2]], "u4")
IDS = range(1, 5)


def find_sound(place: Path) -> None:
    """What is read without an error may still be told of by `verify`."""
    report = zvcore.verify(place)
    if not report.ok:
        raise CorruptDataError(str(report))


def appearing(
    name: str,
    make: Callable[[LocalStore, str], Any],
    whole: Callable[[Path], bool],
    begin: Callable[[Path], Any] = nothing,
    end: str = "",
) -> Kind:
    """Each step makes one more, at a place where nothing is; `whole` tells what is there from what is not yet."""

    def step(store: LocalStore, value: int) -> None:
        make(store, f"made{value}{end}")

    def check(path: Path) -> list[int]:
        return [in_order({value: whole(path / f"made{value}{end}") for value in STEPS})]

    return Kind(name, begin, step, check)


def begin_array(path: Path) -> None:
    array_of(format="n5", shape=(32, 32), chunks=(16, 16), codec=None)(path / "source")


def begin_group(path: Path) -> None:
    group = zvcore.open(path / "source", "w", format="zarr3")
    for name in ("a", "b/c"):
        group.create_dataset(name, shape=(16, 16), dtype="u4", chunks=(8, 8), codec=None)[...] = 1


def converted(to: str, **options: Any) -> Callable[[LocalStore, str], Any]:
    def make(store: LocalStore, name: str) -> None:
        zvcore.convert(store.child("source"), f"{store.root}/{name}", format=to, durability=store.durability, **options)

    return make


def is_whole(array: zvcore.Array) -> bool:
    assert value_of(array[...]) == 1, "chunks are missing, and nothing tells it"
    return True


def whole_array(place: Path) -> bool:
    if is_unfinished(place):
        return False
    array = opened(place)
    return array is not None and is_whole(array)


def whole_group(place: Path) -> bool:
    if not place.exists() or is_unfinished(place) or not (place / "zarr.json").exists():
        return False
    group = zvcore.open(place)
    found = [value_of(group[name][...]) for name in ("a", "b/c")]
    assert found == [1, 1], f"a finished conversion of {found}"
    assert (place / ".zvcore-manifest.jsonl").exists(), "finished, and no manifest"
    find_sound(place)
    return True


def whole_file(place: Path) -> bool:
    """A file is complete from when it has its name."""
    if not place.exists():
        return False
    values = np.asarray(zvcore.open(place)[...])
    assert values.size == 1024 and value_of(values) == 1
    return True


def make_annotations(store: LocalStore, name: str) -> None:
    columns = {"point": POINTS, "segment": [[1 + i % 3] for i in range(len(POINTS))]}
    precomputed.write_annotations(
        store.child(name), "point", columns, dimensions=dict.fromkeys("xyz", (1e-09, "m")),
        relationships=["segment"], limit=8, sharding=None,
    )  # fmt: skip


def whole_annotations(place: Path) -> bool:
    if not (place / "info").exists():
        return False
    found = zvcore.open(place)
    for id in range(len(POINTS)):
        np.testing.assert_array_equal(found[id]["point"].reshape(3), POINTS[id])
    find_sound(place)
    return True


def make_meshes(store: LocalStore, name: str) -> None:
    vertices = np.eye(4, 3, dtype="f4") * 100
    precomputed.write_meshes(store.child(name), dict.fromkeys(IDS, (vertices, FACES)), kind="legacy", sharding=None)


def whole_meshes(place: Path) -> bool:
    if not (place / "info").exists():
        return False
    found = zvcore.open(place)
    assert all(len(found[id].vertices) == 4 for id in IDS)
    find_sound(place)
    return True


def make_skeletons(store: LocalStore, name: str) -> None:
    one = precomputed.Skeleton(POINTS, np.stack([np.arange(19), np.arange(1, 20)], -1).astype("u4"))
    precomputed.write_skeletons(store.child(name), dict.fromkeys(IDS, one), sharding=SPEC)


def whole_skeletons(place: Path) -> bool:
    if not (place / "info").exists():
        return False
    found = zvcore.open(place)
    for id in IDS:
        np.testing.assert_array_equal(found[id].vertices, POINTS)
    return True


def make_copy(store: LocalStore, name: str) -> None:
    zvcore.copy(store.child("source"), store.child(name))


def whole_copy(place: Path) -> bool:
    """Documents come after everything else."""
    array = opened(place)
    return array is not None and is_whole(array)


# --- documents beside others


def begin_older(path: Path) -> None:
    for value in STEPS:
        array_of(format="zarr2", shape=(16, 16), chunks=(8, 8), codec=None)(path / str(value))


def step_migrate(store: LocalStore, value: int) -> None:
    zvcore.migrate(store.child(str(value)), format="zarr3")


def check_migrated(path: Path) -> list[int]:
    found = {}
    for value in STEPS:
        place = path / str(value)
        found[value] = (place / "zarr.json").exists()
        assert value_of(zvcore.open(place, format="zarr2")[...]) == 1
        if found[value]:
            assert value_of(zvcore.open(place, format="zarr3")[...]) == 1
    return [in_order(found)]


def kinds() -> list[Kind]:
    several = converted("zarr3", manifest=True, consolidate=True)
    made = [
        appearing("convert to zarr2", converted("zarr2", codec=None, chunks=(8, 8)), whole_array, begin_array),
        appearing("convert several arrays, with a manifest", several, whole_group, begin_group),
        appearing("convert to npy", converted("npy"), whole_file, begin_array, ".npy"),
        appearing("convert to nifti", converted("nifti"), whole_file, begin_array, ".nii"),
        appearing("annotations, written", make_annotations, whole_annotations),
        appearing("meshes, written", make_meshes, whole_meshes),
        appearing("skeletons, written", make_skeletons, whole_skeletons),
        appearing("copy", make_copy, whole_copy, begin_array),
        Kind("migrate", begin_older, step_migrate, check_migrated),
    ]
    if find_spec("tifffile") is not None:
        made.append(appearing("convert to tiff", converted("tiff"), whole_file, begin_array, ".tif"))
    return made
