"""The codecs of numcodecs, as `numcodecs.<id>`, against numcodecs itself and zarr-python."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numcodecs
import numpy as np
import pytest
import zarr
import zarr.codecs.numcodecs as zarr_numcodecs
from numcodecs import registry as numcodecs_registry

import zvcore
from zvcore import codecs
from zvcore.codecs.numcodecs import NumcodecsCodec, adapter
from zvcore.errors import CodecNotFoundError, CorruptDataError, MetadataError, UnsupportedError
from zvcore.testing import check_codec

pytestmark = pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3 specification")

BYTES = {
    "adler32": {},
    "base64": {},
    "blosc": {"cname": "zstd", "clevel": 3, "shuffle": 1},
    "bz2": {"level": 2},
    "crc32": {},
    "crc32c": {"location": "end"},
    "fletcher32": {},
    "gzip": {"level": 2},
    "jenkins_lookup3": {"initval": 5},
    "lz4": {"acceleration": 2},
    "lzma": {"preset": 1},
    "shuffle": {"elementsize": 4},
    "zlib": {"level": 2},
    "zstd": {"level": 2},
}
FILTERS = {
    "astype": {"encode_dtype": "<f4", "decode_dtype": "<f8"},
    "bitround": {"keepbits": 40},
    "delta": {"dtype": "<f8"},
    "fixedscaleoffset": {"scale": 10, "offset": 1, "dtype": "<f8", "astype": "<i4"},
    "packbits": {},
    "quantize": {"digits": 3, "dtype": "<f8"},
}
SERIALIZERS = {"json2", "msgpack2", "pcodec", "vlen-array", "vlen-bytes", "vlen-utf8", "zfpy"}
DATA = np.arange(20_000, dtype="<u2").tobytes()


def test_every_registered_codec_is_known():
    kinds = {"bytes": set(BYTES), "array": {*FILTERS, "categorize"}, "serializer": SERIALIZERS}
    for identifier in {*numcodecs_registry.codec_registry, *numcodecs_registry.entries} - {"pickle"}:
        cls = adapter(f"numcodecs.{identifier}")
        assert identifier in kinds[cls.kind]
        assert cls.name == f"numcodecs.{identifier}"
        assert cls.__doc__


@pytest.mark.parametrize(("identifier", "config"), BYTES.items())
def test_bytes_codecs_are_those_of_numcodecs(identifier, config):
    codec = codecs.get(f"numcodecs.{identifier}", **config)
    peer = numcodecs.get_codec({"id": identifier, **config})
    stored = codec.encode(DATA)
    assert stored == bytes(peer.encode(DATA))
    assert codec.decode(stored) == DATA
    assert codec.decode(bytes(peer.encode(DATA)), out=bytearray(len(DATA))) == DATA
    assert (codec.kind, codec.native, codec.config()) == ("bytes", False, config)
    twin = pickle.loads(pickle.dumps(codec))
    assert twin == codec
    assert hash(twin) == hash(codec)
    assert type(twin) is type(codec)
    with pytest.raises(CorruptDataError):
        codec.decode(stored, max_size=len(DATA) - 1)


@pytest.mark.parametrize("identifier", ["zlib", "crc32c"])
def test_conformance(identifier):
    check_codec(codecs.get(f"numcodecs.{identifier}"), bounded=False)


# zarr-python's classes are named like the ids, in other cases.
ZARR = {name.lower(): name for name in vars(zarr_numcodecs)}
ZARR["jenkins_lookup3"] = "JenkinsLookup3"


@pytest.mark.parametrize("identifier", sorted(set(BYTES) & set(ZARR)))
def test_documents_and_bytes_of_zarr_python(identifier):
    config = BYTES[identifier]
    compressor = getattr(zarr_numcodecs, ZARR[identifier])(**config)
    store = zarr.storage.MemoryStore()
    shape = {"shape": 20_000, "chunks": 20_000, "dtype": "u2"}
    array = zarr.create_array(store, **shape, compressors=[compressor], filters=None)
    array[:] = np.arange(20_000)
    document = array.metadata.to_dict()["codecs"][-1]
    assert document == {"name": f"numcodecs.{identifier}", "configuration": config}
    codec = codecs.from_zarr3(document, "zarr.json")
    assert codec.to_zarr3()["name"] == document["name"]
    assert config.items() <= codec.to_zarr3()["configuration"].items()
    (key,) = [key for key in store._store_dict if key.startswith("c/")]
    assert codec.decode(store._store_dict[key].to_bytes(), max_size=len(DATA)) == DATA
    ours = codecs.get(f"numcodecs.{identifier}", **config)
    assert ours.to_zarr3() == document
    assert ours.decode(store._store_dict[key].to_bytes()) == DATA


@pytest.mark.parametrize(("identifier", "config"), FILTERS.items())
@pytest.mark.parametrize("order", ["C", "F"])
def test_filters(identifier, config, order):
    codec = codecs.get(f"numcodecs.{identifier}", **config)
    values = np.round(np.linspace(0, 50, 1001).reshape(7, 11, 13), 1)
    if identifier == "packbits":
        values = values % 2 > 1
    values = np.asarray(values, order=order)
    stored = codec.encode_array(values)
    dtype, shape = codec.encoded_form(values.dtype, values.shape)
    assert (stored.dtype, stored.shape) == (dtype, shape)
    peer = numcodecs.get_codec({"id": identifier, **config})
    expected = np.asarray(peer.encode(np.ascontiguousarray(values)))
    assert stored.tobytes() == expected.tobytes()
    back = codec.decode_array(stored, values.dtype, values.shape)
    assert (back.dtype, back.shape) == (values.dtype, values.shape)
    np.testing.assert_allclose(back, values, atol=0 if identifier in ("packbits", "delta") else 0.01)
    with pytest.raises(CorruptDataError):
        codec.decode_array(stored.reshape(-1)[:-1], values.dtype, values.shape)


@pytest.mark.parametrize(
    ("identifier", "config", "dtype", "filled"),
    [
        ("delta", {}, ">u2", {"dtype": ">u2"}),
        ("quantize", {"digits": 2}, "<f4", {"dtype": "<f4"}),
        ("fixedscaleoffset", {"scale": 1, "offset": 0}, "<f8", {"dtype": "<f8"}),
        ("astype", {"encode_dtype": "u1"}, "<u4", {"decode_dtype": "<u4"}),
        ("shuffle", {}, "<f8", {"elementsize": 8}),
        ("zlib", {"level": 1}, "<f8", {}),
    ],
)
def test_what_depends_on_the_dtype_is_filled_in(identifier, config, dtype, filled):
    codec = codecs.from_zarr3({"name": f"numcodecs.{identifier}", "configuration": config})
    if not isinstance(codec, NumcodecsCodec):
        codec = codecs.get(f"numcodecs.{identifier}", **config)
    assert codec.config() == config
    assert codec.for_dtype(np.dtype(dtype)).config() == {**config, **filled}
    assert codec.for_dtype(np.dtype(dtype)).for_dtype(np.dtype("i1")).config() == {**config, **filled}


@pytest.mark.parametrize("filters", ["zarr2", "zarr3"])
@pytest.mark.parametrize("items", ["<f2", ">f2", "<c8", "<c16"])
def test_values_that_differences_do_not_give_back_are_refused(filters, items, tmp_path):
    delta = {"zarr2": {"id": "delta", "dtype": items}, "zarr3": {"name": "numcodecs.delta"}}[filters]
    kind = np.dtype(items).newbyteorder("=") if filters == "zarr3" else np.dtype(items)
    array = zvcore.create(
        tmp_path / "a", format=filters, shape=(4,), chunks=(4,), dtype=kind, filters=[delta], codec="raw"
    )
    for kept in ([1, 2, 4, 8], [1, 2, 4, np.nan], [3, np.nan, np.nan, np.nan], [1, 2, 3, np.inf]):
        array[...] = np.array(kept, kind)
        assert np.array_equal(array[...], np.array(kept, kind), equal_nan=True)
    largest = float(np.finfo(items).max)
    for lost in ([1, np.nan, 2, 3], [np.inf, 1, 2, 3], [-largest, largest, 1, 2]):
        with pytest.raises(UnsupportedError, match="give back other values"):
            array[...] = np.array(lost, kind)


def test_a_serializer():
    codec = codecs.get("numcodecs.vlen-utf8")
    values = np.array(["a", "", "zvcore"], object)
    stored = codec.encode_array(values)
    assert list(codec.decode_array(stored, np.dtype(object), (3,))) == list(values)
    with pytest.raises(CorruptDataError):
        codec.decode_array(stored[:-1], np.dtype(object), (3,))
    with pytest.raises(CorruptDataError, match=r"\(expected 4, found 3\)"):
        codec.decode_array(stored, np.dtype(object), (4,))
    with pytest.raises(TypeError, match="is not a filter"):
        codec.encoded_form(values.dtype, values.shape)


def test_in_n5():
    document = {"type": "numcodecs.bz2", "level": 3, "comment": "kept"}
    codec = codecs.from_n5(document, "a/attributes.json")
    assert codec.to_n5() == document
    assert codec.decode(numcodecs.BZ2(3).encode(DATA)) == DATA


def test_what_zarr_2_wrote_into_n5(monkeypatch):
    class Mirror(numcodecs.abc.Codec):
        codec_id = "mirror"

        def __init__(self, times=1):
            self.times = times

        def encode(self, buf):
            return bytes(buf)[:: (-1) ** self.times]

        decode = encode

    monkeypatch.setitem(numcodecs_registry.codec_registry, "mirror", Mirror)
    document = {"type": "mirror", "id": "mirror", "times": 3}
    codec = codecs.from_n5(document)
    assert codec.encode(b"abc") == b"cba"
    assert codec.to_n5() == document
    assert codecs.get("numcodecs.mirror", times=3).to_n5() == {"type": "numcodecs.mirror", "times": 3}
    with pytest.raises(CodecNotFoundError, match="'mirror' in N5"):
        codecs.from_n5({"type": "mirror", "times": 3})


def test_what_cannot_be_had():
    with pytest.raises(CodecNotFoundError, match=r"has no codec 'nowhere'; it has .*zlib") as caught:
        codecs.from_zarr3({"name": "numcodecs.nowhere"}, "a/zarr.json")
    assert caught.value.key == "a/zarr.json"
    with pytest.raises(UnsupportedError, match=r"numcodecs.pickle: its data may run any program"):
        codecs.get("numcodecs.pickle")
    with pytest.raises(MetadataError, match=r"no parameter 'levle' \(expected level\)"):
        codecs.get("numcodecs.zlib", levle=3)
    with pytest.raises(MetadataError, match=r"numcodecs.bitround: numcodecs refuses the parameters"):
        codecs.from_zarr3({"name": "numcodecs.bitround", "configuration": {"keepbits": -1}})
    with pytest.raises(MetadataError, match=r"numcodecs.bitround: numcodecs refuses the parameters"):
        codecs.from_zarr3({"name": "numcodecs.bitround"})
    with pytest.raises(MetadataError, match="cannot be written as JSON"):
        codecs.get("numcodecs.zlib", level=object())
    with pytest.raises(TypeError, match="works on arrays"):
        check_codec(codecs.get("numcodecs.packbits"))


def test_a_registered_codec_that_cannot_be_imported(monkeypatch):
    class Point:
        def load(self):
            raise ImportError("libsomething.so is missing")

    monkeypatch.setitem(numcodecs_registry.entries, "somewhere", Point())
    with pytest.raises(CodecNotFoundError, match="numcodecs cannot load its codec 'somewhere': libsomething"):
        codecs.get("numcodecs.somewhere")


def test_without_numcodecs():
    code = """if True:
        import sys
        sys.modules["numcodecs"] = None
        from zvcore import codecs
        from zvcore.errors import CodecNotFoundError
        for ask in (lambda: codecs.get("numcodecs.base64"), lambda: codecs.from_zarr3("numcodecs.base64"),
                    lambda: codecs.from_n5({"type": "other", "id": "other"})):
            try:
                ask()
            except CodecNotFoundError as error:
                print(error)
        # What a plugin of our own reads needs it not.
        codec = codecs.from_zarr3({"name": "numcodecs.zlib", "configuration": {"level": 1}})
        assert codec.decode(codec.encode(b"abc")) == b"abc"
    """
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    first, second, third = done.stdout.splitlines()
    assert first == second == "the codec 'numcodecs.base64' needs numcodecs: pip install numcodecs"
    assert third.startswith("no installed codec is called 'other' in N5")


@pytest.mark.parametrize("name", ["vlen-array", "vlen-bytes", "vlen-utf8"])
def test_no_room_is_made_for_items_that_a_stream_cannot_hold(name):
    """numcodecs makes an array of as many as the stream says: with the largest number, 32 GiB."""
    codec = codecs.get(f"numcodecs.{name}", **({"dtype": "<i4"} if name == "vlen-array" else {}))
    for count, rest in ((2**32 - 1, 44), (12, 44), (1, 3)):
        stored = count.to_bytes(4, "little") + bytes(rest)
        for decode in (codec.decode_buffer, codec.decode):
            with pytest.raises(CorruptDataError, match="more items than it has room for"):
                decode(stored)
        with pytest.raises(CorruptDataError, match="more items than it has room for"):
            codec.decode_array(stored, np.dtype(object), (6,))
    items = codec.decode_buffer((11).to_bytes(4, "little") + bytes(44))
    assert [len(item) for item in items] == [0] * 11
