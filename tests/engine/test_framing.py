"""Tables by which a format reads and writes the headers of its chunks, and tables that lie."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from zvcore.engine.form import Form
from zvcore.layout import ChunkForm
from zvcore.n5._framing import framing

CAPSULE = b"zvcore.framing.v1"
_two = (ctypes.c_void_p, ctypes.c_void_p)
Parse = ctypes.CFUNCTYPE(ctypes.c_int32, *_two, ctypes.c_uint64, ctypes.c_int32, *_two)
Bound = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_int32)
Write = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)


class Table(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_uint32),
        ("cfg", ctypes.c_void_p),
        ("parse", Parse),
        ("header_bound", Bound),
        ("write", Write),
    )


def write(count: int, claimed: int) -> Any:
    def function(cfg: Any, ndim: int, shape: int, target: int) -> int:
        ctypes.memset(target, 1, count)
        return claimed

    return Write(function)


def form(**changed: Any) -> Form:
    """A form whose framing has headers of 12 bytes, and says so unless it is `changed`."""
    members = {
        "struct_size": ctypes.sizeof(Table),
        "parse": Parse(lambda *_: 0),
        "header_bound": Bound(lambda *_: 12),
        "write": write(12, 12),
    }
    table = Table(**{**members, **changed})
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return made(new(ctypes.addressof(table), CAPSULE, None))


def made(capsule: Any) -> Form:
    return Form(ChunkForm((4, 4), np.dtype("u1"), edge="framed"), (8, 8), 0, capsule)


def test_a_table_that_keeps_its_word_is_taken() -> None:
    made(framing())
    form()
    form(struct_size=ctypes.sizeof(Table) + 8)
    form(header_bound=Bound(lambda *_: 100))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"struct_size": ctypes.sizeof(Table) - 8}, "too short .expected at least 40 bytes, found 32"),
        ({"struct_size": 0}, "too short"),
        ({"parse": Parse()}, "lacks one of"),
        ({"header_bound": Bound()}, "lacks one of"),
        ({"write": Write()}, "lacks one of"),
        ({"header_bound": Bound(lambda *_: 2**40)}, "too long .expected at most 1024 bytes, found 1099511627776"),
        ({"write": write(12, 16)}, "longer headers than it says .expected at most 12 bytes, found 16"),
        ({"write": write(16, 12)}, "longer headers than it says .expected at most 12 bytes, found 16"),
        ({"header_bound": Bound(lambda *_: 0)}, "longer headers than it says"),
    ],
)
def test_a_false_table_is_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        form(**changed)


def test_something_else_than_a_framing_is_refused() -> None:
    with pytest.raises(TypeError, match=r"a framing is a capsule named 'zvcore.framing.v1'"):
        made(object())
