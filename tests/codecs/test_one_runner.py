"""The same C table used by a codec on its own and by the engine in arrays: taken or refused alike, with one voice."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.codecs.tables import CHECKSUM, CORRUPT, INTERNAL, NOMEM, OK, PARAM, SPACE, UNKNOWN, answering, capsule, wrap
from zvcore import codecs
from zvcore.codecs import Codec, CodecChain
from zvcore.testing.codecs import FIRST_VERSION, _Table

if TYPE_CHECKING:
    from pathlib import Path

VALUES = np.arange(600, dtype="u2").reshape(20, 30)


def written(path: Path) -> Any:
    """An array whose chunks the codec encodes."""
    array = zvcore.create(path, format="zarr3", shape=VALUES.shape, dtype="u2", chunks=(10, 10), codec="fake")
    array[...] = VALUES
    return array


@pytest.mark.parametrize(
    "fields",
    [
        {"label": b"zvcore.codec.v2"},
        {"struct_size": FIRST_VERSION - 8},
        {"name": None},
        {"bound": None},
        {"encode": None},
        {"decode": None},
        {"worker_new": lambda cfg: 1},
        {"worker_free": lambda worker: None},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_malformed_table_is_refused_alike_everywhere(use_table, tmp_path, fields):
    codec = use_table(capsule(**fields))
    told = set()
    uses = (
        lambda: codec.encode(b"abc"),
        lambda: codec.decode(b"abc"),
        lambda: codec.native,
        lambda: CodecChain((codec,)),
        lambda: written(tmp_path),
    )
    for attempt in uses:
        with pytest.raises(TypeError, match="codec 'fake'") as caught:
            attempt()
        told.add(str(caught.value).partition(", not <capsule")[0])
    assert len(told) == 1
    error = codecs.available()["fake"].error
    assert error is not None
    assert error.startswith(told.pop())


@pytest.mark.parametrize("minor", [0, 1, 9])
def test_tables_of_earlier_and_later_versions_work_alone_and_in_arrays(use_table, tmp_path, minor):
    size = FIRST_VERSION + 64 * minor
    # What a plugin that was built with the first version of zv_codec.h says of itself.
    assert FIRST_VERSION == 88
    # What follows the fields of this version is none of our business.
    room = (ctypes.c_ubyte * max(size, ctypes.sizeof(_Table)))(*[0xA5] * max(size, ctypes.sizeof(_Table)))
    inner = capsule(struct_size=size, minor=minor)
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    ctypes.memmove(room, pointer(inner, b"zvcore.codec.v1"), min(size, ctypes.sizeof(_Table)))
    codec = use_table(wrap(room, b"zvcore.codec.v1"))
    assert codec.native
    assert codec.decode(codec.encode(b"abc")) == b"abc"
    written(tmp_path)
    assert (zvcore.open(tmp_path)[...] == VALUES).all()


@pytest.mark.parametrize("status", [CORRUPT, CHECKSUM, PARAM, NOMEM, INTERNAL, 77])
@pytest.mark.parametrize("message", [b"", b"the library says so\0"], ids=["silent", "telling"])
def test_a_failure_is_reported_alike(use_table, tmp_path, status, message):
    use_table(capsule())
    written(tmp_path)
    codec = use_table(capsule(decode=answering(status, code=7, message=message)))
    stored = VALUES[:10, :10].tobytes()
    with pytest.raises(Exception, match="fake") as alone:
        codec.decode(stored)
    with pytest.raises(Exception, match="fake") as in_array:
        zvcore.open(tmp_path)[...]
    assert type(in_array.value) is type(alone.value)
    assert str(in_array.value).endswith(str(alone.value))


@pytest.mark.parametrize(
    ("bound", "error"),
    [
        (lambda cfg, n: n - 1, "fake: the stream holds more bytes than bound"),
        (lambda cfg, n: 0, "fake: the stream holds more bytes than bound"),
        (lambda cfg, n: UNKNOWN, "memory"),
        # With an eighth more this is a small number again.
        (lambda cfg, n: 2**64 * 8 // 9 + 1000, "memory"),
    ],
    ids=["too little", "nothing", "unknown", "nearly everything"],
)
def test_a_false_bound_takes_no_other_memory(use_table, tmp_path, bound, error):
    codec = use_table(capsule(bound=bound))
    with pytest.raises(Exception, match=error) as alone:
        codec.encode(b"abc")
    with pytest.raises(Exception, match=error) as in_array:
        written(tmp_path)
    assert type(in_array.value) is type(alone.value)


def test_more_bytes_than_there_was_room_for_are_not_believed(use_table, tmp_path):
    use_table(capsule())
    written(tmp_path)
    use_table(capsule(decode=answering(OK, size=2**63)))
    with pytest.raises(zvcore.errors.ZvcoreError, match="fake: the library failed"):
        zvcore.open(tmp_path)[...]
    use_table(capsule(encode=answering(OK, size=2**63)))
    with pytest.raises(zvcore.errors.ZvcoreError, match="fake: the library failed"):
        zvcore.open(tmp_path, "r+")[...] = 5


def test_streams_of_another_size_are_reported_alike(use_table, tmp_path):
    use_table(capsule())
    written(tmp_path)
    for decode, text in (
        (answering(OK, size=3), "the decoded data has the wrong size (expected 200 bytes, found 3)"),
        (answering(SPACE, size=900), "the decoded data has the wrong size (expected 200 bytes, found 900)"),
        (answering(SPACE), "the decoded data has the wrong size (expected 200 bytes, found more)"),
    ):
        codec = use_table(capsule(decode=decode))
        with pytest.raises(zvcore.errors.CorruptDataError) as alone:
            codec.decode(b"abc", out=bytearray(200))
        assert str(alone.value) == f"fake: {text}"
        with pytest.raises(zvcore.errors.CorruptDataError) as in_array:
            zvcore.open(tmp_path)[...]
        assert str(in_array.value).endswith(str(alone.value))


def test_an_error_of_python_on_the_way_in_is_no_word_about_stored_bytes(tmp_path):
    class Raising(Codec):
        name = "fake"

        def _encode(self, data: memoryview) -> bytes:
            raise KeyError("no such luck")

    codecs.register("fake", Raising)
    try:
        with pytest.raises(zvcore.errors.ZvcoreError, match="fake: KeyError: 'no such luck'") as caught:
            written(tmp_path)
        assert type(caught.value) is zvcore.errors.ZvcoreError
        assert isinstance(caught.value.__cause__, KeyError)
    finally:
        codecs.unregister("fake")


def test_a_codec_and_its_chains_share_the_workers(use_table):
    made: list[int] = []
    freed: list[int] = []

    def new(cfg: Any) -> int:
        made.append(len(made) + 1)
        return made[-1]

    codec = use_table(capsule(worker_new=new, worker_free=freed.append))
    stored = codec.encode(b"abc")
    for _ in range(3):
        chain = CodecChain((codec,))
        assert bytes(zvcore.engine.encode_many([b"abc"], chain)[0]) == stored
    assert (made, freed) == ([1], [])


def test_too_little_memory_is_no_fault_of_a_chunk(use_table, tmp_path):
    use_table(capsule())
    written(tmp_path)
    use_table(capsule(decode=answering(NOMEM)))
    report = zvcore.verify(tmp_path)
    assert report.status == "unsupported"
    assert {one.what for one in report.problems} == {"fake: out of memory [fake 1.0]"}
    assert not zvcore.repair(tmp_path).losses
    use_table(capsule())
    assert (zvcore.open(tmp_path)[...] == VALUES).all()
