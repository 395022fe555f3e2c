"""`zvcore.open` and `zvcore.create`: what is asked for is done or refused, in the words in which it was asked."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import numpy as np
import pytest

import zvcore
from zvcore.errors import UnsupportedError, ZvcoreError

if TYPE_CHECKING:
    from pathlib import Path

MAKERS = [name for name, one in zvcore.formats().items() if one.makes_arrays]
SMALL = {"shape": (8, 8, 8), "dtype": "u1", "chunks": (4, 4, 4)}


def test_a_codec_that_is_asked_for_is_never_replaced_in_silence(tmp_path: Path) -> None:
    with pytest.raises(ZvcoreError, match="zstd"):
        zvcore.create(tmp_path / "v", format="precomputed", sharding="advise", codec="zstd", **SMALL)
    made = zvcore.create(tmp_path / "w", format="precomputed", sharding="advise", **SMALL)
    assert made.codec.name == "gzip"


def test_codecs_are_a_tuple_whether_there_is_one_or_several_or_none(tmp_path: Path) -> None:
    for number, (given, names) in enumerate(
        [(None, ()), ("zstd", ("zstd",)), ([{"name": "shuffle", "elementsize": 4}, "zstd"], ("shuffle", "zstd"))]
    ):
        made = zvcore.create(tmp_path / str(number), format="zarr3", codec=given, **SMALL)
        assert tuple(codec.name for codec in made.codecs) == names
        assert made.info["codec"] == (", ".join(map(repr, made.codecs)) or "none")
    volume = zvcore.create(tmp_path / "v", format="precomputed", codec="raw", **SMALL)
    assert volume.codecs == (() if volume.codec is None else (volume.codec,))


@pytest.mark.parametrize("format", MAKERS)
def test_unknown_options_are_refused_in_the_words_of_the_user(tmp_path: Path, format: str) -> None:
    with pytest.raises(TypeError, match=f"{format} has no option 'chunk'"):
        zvcore.create(tmp_path / "a", format=format, chunk=(2, 2, 2), **SMALL)
    assert not any(tmp_path.rglob("*.json")) and not any(tmp_path.rglob("info"))
    zvcore.create(tmp_path / "a", format=format, **SMALL)
    with pytest.raises(TypeError, match=f"{format} has no option 'threadz' for opening; it has .*threads"):
        zvcore.open(tmp_path / "a", threadz=1)


def test_a_shape_of_shards_for_a_format_without_shards_is_an_option_that_it_has_not(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"n5 has no option 'shards' for creating; it has .*chunks"):
        zvcore.create(tmp_path / "a", format="n5", shards=(8, 8, 8), **SMALL)


def test_values_of_options_are_looked_at_where_nothing_is_sharded(tmp_path: Path) -> None:
    zvcore.open(tmp_path / "g", "w", format="zarr3").create_dataset("a", shape=(4,), dtype="u1", chunks=(2,))
    for path in ("g", "g/a"):
        with pytest.raises(ValueError, match="write_mode is 'rewrite', 'append' or 'inplace', not 'nonsense'"):
            zvcore.open(tmp_path / path, write_mode="nonsense")
        with pytest.raises(ValueError, match="write_mode"):
            zvcore.open(tmp_path / path, "r+", format="zarr3", write_mode="nonsense")


@pytest.mark.parametrize("format", zvcore.formats())
def test_mode_w_begins_an_empty_group_or_says_that_there_is_none(tmp_path: Path, format: str) -> None:
    if zvcore.formats()[format].begins_groups:
        group = zvcore.open(tmp_path / "g", "w", format=format)
        assert group.kind == "group" and not list(group.children())
    else:
        with pytest.raises(UnsupportedError, match="no empty groups"):
            zvcore.open(tmp_path / "g", "w", format=format)
        assert not (tmp_path / "g").exists()


@pytest.mark.parametrize(
    ("dtype", "fill"), [("U3", ""), ("S3", b""), ("M8[s]", np.datetime64(0, "s")), ("u1", 0), ("f4", 0.0), ("?", False)]
)
def test_what_has_no_fill_value_is_filled_with_nothing(tmp_path: Path, dtype: str, fill: object) -> None:
    array = zvcore.create(tmp_path / "a", format="zarr3", shape=(2,), dtype=dtype, chunks=(2,))
    assert array[0] == fill and array.fill_value == fill


@pytest.mark.parametrize("format", MAKERS)
def test_what_is_opened_says_what_it_is(tmp_path: Path, format: str) -> None:
    zvcore.create(tmp_path / "a", format=format, **SMALL)[...] = 1
    node = zvcore.open(tmp_path / "a")
    assert isinstance(node, zvcore.format.Node) and node.format == format and node.path == ""
    array = node if node.kind == "array" else next(iter(node.children().values()))
    assert array.kind == "array" and array.store.root == node.store.root and not array.children()
    image = zvcore.formats()[format].read_image(node)
    assert image is not None and len(image.axes) == array.ndim and image.labels == (image.kind == "segmentation")


@pytest.mark.parametrize("name", [name for name, one in zvcore.formats().items() if one.begins_groups])
def test_groups_refuse_options_in_words_for_users(tmp_path, name):
    group = zvcore.open(tmp_path / "g", "w", format=name)
    before = sorted(path.name for path in tmp_path.rglob("*"))
    with pytest.raises(TypeError, match=rf"{name} has no option 'nonsense' for creating; it has shape"):
        group.create_dataset("a/b", shape=(4,), dtype="u1", nonsense=1)
    with pytest.raises(TypeError, match=rf"an array of {name} is not created without shape"):
        group.create_dataset("a/b", dtype="u1")
    assert sorted(path.name for path in tmp_path.rglob("*")) == before
    assert group.create_dataset("a/b", shape=(4,), dtype="u1").shape == (4,)
    for inner in zvcore.formats()[name].inner_options:
        with pytest.raises(TypeError, match="has no option"):
            zvcore.create(tmp_path / "x", format=name, shape=(4,), dtype="u1", **{inner: None})


@pytest.mark.parametrize("format", [name for name, one in zvcore.formats().items() if one.begins_groups])
def test_a_group_does_not_remove_itself(tmp_path: Path, format: str) -> None:
    group = zvcore.open(tmp_path / "g", "w", format=format)
    group.create_dataset("a", **SMALL)[...] = 1
    for name in ("", "/"):
        with pytest.raises(ValueError, match="cannot remove itself"):
            del group[name]
    assert (zvcore.open(tmp_path / "g")["a"][...] == 1).all()
    del group["a"]
    assert list(zvcore.open(tmp_path / "g")) == []


def test_the_four_questions_of_care_have_one_signature(tmp_path: Path) -> None:
    shared = {"path", "threads", "format", "storage_options"}
    questions = ("verify", "repair", "compact", "inspect")
    for name in questions:
        assert shared <= inspect.signature(getattr(zvcore, name)).parameters.keys(), name
    for one in zvcore.formats().values():
        care = one.care()
        for name in questions:
            taken = inspect.signature(getattr(care, name)).parameters
            assert {"store", "only", "threads"} <= taken.keys(), (one.name, name)


@pytest.mark.parametrize("format", MAKERS)
def test_inspect_finds_the_same_by_several_requests_at_once(tmp_path: Path, format: str) -> None:
    shards = {"zarr3": {"shards": (8, 8, 4)}, "precomputed": {"sharding": "advise"}}.get(format, {})
    zvcore.create(tmp_path / "a", format=format, **SMALL, **shards)[...] = 7
    found = zvcore.inspect(tmp_path / "a")
    array = found["scales"][0] if "scales" in found else found
    assert array["objects"] > 0 and array["stored_bytes"] > 0
    assert zvcore.inspect(tmp_path / "a", threads=3) == found


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "n5", "precomputed"])
def test_a_text_is_no_answer_to_yes_or_no(tmp_path: Path, format: str) -> None:
    values = np.ones((4, 4, 4), np.uint8)
    zvcore.create(tmp_path / "kept", format=format, data=values)
    for options in ({"overwrite": "no"}, {"overwrite": b"no"}):
        with pytest.raises(TypeError, match=r"overwrite is True or False, not b?'no'"):
            zvcore.create(tmp_path / "kept", format=format, shape=(4, 4, 4), dtype="u1", **options)
        with pytest.raises(TypeError, match=r"overwrite is True or False, not b?'no'"):
            zvcore.convert(values, tmp_path / "kept", format=format, **options)
    for name in ("verify", "strict", "skip_unsupported", "manifest"):
        with pytest.raises(TypeError, match=f"{name} is True or False"):
            zvcore.plan(values, tmp_path / "other", format=format, **{name: "no"})
    kept = zvcore.open(tmp_path / "kept", **({"scale": 0} if format == "precomputed" else {}))
    assert (kept[...] == 1).all()


@pytest.mark.parametrize("region", ["0:2", ("0:2",), 1.5, (True,), (None,), {1}], ids=repr)
def test_a_region_of_a_conversion_has_integers_and_slices(tmp_path: Path, region: object) -> None:
    with pytest.raises(TypeError, match="axis 0: a region has integers and slices"):
        zvcore.convert(np.ones((4, 4), np.uint8), tmp_path / "a", format="zarr3", region=region)


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "n5", "precomputed"])
@pytest.mark.parametrize("attrs", ["a", True, 5, ["ab c"], [1]], ids=repr)
def test_attributes_are_names_and_values(tmp_path: Path, format: str, attrs: object) -> None:
    with pytest.raises(TypeError, match="attributes are names and their values"):
        zvcore.create(tmp_path / "a", format=format, shape=(4, 4, 4), dtype="u1", attrs=attrs)
    assert not (tmp_path / "a").exists() or not any((tmp_path / "a").iterdir())
