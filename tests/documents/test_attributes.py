"""User attributes, the same in every format."""

from __future__ import annotations

import json
import math
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.documents.values import DEEPEST
from zvcore.errors import MetadataError, NotFoundError, ReadOnlyError

if TYPE_CHECKING:
    from pathlib import Path

FORMATS = ["n5", "zarr3", "precomputed"]


def made(path: Path, format: str, **options: Any) -> Any:
    return zvcore.create(path, format=format, shape=(8, 8, 8), dtype="u1", chunks=(4, 4, 4), **options)


def opened(path: Path, format: str, mode: str = "r") -> Any:
    found = zvcore.open(path, mode=mode)
    return found[0] if format == "precomputed" else found


@pytest.mark.parametrize("format", FORMATS)
def test_attributes_of_an_array_are_written_through(tmp_path: Path, format: str) -> None:
    array = made(tmp_path / "a", format, attrs={"first": {"deep": [1, None]}})
    array.attrs["second"] = np.arange(3)
    array.attrs.update(third=np.float32(0.5), fourth="µ")
    del array.attrs["fourth"]
    for found in (array, opened(tmp_path / "a", format), pickle.loads(pickle.dumps(array))):
        mine = {name: value for name, value in found.attrs.items() if name in ("first", "second", "third", "fourth")}
        assert mine == {"first": {"deep": [1, None]}, "second": [0, 1, 2], "third": 0.5}
    array[...] = 1
    assert (opened(tmp_path / "a", format)[...] == 1).all()
    with pytest.raises(ReadOnlyError):
        opened(tmp_path / "a", format).attrs["x"] = 1


@pytest.mark.parametrize("format", ["n5", "zarr3"])
def test_what_is_no_number_is_read_kept_and_written(tmp_path: Path, format: str) -> None:
    array = made(tmp_path / "a", format, attrs={"x": [math.nan, math.inf]})
    array.attrs["y"] = -math.inf
    array.resize((9, 9, 9))
    found = zvcore.open(tmp_path / "a").attrs
    assert math.isnan(found["x"][0]) and found["x"][1] == math.inf and found["y"] == -math.inf


@pytest.mark.parametrize("source", ["n5", "zarr3"])
@pytest.mark.parametrize("target", FORMATS)
def test_what_is_no_number_stops_no_conversion(tmp_path: Path, source: str, target: str) -> None:
    made(tmp_path / "a", source, attrs={"x": math.nan})[...] = 3
    zvcore.convert(tmp_path / "a", tmp_path / "b", format=target)
    found = opened(tmp_path / "b", target)
    assert (found[...] == 3).all()
    if target != "precomputed":
        assert math.isnan(found.attrs["x"])


def test_zarr_python_reads_and_writes_the_same(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    zarr.create_array(str(tmp_path), shape=(4,), dtype="u1", attributes={"x": float("nan")})
    array = zvcore.open(tmp_path, mode="r+")
    array.attrs["b"] = math.inf
    array.resize((6,))
    theirs = zarr.open_array(str(tmp_path))
    assert math.isnan(theirs.attrs["x"]) and theirs.attrs["b"] == math.inf and theirs.shape == (6,)


def test_attributes_of_zarr_that_are_no_json_are_refused(tmp_path: Path) -> None:
    for attrs in ({"x": object()}, {"x": b""}):
        with pytest.raises(MetadataError, match="what JSON can say"):
            made(tmp_path / "a", "zarr3", attrs=attrs)
    assert not (tmp_path / "a").exists()
    group = zvcore.open(tmp_path / "g", "w", format="zarr3")
    with pytest.raises(MetadataError, match="what JSON can say"):
        group.create_group("x", attrs={"x": {1}})


def test_attributes_nested_too_deep_are_refused(tmp_path: Path) -> None:
    deep: Any = 1
    for _ in range(900):
        deep = [deep]
    for format in FORMATS:
        array = made(tmp_path / format, format)
        with pytest.raises(MetadataError, match="nested too deep"):
            array.attrs["x"] = deep
    document = tmp_path / "n5/attributes.json"
    document.write_text('{"x":' + "[" * 900 + "]" * 900 + "," + document.read_text()[1:])
    for use in (zvcore.open, zvcore.inspect):
        with pytest.raises(MetadataError, match=f"nested too deep.*at most {DEEPEST}"):
            use(tmp_path / "n5")
    assert not zvcore.verify(tmp_path / "n5").ok


@pytest.mark.parametrize("format", [*FORMATS, "zarr2"])
def test_no_document_is_written_that_nobody_could_open(tmp_path: Path, format: str) -> None:
    array = made(tmp_path / format, format)
    written = 0
    for depth in range(DEEPEST - 8, DEEPEST + 2):
        try:
            array.attrs["x"] = json.loads("[" * depth + "]" * depth)
            written = depth
        except MetadataError:
            pass
        assert json.dumps(opened(tmp_path / format, format).attrs["x"]) == "[" * written + "]" * written
    assert written > DEEPEST - 8


@pytest.mark.parametrize("steps", [DEEPEST + 1, 5000])
def test_paths_of_n5_lead_no_deeper_than_a_document_may_be(tmp_path: Path, steps: int) -> None:
    group = zvcore.open(tmp_path / "a", "w", format="n5")
    for path in ("/".join("a" * steps), "a" + "[0]" * steps):
        with pytest.raises(MetadataError, match="deep"):
            group.set_attribute(path, 1)
        assert "a" not in zvcore.open(tmp_path / "a").attrs


class TestVolumes:
    def test_members_that_the_format_does_not_define_are_written_into_info(self, tmp_path: Path) -> None:
        made(tmp_path / "v", "precomputed")
        volume = zvcore.open(tmp_path / "v", mode="r+")
        volume.attrs["note"] = {"by": "me"}
        volume.attrs["mesh"] = "mesh"
        document = json.loads((tmp_path / "v/info").read_text())
        assert document["note"] == {"by": "me"} and document["mesh"] == "mesh"
        assert volume.info == document and volume.attrs["note"] == {"by": "me"}
        del volume.attrs["note"]
        assert "note" not in zvcore.open(tmp_path / "v").attrs
        assert list(volume) == ["1_1_1"]

    def test_what_the_format_says_is_shown_but_not_changed(self, tmp_path: Path) -> None:
        array = made(tmp_path / "v", "precomputed")
        volume = zvcore.open(tmp_path / "v", mode="r+")
        before = (tmp_path / "v/info").read_bytes()
        assert volume.attrs["data_type"] == "uint8" and "scales" not in volume.attrs
        for change in (
            lambda: volume.attrs.update(data_type="uint16"),
            lambda: volume.attrs.update(scales=[]),
            lambda: volume.attrs.pop("type"),
            lambda: array.attrs.update(key="x"),
            lambda: array.attrs.pop("size"),
        ):
            with pytest.raises(MetadataError, match="belong to the format"):
                change()
        assert (tmp_path / "v/info").read_bytes() == before
        with pytest.raises(MetadataError, match="belong to the format"):
            made(tmp_path / "w", "precomputed", attrs={"encoding": "png"})

    def test_javascript_has_no_word_for_what_is_no_number(self, tmp_path: Path) -> None:
        array = made(tmp_path / "v", "precomputed")
        volume = zvcore.open(tmp_path / "v", mode="r+")
        for attrs in (volume.attrs, array.attrs):
            with pytest.raises(MetadataError, match="what JSON can say"):
                attrs["x"] = math.nan

    def test_a_scale_is_found_again_when_others_come_before_it(self, tmp_path: Path) -> None:
        coarse = made(tmp_path / "v", "precomputed", resolution=(8, 8, 8))
        fine = made(tmp_path / "v", "precomputed", resolution=(4, 4, 4))
        coarse.attrs["note"] = 1
        volume = zvcore.open(tmp_path / "v")
        assert volume["8_8_8"].attrs["note"] == 1 and "note" not in volume["4_4_4"].attrs
        document = json.loads((tmp_path / "v/info").read_text())
        document["scales"] = document["scales"][1:]
        (tmp_path / "v/info").write_text(json.dumps(document))
        with pytest.raises(NotFoundError, match="'4_4_4' is gone"):
            fine.attrs["note"] = 1
