"""`zvcore.migrate`: documents of v3 beside those of v2, for the same chunks, and gone again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorstore
import zarr

import zvcore
from zvcore.commands.cli import main
from zvcore.errors import ConflictError, NotFoundError, UnsupportedError
from zvcore.stores import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path


def files(path: Path) -> dict[str, bytes]:
    return {str(one.relative_to(path)): one.read_bytes() for one in path.rglob("*") if one.is_file()}


def tree(place: Any) -> np.ndarray:
    values = np.arange(480, dtype="u2").reshape(20, 24)
    group = zvcore.open(place, "w", format="zarr2")
    group.attrs["title"] = "t"
    group.create_array(
        "a", shape=(20, 24), dtype=">u2", chunks=(8, 8), order="F", codec="blosc", dimension_separator="/",
        dimension_names=["y", "x"],
    )[...] = values  # fmt: skip
    group.create_array("b/c", shape=(20, 24), dtype="<u2", chunks=(8, 8), codec="zstd")[...] = values
    group.create_array("b/s", shape=(), dtype="<f4")[...] = 2.5
    return values


def test_the_same_chunks_are_read_as_both(tmp_path: Path) -> None:
    values = tree(tmp_path)
    before = files(tmp_path)
    report = zvcore.migrate(tmp_path, format="zarr3")
    assert report.ok and report.counts == {"documents added": 5} and not report.losses
    after = files(tmp_path)
    assert {key: after[key] for key in before} == before
    assert {key.rpartition("/")[2] for key in after.keys() - before.keys()} == {"zarr.json"}
    assert zvcore.verify(tmp_path, format="zarr3").ok and zvcore.verify(tmp_path, format="zarr2").ok
    theirs = zarr.open_group(str(tmp_path), mode="r", zarr_format=3)
    assert dict(theirs.attrs) == {"title": "t"} and theirs["a"].metadata.dimension_names == ("y", "x")
    for name in ("a", "b/c"):
        assert (zvcore.open(tmp_path)[name][...] == values).all()
        assert (theirs[name][...] == values).all()
        spec = {"driver": "zarr3", "kvstore": f"file://{tmp_path / name}/"}
        assert (tensorstore.open(spec).result().read().result() == values).all()
    assert theirs["b/s"][...] == 2.5
    again = zvcore.migrate(tmp_path, format="zarr3")
    assert again.counts == {} and not again.losses
    undone = zvcore.migrate(tmp_path, format="zarr3", undo=True)
    assert undone.counts == {"documents removed": 5} and not undone.losses
    assert files(tmp_path) == before


def test_it_works_in_every_store() -> None:
    store = MemoryStore()
    values = tree(store)
    zvcore.migrate(store, format="zarr3")
    assert (zvcore.open(store, format="zarr3")["a"][...] == values).all()


def test_texts_stay_where_they_are(tmp_path: Path) -> None:
    texts = np.array(["a", "", "hé", "a text that is longer than others"], object)
    array = zvcore.create(
        tmp_path, format="zarr2", shape=(6,), dtype=str, chunks=(2,), fill_value="nothing that anybody would write"
    )
    array[:4] = texts
    before = files(tmp_path)
    assert zvcore.migrate(tmp_path).counts == {"documents added": 1}
    expected = [*texts, *["nothing that anybody would write"] * 2]
    assert zvcore.open(tmp_path, format="zarr3")[...].tolist() == expected
    assert np.asarray(zarr.open_array(str(tmp_path), mode="r", zarr_format=3)[...]).tolist() == expected
    zvcore.migrate(tmp_path, undo=True)
    assert files(tmp_path) == before


def test_what_has_no_words_there_is_named_before_anything_is_written(tmp_path: Path) -> None:
    tree(tmp_path)
    group = zvcore.open(tmp_path, "r+")
    group.create_array("big", shape=(4,), dtype=">u2", filters=[{"id": "delta", "dtype": ">u2"}])
    before = files(tmp_path)
    with pytest.raises(UnsupportedError, match="big: its chunks"):
        zvcore.migrate(tmp_path, format="zarr3")
    assert files(tmp_path) == before
    with pytest.raises(UnsupportedError):
        zvcore.migrate(tmp_path / "a", format="n5")


def test_documents_of_others_are_neither_replaced_nor_removed(tmp_path: Path) -> None:
    tree(tmp_path)
    zvcore.migrate(tmp_path, format="zarr3")
    path = tmp_path / "a" / "zarr.json"
    changed = {**json.loads(path.read_text()), "attributes": {"mine": 1}}
    path.write_text(json.dumps(changed))
    with pytest.raises(ConflictError, match="another document"):
        zvcore.migrate(tmp_path, format="zarr3")
    report = zvcore.migrate(tmp_path, format="zarr3", undo=True)
    assert not report.ok and report.counts == {"documents removed": 4}
    assert json.loads(path.read_text()) == changed


def test_there_has_to_be_something_else(tmp_path: Path) -> None:
    zvcore.create(tmp_path, format="zarr3", shape=(4,), dtype="u1")
    with pytest.raises(NotFoundError):
        zvcore.migrate(tmp_path, format="zarr3")


def test_the_command_does_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree(tmp_path)
    assert main(["migrate", str(tmp_path), "--format", "zarr3", "--in-place"]) == 0
    assert "5 documents added" in capsys.readouterr().out
    assert main(["migrate", str(tmp_path), "--format", "zarr3", "--in-place", "--undo"]) == 0
    assert "5 documents removed" in capsys.readouterr().out


def test_unless_told_otherwise_the_newest_version_is_added(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = tree(tmp_path)
    before = files(tmp_path)
    assert zvcore.migrate(tmp_path).counts == {"documents added": 5}
    assert (zarr.open_group(str(tmp_path), mode="r", zarr_format=3)["a"][...] == values).all()
    assert zvcore.migrate(tmp_path, undo=True).counts == {"documents removed": 5}
    assert files(tmp_path) == before
    assert main(["migrate", str(tmp_path), "--in-place"]) == 0
    assert "5 documents added" in capsys.readouterr().out
    zvcore.create(tmp_path / "n5", format="n5", shape=(4,), dtype="u1", chunks=(2,))
    for place in ("n5", "nothing"):
        with pytest.raises(NotFoundError):
            zvcore.migrate(tmp_path / place)
    zvcore.create(tmp_path / "new", format="zarr3", shape=(4,), dtype="u1", chunks=(2,))
    with pytest.raises(NotFoundError, match="another format than Zarr v3"):
        zvcore.migrate(tmp_path / "new")


@pytest.mark.parametrize("raw", [b"[" * 100_000, b"{", b"\xff\xfe"], ids=["deep", "cut off", "no text"])
def test_what_nobody_can_read_is_something_else_and_is_left(tmp_path: Path, raw: bytes) -> None:
    tree(tmp_path)
    zvcore.migrate(tmp_path, format="zarr3")
    (tmp_path / "a" / "zarr.json").write_bytes(raw)
    with pytest.raises(ConflictError, match="another document"):
        zvcore.migrate(tmp_path / "a", format="zarr3")
    report = zvcore.migrate(tmp_path, format="zarr3", undo=True)
    assert [one.where for one in report.problems] == ["a/zarr.json"]
    assert (tmp_path / "a" / "zarr.json").read_bytes() == raw
