"""The C functions that other Cython modules call, taken from where Cython finds them."""

from __future__ import annotations

import ctypes
import importlib
import itertools
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_ssize_t, c_uint8, c_uint32, c_uint64, c_void_p
from typing import Any

import google_crc32c
import numpy as np
import pytest

from zvcore import kernels

capsule_name = ctypes.pythonapi.PyCapsule_GetName
capsule_name.restype = c_char_p
capsule_name.argtypes = [ctypes.py_object]
capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
capsule_pointer.restype = c_void_p
capsule_pointer.argtypes = [ctypes.py_object, c_char_p]

UINT64S = POINTER(c_uint64)


def c_function(module: str, name: str, result: Any, *arguments: Any, with_gil: bool = False) -> Any:
    capsule = importlib.import_module(f"zvcore.kernels.{module}").__pyx_capi__[name]
    kind = ctypes.PYFUNCTYPE if with_gil else ctypes.CFUNCTYPE
    return kind(result, *arguments)(capsule_pointer(capsule, capsule_name(capsule)))


def uint64s(column: Any) -> Any:
    return column.ctypes.data_as(UINT64S)


def test_crc32c_of(simd_path: str) -> None:
    crc32c_of = c_function("crc32c", "crc32c_of", c_uint32, c_char_p, c_size_t, c_uint32)
    data = np.random.default_rng(0).bytes(5000)
    assert crc32c_of(data, len(data), 0) == google_crc32c.value(data)
    assert crc32c_of(data, 17, 5) == kernels.crc32c(data[:17], 5)
    assert crc32c_of(None, 0, 99) == 99


def test_murmurhash3_of(simd_path: str) -> None:
    murmurhash3_of = c_function("hashing", "murmurhash3_of", None, UINT64S, UINT64S, c_size_t)
    ids = np.arange(100, dtype=np.uint64)
    hashes = np.zeros(101, np.uint64)
    murmurhash3_of(uint64s(ids), uint64s(hashes), 100)
    assert hashes[:100].tolist() == kernels.murmurhash3_x86_128(ids).tolist()
    assert hashes[100] == 0


def test_decode_ranges_and_encode_ranges() -> None:
    decode_ranges = c_function("delta", "decode_ranges", c_size_t, c_char_p, c_size_t, UINT64S, UINT64S, UINT64S)
    encode_ranges = c_function("delta", "encode_ranges", c_size_t, UINT64S, UINT64S, UINT64S, c_size_t, c_char_p)
    columns = [np.array(column, np.uint64) for column in ([5, 3, 9], [0, 100, 7], [10, 20, 0])]
    stored = ctypes.create_string_buffer(72)
    assert encode_ranges(*map(uint64s, columns), 3, stored) == 3
    assert stored.raw[:72] == kernels.encode_minishard_index(*columns)
    found = [np.zeros(3, np.uint64) for _ in range(3)]
    assert decode_ranges(stored.raw, 3, *map(uint64s, found)) == 3
    assert np.array_equal(found, columns)
    columns[1][1] = columns[2][1] = 2**63
    assert encode_ranges(*map(uint64s, columns), 3, stored) == 1
    assert decode_ranges(stored.raw, 3, *map(uint64s, found)) == 1


def test_morton_codes(simd_path: str) -> None:
    plan_grid = c_function("morton", "plan_grid", c_int, ctypes.py_object, c_void_p, with_gil=True)
    encode = c_function(
        "morton", "encode", c_size_t, c_void_p, c_int, c_void_p, c_ssize_t, c_ssize_t, c_size_t, UINT64S
    )
    decode = c_function(
        "morton", "decode", c_size_t, c_void_p, c_void_p, c_ssize_t, c_size_t, UINT64S, POINTER(c_uint8)
    )
    grid_shape = (7, 30, 5)
    grid = ctypes.create_string_buffer(1 << 14)  # larger than the struct, whose size C code knows
    assert plan_grid(grid_shape, grid) == 0
    positions = np.array(list(itertools.product(*map(range, grid_shape))), np.int64)
    count = len(positions)
    codes = np.zeros(count, np.uint64)
    int64 = 2
    assert encode(grid, int64, positions.ctypes.data, *positions.strides, count, uint64s(codes)) == count
    assert codes.tolist() == kernels.compressed_morton(positions, grid_shape).tolist()
    back = np.zeros((count, 3), np.uint64)
    assert decode(grid, codes.ctypes.data, 8, count, uint64s(back), None) == count
    assert np.array_equal(back, positions)

    # What lies outside is reported by where its block of 256 rows begins, or code by code.
    positions[600, 1] = 30
    assert encode(grid, int64, positions.ctypes.data, *positions.strides, count, uint64s(codes)) == 512
    codes[600] = 2**60
    assert decode(grid, codes.ctypes.data, 8, count, uint64s(back), None) == 512
    inside = np.zeros(count, np.uint8)
    assert decode(grid, codes.ctypes.data, 8, count, None, inside.ctypes.data_as(POINTER(c_uint8))) == count
    assert np.flatnonzero(inside == 0).tolist() == [600]

    with pytest.raises(ValueError, match="need 65 bits"):
        plan_grid((2**65,), grid)
