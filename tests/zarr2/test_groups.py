"""Groups of Zarr v2, and what `.zmetadata` tells of them."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr

import zvcore
from zvcore.errors import ConflictError, DamagedMetadataWarning, MetadataError, NotFoundError
from zvcore.stores import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path


def tree(path: Any) -> Any:
    """A group with an array, and one in a group in it."""
    group = zvcore.open(path, "w", format="zarr2")
    group.create_array("a", shape=(4, 4), dtype="u1", chunks=(2, 2), attrs={"kind": "outer"})[...] = 1
    group.create_array("deep/er/b", shape=(3,), dtype="f4")[...] = 2
    return group


def consolidated(path: Path) -> Path:
    tree(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(str(path), zarr_format=2)
    return path


def told(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((path / ".zmetadata").read_text())["metadata"]
    return found


@pytest.mark.parametrize("where", ["folder", "memory"])
def test_members_go_by_name_and_by_path(tmp_path: Path, where: str) -> None:
    place: Any = tmp_path if where == "folder" else MemoryStore()
    group = tree(place)
    assert list(group) == ["a", "deep"] and len(group) == 2
    assert "deep/er/b" in group and "deep/er/c" not in group and group[""] is group
    assert group["deep"]["er"]["b"][...].tolist() == [2, 2, 2]
    assert dict(zvcore.open(place)["a"].attrs) == {"kind": "outer"}
    assert zvcore.verify(place).ok
    del group["deep"]
    assert list(zvcore.open(place)) == ["a"]
    with pytest.raises(NotFoundError):
        group["deep"]
    with pytest.raises(ConflictError):
        group.create_group("a/b")


def test_zarr_python_finds_what_was_made_here(tmp_path: Path) -> None:
    group = tree(tmp_path)
    group.attrs["name"] = "ü"
    theirs = zarr.open_group(str(tmp_path), mode="r", zarr_format=2)
    assert sorted(theirs.keys()) == ["a", "deep"] and dict(theirs.attrs) == {"name": "ü"}
    assert np.asarray(theirs["deep/er/b"][...]).tolist() == [2, 2, 2]


def test_a_change_is_told_to_the_groups_above(tmp_path: Path) -> None:
    consolidated(tmp_path)
    zvcore.open(tmp_path / "a", "r+").resize((8, 4))
    zvcore.open(tmp_path / "deep" / "er", "r+").attrs["x"] = 1
    group = zvcore.open(tmp_path, "r+")
    group.create_array("deep/new", shape=(2,), dtype="u1")
    found = told(tmp_path)
    assert found["a/.zarray"]["shape"] == [8, 4]
    assert found["deep/er/.zattrs"] == {"x": 1}
    assert found["deep/new/.zarray"]["shape"] == [2]
    assert zvcore.verify(tmp_path).ok and not zvcore.verify(tmp_path).problems
    assert zarr.open_group(str(tmp_path), mode="r", zarr_format=2, use_consolidated=True)["a"].shape == (8, 4)
    del group["deep"]
    assert not any(key.startswith("deep") for key in told(tmp_path))
    assert not zvcore.verify(tmp_path).problems


def test_a_change_in_a_store_without_folders_is_reported_too() -> None:
    store = MemoryStore()
    tree(store)
    store.put(".zmetadata", json.dumps({"zarr_consolidated_format": 1, "metadata": {}}).encode())
    zvcore.open(store, "r+")["deep"]["er/b"].attrs["x"] = 1
    assert json.loads(bytes(store.get(".zmetadata")))["metadata"] == {"deep/er/b/.zattrs": {"x": 1}}


def test_what_was_consolidated_before_a_change_is_out_of_date(tmp_path: Path) -> None:
    consolidated(tmp_path)
    document = json.loads((tmp_path / "a" / ".zarray").read_text())
    (tmp_path / "a" / ".zarray").write_text(json.dumps({**document, "shape": [8, 4]}))
    report = zvcore.verify(tmp_path)
    assert not report.ok and "a/.zarray" in str(report) and "out of date" in str(report)
    # What lies here is looked at, not what was told of it once.
    assert zvcore.open(tmp_path)["a"].shape == (8, 4)


def test_members_that_are_told_of_and_gone_are_named(tmp_path: Path) -> None:
    consolidated(tmp_path)
    (tmp_path / "deep" / "er" / "b" / ".zarray").unlink()
    report = zvcore.verify(tmp_path)
    assert not report.ok and "deep/er/b/.zarray" in str(report)


BROKEN = [
    "", "[]", '{"zarr', "\xff\xfe", '{"zarr_consolidated_format": 2, "metadata": {}}', '{"metadata": 1}',
    '{"zarr_consolidated_format": 1}', '{"zarr_consolidated_format": 1, "metadata": {"a/.zarray": 5}}',
]  # fmt: skip


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_document_of_that_kind_is_reported_and_stops_nothing(tmp_path: Path, text: str) -> None:
    tree(tmp_path)
    (tmp_path / ".zmetadata").write_text(text)
    group = zvcore.open(tmp_path, "r+")
    group["a"].resize((6, 6))
    assert group["a"].shape == (6, 6)
    assert [problem.where for problem in zvcore.verify(tmp_path).problems] == [".zmetadata"]


def test_a_broken_document_of_that_kind_hides_nothing_where_it_would_be_used() -> None:
    """It kept all members from being opened over a network, though each could be read by itself."""
    store = Far()
    tree(store)
    for text in BROKEN:
        store.put(".zmetadata", text.encode())
        group = zvcore.open(store)
        with pytest.warns(DamagedMetadataWarning, match=r"^\.zmetadata of .* is damaged") as told:
            assert group["a"].shape == (4, 4)
        assert [warning.filename for warning in told] == [__file__]
        # It is said once: warnings are errors here.
        assert dict(group["a"].attrs) == {"kind": "outer"} and group["deep"]["er/b"].shape == (3,)
        assert list(group) == ["a", "deep"] and "deep/er/b" in group and "c" not in group
        with pytest.raises(NotFoundError):
            group["c"]
        report = zvcore.verify(store)
        assert not report.ok and [problem.where for problem in report.problems] == [".zmetadata"]


def test_a_member_that_is_told_of_in_broken_words_is_asked_itself() -> None:
    store = Far()
    tree(store)
    told = {"a/.zarray": {"shape": "x"}, "deep/.zgroup": {"zarr_format": 2}}
    store.put(".zmetadata", json.dumps({"zarr_consolidated_format": 1, "metadata": told}).encode())
    group = zvcore.open(store)
    with pytest.warns(DamagedMetadataWarning, match="a/.zarray"):
        assert group["a"].shape == (4, 4)
    assert list(group) == ["a", "deep"]
    assert not zvcore.verify(store).ok


def test_a_group_that_says_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".zgroup").write_text('{"zarr_format": 1}')
    with pytest.raises(MetadataError, match="zarr_format"):
        zvcore.open(tmp_path)


def test_info_ls_and_tree_show_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from zvcore.commands.cli import main

    tree(tmp_path)
    assert main(["info", str(tmp_path)]) == 0
    assert "zarr2 group" in capsys.readouterr().out
    assert main(["info", str(tmp_path / "a")]) == 0
    assert "zarr2 array" in capsys.readouterr().out
    assert main(["info", str(tmp_path / "a" / "0.0")]) == 0
    assert "0 0" in capsys.readouterr().out
    assert main(["ls", str(tmp_path)]) == 0
    assert "deep" in capsys.readouterr().out
    assert main(["tree", str(tmp_path)]) == 0
    assert "b" in capsys.readouterr().out
    assert main(["verify", str(tmp_path)]) == 0


class Far(MemoryStore):
    """A store over a network, which counts what is asked of it."""

    remote = True

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def get(self, key: str, *args: Any, **options: Any) -> Any:
        self.asked.append(key)
        return super().get(key, *args, **options)


def test_what_is_told_is_used_where_looking_is_slow() -> None:
    store = Far()
    tree(store)
    told = {key: json.loads(bytes(store.get(key))) for key in store.list() if key.rpartition("/")[2].startswith(".z")}
    store.put(".zmetadata", json.dumps({"zarr_consolidated_format": 1, "metadata": told}).encode())
    group = zvcore.open(store)
    store.asked.clear()
    assert list(group) == ["a", "deep"] and list(group["deep"]["er"]) == ["b"] and "deep/er/b" in group
    assert dict(group["a"].attrs) == {"kind": "outer"} and group["deep/er/b"].shape == (3,)
    assert store.asked == [".zmetadata"]
    with pytest.raises(NotFoundError):
        group["c"]
    # Groups that are open for writing look at the documents themselves.
    writer = zvcore.open(store, "r+")
    store.asked.clear()
    assert writer["a"].shape == (4, 4) and store.asked == ["a/.zarray"]


@pytest.mark.parametrize("later", ["b", "g/b", "h"])
def test_verify_names_members_that_were_added_behind_the_groups_back(tmp_path: Path, later: str) -> None:
    root = zarr.open_group(tmp_path, mode="w", zarr_format=2)
    for name in ("a", "g/a"):
        root.create_array(name, shape=(4,), dtype="u1", chunks=(2,))
    zarr.consolidate_metadata(root.store)
    assert not zvcore.verify(tmp_path).problems
    zarr.create_array(str(tmp_path), name=later, shape=(4,), dtype="u1", chunks=(2,), zarr_format=2)
    [problem] = zvcore.verify(tmp_path).problems
    assert problem.where == ".zmetadata" and f"does not tell of {later}," in str(problem) and not problem.fatal
    zarr.consolidate_metadata(root.store)
    assert not zvcore.verify(tmp_path).problems


def test_verify_names_the_members_of_a_group_that_tells_of_nothing(tmp_path: Path) -> None:
    zvcore.open(tmp_path, "w", format="zarr2").create_dataset("a", shape=(4,), dtype="u1")
    (tmp_path / ".zmetadata").write_text(json.dumps({"zarr_consolidated_format": 1, "metadata": {}}))
    assert ["does not tell of a," in str(problem) for problem in zvcore.verify(tmp_path).problems] == [True]


@pytest.mark.parametrize("name", ["", "b//c", "/b", "b/", "..", "b/../a", "."])
def test_names_of_no_member_in_what_a_group_tells_are_told(tmp_path: Path, name: str) -> None:
    group = zvcore.open(tmp_path, "w", format="zarr2")
    group.create_dataset("a", shape=(4,), dtype="u1")
    zvcore.open(tmp_path, "r+").create_group("b")
    own = {key: json.loads((tmp_path / key).read_text()) for key in (".zgroup", "a/.zarray", "b/.zgroup")}
    told = {**own, f"{name}/.zgroup": own[".zgroup"]}
    (tmp_path / ".zmetadata").write_text(json.dumps({"zarr_consolidated_format": 1, "metadata": told}))
    assert list(zvcore.open(tmp_path)) == ["a", "b"]
    (problem,) = zvcore.verify(tmp_path).problems
    assert problem.where == ".zmetadata" and problem.fatal and "names of members" in str(problem)
