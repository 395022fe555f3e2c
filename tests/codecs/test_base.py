"""The base class: parameters, spellings, codecs as values, and codecs in plain Python."""

from __future__ import annotations

import copy
import json
import pickle
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zvcore.codecs import Codec, from_n5, from_zarr3, get, param
from zvcore.codecs.parameters import Parameter
from zvcore.errors import CodecNotFoundError, CorruptDataError, MetadataError, UnsupportedError


class Sample(Codec):
    name = "sample"
    spellings = {"zarr3": "acme.sample"}
    also_read = {"zarr3": {"old.sample": {"mode": "small"}}}

    level: int = param(5, low=0, high=9)
    mode: str = param("fast", choices=("fast", "small"))
    block_size: int | None = param(None, type=int, low=1, n5="blockSize")
    scale: float = param(1.0, low=0)
    exact: bool = param(True, n5=None, zarr3="Exact", sparse=("zarr3",))

    def _encode(self, data):
        return zlib.compress(data)

    def _decode(self, data, max_size):
        return zlib.decompress(data)


class More(Sample):
    name = "more"
    level: int = param(7, low=0, high=20)
    extra: int = param(0)


def test_defaults_are_class_attributes_and_values_are_attributes():
    assert (Sample.level, Sample.block_size) == (5, None)
    codec = Sample(level=3, block_size=64)
    assert (codec.level, codec.mode, codec.block_size, codec.scale, codec.exact) == (3, "fast", 64, 1.0, True)
    assert [parameter.name for parameter in More.parameters] == [
        "level",
        "mode",
        "block_size",
        "scale",
        "exact",
        "extra",
    ]
    assert More().level == 7
    assert More(level=20).level == 20
    assert repr(Sample()) == "Sample(level=5, mode='fast', block_size=None, scale=1.0, exact=True)"


@pytest.mark.parametrize(
    ("values", "expected", "found"),
    [
        ({"level": -1}, "an integer from 0 to 9", "-1"),
        ({"level": 10}, "an integer from 0 to 9", "10"),
        ({"level": 2.5}, "an integer from 0 to 9", "2.5"),
        ({"level": float("nan")}, "an integer from 0 to 9", "nan"),
        ({"level": float("inf")}, "an integer from 0 to 9", "inf"),
        ({"level": 10**400}, "an integer from 0 to 9", "1000"),
        ({"level": "3"}, "an integer from 0 to 9", "'3'"),
        ({"level": True}, "an integer from 0 to 9", "True"),
        ({"level": None}, "an integer from 0 to 9", "None"),
        ({"level": [3]}, "an integer from 0 to 9", "[3]"),
        ({"mode": "slow"}, "one of 'fast', 'small'", "'slow'"),
        ({"mode": 1}, "one of 'fast', 'small'", "1"),
        ({"mode": ["fast"]}, "one of 'fast', 'small'", "['fast']"),
        ({"block_size": 0}, "an integer of at least 1 or null", "0"),
        ({"scale": -0.5}, "a number of at least 0", "-0.5"),
        ({"scale": "1"}, "a number of at least 0", "'1'"),
        ({"scale": float("inf")}, "a number of at least 0", "inf"),
        ({"scale": 10**400}, "a number of at least 0", "1000"),
        ({"exact": 1}, "true or false", "1"),
        ({"exact": "true"}, "true or false", "'true'"),
    ],
)
def test_wrong_values(values, expected, found):
    (member,) = values
    for make in (lambda: Sample(**values), lambda: Sample.from_config(values)):
        with pytest.raises(MetadataError, match=f"'{member}' has a wrong value") as caught:
            make()
        assert caught.value.codec == "sample"
        assert caught.value.expected == expected
        assert caught.value.found.startswith(found)


def test_values_in_other_types():
    codec = Sample(level=6.0, scale=2, exact=np.bool_(False), block_size=np.int64(8))
    assert [type(value) for value in codec.config().values()] == [int, str, int, float, bool]
    assert codec == Sample(level=6, scale=2.0, exact=False, block_size=8)
    assert hash(codec) == hash(Sample(level=6, scale=2.0, exact=False, block_size=8))


def test_unknown_parameters():
    with pytest.raises(TypeError, match="no parameter 'levle'"):
        Sample(levle=3)
    with pytest.raises(MetadataError, match=r"no parameter 'levle' \(expected level, mode, block_size, scale, exact\)"):
        Sample.from_config({"levle": 3})
    with pytest.raises(MetadataError, match="a second time"):
        Sample.from_config({"block_size": 3, "blockSize": 3})
    assert Sample.from_config({"blockSize": 3, "Exact": False}) == Sample(block_size=3, exact=False)
    assert Sample.from_config({"name": "sample", "level": 3}) == Sample(level=3)
    with pytest.raises(MetadataError, match=r"another codec's \(expected sample, found gzip\)"):
        Sample.from_config({"name": "gzip"})


def test_mistakes_in_declarations():
    with pytest.raises(TypeError, match="needs type="):
        param(None)
    with pytest.raises(TypeError, match="unknown format n6"):
        param(1, n6="level")
    assert isinstance(param(1), Parameter)


def test_immutable():
    codec = Sample()
    for change in (
        lambda: setattr(codec, "level", 3),
        lambda: setattr(codec, "other", 3),
        lambda: delattr(codec, "level"),
    ):
        with pytest.raises(AttributeError, match="Sample is immutable"):
            change()
    codec.config()["level"] = 3
    codec.to_n5()["level"] = 3
    assert codec == Sample()


def test_values_decide_equality():
    assert Sample() == Sample(level=5)
    assert Sample() != Sample(level=4)
    assert Sample() != More(level=5)
    assert Sample(scale=1) == Sample(scale=1.0)
    assert Sample() != "sample"
    assert len({Sample(), Sample(level=5), Sample(level=4)}) == 2


def test_replace():
    codec = Sample.from_n5({"type": "sample", "level": 1, "comment": "kept"})
    assert codec.replace(level=2).to_n5() == {**codec.to_n5(), "level": 2}
    assert codec.level == 1


# -- formats -------------------------------------------------------------------------------------------------------


def test_spellings():
    codec = Sample(block_size=8, exact=False)
    assert codec.to_n5() == {"type": "sample", "level": 5, "mode": "fast", "blockSize": 8, "scale": 1.0}
    assert codec.to_zarr3() == {
        "name": "acme.sample",
        "configuration": {"level": 5, "mode": "fast", "block_size": 8, "scale": 1.0, "Exact": False},
    }
    assert "Exact" not in Sample().to_zarr3()["configuration"], "sparse: the default is not written"
    assert "block_size" not in Sample().to_zarr3()["configuration"], "null is not written"
    assert Sample.from_zarr3(codec.to_zarr3()) == codec
    assert Sample.from_n5(codec.to_n5()) == Sample(block_size=8), "N5 has no member for `exact`"
    with pytest.raises(UnsupportedError, match="Neuroglancer has no name for this codec"):
        codec.to_neuroglancer()
    with pytest.raises(MetadataError, match="Neuroglancer cannot name it"):
        Sample.from_neuroglancer("sample")


def test_unknown_members_are_kept_in_their_format():
    n5 = {"type": "sample", "level": 1, "mode": "fast", "scale": 1.0, "comment": {"by": ["me"]}, "exact": 5}
    codec = Sample.from_n5(n5)
    assert codec.exact is True, "N5 has no such member"
    assert codec.to_n5() == n5
    assert codec.to_zarr3() == Sample(level=1).to_zarr3()
    for twin in (pickle.loads(pickle.dumps(codec)), copy.copy(codec), copy.deepcopy(codec)):
        assert twin == codec
        assert twin.to_n5() == n5
    assert codec != Sample(level=1)
    n5["comment"]["by"].append("you")
    codec.to_n5()["comment"]["by"].append("they")
    assert codec.to_n5()["comment"] == {"by": ["me"]}
    zarr = {"name": "acme.sample", "configuration": {"level": 1, "x": None}, "must_understand": False}
    written = Sample.from_zarr3(zarr).to_zarr3()
    assert written == {**zarr, "configuration": {**Sample(level=1).to_zarr3()["configuration"], "x": None}}


def test_other_names_are_read_and_written_back():
    old = {"name": "old.sample", "configuration": {"level": 1}}
    codec = Sample.from_zarr3(old)
    assert codec.mode == "small"
    assert codec.to_zarr3()["name"] == "old.sample"
    assert codec.to_n5()["type"] == "sample"
    assert pickle.loads(pickle.dumps(codec)).to_zarr3()["name"] == "old.sample"


@pytest.mark.parametrize("obj", [None, 5, "sample", [], {}, {"type": "gzip"}, {"type": None}])
def test_wrong_n5_documents(obj):
    with pytest.raises(MetadataError) as caught:
        Sample.from_n5(obj)
    assert caught.value.codec == "sample"


@pytest.mark.parametrize(
    "obj",
    [
        None,
        5,
        "sample",
        [],
        {},
        {"name": "sample"},
        *({"name": "acme.sample", "configuration": c} for c in (None, 5, [])),
    ],
)
def test_wrong_zarr_documents(obj):
    with pytest.raises(MetadataError) as caught:
        Sample.from_zarr3(obj)
    assert caught.value.codec == "sample"


def test_zarr_short_form():
    assert Sample.from_zarr3("acme.sample") == Sample.from_zarr3({"name": "acme.sample"}) == Sample()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
MEMBERS = st.sampled_from(
    ["type", "name", "level", "useZlib", "configuration", "checksum", "shuffle", "blockSize", "x"]
)
NAMES = st.sampled_from(["raw", "gzip", "zstd", "blosc", "lz4", "xz", "bzip2"])


@given(NAMES, st.dictionaries(MEMBERS, JSON, max_size=4))
def test_any_document_is_read_or_refused(name, members):
    refused = []
    for read, write, document in (
        (from_n5, "to_n5", {**members, "type": name}),
        (from_zarr3, "to_zarr3", {**members, "name": name}),
        (from_zarr3, "to_zarr3", {"name": name, "configuration": members}),
    ):
        try:
            codec = read(document, "the key")
        except (MetadataError, CodecNotFoundError, UnsupportedError) as error:
            refused.append(error.key)
            continue
        twin = pickle.loads(pickle.dumps(codec))
        assert twin == codec
        assert hash(twin) == hash(codec)
        written = getattr(codec, write)()
        again = getattr(read(written), write)()
        assert json.dumps(again, sort_keys=True) == json.dumps(written, sort_keys=True), "NaN is not equal to itself"
    assert set(refused) <= {"the key"}


# -- codecs in plain Python ----------------------------------------------------------------------------------------


def test_errors_of_a_library_become_corrupt_data():
    with pytest.raises(CorruptDataError, match=r"sample: not a valid stream \(error: Error -3") as caught:
        Sample().decode(b"abc")
    assert isinstance(caught.value.__cause__, zlib.error)


def test_errors_of_zvcore_and_of_memory_stay():
    class Raising(Codec):
        name = "raising"

        def _decode(self, data, max_size):
            raise (MemoryError, UnsupportedError("no"), KeyError("x"))[data[0]]

    with pytest.raises(MemoryError):
        Raising().decode(b"\0")
    with pytest.raises(UnsupportedError, match=r"^raising: no$"):
        Raising().decode(b"\1")
    with pytest.raises(CorruptDataError, match="KeyError"):
        Raising().decode(b"\2")


def test_results_of_plain_python_are_checked():
    stored = Sample().encode(bytes(1000))
    with pytest.raises(CorruptDataError, match=r"\(expected 999 bytes, found 1000\)"):
        Sample().decode(stored, out=bytearray(999))
    with pytest.raises(CorruptDataError, match=r"\(expected 1001 bytes, found 1000\)"):
        Sample().decode(stored, out=bytearray(1001))
    with pytest.raises(CorruptDataError, match=r"\(expected at most 999 bytes, found 1000\)"):
        Sample().decode(stored, max_size=999)
    assert Sample().native is False


def test_a_result_of_any_type():
    class Arrays(Codec):
        name = "arrays"

        def _encode(self, data):
            return np.frombuffer(data, "u1").astype(">u2")

        def _decode(self, data, max_size):
            return np.frombuffer(data, ">u2").astype("u1")[::-1][::-1]

    codec = Arrays()
    assert codec.encode(b"ab") == b"\0a\0b"
    assert codec.decode(b"\0a\0b") == b"ab"
    assert codec.decode(b"\0a\0b", out=bytearray(2)) == b"ab"


def test_nothing_to_work_with():
    class Empty(Codec):
        name = "empty"

    with pytest.raises(NotImplementedError, match="Empty has neither _encode nor a native part"):
        Empty().encode(b"")
    with pytest.raises(NotImplementedError, match="Empty has neither _decode nor a native part"):
        Empty().decode(b"")


def test_raw():
    codec = get("raw")
    assert (codec.identity, codec.native, codec.config()) == (True, True, {})
    assert codec.to_n5() == {"type": "raw"}
    assert codec.to_neuroglancer() == "raw"
    with pytest.raises(UnsupportedError, match="Zarr v3 has no name"):
        codec.to_zarr3()
