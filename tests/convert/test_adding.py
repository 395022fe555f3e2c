"""Converting into a container that is there adds to it and touches nothing else; consolidated metadata follow."""

from __future__ import annotations

import json

import numpy as np
import pytest

import zvcore
from tests.convert.interrupting import MEMORY, source
from zvcore.converting.note import KEY
from zvcore.errors import ConflictError, UnsupportedError

VALUES = np.arange(24, dtype="u1").reshape(2, 3, 4)
formats = pytest.mark.parametrize("format", ["n5", "zarr3"])


def array(path, values=VALUES, **options):
    made = zvcore.create(path, format="zarr3", shape=values.shape, dtype=values.dtype, chunks=(2, 2, 2), **options)
    made[...] = values
    return path


def group(path, format="zarr3", attrs=None, **members):
    made = zvcore.open(path, "w", format=format)
    made.attrs.update(attrs or {})
    for name, values in members.items():
        made.create_dataset(name, shape=values.shape, dtype=values.dtype, chunks=(2, 2, 2))[...] = values
    return path


def state(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


class Stop(Exception):
    pass


def stop(done, total):
    if done:
        raise Stop


@formats
def test_an_array_goes_into_a_container_that_is_there(format, tmp_path):
    """As Java's N5 and zarr-python have it."""
    group(tmp_path / "c", format)
    report = zvcore.convert(array(tmp_path / "src"), tmp_path / "c" / "d", format=format)
    assert report.ok
    found = zvcore.open(tmp_path / "c")["d"][...]
    assert np.array_equal(found.T if format == "n5" else found, VALUES)


@formats
@pytest.mark.parametrize("levels", [0, 1])
def test_a_group_adds_its_members_to_one_that_is_there(format, levels, tmp_path):
    c = group(tmp_path / "c", format, {"lab": "ours"}, old=VALUES)
    before = state(c / "old")
    src = group(tmp_path / "src", attrs={"made": [1]}, new=VALUES)
    zvcore.open(src, "r+").create_dataset("in/ner", shape=(4,), dtype="u1", chunks=(2,))[...] = 7
    plan = zvcore.plan(src, c, format=format, levels=levels)
    assert not plan.replaces
    report = zvcore.convert(src, c, format=format, levels=levels, verify=True)
    assert report.verified and not (c / KEY).exists()
    found = zvcore.open(c)
    assert sorted(found) == ["in", "new", "old"]
    assert found.attrs["lab"] == "ours" and found.attrs["made"] == [1]
    assert {path: data for path, data in state(c).items() if "old" in path.parts} == before
    assert zvcore.verify(c).ok
    assert zvcore.convert(src, c, format=format, levels=levels).already_finished


@formats
def test_a_member_that_is_there_is_refused(format, tmp_path):
    c = group(tmp_path / "c", format, new=VALUES)
    src = group(tmp_path / "src", new=VALUES + 1, other=VALUES)
    before = state(c)
    for ask in (zvcore.convert, zvcore.plan):
        with pytest.raises(ConflictError, match="something is here already; overwrite=True replaces it and all else"):
            ask(src, c, format=format)
    with pytest.raises(ConflictError, match=r"something is here already; overwrite=True replaces it$"):
        zvcore.convert(tmp_path / "src" / "new", c / "new", format=format)
    with pytest.raises(ConflictError):
        zvcore.convert(tmp_path / "src" / "new", c, format=format)
    assert state(c) == before
    zvcore.convert(tmp_path / "src" / "new", c / "new", format=format, overwrite=True)
    found = zvcore.open(c)["new"][...]
    assert np.array_equal(found.T if format == "n5" else found, VALUES + 1)


@formats
def test_an_array_in_place_of_a_group_and_a_group_in_place_of_an_array_are_refused(format, tmp_path):
    c = group(tmp_path / "c", format, a=VALUES)
    zvcore.open(c, "r+").create_dataset("b/deep", shape=(2,), dtype="u1", chunks=(2,))
    src = group(tmp_path / "src")
    zvcore.open(src, "r+").create_dataset("a/deep", shape=(2,), dtype="u1", chunks=(2,))
    other = group(tmp_path / "other", b=VALUES)
    before = state(c)
    for one in (src, other):
        with pytest.raises(ConflictError):
            zvcore.convert(one, c, format=format)
    assert state(c) == before


@formats
def test_an_attribute_that_would_change_is_refused(format, tmp_path):
    c = group(tmp_path / "c", format, {"lab": "ours", "same": {"a": [1]}})
    src = group(tmp_path / "src", attrs={"lab": "theirs", "same": {"a": [1]}}, new=VALUES)
    before = state(c)
    with pytest.raises(ConflictError, match="another attribute 'lab'"):
        zvcore.convert(src, c, format=format)
    assert state(c) == before


def test_another_format_is_not_added_to(tmp_path):
    c = group(tmp_path / "c", "n5", old=VALUES)
    with pytest.raises(ConflictError, match="already"):
        zvcore.convert(group(tmp_path / "src", new=VALUES), c, format="zarr3")


@formats
def test_adding_that_was_interrupted_is_resumed(format, tmp_path):
    c = group(tmp_path / "c", format, old=VALUES)
    source(tmp_path / "src")
    given = {"format": format, "memory": MEMORY, "chunks": (20, 20, 20)}
    src = group(tmp_path / "all")
    zvcore.convert(tmp_path / "src", src / "new", format="zarr3")
    with pytest.raises(Stop):
        zvcore.convert(src, c, **given, threads=1, progress=stop)
    assert zvcore.verify(c).status == "unfinished"
    report = zvcore.convert(src, c, **given)
    assert report.resumed and zvcore.verify(c).ok and sorted(zvcore.open(c)) == ["new", "old"]


@formats
def test_overwriting_what_was_being_added_removes_no_more_than_that(format, tmp_path):
    c = group(tmp_path / "c", format, old=VALUES)
    source(tmp_path / "src")
    src = group(tmp_path / "all")
    zvcore.convert(tmp_path / "src", src / "new", format="zarr3")
    with pytest.raises(Stop):
        zvcore.convert(src, c, format=format, memory=MEMORY, threads=1, progress=stop)
    with pytest.raises(ConflictError, match="another conversion"):
        zvcore.convert(src, c, format=format, chunks=(30, 30, 30))
    report = zvcore.convert(src, c, format=format, chunks=(30, 30, 30), overwrite=True, verify=True)
    assert report.verified and not report.resumed
    found = zvcore.open(c)
    assert sorted(found) == ["new", "old"] and found["new"].chunks == (30, 30, 30)
    assert zvcore.verify(c).ok


# --- consolidated metadata


def consolidated(path):
    document = json.loads((path / "zarr.json").read_text())
    told = document.get("consolidated_metadata")
    return None if told is None else sorted(told["metadata"])


@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
@pytest.mark.parametrize("asked", [None, True, False])
@pytest.mark.parametrize("has", [True, False])
def test_consolidated_metadata_are_written_where_the_source_had_them_or_where_they_are_asked_for(asked, has, tmp_path):
    import zarr

    src = group(tmp_path / "src", attrs={"a": 1}, new=VALUES)
    zvcore.open(src, "r+").create_dataset("in/ner", shape=(4,), dtype="u1", chunks=(2,))[...] = 7
    if has:
        zarr.consolidate_metadata(src)
    zvcore.convert(src, tmp_path / "dst", format="zarr3", consolidate=asked)
    wanted = has if asked is None else asked
    assert consolidated(tmp_path / "dst") == (["in", "in/ner", "new"] if wanted else None)
    assert zvcore.verify(tmp_path / "dst").problems == []
    found = zarr.open_group(tmp_path / "dst", mode="r", use_consolidated=wanted or None)
    assert (found.metadata.consolidated_metadata is not None) == wanted
    assert sorted(name for name, _ in found.members(max_depth=None)) == ["in", "in/ner", "new"]
    assert found["in/ner"][:].tolist() == [7] * 4 and found.attrs["a"] == 1
    if wanted:
        # What zarr-python would write itself means the same.
        ours = json.loads((tmp_path / "dst" / "zarr.json").read_text())["consolidated_metadata"]["metadata"]
        zarr.consolidate_metadata(tmp_path / "dst")
        theirs = json.loads((tmp_path / "dst" / "zarr.json").read_text())["consolidated_metadata"]["metadata"]
        assert ours.keys() == theirs.keys()


def test_what_is_added_is_told_where_a_group_tells_of_all(tmp_path):
    c = group(tmp_path / "c", old=VALUES)
    zvcore.convert(c, tmp_path / "d", format="zarr3", consolidate=True)
    zvcore.convert(group(tmp_path / "src", new=VALUES), tmp_path / "d", format="zarr3")
    assert consolidated(tmp_path / "d") == ["new", "old"]
    assert sorted(zvcore.open(tmp_path / "d")) == ["new", "old"]


def test_pyramids_are_consolidated_with_all_that_describes_them(tmp_path):
    zvcore.convert(array(tmp_path / "src"), tmp_path / "dst", format="zarr3", levels=1, consolidate=True)
    assert consolidated(tmp_path / "dst") == ["0", "1"]
    assert zvcore.verify(tmp_path / "dst").problems == []
    assert "ome" in zvcore.open(tmp_path / "dst").attrs


@pytest.mark.parametrize("format", ["n5", "precomputed"])
def test_formats_without_them_refuse_before_anything_is_written(format, tmp_path):
    with pytest.raises(UnsupportedError, match="no consolidated metadata"):
        zvcore.convert(array(tmp_path / "src"), tmp_path / "dst", format=format, consolidate=True)
    with pytest.raises(UnsupportedError, match="only groups"):
        zvcore.convert(tmp_path / "src", tmp_path / "dst", format="zarr3", consolidate=True)
    assert not (tmp_path / "dst").exists()
