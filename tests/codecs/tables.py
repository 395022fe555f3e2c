"""C tables whose functions are Python's, for the tests of what runs codecs."""

from __future__ import annotations

import ctypes
from typing import Any

from zvcore.codecs import Codec
from zvcore.testing.codecs import UNKNOWN, _Error, _Table

__all__ = [
    "CHECKSUM",
    "CORRUPT",
    "INTERNAL",
    "NOMEM",
    "OK",
    "PARAM",
    "SPACE",
    "UNKNOWN",
    "Fake",
    "answering",
    "capsule",
    "wrap",
]

OK, SPACE, CORRUPT, CHECKSUM, PARAM, NOMEM, INTERNAL = range(7)
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
types = dict(_Table._fields_)
ALIVE: list[object] = []


class Fake(Codec):
    """A codec whose table the tests make: the fixture `use_table` registers it."""

    name = "fake"
    table: Any = None

    def __zv_codec__(self) -> Any:
        return type(self).table


def capsule(label: bytes = b"zvcore.codec.v1", **fields: object) -> object:
    """A capsule around a table whose functions are Python's; by default it copies."""

    def copy(cfg, worker, src, n, dst, cap, out_n, err):
        out_n[0] = n
        if n > cap:
            return SPACE
        ctypes.memmove(dst, src, n)
        return OK

    table = _Table(ctypes.sizeof(_Table), 0, b"fake", b"fake 1.0", 0, None)
    functions = {"encode": copy, "decode": copy, "bound": lambda cfg, n: n}
    for field, value in {**functions, **fields}.items():
        setattr(table, field, types[field](value) if callable(value) else types[field]() if value is None else value)
    return wrap(table, label)


def wrap(table: _Table, label: bytes) -> object:
    kept = ctypes.create_string_buffer(label)
    ALIVE.extend((table, kept))
    return new_capsule(ctypes.addressof(table), ctypes.cast(kept, ctypes.c_char_p), None)


def answering(status: int, size: int = 0, code: int = 0, message: bytes = b"") -> object:
    def function(cfg, worker, src, n, dst, cap, out_n, err):
        out_n[0] = size
        assert err[0].struct_size == ctypes.sizeof(_Error)
        err[0].lib_code = code
        ctypes.memmove(ctypes.addressof(err[0]) + _Error.msg.offset, message, len(message))
        return status

    return function
