"""Calling C tables: those that are malformed, those that misbehave, and the checks around all of them."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
import tracemalloc
import weakref

import numpy as np
import pytest

from tests.codecs.tables import CHECKSUM, CORRUPT, INTERNAL, NOMEM, OK, PARAM, SPACE, UNKNOWN, answering, capsule, wrap
from zvcore import codecs
from zvcore.codecs.table import Table
from zvcore.errors import CorruptDataError, OutOfMemoryError, UnsupportedError, ZvcoreError
from zvcore.testing.codecs import FIRST_VERSION, _Table


@pytest.mark.parametrize("thing", [None, 5, b"", object()])
def test_no_capsule(thing):
    with pytest.raises(TypeError, match=r"capsule named 'zvcore.codec.v1'"):
        Table(thing)


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"label": b""}, "capsule named"),
        ({"label": b"zvcore.codec.v2"}, "capsule named"),
        ({"struct_size": 0}, "too short"),
        ({"struct_size": FIRST_VERSION - 8}, "too short"),
        ({"encode": None}, "lacks"),
        ({"decode": None}, "lacks"),
        ({"bound": None}, "lacks"),
        ({"worker_new": lambda cfg: 1}, "only one of"),
        ({"worker_free": lambda worker: None}, "only one of"),
    ],
)
def test_malformed_tables(fields, match):
    with pytest.raises(TypeError, match=match):
        Table(capsule(**fields))


def test_a_table_without_a_name_of_the_codec():
    with pytest.raises(TypeError, match="lacks one of name"):
        Table(wrap(_Table(ctypes.sizeof(_Table)), b"zvcore.codec.v1"))


def test_a_longer_table_of_a_later_version_is_taken():
    codec = Table(capsule(struct_size=ctypes.sizeof(_Table) + 64, minor=9))
    assert codec.decode(codec.encode(b"abc")) == b"abc"
    assert (codec.name, codec.library, codec.flags) == ("fake", "fake 1.0", 0)
    assert (codec.bound(7), codec.decoded_hint(b"abc")) == (7, None)


@pytest.mark.parametrize(
    ("status", "error", "text"),
    [
        (CORRUPT, CorruptDataError, "fake: not a valid stream [fake 1.0]"),
        (CHECKSUM, CorruptDataError, "fake: the checksum does not match [fake 1.0]"),
        (PARAM, UnsupportedError, "fake: the configuration cannot do this [fake 1.0]"),
        (NOMEM, OutOfMemoryError, "fake: out of memory [fake 1.0]"),
        (INTERNAL, ZvcoreError, "fake: the library failed [fake 1.0]"),
        (77, ZvcoreError, "fake: unknown status 77 [fake 1.0]"),
        (-1, ZvcoreError, "fake: unknown status -1 [fake 1.0]"),
    ],
)
def test_statuses_become_errors(status, error, text):
    codec = Table(capsule(decode=answering(status)))
    for options in ({}, {"out": bytearray(3)}, {"max_size": 3}):
        with pytest.raises(error) as caught:
            codec.decode(b"abc", **options)
        assert type(caught.value) is error
        assert str(caught.value) == text


def test_the_message_and_the_code_of_the_library_are_reported():
    codec = Table(capsule(decode=answering(CORRUPT, code=-7, message=b"bad block\0rubbish")))
    with pytest.raises(CorruptDataError, match=r"^fake: bad block \[fake 1.0, code -7\]$"):
        codec.decode(b"abc")
    endless = Table(capsule(decode=answering(CHECKSUM, message=b"\xff" * 248)))
    with pytest.raises(CorruptDataError, match=r"fake: checksum mismatch: �{248} "):
        endless.decode(b"abc")


def test_sizes_beyond_the_room_are_not_believed():
    for field in ("encode", "decode"):
        codec = Table(capsule(**{field: answering(OK, size=2**63)}))
        with pytest.raises(ZvcoreError, match="the library failed"):
            getattr(codec, field)(b"abc")


def test_a_wrong_bound_is_reported():
    codec = Table(capsule(bound=lambda cfg, n: n - 1))
    with pytest.raises(ZvcoreError, match="fake: the stream holds more"):
        codec.encode(b"abc")
    with pytest.raises(MemoryError):
        Table(capsule(bound=lambda cfg, n: UNKNOWN)).encode(b"abc")


def test_no_memory_for_a_worker():
    codec = Table(capsule(worker_new=lambda cfg: None, worker_free=lambda worker: None))
    for method in (codec.encode, codec.decode):
        with pytest.raises(MemoryError, match="fake"):
            method(b"abc")


def test_workers_are_used_again_and_freed_with_the_codec():
    made, freed = [], []

    def new(cfg):
        made.append(len(made) + 1)
        return made[-1]

    codec = Table(capsule(worker_new=new, worker_free=freed.append))
    for _ in range(5):
        assert codec.decode(codec.encode(b"abc")) == b"abc"
    assert (made, freed) == ([1], [])
    del codec
    gc.collect()
    assert freed == [1]


def test_more_workers_than_are_kept_are_freed_at_once():
    kept = 64
    threads = kept + 4
    barrier = threading.Barrier(threads)
    made, freed = [], []

    def new(cfg):
        made.append(len(made) + 1)
        return made[-1]

    def wait(cfg, worker, src, n, dst, cap, out_n, err):
        barrier.wait()
        out_n[0] = 0
        return OK

    codec = Table(capsule(worker_new=new, worker_free=freed.append, encode=wait))
    pool = [threading.Thread(target=codec.encode, args=(b"abc",)) for _ in range(threads)]
    for thread in pool:
        thread.start()
    for thread in pool:
        thread.join()
    assert (len(made), len(freed)) == (threads, threads - kept)
    del codec
    gc.collect()
    assert sorted(freed) == sorted(made)


def test_the_codec_keeps_the_capsule_alive():
    codec = codecs.get("gzip")
    native = codec._native
    seen = weakref.ref(codec)
    del codec
    gc.collect()
    assert seen() is None
    assert native.decode(native.encode(b"abc" * 100)) == b"abc" * 100


# -- room ----------------------------------------------------------------------------------------------------------


def caps_seen(hint: object = None, needed: int = 0, size: int = 2**40) -> tuple[Table, list[int]]:
    """A codec whose stream decodes to `size` bytes, and the room that each try had."""
    caps: list[int] = []

    def decode(cfg, worker, src, n, dst, cap, out_n, err):
        caps.append(cap)
        out_n[0] = size if cap >= size else needed
        return OK if cap >= size else SPACE

    return Table(capsule(decode=decode, decoded_hint=hint)), caps


def test_room_grows_up_to_the_limit_and_no_further():
    codec, caps = caps_seen()
    with pytest.raises(CorruptDataError, match=r"expected at most 100000000 bytes"):
        codec.decode(b"a" * 1000, max_size=100_000_000)
    assert caps == [256_000, 1_024_000, 4_096_000, 16_384_000, 65_536_000, 100_000_000]


def test_a_limit_below_the_first_room():
    codec, caps = caps_seen()
    with pytest.raises(CorruptDataError, match=r"at most 10\b"):
        codec.decode(b"a" * 1000, max_size=10)
    assert caps == [10]


def test_a_modest_limit_is_all_used_at_once():
    codec, caps = caps_seen(size=1_000_000)
    assert len(codec.decode(b"a", max_size=1_000_000)) == 1_000_000
    assert caps == [1_000_000]


def test_a_true_hint_gives_the_exact_room():
    codec, caps = caps_seen(hint=lambda cfg, src, n: 123_456, size=123_456)
    assert len(codec.decode(b"a")) == 123_456
    assert caps == [123_456]


def test_a_lying_hint_takes_no_memory():
    codec, caps = caps_seen(hint=lambda cfg, src, n: 2**31, size=100)
    tracemalloc.start()
    assert len(codec.decode(b"a")) == 100
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert caps == [16 << 20]
    assert peak < 17 << 20


def test_a_hint_beyond_the_limit_is_refused_at_once():
    codec, caps = caps_seen(hint=lambda cfg, src, n: 1001)
    with pytest.raises(CorruptDataError, match=r"expected at most 1000 bytes, found 1001"):
        codec.decode(b"a", max_size=1000)
    assert caps == []


def test_a_hint_that_is_too_small():
    codec, caps = caps_seen(hint=lambda cfg, src, n: 0, size=50)
    assert len(codec.decode(b"a")) == 50
    assert caps == [0, 65536]


def test_what_a_codec_says_it_needs_is_given():
    codec, caps = caps_seen(needed=5_000_000, size=5_000_000)
    assert len(codec.decode(b"a")) == 5_000_000
    assert caps == [65536, 5_000_000]
    codec, caps = caps_seen(needed=2**50)
    with pytest.raises(CorruptDataError, match=r"expected at most 1000 bytes, found 1125899906842624"):
        codec.decode(b"a", max_size=1000)


def test_the_ceiling(monkeypatch):
    data = bytes(100_000)
    for codec in (codecs.get("gzip"), codecs.get("zstd"), codecs.get("gzip", use_zlib=True)):
        stored = codec.encode(data)
        monkeypatch.setattr(codecs, "max_decoded_size", 99_999)
        with pytest.raises(CorruptDataError, match="at most 99999"):
            codec.decode(stored)
        assert codec.decode(stored, max_size=100_000) == data
        assert codec.decode(stored, out=bytearray(100_000)) == data
        monkeypatch.setattr(codecs, "max_decoded_size", 100_000)
        assert codec.decode(stored) == data
    with pytest.raises(ValueError, match="max_size must not be negative"):
        codecs.get("gzip").decode(b"", max_size=-1)


# -- buffers -------------------------------------------------------------------------------------------------------


def test_out_must_not_overlap_the_data():
    room = bytearray(codecs.get("raw").encode(b"abcdef"))
    for codec in (codecs.get("raw"), codecs.get("gzip")):
        with pytest.raises(ValueError, match="overlaps"):
            codec.decode(memoryview(room)[:4], out=memoryview(room)[2:])
    assert codecs.get("raw").decode(memoryview(room)[:3], out=memoryview(room)[3:]) == b"abc"


@pytest.mark.parametrize("name", ["raw", "gzip"])
@pytest.mark.parametrize("dtype", ["?", "i1", ">u2", "f4", ">c16", "M8[ns]", "S3", "U2", [("a", "u1"), ("b", ">f8")]])
def test_arrays_of_all_types(name, dtype):
    codec = codecs.get(name)
    array = np.zeros((3, 4, 5), dtype)
    array.view("u1")[...] = np.arange(array.nbytes).reshape(array.view("u1").shape) % 2
    stored = codec.encode(array)
    assert codec.decode(stored) == array.tobytes()
    assert codec.decode(codec.encode(array.T)) == array.T.tobytes()
    out = np.empty_like(array)
    assert codec.decode(stored, out=out) is out
    assert out.tobytes() == array.tobytes()


@pytest.mark.parametrize("codec", [codecs.get("gzip"), codecs.get("numcodecs.zlib")])
@pytest.mark.parametrize("kind", [lambda array: array, memoryview])
@pytest.mark.parametrize("dtype", [object, [("a", "u1"), ("b", object)]])
def test_objects_are_never_taken_for_bytes(codec, kind, dtype):
    array = np.array([None, None]).astype(object) if dtype is object else np.empty(2, dtype)
    with pytest.raises(TypeError, match="objects"):
        codec.encode(kind(array))
    stored = codec.encode(bytes(array.nbytes))
    with pytest.raises(TypeError, match="objects"):
        codec.decode(stored, out=kind(array))


def test_empty_and_0d():
    codec = codecs.get("gzip")
    assert codec.decode(codec.encode(np.empty((0, 5)))) == b""
    assert codec.decode(codec.encode(np.float64(1))) == np.float64(1).tobytes()
    out = np.zeros(())
    codec.decode(codec.encode(np.float64(1)), out=out)
    assert out == 1
    assert codec.decode(codec.encode(b""), out=bytearray()) == b""


def test_a_failed_decode_gives_its_memory_back():
    stored = codecs.get("zstd").encode(bytes(8 << 20))[:-4]
    codec = codecs.get("zstd")
    tracemalloc.start()
    for _ in range(20):
        with pytest.raises(CorruptDataError):
            codec.decode(stored)
    left = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert left < 1 << 20


def test_after_a_fork():
    """Workers are memory of the process: a child has its own copy of each."""
    codec = codecs.get("zstd")
    stored = codec.encode(b"abc" * 1000)
    child = os.fork()
    if child == 0:
        os._exit(0 if codec.decode(codec.encode(b"abc" * 1000)) == codec.decode(stored) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert codec.decode(stored) == b"abc" * 1000
