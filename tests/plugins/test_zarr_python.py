"""What these plugins share with zarr-python: each reads the other's chunks by the same document."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr
import zarr.codecs
import zarr.codecs.numcodecs as wrapped

from zvcore import codecs

if TYPE_CHECKING:
    from pathlib import Path

VALUES = np.arange(60 * 70, dtype="<u2").reshape(60, 70) // 3
PARAMETERS: list[tuple[str, dict[str, Any]]] = [
    ("lz4", {"framing": "size_prefixed", "acceleration": 3}),
    ("bzip2", {"block_size": 3}),
    ("xz", {"preset": 2}),
    ("xz", {"preset": 1, "extreme": True}),
    ("blosc", {"cname": "zstd", "shuffle": "bitshuffle"}),
    ("blosc", {"cname": "lz4", "shuffle": "shuffle", "blocksize": 1024}),
]


def open_array(path: Path) -> zarr.Array:
    return zarr.open_array(str(path), mode="r")


# numcodecs' codecs are no part of Zarr v3, as zarr-python says each time.
@pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")
@pytest.mark.parametrize(("name", "parameters"), PARAMETERS)
def test_zarr_python_reads_what_is_written(tmp_path: Path, name: str, parameters: dict[str, Any]) -> None:
    codec = codecs.get(name, **parameters).for_dtype(VALUES.dtype)
    zarr.create_array(
        str(tmp_path), shape=VALUES.shape, chunks=VALUES.shape, dtype="u2", compressors=None, fill_value=0
    )
    document = json.loads((tmp_path / "zarr.json").read_text())
    document["codecs"].append(codec.to_zarr3())
    (tmp_path / "zarr.json").write_text(json.dumps(document))
    chunk = tmp_path / "c" / "0" / "0"
    chunk.parent.mkdir(parents=True)
    chunk.write_bytes(codec.encode(VALUES))
    assert np.array_equal(open_array(tmp_path)[:], VALUES)


@pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")
@pytest.mark.parametrize(
    ("compressor", "name"),
    [
        (lambda: wrapped.LZ4(acceleration=2), "lz4"),
        (lambda: wrapped.BZ2(level=4), "bzip2"),
        (lambda: wrapped.LZMA(preset=3), "xz"),
        (lambda: wrapped.LZMA(format=2, preset=3), "lzma"),
        (lambda: wrapped.Blosc(cname="zlib", clevel=2, shuffle=-1), "blosc"),
        (lambda: zarr.codecs.BloscCodec(cname="lz4hc", clevel=2, shuffle="bitshuffle"), "blosc"),
        (lambda: zarr.codecs.BloscCodec(), "blosc"),
    ],
    ids=["LZ4", "BZ2", "LZMA", "LZMA alone", "Blosc", "blosc", "blosc by default"],
)
def test_what_zarr_python_writes_is_read(tmp_path: Path, compressor: Any, name: str) -> None:
    shape = VALUES.shape
    array = zarr.create_array(str(tmp_path), shape=shape, chunks=shape, dtype="u2", compressors=[compressor()])
    array[:] = VALUES
    described = json.loads((tmp_path / "zarr.json").read_text())["codecs"][-1]
    codec = codecs.from_zarr3(described, "zarr.json")
    assert codec.name == name
    chunk = tmp_path / "c" / "0" / "0"
    assert codec.decode(chunk.read_bytes()) == VALUES.tobytes()
    # Our chunk in its place, and our words for the document.
    chunk.write_bytes(codec.for_dtype(VALUES.dtype).encode(VALUES[::-1]))
    document = json.loads((tmp_path / "zarr.json").read_text())
    document["codecs"][-1] = codec.for_dtype(VALUES.dtype).to_zarr3()
    (tmp_path / "zarr.json").write_text(json.dumps(document))
    assert np.array_equal(open_array(tmp_path)[:], VALUES[::-1])
