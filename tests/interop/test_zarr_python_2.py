"""zarr-python 2.18, which many still have: it reads what we write as Zarr v2, and we read what it writes."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.interop.peers import ask

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.interop]

SHAPE, CHUNKS = (9, 10, 7), (4, 4, 4)
DTYPES = ("|b1", "|i1", "<u2", ">u2", "<i4", ">i8", "<f2", "<f4", ">f8", "<c8", "|S5", "<U3", ">U3", "<M8[ns]")
COMPRESSORS: list[dict[str, Any] | None] = [
    None, {"id": "zlib", "level": 1}, {"id": "gzip", "level": 5}, {"id": "bz2", "level": 1},
    {"id": "lzma", "format": 1, "check": -1, "preset": 1, "filters": None}, {"id": "lz4", "acceleration": 1},
    {"id": "zstd", "level": 0}, {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
    {"id": "blosc", "cname": "zstd", "clevel": 1, "shuffle": -1, "blocksize": 0},
]  # fmt: skip
FILTERS: list[tuple[str, list[dict[str, Any]]]] = [
    ("<u2", [{"id": "delta", "dtype": "<u2"}]),
    (">i4", [{"id": "delta", "dtype": ">i4", "astype": ">i4"}]),
    ("<u2", [{"id": "delta", "dtype": "<u2", "astype": "<i4"}, {"id": "shuffle", "elementsize": 4}]),
    ("<u4", [{"id": "shuffle", "elementsize": 4}]),
    ("<f8", [{"id": "fixedscaleoffset", "scale": 10, "offset": 1000, "dtype": "<f8", "astype": "<i4"}]),
    ("<f4", [{"id": "fixedscaleoffset", "scale": 0.5, "offset": -3.25, "dtype": "<f4", "astype": "|u1"}]),
    ("<f8", [{"id": "quantize", "digits": 3, "dtype": "<f8", "astype": "<f4"}]),
    ("<f4", [{"id": "bitround", "keepbits": 9}]),
    ("|b1", [{"id": "packbits"}]),
    ("<u2", [{"id": "astype", "encode_dtype": "<i4", "decode_dtype": "<u2"}]),
]

CASES: list[dict[str, Any]] = [
    *({"dtype": dtype, "order": order, "separator": separator} for dtype in DTYPES for order, separator in
      (("C", "."), ("F", "/"))),
    *({"compressor": compressor, "order": order} for compressor in COMPRESSORS for order in "CF"),
    *({"dtype": dtype, "filters": filters, "order": order} for dtype, filters in FILTERS for order in "CF"
      if order == "C" or filters[0]["id"] != "bitround"),
]  # fmt: skip
for _number, _case in enumerate(CASES):
    _defaults = {"dtype": "<u2", "order": "C", "separator": ".", "compressor": COMPRESSORS[-1], "filters": None}
    CASES[_number] = {"name": f"{_number:02}", **_defaults, **_case}

READ = """
import hashlib, json, sys, zarr
found = {}
root = zarr.open_group(sys.argv[1], mode="r")
for name, array in root.arrays():
    data = array[...]
    found[name] = [data.dtype.str, hashlib.sha256(data.tobytes()).hexdigest()]
print(json.dumps(found))
"""
WRITE = """
import json, sys, numcodecs, numpy as np, zarr
root = zarr.open_group(zarr.NestedDirectoryStore(sys.argv[1]), mode="w")
for case in json.loads(sys.argv[2]):
    store = zarr.DirectoryStore(sys.argv[1] + "/" + case["name"])
    values = np.load(sys.argv[3])[case["dtype"]]
    array = zarr.create(
        store=store, shape=values.shape, chunks=(4, 4, 4), dtype=case["dtype"], order=case["order"], overwrite=True,
        dimension_separator=case["separator"],
        filters=case["filters"] and list(map(numcodecs.get_codec, case["filters"])),
        compressor=case["compressor"] and numcodecs.get_codec(case["compressor"]), fill_value=None,
    )
    array[...] = values
"""


def values_of(dtype: str) -> Any:
    rng = np.random.default_rng(3)
    if dtype[1] in "SU":
        return np.array(["a", "bc", "é" if dtype[1] == "U" else "d"]).astype(dtype)[rng.integers(0, 3, SHAPE)]
    numbers = rng.integers(0, 100, SHAPE)
    numbers[:, :, 4:] = 0
    if dtype[1] == "f":
        return (np.round(numbers / 10, 1) + 1000 * (dtype[2] == "8")).astype(dtype)
    return numbers.astype("i8").astype(dtype)


def test_it_reads_what_we_write(tmp_path: Path) -> None:
    root = zvcore.open(tmp_path / "a", "w", format="zarr2")
    for case in CASES:
        array = root.create_array(
            case["name"], shape=SHAPE, chunks=CHUNKS, dtype=case["dtype"], order=case["order"],
            codec=case["compressor"], filters=case["filters"], dimension_separator=case["separator"],
        )  # fmt: skip
        array[...] = values_of(case["dtype"])
    theirs = ask("zarr2", READ, tmp_path / "a")
    assert sorted(theirs) == [case["name"] for case in CASES]
    for case in CASES:
        dtype, found = theirs[case["name"]]
        assert dtype == case["dtype"], case
        mine = np.asarray(root[case["name"]][...]).astype(dtype)
        assert hashlib.sha256(np.ascontiguousarray(mine).tobytes()).hexdigest() == found, case


def test_we_read_what_it_writes_and_migrate_it_without_decoding(tmp_path: Path) -> None:
    np.savez(tmp_path / "values.npz", **{case["dtype"]: values_of(case["dtype"]) for case in CASES})
    ask("zarr2", WRITE, tmp_path / "a", json.dumps(CASES), tmp_path / "values.npz")
    theirs = ask("zarr2", READ, tmp_path / "a")
    assert zvcore.verify(tmp_path / "a").ok
    root = zvcore.open(tmp_path / "a", format="zarr2")
    zvcore.convert(root, tmp_path / "b", format="zarr3", shards=(8, 8, 8))
    migrated = zvcore.open(tmp_path / "b")
    for case in CASES:
        dtype, found = theirs[case["name"]]
        for array in (root[case["name"]], migrated[case["name"]]):
            mine = np.ascontiguousarray(np.asarray(array[...]).astype(dtype))
            assert hashlib.sha256(mine.tobytes()).hexdigest() == found, case
