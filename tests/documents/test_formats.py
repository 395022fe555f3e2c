"""The tables of the formats: any JSON in any place is read or refused, and what is written is read as the same."""

from __future__ import annotations

import copy
import json
import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from zvcore.documents.members import Place
from zvcore.errors import ZvcoreError
from zvcore.n5.metadata import DatasetMetadata
from zvcore.precomputed.metadata import Scale, VolumeInfo
from zvcore.precomputed.objects import SegmentObjects
from zvcore.precomputed.sharding_spec import ShardingSpec
from zvcore.stores import MemoryStore
from zvcore.zarr3.chain import SHARDING
from zvcore.zarr3.composing import array_document, sharded_codecs
from zvcore.zarr3.metadata import ARRAY, ArrayMetadata, parse_document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
INDEX = {"index_codecs": [BYTES, {"name": "crc32c"}], "index_location": "end"}
SPEC = ShardingSpec(1, "identity", 2, 3, "gzip", "raw").to_json()
SCALE = {
    "key": "8_8_8", "size": [64, 64, 64], "resolution": [8, 8, 8], "voxel_offset": [0, 0, 0],
    "chunk_sizes": [[32, 32, 32]], "encoding": "jpeg", "jpeg_quality": 80, "sharding": SPEC, "hidden": True,
}  # fmt: skip
GOOD: dict[str, dict[str, Any]] = {
    "n5": {"dimensions": [9, 9], "blockSize": [4, 4], "dataType": "uint8", "compression": {"type": "gzip", "level": 5}},
    "zarr3": {
        **array_document(
            (9, 9), "uint16", (4, 4), [{"name": "transpose", "configuration": {"order": [1, 0]}}, BYTES],
            fill_value=5, attributes={"a": 1}, dimension_names=["y", None],
        ),
        "unknown": {"must_understand": False},
    },
    "shards": array_document(
        (9, 9), {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 2}}, (8, 8),
        sharded_codecs((4, 4), sharded_codecs((2, 2), [BYTES, {"name": "gzip", "configuration": {"level": 1}}], INDEX),
        {**INDEX, "index_codecs": [{"name": "transpose", "configuration": {"order": [2, 0, 1]}}, BYTES]}),
        fill_value="NaT", chunk_key_encoding="v2",
    ),
    "group": {
        "zarr_format": 3, "node_type": "group", "attributes": {},
        "consolidated_metadata": {"kind": "inline", "metadata": {"a": {"node_type": "group"}}},
    },
    "volume": {
        "@type": "neuroglancer_multiscale_volume", "type": "image", "data_type": "uint8", "num_channels": 1,
        "scales": [SCALE, {**SCALE, "key": "raw", "encoding": "raw", "sharding": None}],
    },
    "sharding": SPEC,
    "skeletons": {"@type": "neuroglancer_skeletons", "transform": [1.0] * 12, "sharding": SPEC},
}  # fmt: skip


def zarr(document: Any) -> Any:
    found = parse_document(document, "zarr.json")
    return found.pipeline.chain if isinstance(found, ArrayMetadata) else found


def volume(document: Any) -> Any:
    info = VolumeInfo.from_json(document)
    return [info.scale(number) for number in range(len(document["scales"]))]


def objects(document: Any) -> Any:
    store = MemoryStore()
    store.put("info", json.dumps(document).encode())
    return SegmentObjects(store, "r", "neuroglancer_skeletons").transform


READ: dict[str, Callable[[Any], Any]] = {
    "n5": lambda document: DatasetMetadata.parse(document, "attributes.json"),
    "zarr3": zarr,
    "shards": zarr,
    "group": zarr,
    "volume": volume,
    "sharding": ShardingSpec.from_json,
    "skeletons": objects,
}


def paths(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value in a document but the document itself."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in items:
        yield (*here, step)
        yield from paths(item, (*here, step))


def with_value(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(document)
    holder = changed
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value
    return changed


# Most of what follows are likely mistakes rather than any JSON.
NUMBERS = st.sampled_from([0, -1, 1, 2, 3.0, 0.5, 2**31, 2**53 + 1, 2**62, 2**64, 10**400, math.nan, math.inf, 1e300])
TEXTS = st.sampled_from(["", "raw", "bytes", "4", "NaN", "../x", "a\0b", "\ud800", "9" * 5000, "sharding_indexed"])
ANY = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["name", "configuration", "type", "@type", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("name", GOOD)
def test_good_documents_are_read(name: str) -> None:
    READ[name](GOOD[name])


@pytest.mark.parametrize("name", GOOD)
@examples(200)
@given(data=st.data())
def test_any_json_in_any_place_is_read_or_refused(name: str, data: st.DataObject) -> None:
    document = GOOD[name]
    for _ in range(data.draw(st.integers(1, 2))):
        document = with_value(document, data.draw(st.sampled_from(list(paths(document)))), data.draw(ANY))
    try:
        READ[name](document)
    except ZvcoreError as error:
        told = str(error)
        assert told


@pytest.mark.parametrize("name", GOOD)
def test_members_that_are_missing_are_named(name: str) -> None:
    for member in GOOD[name]:
        document = {key: value for key, value in GOOD[name].items() if key != member}
        try:
            READ[name](document)
        except ZvcoreError as error:
            told = str(error)
            assert member.strip("@") in told and ("found nothing" in told or "found None" in told)


SHAPES = st.lists(st.tuples(st.integers(0, 2**62 - 1), st.integers(1, 2**20)), max_size=4)


@given(SHAPES, st.sampled_from(["default", "v2"]), st.sampled_from("/."), st.data())
def test_what_zarr_writes_is_read_as_the_same(shapes: Any, encoding: str, separator: str, data: st.DataObject) -> None:
    shape, chunks = tuple(n for n, _ in shapes), tuple(n for _, n in shapes)
    names = data.draw(st.none() | st.tuples(*[st.none() | st.text(max_size=3)] * len(shape)))
    keys = {"name": encoding, "configuration": {"separator": separator}}
    document = array_document(
        shape, "int8", chunks, [BYTES], fill_value=3, chunk_key_encoding=keys, dimension_names=names
    )
    found = ArrayMetadata.parse(json.loads(json.dumps(document)), "zarr.json")
    assert (found.shape, found.chunk_shape, found.dimension_names) == (shape, chunks, names)
    assert (found.separator, found.key_prefix) == (separator, "c" if encoding == "default" else None)
    loaded = ARRAY.load(document, Place("zarr.json"))
    assert ARRAY.load(json.loads(json.dumps(ARRAY.dump(loaded))), Place("zarr.json")) == loaded


@given(st.lists(st.integers(1), max_size=4), st.sampled_from(["start", "end"]))
def test_what_shards_write_is_read_as_the_same(chunks: list[int], location: str) -> None:
    values = {"chunk_shape": tuple(chunks), "codecs": (BYTES,), "index_codecs": (BYTES,), "index_location": location}
    assert SHARDING.load(json.loads(json.dumps(SHARDING.dump(values))), Place("a")) == values


@given(
    st.lists(st.tuples(st.integers(0, 2**62 - 1), st.integers(1, 30)), max_size=4),
    st.sampled_from(["uint8", "float64", "string", "object"]),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=3),
)
def test_what_n5_writes_is_read_as_the_same(shapes: Any, data_type: str, compression: dict[str, Any]) -> None:
    found = DatasetMetadata(
        tuple(n for n, _ in shapes), tuple(n for _, n in shapes), data_type, {"type": "raw", **compression}, "a"
    )
    assert DatasetMetadata.parse(json.loads(json.dumps(found.to_json())), "a") == found


@given(st.integers(0, 64), st.integers(0, 32), st.integers(0, 32), st.sampled_from(["identity", "murmurhash3_x86_128"]))
def test_what_a_specification_writes_is_read_as_the_same(a: int, b: int, c: int, hash: str) -> None:
    spec = ShardingSpec(a, hash, b, c, "gzip", "raw", {"more": [1]})
    again = ShardingSpec.from_json(json.loads(json.dumps(spec.to_json())))
    assert again == spec and again.extra == spec.extra


def test_places_in_errors() -> None:
    for name, path, value, text in (
        ("zarr3", ("shape", 0), -1, "zarr.json: $.shape[0]: expected an integer of at least 0, found -1"),
        ("zarr3", ("chunk_grid", "configuration", "chunk_shape"), 5,
         "zarr.json: $.chunk_grid.configuration.chunk_shape: expected a list of positive integers, found 5"),
        ("zarr3", ("chunk_grid", "name"), "odd",
         "zarr.json: $.chunk_grid.name: expected 'regular' or 'rectilinear', found 'odd'"),
        ("zarr3", ("fill_value",), "x", "zarr.json: $.fill_value: not a fill value of uint16: "
         "an integer is needed (found 'x')"),
        ("zarr3", ("dimension_names",), ["x"], "zarr.json: $.dimension_names: another rank than shape "
         "(expected 2, found ('x',))"),
        ("zarr3", ("codecs", 0, "configuration", "order"), [0],
         "zarr.json: $.codecs[0].configuration.order: expected a permutation of the 2 axes, found [0]"),
        ("zarr3", ("codecs", 1, "configuration", "endian"), "middle",
         "zarr.json: $.codecs[1].configuration.endian: expected 'little' or 'big', found 'middle'"),
        ("zarr3", ("node_type",), 5, "zarr.json: $.node_type: expected 'array' or 'group', found 5"),
        ("shards", ("codecs", 0, "configuration", "codecs", 0, "configuration", "chunk_shape"), [3, 3],
         "zarr.json: $.codecs[0].configuration.codecs[0].configuration.chunk_shape: "
         "the inner chunks must divide the shard (expected (4, 4), found (3, 3))"),
        ("shards", ("codecs", 0, "configuration", "index_location"), "middle",
         "zarr.json: $.codecs[0].configuration.index_location: expected 'start' or 'end', found 'middle'"),
        ("group", ("consolidated_metadata", "metadata", "a"), 5,
         "zarr.json: $.consolidated_metadata.metadata.a: expected an object, found 5"),
        ("n5", ("blockSize", 1), 0, "attributes.json: $.blockSize[1]: expected a positive integer, found 0"),
        ("volume", ("scales", 1, "resolution"), "x",
         "info: $.scales[1].resolution: expected three positive numbers, found 'x'"),
        ("volume", ("scales", 0, "sharding", "shard_bits"), 65,
         "info: $.scales[0].sharding.shard_bits: expected an integer from 0 to 64, found 65"),
    ):  # fmt: skip
        with pytest.raises(ZvcoreError) as caught:
            READ[name](with_value(GOOD[name], path, value))
        assert str(caught.value) == text


def test_a_scale_is_read_wherever_it_stands() -> None:
    found = Scale.from_json(SCALE, Place("info"))
    assert (found.folder, found.resolution, found.hidden) == ("8_8_8", (8, 8, 8), True)
