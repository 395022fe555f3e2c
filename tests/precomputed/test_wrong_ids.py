"""Ids are whole numbers: truth values, fractions, texts and bytes are refused by name, and are in no set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore import precomputed
from zvcore.precomputed import ShardedStore, ShardingSpec, Skeleton

if TYPE_CHECKING:
    from pathlib import Path

SPEC = ShardingSpec(0, "identity", 1, 1, "raw", "raw")
PLACES = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], "f4")
FACES = np.array([[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]], "u4")
DIMENSIONS = {"x": (1e-9, "m"), "y": (1e-9, "m"), "z": (1e-9, "m")}
WRONG = [True, False, np.bool_(True), 1.0, np.float64(1), "1", b"1", None]
TOLD = "an id is a whole number from 0 to|ids are integers, not"


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("sets")
    precomputed.write_sharded(folder / "kv", SPEC, {0: b"zero", 1: b"one"})
    precomputed.write_meshes(folder / "meshes", {0: (PLACES, FACES), 1: (PLACES, FACES)})
    precomputed.write_meshes(folder / "legacy", {0: (PLACES, FACES), 1: (PLACES, FACES)}, kind="legacy")
    line = Skeleton(PLACES, np.array([[0, 1]], "u4"))
    precomputed.write_skeletons(folder / "skeletons", {0: line, 1: line})
    precomputed.write_annotations(folder / "annotations", "point", {"point": PLACES[:2]}, dimensions=DIMENSIONS,
                                  ids=[0, 1], relationships={"segment": [[0], [1]]})  # fmt: skip
    found = {name: zvcore.open(folder / name, "r+") for name in ("meshes", "legacy", "skeletons")}
    return {**found, "annotations": zvcore.open(folder / "annotations"), "kv": ShardedStore(folder / "kv", SPEC, "r+")}


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
@pytest.mark.parametrize("name", ["kv", "meshes", "legacy", "skeletons", "annotations"])
def test_ids_that_are_asked_for(sets: dict[str, Any], name: str, wrong: Any) -> None:
    one = sets[name]
    asked = [one.get_many, one.__getitem__] if name == "annotations" else [one.get_many, one.__getitem__, one.delete]
    for call in asked:
        with pytest.raises(TypeError, match=TOLD):
            call(wrong if call == one.__getitem__ else [wrong])
    with pytest.raises(TypeError, match=TOLD):
        one.get_many([0, 2, wrong])
    assert wrong not in one
    assert sorted(one.ids().tolist()) == [0, 1]


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_ids_that_are_written(sets: dict[str, Any], tmp_path: Path, wrong: Any) -> None:
    kv, annotations = sets["kv"], sets["annotations"]
    line = Skeleton(PLACES, np.array([[0, 1]], "u4"))
    for call in (
        lambda: kv.update({wrong: b"x"}),
        lambda: kv.locate(wrong),
        lambda: kv.read_encoded(wrong),
        lambda: kv.read_before(wrong, 0),
        lambda: kv.get_columns([wrong]),
        lambda: SPEC.locate([wrong]),
        lambda: annotations.related("segment", wrong),
        lambda: sets["skeletons"].update({wrong: line}),
        lambda: sets["legacy"].update({wrong: (PLACES, FACES)}),
        lambda: precomputed.write_sharded(tmp_path / "a", SPEC, {wrong: b"x"}),
        lambda: precomputed.write_meshes(tmp_path / "b", {wrong: (PLACES, FACES)}),
        lambda: precomputed.write_meshes(tmp_path / "c", {wrong: (PLACES, FACES)}, kind="legacy"),
        lambda: precomputed.write_skeletons(tmp_path / "d", {wrong: line}),
        lambda: precomputed.write_segment_properties(tmp_path / "e", [wrong], {"label": ["a"]}),
        lambda: precomputed.write_annotations(
            tmp_path / "f", "point", {"point": PLACES[:1]}, dimensions=DIMENSIONS, relationships={"s": [[wrong]]}
        ),
    ):
        with pytest.raises(TypeError, match=TOLD):
            call()


def test_a_text_is_not_taken_for_ids_of_its_bytes(sets: dict[str, Any]) -> None:
    for wrong in (b"1", bytearray(b"1"), "12"):
        with pytest.raises(TypeError, match=TOLD):
            sets["kv"].get_many(wrong)


def test_ids_of_any_integer_type_are_taken(sets: dict[str, Any]) -> None:
    for one in (1, np.uint8(1), np.int64(1)):
        assert sets["kv"][one] == b"one" and one in sets["kv"] and one in sets["meshes"]
    assert sets["kv"].get_many([0, 1]) == sets["kv"].get_many(np.array([0, 1], "i4")) == {0: b"zero", 1: b"one"}


@pytest.mark.parametrize("wrong", [True, 0.0, "0", None], ids=repr)
def test_levels_and_shards_are_whole_numbers_too(sets: dict[str, Any], wrong: Any) -> None:
    with pytest.raises(TypeError, match="lod is the whole number of a level"):
        sets["meshes"].get(1, lod=wrong)
    with pytest.raises(TypeError, match="a shard has a whole number"):
        SPEC.shard_name(wrong)
