"""The filters of numcodecs as codecs of bytes, against numcodecs."""

from __future__ import annotations

import itertools

import numcodecs
import numpy as np
import pytest

from zvcore import codecs
from zvcore.codecs import CodecChain
from zvcore.engine.fetching import encode_many
from zvcore.errors import CorruptDataError, MetadataError, ZvcoreError
from zvcore.testing import check_codec

INTEGERS = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]
COUNTS = [0, 1, 2, 7, 8, 15, 16, 17, 33, 1000]


def as_bytes(config, dtype):
    found = codecs.from_zarr2(config).as_bytes(np.dtype(dtype))
    assert found is not None and found.native and found.of_items
    return found


def noise(dtype, count, seed=0):
    return np.random.default_rng(seed).integers(0, 256, count * np.dtype(dtype).itemsize, np.uint8).view(dtype)


def agree(config, values, exactly_back=True):
    """Both make the same bytes of these values, and the same values of these bytes."""
    with np.errstate(all="ignore"):
        agreement(config, values, exactly_back)


def agreement(config, values, exactly_back):
    theirs = numcodecs.get_codec(config)
    ours = as_bytes(config, values.dtype)
    stored = np.asarray(theirs.encode(values)).tobytes() if values.size else b""
    # Of what the engine gives it, nothing is refused: arrays look at values before.
    assert encode_many([values.tobytes()], CodecChain((ours,)))[0] == stored
    assert ours.encoded_size(values.nbytes) == len(stored)
    back = np.asarray(theirs.decode(np.frombuffer(stored, np.uint8))).tobytes() if values.size else b""
    assert ours.decode(stored) == back
    assert ours.decode(stored, out=bytearray(values.nbytes)) == back
    if exactly_back:
        assert back == values.tobytes()


PAIRS = [(one, other) for one in INTEGERS for other in INTEGERS if np.result_type(one, other).kind in "iu"]


@pytest.mark.parametrize(("items", "stored"), PAIRS)
def test_delta_of_integers(items, stored):
    config = {"id": "delta", "dtype": np.dtype(items).str, "astype": np.dtype(stored).str}
    fits = int(stored[1:]) >= int(items[1:])
    for count in COUNTS[1:]:
        # The first one is stored as it is, and numpy refuses it where it does not fit.
        values = noise(items, count) if fits else np.cumsum(noise("u1", count) // 2).astype(items)
        values[0] = abs(int(values[0]) % 100)
        agree(config, values)


@pytest.mark.parametrize("items", [">i2", ">u2", ">i4", ">u4", ">i8", ">u8", ">f4", ">f8"])
def test_delta_of_items_in_the_other_byte_order(items):
    for count in COUNTS[1:]:
        kind = np.dtype(items)
        values = noise(items, count) if kind.kind != "f" else np.arange(count, dtype=items) * 0.3
        agree({"id": "delta", "dtype": items}, values.astype(kind), exactly_back=kind.kind != "f")


@pytest.mark.parametrize(("items", "stored"), [(">u2", "<u2"), (">u2", ">u4"), ("<u2", ">u2"), (">u2", "|i1")])
def test_delta_of_two_types_in_the_other_byte_order_is_left_to_numpy(items, stored):
    config = {"id": "delta", "dtype": items, "astype": stored}
    assert codecs.from_zarr2(config).as_bytes(np.dtype(items)) is None
    with pytest.raises(MetadataError, match="of several bytes"):
        codecs.get("delta", dtype="uint16", astype="uint32", turned=True)
    with pytest.raises(MetadataError, match="of several bytes"):
        codecs.get("delta", dtype="uint8", astype="uint8", turned=True)


def test_differences_that_do_not_fit_are_refused_and_not_stored_as_others():
    codec = codecs.get("delta", dtype="int32", astype="int8")
    for values in ([200, 201], [0, 128], [5, -124]):
        with pytest.raises(ZvcoreError, match="differ by more"):
            codec.encode(np.array(values, "i4"))
    assert codec.decode(codec.encode(np.array([127, -1, 126], "i4"))) == np.array([127, -1, 126], "i4").tobytes()


@pytest.mark.parametrize("items", ["f4", "f8", ">f4", ">f8"])
def test_what_lies_behind_a_nan_is_refused_and_not_stored_as_nan(items):
    """All sums behind it are NaN, and numcodecs says nothing."""
    codec = numcodecs.get_codec({"id": "delta", "dtype": items})
    ours = codecs.get("delta", dtype=np.dtype(items).name, astype=np.dtype(items).name, turned=items[0] == ">")
    far = float(np.finfo(items).max)
    for values in ([1, np.nan, 2], [np.inf, 1], [-np.inf, -np.inf], [np.nan] * 9 + [0.0], [-far, far], [far, -far, 1]):
        found = np.array(values, items)
        with np.errstate(invalid="ignore", over="ignore"):
            assert not np.array_equal(codec.decode(codec.encode(found)), found, equal_nan=True)
        with pytest.raises(ZvcoreError, match="behind a NaN"):
            ours.encode(found)
    for values in ([1, 2, np.nan], [np.nan, np.nan], [1, np.inf], [5, np.nan, np.nan], [-np.inf, np.nan]):
        found = np.array(values, items)
        assert np.array_equal(np.frombuffer(ours.decode(ours.encode(found)), items), found, equal_nan=True)


@pytest.mark.parametrize("items", ["f4", "f8"])
def test_delta_of_floats(items):
    for count in COUNTS[1:]:
        values = np.random.default_rng(count).normal(100, 30, count).astype(items)
        agree({"id": "delta", "dtype": np.dtype(items).str}, values, exactly_back=False)
    agree({"id": "delta", "dtype": np.dtype(items).str}, np.array([-0.0, 3, np.inf], items), False)


@pytest.mark.parametrize("kinds", [INTEGERS, ["f4", "f8"]])
def test_astype_within_integers_and_within_floats(kinds):
    for items, stored in itertools.product(kinds, kinds):
        config = {"id": "astype", "decode_dtype": np.dtype(items).str, "encode_dtype": np.dtype(stored).str}
        for count in COUNTS[1:]:
            agree(config, noise(items, count), exactly_back=False)
        assert as_bytes(config, items).encode(np.zeros(0, items)) == b""


@pytest.mark.parametrize(("items", "stored"), [("i4", "f4"), ("f8", "i2"), ("?", "u1"), ("f2", "f4"), ("c8", "c16")])
def test_what_numpy_alone_casts_is_left_to_it(items, stored):
    config = {"id": "astype", "decode_dtype": np.dtype(items).str, "encode_dtype": np.dtype(stored).str}
    assert codecs.from_zarr2(config).as_bytes(np.dtype(items)) is None


@pytest.mark.parametrize("stored", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "f4", "f8"])
@pytest.mark.parametrize("items", ["f4", "f8"])
@pytest.mark.parametrize(("scale", "offset"), [(10, 7), (2.5, 0), (0.1, 0.3), (3, 1.1)])
def test_fixedscaleoffset(items, stored, scale, offset):
    config = {"id": "fixedscaleoffset", "scale": scale, "offset": offset, "dtype": np.dtype(items).str}
    for count in COUNTS[1:]:
        values = (np.random.default_rng(count).random(count) * 8 + offset + 0.5).astype(items)
        agree({**config, "astype": np.dtype(stored).str}, values, exactly_back=False)


@pytest.mark.parametrize("digits", [0, 1, 3, 7, -2])
@pytest.mark.parametrize(("items", "stored"), list(itertools.product(["f4", "f8"], repeat=2)))
def test_quantize(items, stored, digits):
    config = {"id": "quantize", "digits": digits, "dtype": np.dtype(items).str, "astype": np.dtype(stored).str}
    values = np.random.default_rng(digits + 9).normal(0, 1000, 501).astype(items)
    values[:6] = [0.5, -0.5, -0.01, np.nan, np.inf, -0.0]
    agree(config, values, exactly_back=False)


@pytest.mark.parametrize(("items", "bits"), [("f2", 10), ("f4", 23), ("f8", 52)])
def test_bitround(items, bits):
    values = np.random.default_rng(bits).normal(0, 100, 333).astype(items)
    for kept in (0, 1, 5, bits - 1, bits):
        agree({"id": "bitround", "keepbits": kept}, values, exactly_back=kept == bits)
    assert codecs.from_zarr2({"id": "bitround", "keepbits": bits + 1}).as_bytes(np.dtype(items)) is None


def test_packbits():
    for count in COUNTS[1:]:
        agree({"id": "packbits"}, noise("u1", count) > 127)
    odd = np.array([0, 1, 2, 128, 255, 254, 127, 0, 3], np.uint8)
    assert as_bytes({"id": "packbits"}, "b1").encode(odd) == numcodecs.PackBits().encode(odd).tobytes()


@pytest.mark.parametrize("stream", [b"", b"\x01", b"\x08\xff", b"\xff\xff\xff"])
def test_packed_bits_that_lie_about_their_number_are_refused(stream):
    with pytest.raises(CorruptDataError, match="packbits"):
        codecs.get("packbits").decode(stream)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 8, 16, 300])
def test_shuffle(size):
    config = {"id": "shuffle", "elementsize": size}
    codec = codecs.from_zarr2(config)
    assert codec.native and codec.to_zarr2() == config
    for items in (0, 1, 5, 64, 100):
        values = noise("u1", items * max(size, 1))
        stored = bytes(numcodecs.get_codec(config).encode(values))
        assert codec.encode(values) == stored
        assert codec.decode(stored) == values.tobytes()


def test_a_rest_that_is_no_whole_item_follows_what_is_shuffled():
    codec = codecs.get("shuffle", elementsize=4)
    assert codec.encode(bytes(range(10))) == bytes([0, 4, 1, 5, 2, 6, 3, 7, 8, 9])
    assert codec.decode(codec.encode(bytes(range(10)))) == bytes(range(10))


def test_version_2_shuffles_four_bytes_and_version_3_those_of_an_item_unless_told():
    assert codecs.from_zarr2({"id": "shuffle"}).for_dtype(np.dtype("f8")).elementsize == 4
    assert codecs.from_zarr3("numcodecs.shuffle").for_dtype(np.dtype("f8")).elementsize == 8


ITEMS = np.arange(6000, dtype="<u4")


@pytest.mark.parametrize(
    "codec",
    [
        codecs.get("delta", dtype="uint32", astype="uint32"),
        codecs.get("delta", dtype="uint32", astype="int16"),
        codecs.get("fixedscaleoffset", dtype="float32", astype="float32", scale=2.0),
        codecs.get("quantize", dtype="float32", astype="float32", digits=30),
        codecs.get("bitround", dtype="float32", keepbits=23),
    ],
    ids=str,
)
def test_conformance_of_filters_of_items(codec):
    samples = [ITEMS[:n].view("u4").tobytes() for n in (0, 1, 6000)]
    if codec.name != "delta":
        samples = [np.arange(n, dtype="f4").tobytes() for n in (0, 1, 6000)]
    check_codec(codec, samples, bounded=False)


@pytest.mark.parametrize("size", [1, 2, 4, 7])
def test_conformance_of_shuffle(size):
    check_codec(codecs.get("shuffle", elementsize=size))


def test_conformance_of_packbits():
    check_codec(codecs.get("packbits"), [bytes(n) + b"\x01" * n for n in (0, 1, 5, 3000)])


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("delta", {"dtype": "float32", "astype": "int8"}),
        ("delta", {"dtype": "complex64"}),
        ("fixedscaleoffset", {"dtype": "int16"}),
        ("fixedscaleoffset", {"astype": "uint64"}),
        ("quantize", {"astype": "int8"}),
        ("bitround", {"dtype": "float16", "keepbits": 11}),
    ],
)
def test_what_is_not_done_in_c_is_refused(name, parameters):
    with pytest.raises(MetadataError):
        codecs.get(name, **parameters)


@pytest.mark.parametrize(
    ("config", "dtype"),
    [
        ({"id": "delta", "dtype": ">u2", "astype": "<u2"}, ">u2"),
        ({"id": "delta", "dtype": "<f4", "astype": "<f8"}, "<f4"),
        ({"id": "delta", "dtype": "<i4", "astype": "<u8"}, "<i4"),
        ({"id": "fixedscaleoffset", "scale": 1, "offset": 0, "dtype": "<i4"}, "<i4"),
        ({"id": "fixedscaleoffset", "scale": 1, "offset": 2**53 + 1, "dtype": "<f8"}, "<f8"),
        ({"id": "fixedscaleoffset", "scale": 10**400, "offset": 0, "dtype": "<f8"}, "<f8"),
        ({"id": "bitround", "keepbits": 3}, ">f4"),
        ({"id": "astype", "encode_dtype": ">i2", "decode_dtype": "<i4"}, "<i4"),
        ({"id": "gzip", "level": 1}, "<i4"),
    ],
)
def test_other_filters_stay_with_numcodecs(config, dtype):
    assert codecs.from_zarr2(config).as_bytes(np.dtype(dtype)) is None


def test_a_chain_of_filters_is_native():
    chain = CodecChain([as_bytes({"id": "delta", "dtype": "<u2"}, "<u2"), codecs.get("zstd")])
    assert chain.native


@pytest.mark.parametrize("samples", [1, 3, 4])
@pytest.mark.parametrize("items", ["u1", "<u2", ">u2", "<i4", ">u4", "<u8", ">i8"])
def test_horizontal_differences_are_those_of_imagecodecs(items, samples):
    imagecodecs = pytest.importorskip("imagecodecs")
    kind = np.dtype(items)
    for width in (1, 2, 7, 33):
        values = noise(kind, 5 * width * samples).reshape(5, width, samples)
        native = values.astype(kind.newbyteorder("="))
        stored = imagecodecs.delta_encode(native, axis=-2).astype(kind).tobytes()
        codec = codecs.get(
            "horizontal_difference", itemsize=kind.itemsize, row=width * samples, samples=samples,
            turned=not kind.isnative,
        )  # fmt: skip
        assert codec.native and codec.of_items
        assert codec.encode(values) == stored and codec.decode(stored) == values.tobytes()


def test_conformance_of_horizontal_differences():
    codec = codecs.get("horizontal_difference", itemsize=2, row=21, samples=3)
    check_codec(codec, [bytes(range(256))[: 2 * n] for n in (0, 1, 5, 100)])
    with pytest.raises(CorruptDataError, match="whole number of items"):
        codec.decode(b"123")
    with pytest.raises(MetadataError):
        codecs.get("horizontal_difference", itemsize=3)
