"""Groups of every format: what is set on them is written or refused, and what is made in them has a name."""

from __future__ import annotations

import pytest

import zvcore
from zvcore.errors import InvalidKeyError, ZvcoreError

GROUPS = ["n5", "zarr2", "zarr3"]


@pytest.mark.parametrize("format", [*GROUPS, "precomputed"])
def test_attributes_that_are_set_as_a_whole_are_no_dict_that_nobody_writes(tmp_path, format):
    if format == "precomputed":
        zvcore.create(tmp_path / "g", format=format, shape=(4, 4, 4), dtype="u1")
        group = zvcore.open(tmp_path / "g", "r+")
    else:
        group = zvcore.open(tmp_path / "g", "w", format)
    group.attrs["a"] = 1
    with pytest.raises(AttributeError, match="attrs"):
        group.attrs = {"b": 2}
    assert group.attrs["a"] == 1 and "b" not in group.attrs


@pytest.mark.parametrize("format", GROUPS)
@pytest.mark.parametrize("name", ["", "/", 5, None, b"a", True], ids=repr)
def test_what_is_made_in_a_group_has_a_name(tmp_path, format, name):
    group = zvcore.open(tmp_path / "g", "w", format)
    group.create_dataset("kept", shape=(3,), dtype="u1")[...] = 7
    with pytest.raises((TypeError, ValueError)) as caught:
        group.create_group(name, overwrite=True)
    assert not isinstance(caught.value, ZvcoreError)
    with pytest.raises((TypeError, ValueError)):
        group.create_dataset(name, shape=(3,), dtype="u1", overwrite=True)
    assert group["kept"][...].tolist() == [7, 7, 7]


@pytest.mark.parametrize("format", [*GROUPS, "precomputed"])
def test_a_group_is_equal_to_itself_alone(tmp_path, format):
    places = [tmp_path / "a", tmp_path / "b"]
    for place in places:
        if format == "precomputed":
            zvcore.create(place, format=format, shape=(4, 4, 4), dtype="u1")
        else:
            zvcore.open(place, "w", format)
    one, other = map(zvcore.open, places)
    assert one == one and one != other and {one: 1, other: 2}[one] == 1
    if format != "precomputed":
        zvcore.open(places[0], "r+").create_dataset("x", shape=(3,), dtype="u1")
        assert one == one and len(one) == 1


@pytest.mark.parametrize(
    ("format", "name"),
    [
        ("zarr3", "zarr.json"),
        ("zarr3", "a/zarr.json/b"),
        ("zarr2", ".zarray"),
        ("zarr2", "a/.zattrs"),
        ("n5", "attributes.json"),
    ],
)
def test_members_do_not_take_the_places_of_documents(tmp_path, format, name):
    group = zvcore.open(tmp_path / "g", "w", format=format)
    for make in (group.create_group, lambda path: group.create_dataset(path, shape=(2,), dtype="u1", chunks=(1,))):
        with pytest.raises(InvalidKeyError, match="as the format calls a document"):
            make(name)
    assert not [*zvcore.open(tmp_path / "g")] and not [path for path in (tmp_path / "g").iterdir() if path.is_dir()]
