"""`check_codec`, for the tests of codec plugins."""

from __future__ import annotations

import ctypes
import json
import pickle
import random
import threading
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore import codecs
from zvcore.codecs import Codec
from zvcore.codecs.methods import decode_through
from zvcore.codecs.table import Table
from zvcore.errors import CorruptDataError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["check_codec", "sample_data"]

CAPSULE = b"zvcore.codec.v1"
OK, SPACE = 0, 1
UNKNOWN = 2**64 - 1
THREADS = 8
BOMB = 64 << 20
GUARD = 64


def sample_data() -> dict[str, bytes]:
    """The byte strings that `check_codec` encodes: ones that break codecs, and ones like chunks."""
    rng = np.random.default_rng(7)
    labels = np.repeat(np.repeat(rng.integers(0, 2**40, (12, 12), "u8"), 9, 0), 9, 1)
    waves = 1000 * np.sin(np.linspace(0, 60, 60_000)) + rng.normal(2000, 30, 60_000)
    return {
        "nothing": b"",
        "one byte": b"\x00",
        "a few bytes": b"zvcore" * 3,
        "just over 64 KiB": bytes(range(256)) * 256 + b"!",
        "zeros": bytes(100_000),
        "noise": rng.bytes(70_001),
        "labels": labels.tobytes(),
        "microscopy": waves.astype(">u2").tobytes(),
    }


def check_codec(codec: Any, samples: Iterable[bytes] | None = None, *, bounded: bool = True) -> None:
    """Raise AssertionError, saying what is wrong, unless a codec does everything that zvcore relies on.

    `samples` replaces the data of `sample_data`, for a codec that cannot take arbitrary bytes. `bounded=False`
    skips the check that a stream takes little more memory than it may; a codec over a library that cannot be stopped
    needs that, and is not safe for data from strangers.
    """
    codec = codecs.as_codec(codec)
    if codec.kind != "bytes":
        raise TypeError(f"{codec.name} works on arrays; check_codec is for codecs of bytes")
    data = sample_data() if samples is None else {f"sample {i}": bytes(sample) for i, sample in enumerate(samples)}
    check_value(codec)
    check_spellings(codec)
    for what, sample in data.items():
        check_round_trip(codec, what, sample)
        check_damaged(codec, what, sample)
    longest = max(data.values(), key=len)
    check_buffers(codec, longest[: len(longest) // 48 * 48])
    check_threads(codec, list(data.values()))
    if bounded and samples is None:
        check_bomb(codec)
    if codec.native:
        check_table(codec, data)


def check_value(codec: Codec) -> None:
    """Equality, hash, pickle, configuration."""
    cls = type(codec)
    assert codec.name, "a codec needs a name"
    config = codec.config()
    assert json.loads(json.dumps(config)) == config, f"config() must be plain JSON, not {config!r}"
    assert config == codec.config(), "config() must give the same each time"
    assert config is not codec.config(), "config() must give a dict of the caller's own"
    twins = {"from_config(config())": cls.from_config(config), "pickle": pickle.loads(pickle.dumps(codec))}
    for how, twin in twins.items():
        assert twin == codec, f"{how} must give an equal codec"
        assert hash(twin) == hash(codec), f"{how} must give a codec with the same hash"
        assert twin.config() == config, f"{how} must keep the configuration"
    assert codec != object(), "a codec must not be equal to just anything"
    info = codecs.available().get(codec.name)
    if info is not None:
        assert info.error is None, f"installed, but not usable: {info.error}"
        assert codecs.get(codec.name, **config) == codec, "what is installed under the codec's name is something else"


def check_spellings(codec: Codec) -> None:
    """Each format's document gives the codec back; unknown members survive."""
    cls = type(codec)
    for write, read in ((cls.to_n5, cls.from_n5), (cls.to_zarr2, cls.from_zarr2), (cls.to_zarr3, cls.from_zarr3)):
        try:
            document = write(codec)
        except UnsupportedError:
            continue
        assert json.loads(json.dumps(document)) == document, f"{write.__name__}() must be plain JSON, not {document!r}"
        again = read(document)
        assert again.encode(b"zvcore") == codec.encode(b"zvcore") or again == codec, f"{document} is read as {again!r}"
        members = document.setdefault("configuration", {}) if "name" in document else document
        members["zvcore_unknown"] = [1, {"a": None}]
        again = read(document)
        written = write(again)
        assert written == document, f"unknown members must be kept (expected {document}, found {written})"
        assert pickle.loads(pickle.dumps(again)) == again, "pickle must keep unknown members"


def check_round_trip(codec: Codec, what: str, data: bytes) -> None:
    """Encode and decode, into new and given memory, within the limits and beyond them."""
    stored = codec.encode(data)
    assert isinstance(stored, bytes), f"encode must give bytes, not {type(stored).__name__}"
    assert bytes(codec.decode(stored)) == data, f"{what}: decode(encode(data)) is not data"
    assert bytes(codec.decode(stored, max_size=len(data))) == data, (
        f"{what}: max_size of exactly the data's size must do"
    )
    # The memory around `out` shows whether the codec stays within it.
    room = bytearray(b"\xa5" * (GUARD + len(data) + GUARD))
    out: Any = memoryview(room)[GUARD : GUARD + len(data)]
    assert codec.decode(stored, out=out) is out, f"{what}: decode must return out"
    assert out == data, f"{what}: decode into out is not data"
    assert room[:GUARD] == room[GUARD + len(data) :] == b"\xa5" * GUARD, f"{what}: decode wrote outside of out"
    assert not _decodes(codec, stored, out=bytearray(len(data) + 1)), f"{what}: an out that is too large was taken"
    if data:
        room = bytearray(b"\xa5" * (len(data) - 1 + GUARD))
        out = memoryview(room)[: len(data) - 1]
        assert not _decodes(codec, stored, out=out), f"{what}: an out that is too small was taken"
        assert room[len(data) - 1 :] == b"\xa5" * GUARD, f"{what}: decode wrote outside of an out that is too small"
        for limit in (len(data) - 1, 0):
            assert not _decodes(codec, stored, max_size=limit), f"{what}: decode exceeded max_size={limit}"


def check_damaged(codec: Codec, what: str, data: bytes) -> None:
    """Streams that are cut off or changed: an error of zvcore, or bytes; never anything else, never too many."""
    stored = codec.encode(data)
    chance = random.Random(len(data))
    cuts = {0, 1, len(stored) // 2, len(stored) - 1, *(chance.randrange(len(stored) + 1) for _ in range(8))}
    for cut in sorted(cut for cut in cuts if 0 <= cut < len(stored)):
        out = bytearray(len(data))
        if _decodes(codec, stored[:cut], out=out):
            # Only bytes that the decoded data does not need may be missing.
            assert out == data, f"{what}: a stream cut off after {cut} of {len(stored)} bytes decodes to other data"
        _decodes(codec, stored[:cut], max_size=len(data))
    for _ in range(24 if stored else 0):
        flipped = bytearray(stored)
        # A wrong bit does most harm in headers.
        reach = min(len(stored), 64) if chance.random() < 0.5 else len(stored)
        flipped[chance.randrange(reach)] ^= 1 << chance.randrange(8)
        room = bytearray(b"\xa5" * (len(data) + GUARD))
        _decodes(codec, flipped, out=memoryview(room)[: len(data)])
        assert room[len(data) :] == b"\xa5" * GUARD, f"{what}: decoding a damaged stream wrote outside of out"
        _decodes(codec, flipped, max_size=2 * len(data))
    for strange in (b"", chance.randbytes(3), chance.randbytes(100)):
        _decodes(codec, strange, max_size=1 << 20)


def check_buffers(codec: Codec, data: bytes) -> None:
    """Every kind of buffer is taken for its bytes in C order, and none is changed."""
    stored = codec.encode(data)
    array = np.frombuffer(data, "u1")
    read_only = array.reshape(6, -1)
    spread = np.zeros((2, *read_only.shape), "u1")[:, :, ::-1]
    spread[1] = read_only
    buffers: dict[str, Any] = {
        "bytearray": bytearray(data),
        "a read-only memoryview": memoryview(data).toreadonly(),
        "a two-dimensional array": read_only,
        "an array of larger items": array.view("<u4"),
        "an array of dates": array.view("M8[s]"),
        "an array in Fortran order": np.asfortranarray(read_only),
        "a strided array": spread[1],
        "a strided memoryview": memoryview(np.repeat(array, 2).data)[::2],
        "an array that starts at an odd address": np.frombuffer(b"\0" + data, "u1")[1:],
    }
    for what, buffer in buffers.items():
        assert bytes(codec.decode(codec.encode(buffer))) == data, f"encode({what}) is not encode(its bytes)"
    assert np.array_equal(spread[1], read_only), "encode must not change its input"
    assert buffers["bytearray"] == data, "encode must not change its input"
    for same in (bytearray(stored), memoryview(stored), np.frombuffer(stored, "u1")):
        assert bytes(codec.decode(same)) == data, f"decode(a {type(same).__name__}) is not decode(bytes)"
    padded = np.zeros(2 * len(stored), "u1")
    padded[::2] = np.frombuffer(stored, "u1")
    assert bytes(codec.decode(padded[::2])) == data, "decode(a strided array) is not decode(its bytes)"
    out = np.zeros(len(data) // 8, "f8")
    assert codec.decode(stored, out=out) is out, "decode must return out"
    assert out.tobytes() == data, "decode must fill an out of any item type"
    unfit: dict[str, Any] = {"read-only": bytes(len(data)), "strided": np.zeros(2 * len(data), "u1")[::2]}
    for what, out in unfit.items():
        try:
            codec.decode(stored, out=out)
        except ValueError:
            continue
        raise AssertionError(f"a {what} out must be refused by ValueError")
    no_buffers: tuple[Any, ...] = ("text", 5, None)
    for nothing in no_buffers:
        for method in (codec.encode, codec.decode):
            try:
                method(nothing)
            except TypeError:
                continue
            raise AssertionError(f"{method.__name__}({nothing!r}) must raise TypeError")


def check_threads(codec: Codec, data: list[bytes]) -> None:
    """One codec object from many threads at once."""
    stored = [codec.encode(sample) for sample in data]
    barrier = threading.Barrier(THREADS)
    faults: list[str] = []

    def work(first: int) -> None:
        barrier.wait()
        try:
            for turn in range(2 * len(data)):
                i = (first + turn) % len(data)
                if bytes(codec.decode(stored[i])) != data[i] or bytes(codec.decode(codec.encode(data[i]))) != data[i]:
                    faults.append(f"in thread {first}, sample {i} came back changed")
        except BaseException as error:
            faults.append(f"in thread {first}: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, f"not safe to use from several threads: {faults[0]}"


def check_bomb(codec: Codec) -> None:
    """A small stream that claims much memory does not get it."""
    bomb = codec.encode(bytes(BOMB))
    if len(bomb) > BOMB // 8:
        return  # it does not compress, so its streams are as large as their contents
    for limit in (0, 1000):
        tracemalloc.start()
        try:
            taken = _decodes(codec, bomb, max_size=limit) or _decodes(codec, bomb, out=bytearray(limit))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert not taken, f"a stream of {BOMB} zeros was decoded to {limit} bytes"
        assert peak < BOMB // 4, f"a stream of {BOMB} zeros took {peak} bytes before it was refused at {limit}"


def _decodes(codec: Codec, stored: Any, **options: Any) -> bool:
    """Whether a stream can be decoded. If not, the error must be one about wrong data."""
    try:
        codec.decode(stored, **options)
    except (CorruptDataError, UnsupportedError):
        return False
    return True


# -- the C table --------------------------------------------------------------------------------------------------


class _Error(ctypes.Structure):
    _fields_ = (("struct_size", ctypes.c_uint32), ("lib_code", ctypes.c_int32), ("msg", ctypes.c_char * 248))


_u64, _pointer = ctypes.c_uint64, ctypes.c_void_p
_Work = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    *(_pointer, _pointer, _pointer, _u64, _pointer, _u64, ctypes.POINTER(_u64), ctypes.POINTER(_Error)),
)


class _Table(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("name", ctypes.c_char_p),
        ("lib_version", ctypes.c_char_p),
        ("flags", _u64),
        ("cfg", _pointer),
        ("worker_new", ctypes.CFUNCTYPE(_pointer, _pointer)),
        ("worker_free", ctypes.CFUNCTYPE(None, _pointer)),
        ("bound", ctypes.CFUNCTYPE(_u64, _pointer, _u64)),
        ("decoded_hint", ctypes.CFUNCTYPE(_u64, _pointer, _pointer, _u64)),
        ("encode", _Work),
        ("decode", _Work),
        ("part_size", ctypes.CFUNCTYPE(_u64, _pointer, _pointer, _u64, _u64)),
        ("decode_part", ctypes.CFUNCTYPE(ctypes.c_int32, *(_pointer, _pointer, _pointer, _u64, _u64, _pointer, _u64))),
        ("plain_at", ctypes.CFUNCTYPE(_u64, _pointer, _pointer, _u64, _u64)),
        ("decode_two", ctypes.CFUNCTYPE(ctypes.c_int32, *[_pointer] * 6)),
        ("decode_first", ctypes.CFUNCTYPE(ctypes.c_int32, *[_pointer] * 3, _u64, _pointer, _u64, _u64)),
    )


FIRST_VERSION = _Table.decode.offset + _Table.decode.size
WITH_PARTS = _Table.decode_part.offset + _Table.decode_part.size
WITH_PLAIN = _Table.plain_at.offset + _Table.plain_at.size
WITH_TWO = _Table.decode_two.offset + _Table.decode_two.size


class _Direct:
    """A codec's table, called as the engine calls it."""

    def __init__(self, codec: Codec) -> None:
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        self.capsule = codec.__zv_codec__()
        self.table = _Table.from_address(pointer(self.capsule, CAPSULE))
        self.worker = self.table.worker_new(self.table.cfg) if self.table.worker_new else None

    def close(self) -> None:
        if self.table.worker_free:
            self.table.worker_free(self.worker)

    def call(self, function: Any, data: bytes, cap: int) -> tuple[int, int, bytes]:
        """(status, size, written bytes) with room for `cap` bytes; writing more than that is an AssertionError."""
        room = (ctypes.c_char * (cap + GUARD)).from_buffer(bytearray(b"\xa5" * (cap + GUARD)))
        size = _u64(0)
        error = _Error(ctypes.sizeof(_Error), 0, b"")
        source = ctypes.create_string_buffer(data, len(data)) if data else None
        target = ctypes.addressof(room) if cap else None
        status = function(self.table.cfg, self.worker, source, len(data), target, cap, size, error)
        written = bytes(room)
        assert written[cap:] == b"\xa5" * GUARD, "the table's functions wrote more bytes than they had room for"
        assert status != OK or size.value <= cap, "the table's functions claim more bytes than they had room for"
        return status, size.value, written[: min(size.value, cap)]


def check_table(codec: Codec, data: dict[str, bytes]) -> None:
    """The table on its own: sizes, room, and the same results as the Python methods, where there are any."""
    direct = _Direct(codec)
    table = direct.table
    before: tuple[bytes, bytes] | None = None
    try:
        assert table.struct_size >= FIRST_VERSION, "struct_size must be the size of the whole table"
        assert table.name.decode() == codec.name, f"the table calls itself {table.name!r}, the codec {codec.name!r}"
        for what, sample in data.items():
            bound = table.bound(table.cfg, len(sample))
            status, size, stored = direct.call(table.encode, sample, bound)
            assert status == OK, f"{what}: encoding with room for bound() bytes gives status {status}"
            assert size <= bound, f"{what}: encoded to {size} bytes, more than bound() = {bound}"
            if stored:
                status, needed, _ = direct.call(table.encode, sample, len(stored) - 1)
                assert status in (OK, SPACE), f"{what}: encoding without enough room gives status {status}"
                assert status == OK or needed == 0 or needed >= len(stored), f"{what}: encode asks for too little room"
            hint = table.decoded_hint(table.cfg, stored, len(stored)) if table.decoded_hint and stored else UNKNOWN
            assert hint in (UNKNOWN, len(sample)), f"{what}: decoded_hint is {hint}, the size {len(sample)}"
            status, size, decoded = direct.call(table.decode, stored, len(sample))
            assert (status, size, decoded) == (OK, len(sample), sample), f"{what}: decoding with just enough room fails"
            in_parts = decode_in_parts(codec, stored, len(sample)) if sample else None
            assert in_parts in (None, sample), f"{what}: the parts are not what decode gives"
            plain = find_plain(codec, stored, len(sample))
            assert plain in (None, sample), f"{what}: what plain_at points to is not what decode gives"
            before = (stored, sample) if before is None else before
            together = decode_two(codec, [stored, before[0]], [len(sample), len(before[1])])
            assert together in (None, [sample, before[1]]), f"{what}: decode_two gives something else than decode"
            before = stored, sample
            for first in {1, len(sample) // 3, len(sample) // 2} if len(sample) > 1 else ():
                begun = decode_first(codec, stored, len(sample), first)
                assert begun in (None, sample[:first]), f"{what}: decode_first gives something else than decode"
            if sample:
                for cap in {0, len(sample) // 2, len(sample) - 1}:
                    status, needed, _ = direct.call(table.decode, stored, cap)
                    assert status == SPACE, f"{what}: decoding to {cap} of {len(sample)} bytes gives status {status}"
                    assert needed in (0, len(sample)), f"{what}: decode asks for {needed} bytes"
    finally:
        direct.close()
    _check_agreement(codec, data)


def decode_in_parts(codec: Codec, stored: bytes, size: int) -> bytes | None:
    """What a stream of this many bytes decodes to part by part, the last one first; None if it has no parts, or if one
    of them cannot be decoded. A codec of zvcore's engine is asked for parts only where there are several threads.
    """
    direct = _Direct(codec)
    try:
        table = direct.table
        if table.struct_size < WITH_PARTS or not table.part_size or not table.decode_part:
            return None
        source = ctypes.create_string_buffer(stored, len(stored))
        part = table.part_size(table.cfg, source, len(stored), size)
        if not part:
            return None
        assert part < size, f"parts of {part} bytes for a stream of {size}"
        found = []
        for begin in reversed(range(0, size, part)):
            room = (ctypes.c_char * (part + GUARD)).from_buffer(bytearray(b"\xa5" * (part + GUARD)))
            length = min(part, size - begin)
            status = table.decode_part(table.cfg, direct.worker, source, len(stored), begin, room, length)
            assert bytes(room)[length:] == b"\xa5" * (part - length + GUARD), "a part wrote more than it had room for"
            if status != OK:
                return None
            found.append(bytes(room)[:length])
        return b"".join(reversed(found))
    finally:
        direct.close()


def decode_two(codec: Codec, stored: list[bytes], sizes: list[int]) -> list[bytes] | None:
    """What two streams of these many bytes decode to at once; None if the codec cannot do that, or not with these."""
    direct = _Direct(codec)
    try:
        table = direct.table
        if table.struct_size < WITH_TWO or not table.decode_two:
            return None
        sources = [ctypes.create_string_buffer(data, len(data)) for data in stored]
        rooms = [(ctypes.c_char * (size + GUARD)).from_buffer(bytearray(b"\xa5" * (size + GUARD))) for size in sizes]
        status = table.decode_two(
            table.cfg,
            direct.worker,
            (_pointer * 2)(*map(ctypes.addressof, sources)),
            (_u64 * 2)(*map(len, stored)),
            (_pointer * 2)(*map(ctypes.addressof, rooms)),
            (_u64 * 2)(*sizes),
        )
        for room, size in zip(rooms, sizes, strict=True):
            assert bytes(room)[size:] == b"\xa5" * GUARD, "decode_two wrote more bytes than it had room for"
        return [bytes(room)[:size] for room, size in zip(rooms, sizes, strict=True)] if status == OK else None
    finally:
        direct.close()


def decode_first(codec: Codec, stored: bytes, size: int, first: int) -> bytes | None:
    """The first bytes of what a stream decodes to, which has `size` of them; None if the codec cannot do that, or not
    with this one.
    """
    direct = _Direct(codec)
    try:
        table = direct.table
        if table.struct_size < ctypes.sizeof(_Table) or not table.decode_first:
            return None
        source = ctypes.create_string_buffer(stored, len(stored))
        room = (ctypes.c_char * (size + GUARD)).from_buffer(bytearray(b"\xa5" * (size + GUARD)))
        status = table.decode_first(table.cfg, direct.worker, source, len(stored), room, size, first)
        assert bytes(room)[size:] == b"\xa5" * GUARD, "decode_first wrote more bytes than it had room for"
        return bytes(room)[:first] if status == OK else None
    finally:
        direct.close()


def find_plain(codec: Codec, stored: bytes, size: int) -> bytes | None:
    """The bytes that lie as they are in a stream of this many; None if the codec says that it has none."""
    direct = _Direct(codec)
    try:
        table = direct.table
        if table.struct_size < WITH_PLAIN or not table.plain_at:
            return None
        at = table.plain_at(table.cfg, ctypes.create_string_buffer(stored, len(stored)), len(stored), size)
        if at == UNKNOWN:
            return None
        assert at + size <= len(stored), f"{size} bytes from {at} on do not lie in a stream of {len(stored)}"
        return stored[at : at + size]
    finally:
        direct.close()


def _check_agreement(codec: Codec, data: dict[str, bytes]) -> None:
    if type(codec)._encode is Codec._encode or type(codec)._decode is Codec._decode:
        return
    native = Table(codec.__zv_codec__())
    for what, sample in data.items():
        by_table = native.encode(sample)
        by_python = bytes(codec._encode(memoryview(sample)))
        assert bytes(native.decode(by_python)) == sample, f"{what}: the table cannot decode what _encode made"
        for out in (None, bytearray(len(sample))):
            decoded = decode_through(codec._decode, codec.name, by_table, out, None)
            assert bytes(decoded) == sample, f"{what}: _decode cannot decode what the table made"
