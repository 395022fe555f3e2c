"""Properties of segments: written from columns, read as columns, and what the format cannot hold."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.commands import cli
from zvcore.errors import ConflictError, MetadataError
from zvcore.precomputed import SegmentProperties, Volume, write_segment_properties
from zvcore.stores import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

IDS = [7, 2**64 - 1, 12]
COLUMNS: dict[str, Any] = {
    "label": ["soma", "", "axon"], "description": (["a", "b", "c"], {}), "name": np.array(["x", "y", "z"]),
    "size": (np.array([1, 2, 3], "f4"), {"description": "in nm"}), "count": np.array([5, 6, 2**32 - 1]),
    "flag": np.array([True, False, True]), "level": np.array([-1, 0, 1], "i1"),
    "tags": [["glia", "left"], [], ["axon"]],
}  # fmt: skip


def test_columns_are_written_and_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = write_segment_properties(tmp_path / "p", IDS, COLUMNS)
    assert report.counts == {"segments": 3, "properties": 8} and not report.losses
    assert zvcore.verify(tmp_path / "p").problems == []
    found = zvcore.open(tmp_path / "p")
    assert isinstance(found, SegmentProperties) and found.kind == "segment properties"
    assert found.ids.tolist() == IDS and list(found) == list(COLUMNS)
    assert found["label"].tolist() == ["soma", "", "axon"] and found["name"].tolist() == ["x", "y", "z"]
    types = {name: (one.type, one.data_type) for name, one in found.properties.items()}
    assert types == {
        "label": ("label", None), "description": ("description", None), "name": ("string", None),
        "size": ("number", "float32"), "count": ("number", "uint32"), "flag": ("number", "uint8"),
        "level": ("number", "int8"), "tags": ("tags", None),
    }  # fmt: skip
    assert found["count"].tolist() == [5, 6, 2**32 - 1] and found["size"].dtype == np.float32
    assert found.properties["size"].description == "in nm"
    assert found.properties["tags"].tags == ("axon", "glia", "left")
    assert found.tags("tags") == [["glia", "left"], [], ["axon"]] and found["tags"].tolist() == [[1, 2], [], [0]]
    assert cli.main(["info", str(tmp_path / "p")]) == 0
    assert "segment properties" in capsys.readouterr().out


def test_tables_are_taken(tmp_path: Path) -> None:
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"label": ["a", None, "c"], "kind": pandas.Categorical(["u", "v", "u"]), "n": [1, 2, 3]})
    write_segment_properties(tmp_path / "a", IDS, frame)
    found = zvcore.open(tmp_path / "a")
    assert found["label"].tolist() == ["a", "", "c"] and found["kind"].tolist() == ["u", "v", "u"]
    table = pyarrow.table({"label": ["a", "b", "c"], "tags": [["x"], [], ["x", "y"]], "n": [1.5, 2, 3]})
    write_segment_properties(tmp_path / "b", IDS, table)
    assert zvcore.open(tmp_path / "b").tags("tags") == [["x"], [], ["x", "y"]]


def test_what_cannot_be_held_is_named() -> None:
    def write(column: Any, ids: Any = IDS) -> Any:
        return write_segment_properties(MemoryStore(), ids, {"a": column})

    for column, match in (
        (np.array([1, np.nan, 2]), "fill them in"),
        ([1, 2], "2 values for 3 segments"),
        ([["a b"], [], []], "no tag"),
        ([["#a"], [], []], "no tag"),
        ([["a"], ["A"], []], "capitals"),
        (np.zeros((3, 2)), "only tags"),
        (np.array([1e300, 0, 0]), "float32 cannot hold"),
        ((np.array([1, 2, 300]), {"data_type": "uint8"}), "cannot hold"),
        ((np.array([1, 2.5, 3]), {"data_type": "uint8"}), "cannot hold"),
    ):
        with pytest.raises(ValueError, match=match):
            write(column)
    with pytest.raises(ValueError, match="more than once"):
        write([1, 2, 3], [1, 1, 2])
    assert [loss.where for loss in write(np.array([2**40, 1, 2])).losses] == ["a"]
    assert [loss.where for loss in write(np.array([0.1, 1, 2])).losses] == ["a"]
    assert [loss.where for loss in write(([2**24 + 1, 1, 2], {"data_type": "float32"})).losses] == ["a"]
    assert not write(([2**24, 1, 2], {"data_type": "float32"})).losses


def test_they_are_replaced_only_if_that_is_wanted(tmp_path: Path) -> None:
    write_segment_properties(tmp_path, IDS, {"label": ["a", "b", "c"]})
    with pytest.raises(ConflictError):
        write_segment_properties(tmp_path, IDS, {"label": ["a", "b", "c"]})
    write_segment_properties(tmp_path, [1], {"label": ["d"]}, overwrite=True)
    assert zvcore.open(tmp_path)["label"].tolist() == ["d"]


def test_values_that_are_not_of_their_type_are_refused_when_they_are_read() -> None:
    store = MemoryStore()
    write_segment_properties(store, [1], {"n": np.array([5], "u1")})
    document = json.loads(bytes(store.get("info") or b""))
    for value in (300, 1.5, -1):
        document["inline"]["properties"][0]["values"] = [value]
        store.put("info", json.dumps(document).encode())
        with pytest.raises(MetadataError, match="not uint8"):
            zvcore.open(store)["n"]


def test_they_go_along_with_their_volume(tmp_path: Path) -> None:
    source = tmp_path / "seg"
    array = zvcore.create(source, format="precomputed", shape=(8, 8, 8), dtype="uint32")
    array[...] = 7
    info = json.loads((source / "info").read_text())
    (source / "info").write_text(json.dumps({**info, "segment_properties": "p"}))
    write_segment_properties(source / "p", [7], {"label": ["seven"]})
    assert Volume(source).segment_properties()["label"].tolist() == ["seven"]
    zvcore.convert(source, tmp_path / "copy", format="precomputed")
    assert zvcore.open(tmp_path / "copy").segment_properties()["label"].tolist() == ["seven"]


@pytest.mark.parametrize(
    "properties",
    [
        {"label": ["a", "\ud800"]},
        {"tags": [["a\udc00"], []]},
        {"n": ([1, 2], {"description": "\ud800"})},
        {"n\ud800": [1, 2]},
    ],
)
def test_texts_that_are_no_unicode_are_refused_and_verify_tells_of_them(properties: Any) -> None:
    store = MemoryStore()
    with pytest.raises(ValueError, match="surrogate"):
        write_segment_properties(store, [1, 2], properties)
    assert not list(store.list())
    write_segment_properties(store, [1, 2], {"label": ["a", "b"]})
    store.put("info", bytes(store.get("info") or b"").replace(b'"b"', b'"\\ud800"'))
    report = zvcore.verify(store)
    assert report.status == "damaged" and "surrogate" in report.problems[0].what
