"""`check_codec` passes the first-party codecs, native and not, and finds what is wrong with others."""

from __future__ import annotations

import subprocess
import sys
import time
import zlib

import pytest

from zvcore import codecs
from zvcore.codecs import Codec, param
from zvcore.errors import CorruptDataError
from zvcore.testing import check_codec, sample_data

CONFIGURATIONS = [
    ("raw", {}),
    ("gzip", {}),
    ("gzip", {"level": 1, "use_zlib": True}),
    ("gzip", {"level": 0, "single_member": True}),
    ("gzip", {"level": 9, "sniff": True}),
    ("zstd", {}),
    ("zstd", {"level": -5, "checksum": True}),
]
IDS = [" ".join([name, *map(str, config)]) for name, config in CONFIGURATIONS]


@pytest.mark.parametrize(("name", "config"), CONFIGURATIONS, ids=IDS)
def test_first_party(name, config):
    codec = codecs.get(name, **config)
    assert codec.native
    check_codec(codec)


def without_native(name: str) -> type[Codec]:
    """The codec's class as it is where its C library was missing."""
    cls = type(codecs.get(name))
    return type(cls.__name__, (cls,), {"__zv_codec__": lambda self: None, "__module__": __name__})


class GzipPlain(without_native("gzip")):
    pass


class ZstdPlain(without_native("zstd")):
    pass


PLAIN = {"gzip": GzipPlain, "zstd": ZstdPlain}


@pytest.mark.parametrize(
    ("name", "config"), [case for case in CONFIGURATIONS if case[0] in PLAIN], ids=[i for i in IDS if i != "raw"]
)
def test_first_party_without_its_library(name, config):
    plain, native = PLAIN[name](**config), codecs.get(name, **config)
    assert not plain.native
    codecs.register(name, PLAIN[name])
    try:
        # zlib and libzstd can be stopped; a frame that hides its size cannot through numcodecs, and is refused.
        check_codec(plain)
    finally:
        codecs.unregister(name)
    for data in sample_data().values():
        assert native.decode(plain.encode(data)) == plain.decode(native.encode(data)) == data
        several = native.encode(data) + native.encode(data)
        if not (config.get("use_zlib") or config.get("single_member")):
            assert plain.decode(several) == native.decode(several) == data + data
        else:
            for codec in (plain, native):
                with pytest.raises(CorruptDataError, match="after the end of the stream"):
                    codec.decode(several)


def test_a_missing_native_part_is_listed_and_changes_no_result():
    code = """if True:
        import sys
        missing = ("gzip", "zstd", "lz4", "blosc", "bzip2", "xz")
        for name in missing:
            sys.modules[f"zvcore_plugins._{name}"] = None
        from zvcore import codecs
        data = bytes(range(256)) * 300
        for name in missing:
            info = codecs.available()[name]
            assert (info.native, info.error) == (False, None), info
            codec = codecs.get(name)
            print(name, codec.encode(data).hex())
    """
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    for line in done.stdout.splitlines():
        name, stored = line.split()
        assert codecs.get(name).native
        assert codecs.get(name).decode(bytes.fromhex(stored)) == bytes(range(256)) * 300
    assert len(done.stdout.splitlines()) == 6


# -- what it finds -------------------------------------------------------------------------------------------------


class Good(Codec):
    name = "good"
    level: int = param(1, low=0, high=9)

    def _encode(self, data):
        return zlib.compress(data, self.level)

    def _decode(self, data, max_size):
        stream = zlib.decompressobj()
        decoded = stream.decompress(data, max_size + 1)
        if stream.unused_data or (not stream.eof and len(decoded) <= max_size):
            raise CorruptDataError("cut off, or followed by something")
        return decoded


def test_a_good_one():
    check_codec(Good())
    check_codec(Good(), samples=[b"a" * 96])


class ForgetsLevel(Good):
    def config(self):
        return {"level": 9 if self.level == 3 else self.level + 1}


class NotJson(Good):
    def config(self):
        return {"level": self.level, "also": b"bytes"}


class Lossy(Good):
    def _encode(self, data):
        return zlib.compress(bytes(data).replace(b"\x07", b"\x06"))


class DropsTheEnd(Good):
    def _decode(self, data, max_size):
        return super()._decode(data, max_size)[:65_536]


class FailsOnNothing(Good):
    def _encode(self, data):
        if not len(data):
            raise ValueError("nothing to encode")
        return super()._encode(data)


class Unbounded(Good):
    def _decode(self, data, max_size):
        return zlib.decompress(data)


class ForgivesTruncation(Good):
    def _decode(self, data, max_size):
        stream = zlib.decompressobj()
        decoded = stream.decompress(data, max_size + 1)
        return decoded if stream.eof else decoded.ljust(min(max_size, 1 << 20), b"?")


class KeepsState(Good):
    def _encode(self, data):
        self.__dict__["now"] = bytes(data)
        time.sleep(0.001)
        return zlib.compress(self.__dict__["now"])


class ChangesItsInput(Good):
    def _encode(self, data):
        if not data.readonly and len(data):
            data[0] = 1
        return super()._encode(data)


class ForgetsMembers(Good):
    @classmethod
    def from_n5(cls, obj):
        return cls(level=obj["level"])


class CannotPickle(Good):
    def __reduce__(self):
        return (Good, ())


@pytest.mark.parametrize(
    ("cls", "match"),
    [
        (ForgetsLevel, r"from_config\(config\(\)\) must give an equal codec"),
        (NotJson, "JSON"),
        (Lossy, "is not data"),
        (DropsTheEnd, "is not data"),
        (FailsOnNothing, "nothing to encode"),
        (Unbounded, "bytes before it was refused"),
        (ForgivesTruncation, "decodes to other data"),
        (KeepsState, "not safe to use from several threads"),
        (ChangesItsInput, "must not change its input|is not encode"),
        (ForgetsMembers, "unknown members must be kept"),
        (CannotPickle, "pickle must give an equal codec"),
    ],
)
def test_what_is_wrong_is_found(cls, match):
    with pytest.raises((AssertionError, ValueError, TypeError), match=match):
        check_codec(cls(level=2))


def test_unbounded_can_be_excused():
    check_codec(Unbounded(), bounded=False)
