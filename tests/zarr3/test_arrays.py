"""Zarr v3 arrays, with zarr-python on the other side."""

from __future__ import annotations

import json
import math
import os
import resource

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import zvcore
from zvcore.errors import (
    CodecNotFoundError,
    ConflictError,
    CorruptDataError,
    MetadataError,
    NotFoundError,
    ReadOnlyError,
    UnsupportedError,
)
from zvcore.stores import MemoryStore

VALUES = np.arange(50 * 60, dtype="u2").reshape(50, 60)
TRANSPOSE = {"name": "transpose", "configuration": {"order": [1, 0]}}
INDEX = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]


def sharding(chunk_shape, codecs, location="end", index=INDEX):
    return {
        "name": "sharding_indexed",
        "configuration": {
            "chunk_shape": chunk_shape,
            "codecs": codecs,
            "index_codecs": index,
            "index_location": location,
        },
    }


BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
BIG = {"name": "bytes", "configuration": {"endian": "big"}}
GZIP = {"name": "gzip", "configuration": {"level": 1}}
CRC = {"name": "crc32c"}
CHAINS = {
    "plain": [BYTES],
    "big": [BIG],
    "gzip": [BYTES, GZIP],
    "two": [BYTES, GZIP, CRC],
    "transposed": [TRANSPOSE, BYTES, GZIP],
    "sharded": [sharding([5, 6], [BYTES, GZIP])],
    "sharded-start": [sharding([5, 6], [BIG, GZIP, CRC], "start")],
    "sharded-no-crc": [sharding([5, 6], [BYTES], index=INDEX[:1])],
    "sharded-big-index": [sharding([5, 6], [BYTES], index=[BIG, CRC])],
    "inner-transposed": [sharding([5, 6], [TRANSPOSE, BYTES])],
    "outer-transposed": [TRANSPOSE, sharding([4, 4], [BYTES, GZIP])],
    "nested": [sharding([10, 12], [sharding([5, 4], [BYTES, GZIP])])],
    "nested-start": [sharding([10, 12], [sharding([5, 4], [BYTES], "start")], "start")],
    "outer-codecs": [sharding([5, 6], [BYTES]), GZIP, CRC],
}


def write_metadata(path, codecs, shape=(50, 60), chunk_shape=(20, 24), data_type="uint16", fill=7, **more):
    os.makedirs(path, exist_ok=True)
    document = {
        "zarr_format": 3, "node_type": "array", "shape": list(shape), "data_type": data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunk_shape)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill, "codecs": codecs, "attributes": {}, **more,
    }  # fmt: skip
    with open(os.path.join(path, "zarr.json"), "w") as file:
        json.dump(document, file)
    return path


@pytest.mark.filterwarnings("ignore:Combining a `sharding_indexed` codec")
@pytest.mark.filterwarnings("ignore:.*disables partial reads")
@pytest.mark.parametrize("chain", CHAINS)
def test_both_ways_with_zarr_python(tmp_path, chain):
    ours = zvcore.open(write_metadata(tmp_path / "a", CHAINS[chain]), "r+")
    theirs = zarr.open_array(tmp_path / "a", mode="r+")
    expected = np.full((50, 60), 7, "u2")
    assert (ours[...] == expected).all()
    ours[...] = VALUES
    expected[...] = VALUES
    assert (theirs[...] == expected).all()
    theirs[13:27, 5:50] = 9
    expected[13:27, 5:50] = 9
    assert (ours[...] == expected).all()
    ours[::3, 7] = 11
    ours[40:, 48:] = 7
    expected[::3, 7] = 11
    expected[40:, 48:] = 7
    assert (theirs[...] == expected).all()
    assert (ours[45:3:-7, ::5] == expected[45:3:-7, ::5]).all()


@pytest.mark.parametrize("order", ["C", "F", "morton"])
@pytest.mark.parametrize("grid", [(4, 4), (3, 5), (1, 7), (2, 3, 4)])
def test_shard_bytes_are_zarr_pythons_in_morton_order(tmp_path, order, grid):
    shape = tuple(2 * n for n in grid)
    values = np.arange(math.prod(shape), dtype="u1").reshape(shape)
    theirs = zarr.create_array(
        tmp_path / "theirs", shape=shape, chunks=(2,) * len(grid), shards=shape, dtype="u1", compressors=None
    )
    theirs[...] = values
    ours = zvcore.create(
        tmp_path / "ours", format="zarr3", shape=shape, chunks=(2,) * len(grid), shards=shape, dtype="u1", codec=None,
        order_in_shard=order,
    )  # fmt: skip
    ours[...] = values
    key = os.path.join("c", *["0"] * len(grid))
    same = (tmp_path / "ours" / key).read_bytes() == (tmp_path / "theirs" / key).read_bytes()
    assert same == (order == "morton" or grid == (1, 7))
    assert (zvcore.open(tmp_path / "theirs")[...] == values).all()
    assert (zarr.open_array(tmp_path / "ours")[...] == values).all()
    if grid != (1, 7):
        assert next(iter(ours.inspect()["shard_details"].values()))["order"] == order


def test_a_shard_of_no_axes(tmp_path):
    for order in ("C", "F", "morton"):
        array = zvcore.create(
            tmp_path / order, format="zarr3", shape=(), dtype="f8", chunks=(), shards=(), order_in_shard=order
        )
        array[()] = 42.0
        assert zvcore.open(tmp_path / order)[()] == 42.0


def test_the_golden_shard_of_the_facts():
    values = np.arange(16, dtype="u1").reshape(4, 4)
    values[:2, :2] = 0
    golden = {
        "end": "08090c0d02030607 0a0b0e0f" + "ff" * 16 + "0400000000000000" * 2 + "00" * 8 + "0400000000000000"
        "08000000000000000400000000000000"
        "5ab4a567",
        "start": "ff" * 16 + "48000000000000000400000000000000"
        "44000000000000000400000000000000"
        "4c000000000000000400000000000000"
        "19a1ded2"
        "08090c0d020306070a0b0e0f",
    }
    for location, text in golden.items():
        store = MemoryStore()
        array = zvcore.create(
            store, format="zarr3", shape=(4, 4), dtype="u1", chunks=(2, 2), shards=(4, 4), codec=None,
            index_location=location, order_in_shard="morton",
        )  # fmt: skip
        array[...] = values
        assert bytes(store.get("c/0/0")).hex() == text.replace(" ", "")
        assert (zvcore.open(store)[...] == values).all()


@pytest.mark.parametrize("chain", ["sharded", "sharded-start", "nested", "outer-codecs", "outer-transposed"])
@given(data=st.data())
def test_regions_of_shards_against_numpy(chain, data):
    store = MemoryStore()
    shape = (23, 31)
    document = json.dumps({
        "zarr_format": 3, "node_type": "array", "shape": list(shape), "data_type": "int32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [20, 24]}},
        "fill_value": -1, "codecs": CHAINS[chain], "attributes": {},
        "chunk_key_encoding": {"name": "default"},
    })  # fmt: skip
    store.put("zarr.json", document.encode())
    array = zvcore.open(store, "r+")
    mirror = np.full(shape, -1, "i4")
    for number in range(data.draw(st.integers(1, 4))):
        corners = [sorted((data.draw(st.integers(0, n)), data.draw(st.integers(0, n)))) for n in shape]
        key = tuple(slice(*corner) for corner in corners)
        value = data.draw(st.sampled_from([number, -1]))
        array[key] = value
        mirror[key] = value
        assert (array[...] == mirror).all()
    assert (array[::-2, 3::4] == mirror[::-2, 3::4]).all()


@pytest.mark.parametrize("mode", ["append", "inplace"])
@pytest.mark.parametrize("codec", [None, "zstd"])
def test_changing_a_shard_in_place(tmp_path, mode, codec):
    array = zvcore.create(
        tmp_path,
        format="zarr3",
        shape=(64, 64),
        dtype="u2",
        chunks=(8, 8),
        shards=(64, 64),
        codec=codec,
        write_mode=mode,
    )
    rng = np.random.default_rng(0)
    mirror = rng.integers(1, 99, (64, 64)).astype("u2")
    array[...] = mirror
    size = (tmp_path / "c/0/0").stat().st_size
    sizes = []
    for _ in range(20):
        i, j = rng.integers(0, 60, 2)
        mirror[i : i + 3, j : j + 3] = rng.integers(0, 99)
        array[i : i + 3, j : j + 3] = mirror[i : i + 3, j : j + 3]
        assert (zvcore.open(tmp_path)[...] == mirror).all()
        sizes.append((tmp_path / "c/0/0").stat().st_size)
    assert (zarr.open_array(tmp_path)[...] == mirror).all()
    if mode == "append":  # until most of it is dead bytes
        assert max(sizes) > size
    else:
        assert codec is not None or sizes == [size] * 20
    array[8:16, 8:16] = 0
    mirror[8:16, 8:16] = 0
    assert not array.block_exists((1, 1))
    assert (zarr.open_array(tmp_path)[...] == mirror).all()
    array[...] = 0
    assert not (tmp_path / "c/0/0").exists()


@pytest.mark.parametrize("mode", ["rewrite", "append", "inplace"])
@pytest.mark.parametrize("location", ["start", "end"])
def test_a_shape_is_changed_in_every_write_mode(tmp_path, mode, location):
    """What a resize cuts off does not come back."""
    zvcore.create(
        tmp_path, format="zarr3", shape=(8, 8), dtype="u1", chunks=(2, 4), shards=(8, 8), index_location=location
    )[...] = 7
    if (mode, location) == ("append", "start"):
        with pytest.raises(UnsupportedError, match="index at the end"):
            zvcore.open(tmp_path, "r+", write_mode=mode)
        return
    array = zvcore.open(tmp_path, "r+", write_mode=mode)
    array.resize((5, 8))
    array.resize((8, 8))
    mirror = np.full((8, 8), 7)
    mirror[5:] = 0
    np.testing.assert_array_equal(array[...], mirror)
    np.testing.assert_array_equal(zarr.open_array(tmp_path)[...], mirror)


@pytest.mark.parametrize(
    ("data_type", "fill", "numpy_fill"),
    [
        ("bool", True, np.bool_(True)),
        ("int8", -5, np.int8(-5)),
        ("uint64", 2**64 - 1, np.uint64(2**64 - 1)),
        ("float16", "NaN", np.float16("nan")),
        ("float32", "0x7fc00001", np.array([0x7FC00001], "u4").view("f4")[0]),
        ("float64", "-Infinity", -np.inf),
        ("float64", 1.5, 1.5),
        ("complex64", [1.0, "NaN"], np.complex64(complex(1, math.nan))),
        ("complex128", [0.5, -2.0], 0.5 - 2j),
        ("r24", [1, 2, 3], np.void(b"\1\2\3")),
    ],
)
def test_data_types_and_fill_values(tmp_path, data_type, fill, numpy_fill):
    itemsize = np.asarray(numpy_fill).itemsize
    codecs = [{"name": "bytes"} if itemsize == 1 or data_type == "r24" else BYTES]
    path = write_metadata(tmp_path / "a", codecs, (6,), (4,), data_type, fill)
    array = zvcore.open(path, "r+")
    expected = np.array([numpy_fill] * 6, array.dtype)
    assert array[...].tobytes() == expected.tobytes()
    assert array.metadata.data_type.write_fill(array.fill_value) == fill
    if data_type != "r24":
        assert np.asarray(zarr.open_array(path)[...]).tobytes() == expected.tobytes()
    expected[2] = np.zeros((), array.dtype)[()]
    array[2] = expected[2]
    assert array[...].tobytes() == expected.tobytes()
    again = zvcore.create(
        tmp_path / "b", format="zarr3", shape=(6,), dtype=data_type, fill_value=numpy_fill, chunks=(4,)
    )
    assert json.loads((tmp_path / "b/zarr.json").read_text())["fill_value"] == fill
    assert again[...].tobytes() == np.array([numpy_fill] * 6, array.dtype).tobytes()


@pytest.mark.parametrize("shards", [None, (4,)])
@pytest.mark.parametrize("dtype", [str, bytes])
@pytest.mark.filterwarnings("ignore:The data type")
def test_text_and_byte_strings(tmp_path, shards, dtype):
    items = (
        ["", "a", "ü", "long " * 50, "e", "f", "g"]
        if dtype is str
        else [b"", b"a", b"\0\1", b"x" * 300, b"e", b"f", b"g"]
    )
    array = zvcore.create(tmp_path / "a", format="zarr3", shape=(7,), dtype=dtype, chunks=(2,), shards=shards)
    array[...] = np.array(items, object)
    assert list(array[...]) == items
    theirs = zarr.open_array(tmp_path / "a", mode="r+")
    assert list(theirs[...]) == items
    theirs[3:4] = np.array(items[1:2], object)
    array[5] = items[2]
    items[3], items[5] = items[1], items[2]
    assert list(zvcore.open(tmp_path / "a")[...]) == items == list(theirs[...])


def test_groups(tmp_path):
    group = zvcore.open(tmp_path / "g", "w", format="zarr3")
    group.attrs["title"] = "one"
    array = group.create_dataset(
        "a/b/c", shape=(4,), dtype="f4", chunks=(2,), attrs={"unit": "nm"}, dimension_names=["x"]
    )
    array[...] = 1
    theirs = zarr.open_group(tmp_path / "g")
    assert theirs.attrs["title"] == "one"
    assert theirs["a/b/c"].attrs["unit"] == "nm"
    theirs.create_group("d").attrs["n"] = 1
    group = zvcore.open(tmp_path / "g")
    assert list(group) == ["a", "d"]
    assert len(group) == 2
    assert "a/b" in group
    assert "x" not in group
    assert 3 not in group
    assert group["a"]["b"]["c"].dimension_names == ("x",)
    assert (group["a/b/c"][...] == 1).all()
    assert group["d"].attrs["n"] == 1
    with pytest.raises(NotFoundError):
        group["nothing"]
    with pytest.raises(ReadOnlyError):
        group.create_group("e")
    with pytest.raises(ReadOnlyError):
        group.attrs["title"] = "two"
    group = zvcore.open(tmp_path / "g", "r+")
    del group["a"]
    assert list(group) == ["d"]
    with pytest.raises(ConflictError):
        group.create_group("d")
    with pytest.raises(ConflictError):
        group.create_dataset("c", shape=(1,), dtype="u1") and group.create_dataset("c/d", shape=(1,), dtype="u1")


def test_attributes_are_kept_whole(tmp_path):
    array = zvcore.create(tmp_path, format="zarr3", shape=(4,), dtype="u1", attrs={"a": {"b": [1, None]}})
    document = json.loads((tmp_path / "zarr.json").read_text())
    document["extra"] = {"must_understand": False, "x": 1}
    (tmp_path / "zarr.json").write_text(json.dumps(document))
    array = zvcore.open(tmp_path, "r+")
    array.attrs["c"] = 2
    del array.attrs["a"]
    assert dict(zvcore.open(tmp_path).attrs) == {"c": 2}
    assert json.loads((tmp_path / "zarr.json").read_text())["extra"] == {"must_understand": False, "x": 1}
    with pytest.raises(MetadataError):
        array.attrs["bad"] = {1, 2}
    with pytest.raises(KeyError):
        del array.attrs["nothing"]


def test_resize(tmp_path):
    array = zvcore.create(tmp_path, format="zarr3", shape=(10,), dtype="u1", chunks=(4,), fill_value=3)
    array[...] = 1
    array.resize((15,))
    assert array[...].tolist() == [1] * 10 + [3] * 2 + [3] * 3
    assert zvcore.open(tmp_path).shape == (15,)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"zarr_format": 2}, MetadataError),
        ({"node_type": "thing"}, MetadataError),
        ({"shape": [5, -1]}, MetadataError),
        ({"shape": [2**70, 3]}, UnsupportedError),
        ({"shape": "big"}, MetadataError),
        ({"chunk_grid": {"name": "hexagonal"}}, UnsupportedError),
        ({"chunk_grid": {"name": "rectilinear"}}, MetadataError),
        ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [0, 5]}}}, MetadataError),
        ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [5]}}}, MetadataError),
        ({"data_type": "quaternion"}, UnsupportedError),
        ({"data_type": "r7"}, MetadataError),
        ({"fill_value": 70000}, MetadataError),
        ({"fill_value": "x"}, MetadataError),
        ({"codecs": []}, MetadataError),
        ({"codecs": [GZIP]}, UnsupportedError),
        ({"codecs": [BYTES, BYTES]}, MetadataError),
        ({"codecs": [{"name": "bytes"}]}, MetadataError),
        ({"codecs": [{"name": "transpose", "configuration": {"order": [0, 0]}}, BYTES]}, MetadataError),
        ({"codecs": [sharding([3, 6], [BYTES])]}, MetadataError),
        ({"codecs": [sharding([0, 6], [BYTES])]}, MetadataError),
        ({"codecs": [sharding([5, 6], [BYTES], index=[BYTES, GZIP])]}, UnsupportedError),
        ({"codecs": [sharding([5, 6], [BYTES], "middle")]}, MetadataError),
        ({"storage_transformers": [{"name": "x"}]}, UnsupportedError),
        ({"surprise": {"must_understand": True}}, UnsupportedError),
        ({"dimension_names": ["x"]}, MetadataError),
        ({"attributes": [1]}, MetadataError),
        ({"chunk_key_encoding": {"name": "hashed"}}, UnsupportedError),
        ({"chunk_key_encoding": {"name": "default", "configuration": {"separator": "\\"}}}, MetadataError),
    ],
)
def test_metadata_that_are_refused(tmp_path, change, error):
    write_metadata(tmp_path, [BYTES])
    document = json.loads((tmp_path / "zarr.json").read_text())
    (tmp_path / "zarr.json").write_text(json.dumps({**document, **change}))
    with pytest.raises(error):
        zvcore.open(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", '"x"', "\xff", "[" * 100000])
def test_documents_that_are_no_json_objects(tmp_path, text):
    (tmp_path / "zarr.json").write_text(text, "latin-1")
    with pytest.raises(MetadataError):
        zvcore.open(tmp_path)


def test_the_old_name_of_the_bytes_codec_is_read(tmp_path):
    path = write_metadata(tmp_path, [{"name": "endian", "configuration": {"endian": "big"}}], (4,), (4,), "int16", 0)
    (tmp_path / "c").mkdir()
    (tmp_path / "c/0").write_bytes(np.arange(4, dtype=">i2").tobytes())
    assert zvcore.open(path)[...].tolist() == [0, 1, 2, 3]


def test_version_2_is_another_format(tmp_path):
    zarr.create_array(tmp_path, shape=(4,), dtype="u1", zarr_format=2)
    assert zvcore.open(tmp_path).format == "zarr2"
    with pytest.raises(NotFoundError, match=r"zarr\.json"):
        zvcore.open(tmp_path, format="zarr3")


def test_an_unknown_codec_breaks_only_decoding(tmp_path):
    path = write_metadata(tmp_path, [BYTES, {"name": "mystery", "configuration": {"level": 3}}])
    array = zvcore.open(path)
    assert array.shape == (50, 60)
    (tmp_path / "c/0").mkdir(parents=True)
    (tmp_path / "c/0/0").write_bytes(b"abc")
    assert array.read_encoded((0, 0)) == b"abc"
    with pytest.raises(CodecNotFoundError, match="mystery"):
        array[...]


def shard_bytes(tmp_path, location="end"):
    array = zvcore.create(
        tmp_path,
        format="zarr3",
        shape=(4, 4),
        dtype="u1",
        chunks=(2, 2),
        shards=(4, 4),
        codec=None,
        index_location=location,
    )
    array[...] = np.arange(16).reshape(4, 4) + 1
    return tmp_path / "c/0/0"


def with_entry(raw, slot, offset, length):
    from zvcore.kernels import crc32c

    index = bytearray(raw[-68:-4])
    index[16 * slot : 16 * slot + 16] = np.array([offset, length], "<u8").tobytes()
    return raw[:-68] + bytes(index) + crc32c(index).to_bytes(4, "little")


MAX = 2**64 - 1


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        ((0, 0), "size"),
        ((MAX, 0), "leaves"),
        ((0, MAX), "leaves"),
        ((80, 4), "leaves"),
        ((14, 4), "leaves"),
        ((MAX - 1, 4), "leaves"),
        ((2**63, 2**63), "leaves"),
        ((0, 3), "size"),
        ((0, 5), "size"),
    ],
)
def test_broken_index_entries(tmp_path, entry, what):
    path = shard_bytes(tmp_path)
    path.write_bytes(with_entry(path.read_bytes(), 1, *entry))
    with pytest.raises(CorruptDataError, match=what) as caught:
        zvcore.open(tmp_path)[...]
    assert "c/0/0" in str(caught.value)


@pytest.mark.parametrize("entry", [(0, 0), (MAX, 0), (0, MAX), (80, 4)])
@pytest.mark.parametrize("region", [np.s_[0, 2], np.s_[0:2, 2:4], np.s_[:, 3]])
def test_broken_index_entries_in_partial_reads(tmp_path, entry, region):
    """Where others fill in silently."""
    path = shard_bytes(tmp_path)
    path.write_bytes(with_entry(path.read_bytes(), 1, *entry))
    with pytest.raises(CorruptDataError) as caught:
        zvcore.open(tmp_path)[region]
    assert "c/0/0" in str(caught.value)
    assert caught.value.chunk == (0, 1)


@pytest.mark.parametrize("size", [0, 1, 67, 68, 83])
@pytest.mark.parametrize("location", ["start", "end"])
def test_truncated_shards(tmp_path, size, location):
    path = shard_bytes(tmp_path, location)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(CorruptDataError) as caught:
        zvcore.open(tmp_path)[...]
    assert "c/0/0" in str(caught.value)


def test_every_flipped_bit_of_an_index_is_noticed(tmp_path):
    path = shard_bytes(tmp_path)
    raw = path.read_bytes()
    for bit in range(8 * (len(raw) - 68), 8 * len(raw), 7):
        broken = bytearray(raw)
        broken[bit // 8] ^= 1 << bit % 8
        path.write_bytes(broken)
        with pytest.raises(CorruptDataError):
            zvcore.open(tmp_path)[...]


def test_legal_oddities_of_shards(tmp_path):
    """Gaps, another order, chunks that share bytes, an index of nothing, junk between."""
    path = shard_bytes(tmp_path)
    raw = path.read_bytes()
    path.write_bytes(b"junk" + raw)
    for slot, offset in enumerate((16, 12, 8, 8)):
        path.write_bytes(with_entry(path.read_bytes(), slot, offset, 4))
    values = zvcore.open(tmp_path)[...]
    assert (values == zarr.open_array(tmp_path)[...]).all()
    for slot in range(4):
        path.write_bytes(with_entry(path.read_bytes(), slot, MAX, MAX))
    assert (zvcore.open(tmp_path)[...] == 0).all()


def test_creation_refuses_what_is_there_and_what_is_wrong(tmp_path):
    zvcore.create(tmp_path, format="zarr3", shape=(4,), dtype="u1")[...] = 1
    with pytest.raises(ConflictError):
        zvcore.create(tmp_path, format="zarr3", shape=(4,), dtype="u1")
    assert (zvcore.open(tmp_path)[...] == 1).all()
    array = zvcore.create(tmp_path, format="zarr3", shape=(5,), dtype="u2", overwrite=True)
    assert array[...].tolist() == [0] * 5
    for wrong in (
        {"chunks": (0,)},
        {"chunks": (2, 2)},
        {"chunks": (3,), "shards": (4,)},
        {"fill_value": 70000},
        {"index_location": "middle", "shards": (4,), "chunks": (2,)},
        {"codec": {"name": "gzip", "level": 77}},
    ):
        with pytest.raises(MetadataError):
            zvcore.create(tmp_path / "other", **{"format": "zarr3", "shape": (4,), "dtype": "u2", **wrong})
    assert not (tmp_path / "other" / "zarr.json").exists()


def test_zero_dimensions(tmp_path):
    array = zvcore.create(tmp_path, format="zarr3", shape=(), dtype="f8", chunks=())
    array[...] = 2.5
    assert array[()] == 2.5 == zarr.open_array(tmp_path)[()]


@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not")
@pytest.mark.parametrize("codec", ["raw", "gzip", "bzip2", "xz", "lz4", "blosc", "zstd"])
def test_every_first_party_codec_by_its_name_is_read_by_zarr_python(tmp_path, codec):
    array = zvcore.create(tmp_path, format="zarr3", shape=(50, 60), dtype="u2", chunks=(20, 24), codec=codec)
    array[...] = VALUES
    assert (zvcore.open(tmp_path)[...] == VALUES).all()
    theirs = zarr.open_array(tmp_path)
    assert (theirs[...] == VALUES).all()


@pytest.mark.parametrize("shards", [None, (8, 8)])
def test_where_there_is_no_room_the_whole_path_is_named(tmp_path, shards):
    array = zvcore.create(
        tmp_path / "a", format="zarr3", shape=(8, 8), dtype="u1", chunks=(4, 4), shards=shards, codec="raw"
    )
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        with pytest.raises(OSError) as caught:  # as of a full disk
            array[...] = 7
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert str(caught.value.filename).startswith(f"{tmp_path / 'a'}/c/0")


def test_codecs_in_the_words_of_a_document(tmp_path):
    """What stands in the zarr.json of another array makes the same codec."""
    blosc = {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 2, "blocksize": 0}
    given = [{"name": "blosc", "configuration": blosc}, {"name": "crc32c", "configuration": {}}]
    array = zvcore.create(tmp_path / "a", format="zarr3", shape=(40,), dtype="u2", chunks=(10,), codec=given)
    array[...] = np.arange(40)
    told = json.loads((tmp_path / "a/zarr.json").read_text())["codecs"]
    assert told[1] == given[0] and told[2]["name"] == "crc32c"
    assert (zarr.open_array(tmp_path / "a")[...] == np.arange(40)).all()
    with pytest.raises(MetadataError):
        zvcore.create(
            tmp_path / "b", format="zarr3", shape=(4,), dtype="u2", codec={"name": "blosc", "configuration": {"x": 1}}
        )
