"""The room of documents: reading within limits, changing without loss, attributes."""

from __future__ import annotations

import json
import math
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from zvcore import documents
from zvcore.documents import Attributes, Document
from zvcore.documents.document import LARGEST, parse
from zvcore.documents.values import DEEPEST
from zvcore.errors import ConflictError, MetadataError, NotFoundError, ReadOnlyError
from zvcore.stores import LocalStore, MemoryStore

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=["files", "memory", "memory without locks"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "files":
        return LocalStore(tmp_path)
    found = MemoryStore()
    found.can_lock = request.param == "memory"
    return found


def nested(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


def test_a_document_is_read(store: Any) -> None:
    assert documents.read(store, "a.json") is None
    store.put("a.json", b'{"a": [1, NaN, -Infinity]}')
    found = documents.read(store, "a.json")
    assert found is not None
    assert found["a"][0] == 1 and math.isnan(found["a"][1]) and found["a"][2] == -math.inf


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\x00\xff", "not JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not JSON"),
        (b'{"a": 1e5000}', "not JSON: a number that neither a float nor an integer of 4300 digits"),
        (b'{"a": -1e99999999999999999999}', "not JSON: a number that neither"),
        (b'{"a": ' + b"9" * 400 + b".5}", "not JSON: a number that neither"),
        (b"[1]", r"not a JSON object \(found list\)"),
        (b"3", r"not a JSON object \(found int\)"),
        (b"null", "not a JSON object"),
        (nested(DEEPEST + 1).encode(), "nested too deep"),
        (b'{"a":' + b"[" * 100_000, "not JSON|nested too deep"),
    ],
    ids=range(12),
)
def test_what_is_no_object_is_described_in_one_wording(store: Any, raw: bytes, words: str) -> None:
    store.put("b/a.json", raw)
    with pytest.raises(MetadataError, match=words) as caught:
        documents.read(store, "b/a.json")
    assert caught.value.key == "b/a.json"


def test_the_deepest_document_that_is_read_can_be_copied_and_written(store: Any) -> None:
    store.put("a.json", nested(DEEPEST).encode())
    found = documents.read(store, "a.json")
    assert found is not None
    assert json.dumps(documents.copied(found)) == json.dumps(found)
    assert documents.as_json(found, "it") == found
    with pytest.raises(MetadataError, match="nested too deep"):
        documents.as_json([found], "it")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({1: "a", "1": "b"}, "two keys are both '1'"),
        ({"a": [{None: 1, "null": 2}]}, "two keys are both 'null'"),
        (np.datetime64("2020-01-01", "ns"), "datetime64 is not"),
        ([np.timedelta64(1, "ns")], "timedelta64 is not"),
        (np.array(["2020"], "M8[ns]"), "ndarray is not"),
    ],
    ids=repr,
)
def test_what_json_would_say_otherwise_is_refused(value: Any, words: str) -> None:
    with pytest.raises(MetadataError, match=words):
        documents.as_json({"x": value}, "attributes")


def test_a_file_without_end_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "a.json").open("wb") as file:
        file.truncate(LARGEST + 1)
    with pytest.raises(MetadataError, match="too large"):
        documents.read(LocalStore(tmp_path), "a.json")


def test_changes_of_several_writers_are_all_kept(store: Any) -> None:
    def work(number: int) -> None:
        for i in range(10):
            new = {f"{number}-{i}": i}
            documents.change(store, "a.json", lambda found, new=new: {**(found or {}), **new})

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = documents.read(store, "a.json")
    assert found is not None and len(found) == 30


@pytest.fixture
def attributes(store: Any) -> Attributes:
    store.put("a.json", b'{"x": NaN, "y": {"z": [1]}}')
    found = documents.read(store, "a.json")
    assert found is not None
    return Attributes(Document(store, "a.json", found))


def test_attributes_keep_what_is_no_number(attributes: Attributes, store: Any) -> None:
    attributes["b"] = [math.inf, -math.inf]
    assert math.isnan(attributes["x"])
    assert b"NaN" in bytes(store.get("a.json")) and b"-Infinity" in bytes(store.get("a.json"))
    again = documents.read(store, "a.json")
    assert again is not None and again["b"] == [math.inf, -math.inf]


def test_numbers_beyond_all_floats_stay_what_they_are(store: Any) -> None:
    store.put("a.json", b'{"a": [1e400, -1.5E+400, 1.0, 1, 1e22, -0.0, 1e-400], "x": 0}')
    found = documents.read(store, "a.json")
    assert found is not None
    Attributes(Document(store, "a.json", found))["x"] = 1
    assert b"Infinity" not in bytes(store.get("a.json"))
    again = documents.read(store, "a.json")
    assert again is not None
    assert again["a"] == [10**400, -15 * 10**399, 1.0, 1, 1e22, 0.0, 0.0]
    assert [type(one) for one in again["a"]] == [int, int, float, int, float, float, float]


@pytest.mark.parametrize("wrong", [object(), b"x", {1}, {"a": {1}}, {(1, 2): 3}, json.loads(nested(DEEPEST))])
def test_a_value_that_json_cannot_hold_changes_nothing(attributes: Attributes, store: Any, wrong: Any) -> None:
    before = bytes(store.get("a.json"))
    with pytest.raises(MetadataError):
        attributes["b"] = wrong
    assert "b" not in attributes and list(attributes) == ["x", "y"]
    assert bytes(store.get("a.json")) == before


class Full(MemoryStore):
    """A store whose disk is full."""

    def put(self, key: str, data: Any, stamp: Any = None) -> None:
        raise OSError(28, "No space left on device")

    put_if_unchanged = put


@pytest.mark.parametrize("can_lock", [True, False])
def test_a_change_that_fails_leaves_the_mapping_as_it_was(can_lock: bool) -> None:
    store = Full()
    store.can_lock = can_lock
    attributes = Attributes(Document(store, "a.json", {"a": 1}))
    MemoryStore.put(store, "a.json", b'{"a": 1}')
    for change in (
        lambda: attributes.update(b=2),
        lambda: attributes.__delitem__("a"),
        attributes.clear,
        lambda: attributes.pop("a"),
    ):
        with pytest.raises(OSError, match="No space"):
            change()
        assert dict(attributes) == {"a": 1}


def test_what_is_read_of_attributes_is_a_copy(attributes: Attributes) -> None:
    attributes["y"]["z"].append(2)
    assert attributes["y"] == {"z": [1]}


def test_a_document_that_is_gone_is_not_made_again(attributes: Attributes, store: Any) -> None:
    store.delete("a.json")
    with pytest.raises(NotFoundError, match="removed"):
        attributes["b"] = 1
    assert "b" not in attributes and not store.exists("a.json")


def test_a_document_opened_for_reading_is_not_changed(store: Any) -> None:
    attributes = Attributes(Document(store, "a.json", {"a": 1}, read_only=True))
    with pytest.raises(ReadOnlyError):
        attributes["b"] = 1
    assert dict(attributes) == {"a": 1}


def test_others_changes_are_seen_after_a_refresh(attributes: Attributes, store: Any) -> None:
    documents.change(store, "a.json", lambda found: {**(found or {}), "new": 1})
    assert "new" not in attributes
    attributes.refresh()
    assert attributes["new"] == 1


def test_a_document_that_others_keep_changing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    store.can_lock = False
    monkeypatch.setattr("zvcore.stores.again.give_way", lambda number: None)

    def refuse(key: str, data: Any, stamp: Any) -> None:
        raise ConflictError("somebody was quicker", key=key)

    monkeypatch.setattr(store, "put_if_unchanged", refuse)
    with pytest.raises(ConflictError, match="keep changing"):
        documents.change(store, "a.json", lambda found: {})


@pytest.mark.parametrize(("coding", "begin"), [("gzip", b"\x1f\x8b\x08\x00"), ("zstd", b"\x28\xb5\x2f\xfd\x20")])
def test_a_packed_document_is_told_from_damage(coding: str, begin: bytes) -> None:
    """Web servers and buckets may keep documents with a content coding: nothing is wrong with their bytes."""
    with pytest.raises(MetadataError, match=f"info: not JSON but a stream of {coding}, as of .*: {coding}; documents"):
        parse(begin + b"\0\0", "info")
