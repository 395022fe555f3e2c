"""The table of members: what it loads, what it saves, and how it speaks of what is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zvcore.documents.members import (
    Anything,
    Integer,
    Items,
    Made,
    Member,
    Named,
    Number,
    Object,
    Optional,
    Place,
    Table,
    Text,
)
from zvcore.errors import MetadataError, UnsupportedError, ZvcoreError
from zvcore.report import Problem

SCALE = Table(
    Member("key", Text()),
    Member("size", Items(Integer(1, 8), 3)),
    Member("resolution", Items(Number(positive=True), 3)),
    Member("voxel_offset", Items(Integer(), 3), default=(0, 0, 0), field="offset", null=True),
    Member("hidden", Anything(), default=False, always=True),
)
GRID = Named(UnsupportedError, regular=Table(Member("chunk_shape", Items(Integer(1)))), none=Table())
INFO = Table(
    Member("@type", Text("volume"), default="volume", field="type", always=True),
    Member("scales", Items(SCALE, least=1)),
    Member("grid", GRID, default=None),
    Member("names", Items(Optional(Text())), default=None, null=True),
    Member("more", Object(), default={}),
    Member("count", Items(Integer(0, lenient=True), 2, 3), default=None),
)
GOOD = {"key": "a", "size": [1, 2, 3], "resolution": [1, 1.5, 2]}


def info(**members: Any) -> dict[str, Any]:
    return {"scales": [GOOD], **members}


def scale(**members: Any) -> dict[str, Any]:
    return info(scales=[GOOD, {**GOOD, **members}])


def test_a_document_is_loaded_and_saved_by_one_table() -> None:
    document = info(grid={"name": "regular", "configuration": {"chunk_shape": [4]}}, names=["x", None], unknown=5)
    found = INFO.load(document, Place("info"))
    assert found["type"] == "volume" and found["names"] == ("x", None)
    assert found["grid"] == ("regular", {"chunk_shape": (4,)})
    assert found["scales"][0] == {
        "key": "a", "size": (1, 2, 3), "resolution": (1, 1.5, 2), "offset": (0, 0, 0), "hidden": False,
    }  # fmt: skip
    saved = INFO.dump(found)
    assert saved == {
        "@type": "volume",
        "scales": [{**GOOD, "hidden": False}],
        "grid": document["grid"],
        "names": ["x", None],
    }
    assert INFO.load(json.loads(json.dumps(saved)), Place("info")) == found


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (scale(resolution="x"), "info: $.scales[1].resolution: expected three positive numbers, found 'x'"),
        (scale(resolution=[1, 1]), "info: $.scales[1].resolution: expected three positive numbers, found [1, 1]"),
        (scale(resolution=[1, 0, 1]), "info: $.scales[1].resolution[1]: expected a positive number, found 0"),
        (scale(resolution=[1, True, 1]), "info: $.scales[1].resolution[1]: expected a positive number, found True"),
        (scale(size=None), "info: $.scales[1].size: expected three integers from 1 to 8, found None"),
        (scale(size=[1, 2, 2.0]), "info: $.scales[1].size[2]: expected an integer from 1 to 8, found 2.0"),
        (scale(size=[1, 2, 9]), "info: $.scales[1].size[2]: expected an integer from 1 to 8, found 9"),
        (scale(voxel_offset=[0, 0, "a"]), "info: $.scales[1].voxel_offset[2]: expected an integer, found 'a'"),
        ({}, "info: $.scales: expected a list of objects that is not empty, found nothing"),
        (info(scales=[]), "info: $.scales: expected a list of objects that is not empty, found []"),
        (info(scales=[GOOD, 5]), "info: $.scales[1]: expected an object, found 5"),
        (info(**{"@type": "mesh"}), "info: $[\"@type\"]: expected 'volume', found 'mesh'"),
        (info(names=[5]), "info: $.names[0]: expected a string or null, found 5"),
        (info(grid=5), "info: $.grid: expected a name, or an object with a name, found 5"),
        (info(grid="odd"), "info: $.grid: expected 'regular' or 'none', found 'odd'"),
        (info(grid={"name": "odd"}), "info: $.grid.name: expected 'regular' or 'none', found 'odd'"),
        (
            info(grid="regular"),
            "info: $.grid.configuration.chunk_shape: expected a list of positive integers, found nothing",
        ),
        (info(grid={"name": "none", "configuration": 1}), "info: $.grid.configuration: expected an object, found 1"),
        (info(count=[1]), "info: $.count: expected two or three integers of at least 0, found [1]"),
        ([], "info: $: expected an object, found []"),
        (info(more="x" * 500), f"info: $.more: expected an object, found {repr('x' * 500)[:77]}..."),
    ],
)  # fmt: skip
def test_errors_say_the_path_and_what_is_expected(document: Any, text: str) -> None:
    with pytest.raises(ZvcoreError) as caught:
        INFO.load(document, Place("info"))
    assert str(caught.value) == text
    problem = Problem.of(caught.value)
    assert problem.where == "info" and f"info: {problem.what}" == text
    assert caught.value.member == text.split(": ")[1]


def test_what_is_not_supported_is_distinguished_from_what_is_wrong() -> None:
    with pytest.raises(UnsupportedError):
        GRID.load("odd", Place("a"))
    for wrong in (5, {"name": 5}, {"name": "none", "configuration": []}):
        with pytest.raises(MetadataError):
            GRID.load(wrong, Place("a"))


@pytest.mark.parametrize("value", [4, 4.0, "4", " 4 ", "4.00"], ids=repr)
def test_numbers_as_other_languages_have_them(value: Any) -> None:
    assert Integer(0, lenient=True).load(value, Place("a")) == 4


def test_errors_of_others_name_the_member() -> None:
    def refuse(value: Any, place: Place) -> Any:
        raise MetadataError("no such thing", found=value)

    with pytest.raises(MetadataError) as caught:
        Table(Member("a", Made(refuse))).load({"a": 5}, Place("info"))
    assert str(caught.value) == "info: $.a: no such thing (found 5)"


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
LIKELY = st.sampled_from(
    ["key", "size", "resolution", "voxel_offset", "hidden", "scales", "grid", "names", "more", "count", "@type", "name",
     "configuration", "chunk_shape"]
)  # fmt: skip
DOCUMENTS = st.recursive(
    ANY | st.sampled_from(["volume", "regular", [1, 2, 3]]),
    lambda inner: st.dictionaries(LIKELY, inner, max_size=5) | st.lists(inner, max_size=3),
    max_leaves=20,
)


@given(DOCUMENTS)
def test_any_json_is_loaded_or_refused(document: Any) -> None:
    try:
        found = INFO.load(document, Place("info"))
    except ZvcoreError as error:
        refused = str(error)
    else:
        # Not by value: NaN is not what it is.
        assert repr(INFO.load(INFO.dump(found), Place("info"))) == repr(found)
        return
    assert refused.startswith("info: $")


@given(
    st.fixed_dictionaries(
        {
            "key": st.text(),
            "size": st.tuples(*[st.integers(1, 8)] * 3),
            "resolution": st.tuples(*[st.floats(0, exclude_min=True, allow_infinity=False)] * 3),
            "offset": st.tuples(*[st.integers()] * 3),
            "hidden": st.booleans(),
        }
    )
)
def test_what_is_saved_is_loaded_again(values: dict[str, Any]) -> None:
    assert SCALE.load(json.loads(json.dumps(SCALE.dump(values))), Place("info")) == values
