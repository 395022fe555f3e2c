"""Groups that say what is in them: members are found by that, at every depth, and it is held against the members."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import zvcore
from zvcore.errors import NotFoundError
from zvcore.stores import LocalStore, Store

pytestmark = pytest.mark.filterwarnings("ignore:Consolidated metadata")


@pytest.fixture
def consolidated(tmp_path: Path) -> Path:
    """What zarr-python makes of groups in groups, of which one was consolidated before."""
    root = zarr.create_group(tmp_path)
    for name in ("raw/scan", "raw/deep/er/label", "rawer/other", "plain"):
        root.create_array(name, shape=(4,), dtype="u2", chunks=(2,))[...] = 5
    root.create_group("empty")
    zarr.consolidate_metadata(tmp_path, path="raw/deep")
    zarr.consolidate_metadata(tmp_path)
    return tmp_path


def test_groups_in_groups_have_their_members(consolidated: Path) -> None:
    group = zvcore.open(consolidated)
    assert list(group) == ["empty", "plain", "raw", "rawer"]
    assert list(group["raw"]) == ["deep", "scan"]
    assert list(group["rawer"]) == ["other"]
    assert list(group["empty"]) == []
    assert (group["raw"]["scan"][...] == 5).all()
    assert "scan" in group["raw"]
    assert "other" not in group["raw"]
    for inner in (group["raw/deep"], group["raw"]["deep"]):
        assert list(inner) == ["er"]
        assert list(inner["er"]) == ["label"]
        assert (inner["er/label"][...] == 5).all()
        assert (inner["er"]["label"][...] == 5).all()
    with pytest.raises(NotFoundError):
        group["raw"]["er"]


class Far(LocalStore):
    """A folder over a network, which counts the documents that it is asked for."""

    remote = True

    def __init__(self, path: Path, asked: list[str]) -> None:
        super().__init__(path, read_only=True)
        self.asked = asked

    def child(self, prefix: str) -> LocalStore:
        return Far(Path(self.root) / prefix, self.asked)

    def get(self, key: str, *args: Any, **options: Any) -> Any:
        if key.endswith("zarr.json"):
            self.asked.append(key)
        return super().get(key, *args, **options)

    def version(self, key: str) -> Any:
        return Store.version(self, key)


def test_members_of_groups_in_groups_are_not_looked_for_far_away(consolidated: Path) -> None:
    asked: list[str] = []
    group = zvcore.open(Far(consolidated, asked))
    asked.clear()
    assert list(group) == ["empty", "plain", "raw", "rawer"]
    assert list(group["raw"]) == ["deep", "scan"]
    assert "plain" in group and "no" not in group
    for inner in (group["raw/deep"], group["raw"]["deep"]):
        assert list(inner) == ["er"]
        assert (inner["er/label"][...] == 5).all()
    with pytest.raises(NotFoundError):
        group["raw"]["er"]
    assert asked == []


def test_members_near_by_are_what_they_are_and_not_what_the_group_tells(consolidated: Path) -> None:
    """Others replace, add and remove members without telling the group."""
    shutil.rmtree(consolidated / "plain")
    zarr.create_array(consolidated / "plain", shape=(4,), dtype="i2", chunks=(2,))[...] = -1
    zarr.create_array(consolidated / "new", shape=(4,), dtype="u2", chunks=(2,))[...] = 5
    shutil.rmtree(consolidated / "rawer")
    group = zvcore.open(consolidated)
    assert list(group) == ["empty", "new", "plain", "raw"]
    assert group["plain"].dtype == np.int16
    assert (group["plain"][...] == -1).all()
    assert "new" in group and "rawer" not in group
    with pytest.raises(NotFoundError):
        group["rawer/other"]


def test_a_group_without_consolidated_metadata_is_looked_at_itself(consolidated: Path) -> None:
    """Others may write members without what is in them."""
    document = json.loads((consolidated / "zarr.json").read_text())
    told = document["consolidated_metadata"]["metadata"]
    for name in list(told):
        if "/" in name:
            del told[name]
        else:
            told[name].pop("consolidated_metadata", None)
    (consolidated / "zarr.json").write_text(json.dumps(document))
    assert list(zvcore.open(Far(consolidated, []))["raw"]) == ["deep", "scan"]


def told_of_x(path: Path, **changes: Any) -> Path:
    """A group whose word about its array x is the array's own document with these changes; None takes a member away."""
    own = json.loads((path / "x/zarr.json").read_text())
    told = {name: value for name, value in {**own, **changes}.items() if value is not None}
    document = json.loads((path / "zarr.json").read_text())
    document["consolidated_metadata"] = {"kind": "inline", "must_understand": False, "metadata": {"x": told}}
    (path / "zarr.json").write_text(json.dumps(document))
    return path


@pytest.fixture
def written(tmp_path: Path) -> Path:
    group = zvcore.open(tmp_path, "w", format="zarr3")
    group.create_dataset("x", shape=(4, 4), dtype="u1", chunks=(2, 2), shards=(4, 4), codec=["zstd", "crc32c"])
    return tmp_path


BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
ZSTD = {"name": "zstd", "configuration": {"level": 3, "checksum": False}}


def sharded(inner: int = 2, location: str | None = None, zstd: Any = ZSTD, crc: Any = "crc32c") -> Any:
    configuration: dict[str, Any] = {"chunk_shape": [inner, inner], "codecs": [BYTES, zstd, crc]}
    configuration["index_codecs"] = [BYTES, {"name": "crc32c", "configuration": {}}]
    if location is not None:
        configuration["index_location"] = location
    return [{"name": "sharding_indexed", "configuration": configuration}]


@pytest.mark.parametrize(
    "change",
    [
        {"storage_transformers": []},
        {"attributes": {}},
        {"attributes": None},
        {"dimension_names": [None, None]},
        {"fill_value": 0.0},
        {"chunk_key_encoding": {"name": "default"}},
        {"data_type": {"name": "uint8"}},
        {"codecs": sharded()},
        {"codecs": sharded(location="end", crc={"name": "crc32c", "configuration": {}})},
    ],
    ids=str,
)
def test_another_spelling_of_a_member_is_not_out_of_date(written: Path, change: dict[str, Any]) -> None:
    report = zvcore.verify(told_of_x(written, **change))
    assert report.ok
    assert report.problems == []


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [4, 5]},
        {"fill_value": 1},
        {"data_type": "int8"},
        {"chunk_key_encoding": {"name": "v2"}},
        {"codecs": sharded(location="start")},
        {"codecs": sharded(inner=4)},
        {"codecs": sharded(zstd={"name": "zstd", "configuration": {"level": 1, "checksum": False}})},
        {"codecs": sharded(zstd={"name": "nobody.knows"})},
        {"storage_transformers": [{"name": "nobody.knows"}]},
        {"node_type": "group"},
    ],
    ids=str,
)
def test_what_a_group_says_otherwise_is_out_of_date(written: Path, change: dict[str, Any]) -> None:
    report = zvcore.verify(told_of_x(written, **change))
    assert not report.ok
    (problem,) = report.problems
    assert next(iter(change)) in str(problem)


def test_other_attributes_are_out_of_date_but_do_no_harm(written: Path) -> None:
    report = zvcore.verify(told_of_x(written, attributes={"a": 1}))
    assert report.ok
    assert "attributes" in str(report.problems[0])


@pytest.mark.filterwarnings("ignore")
def test_what_zarr_python_has_just_consolidated_is_sound(tmp_path: Path) -> None:
    """It writes documents of its own; zarr-python 3.1 with all defaults."""
    group = zvcore.open(tmp_path, "w", format="zarr3")
    for dtype in ("u1", "f4", "c8", "M8[s]", "U3", "S2", str, bytes):
        for number, options in enumerate(
            [{}, {"codec": None}, {"codec": ["zstd", "crc32c"]}, {"codec": "blosc"}, {"shards": (4,), "codec": "gzip"}]
        ):
            name = f"{np.dtype(dtype).name}{dtype is bytes}{number}"
            group.create_dataset(name, shape=(4,), dtype=dtype, chunks=(2,), attrs={"nested": [1.5]}, **options)
    group.create_dataset("lost", shape=(4,), dtype="f4", chunks=(2,), fill_value=np.nan)
    group["lost"].attrs["unit"] = "nm"
    group.create_group("in/ner")
    zarr.consolidate_metadata(tmp_path)
    report = zvcore.verify(tmp_path)
    assert report.problems == []
    assert report.ok


@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
@pytest.mark.parametrize("later", ["b", "g/b", "h"])
def test_verify_names_members_that_were_added_behind_the_groups_back(tmp_path: Path, later: str) -> None:
    root = zarr.open_group(tmp_path, mode="w", zarr_format=3)
    for name in ("a", "g/a"):
        root.create_array(name, shape=(4,), dtype="u1", chunks=(2,))
    zarr.consolidate_metadata(root.store)
    assert not zvcore.verify(tmp_path).problems
    zarr.create_array(str(tmp_path), name=later, shape=(4,), dtype="u1", chunks=(2,))
    [problem] = zvcore.verify(tmp_path).problems
    assert f"does not tell of {later}," in str(problem) and not problem.fatal
    zarr.consolidate_metadata(root.store)
    assert not zvcore.verify(tmp_path).problems


@pytest.mark.parametrize("name", ["", "b//c", "/b", "b/", "..", "b/../a", "."])
def test_names_of_no_member_in_what_a_group_tells_are_told(tmp_path: Path, name: str) -> None:
    """The empty one is the group itself: what walks through its members did not end."""
    zvcore.open(tmp_path / "g", "w", format="zarr3").create_array("a", shape=(4,), dtype="u1")
    document = json.loads((tmp_path / "g" / "zarr.json").read_text())
    members = {"a": json.loads((tmp_path / "g" / "a" / "zarr.json").read_text()), name: {**document}}
    told = {**document, "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": members}}
    (tmp_path / "g" / "zarr.json").write_text(json.dumps(told))
    assert "a" in zvcore.inspect(tmp_path / "g")["members"]
    (problem,) = zvcore.verify(tmp_path / "g").problems
    assert problem.where == "zarr.json" and problem.fatal and f"tells of {name!r}," in str(problem)
    if not name:
        zvcore.convert(tmp_path / "g", tmp_path / "to", format="zarr2")
        assert list(zvcore.open(tmp_path / "to")) == ["a"]
