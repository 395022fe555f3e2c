"""Arrays that say that their chunks are many GiB: what is written to them is an error that says where, as when they are
read, and never a bare `MemoryError`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.processes import run_within

if TYPE_CHECKING:
    from pathlib import Path

# Blocks of N5 are at most 2 GiB.
SIDE = 2**16
LARGE = {
    "zarr3": 2**32,
    "zarr3 shards": 2**32,
    "zarr2": 2**32,
    "n5": 2**31,
    "precomputed": 2**32,
    "volume shards": 2**32,
}
CODECS = ("raw", "gzip", "zstd", "blosc", "lz4", "xz", "bzip2")
WRITE = """
import sys
import numpy as np
import zvcore
from zvcore.errors import ZvcoreError
for path in sys.argv[1:]:
    array = zvcore.open(path, "r+")
    array = array if array.kind == "array" else next(iter(array.children().values()))
    part = (slice(0, 2),) * array.ndim
    for value in (1, np.full([min(2, n) for n in array.shape], 2, array.dtype)):
        try:
            array[part] = value
        except Exception as error:
            print(isinstance(error, ZvcoreError), type(error).__name__, error)
"""


def claiming(path: Path, kind: str, codec: str, stored: bool) -> str:
    """An array of small chunks that says afterwards that they are large."""
    format = {"zarr3 shards": "zarr3", "volume shards": "precomputed"}.get(kind, kind)
    options: dict[str, Any] = {"zarr3 shards": {"shards": (8, 8)}, "volume shards": {"sharding": "advise"}}.get(
        kind, {}
    )
    if kind != "volume shards":
        options["codec"] = codec
    if format == "precomputed":
        options["resolution"] = (1, 1, 1)
    shape, chunks = ((8, 8), (4, 4)) if format != "precomputed" else ((8, 8, 1), (8, 8, 1))
    array = zvcore.create(path, format=format, shape=shape, dtype="u1", chunks=chunks, **options)
    if stored:
        array[...] = 3
    name = {"zarr2": ".zarray", "n5": "attributes.json", "precomputed": "info"}.get(format, "zarr.json")
    document = json.loads((path / name).read_text())
    large = [SIDE, LARGE[kind] // SIDE]
    if kind == "zarr2":
        document |= {"shape": large, "chunks": large}
    elif kind == "n5":
        document |= {"dimensions": large, "blockSize": large}
    elif format == "precomputed":
        for chunk in path.glob("*/0-8_0-8_0-1*"):
            chunk.rename(chunk.with_name(chunk.name.replace("8", str(SIDE))))
        document["scales"][0] |= {"size": [*large, 1], "chunk_sizes": [[*large, 1]]}
    else:
        shards = [2 * side for side in large] if kind == "zarr3 shards" else large
        document["shape"] = shards
        document["chunk_grid"]["configuration"]["chunk_shape"] = shards
        if kind == "zarr3 shards":
            document["codecs"][0]["configuration"]["chunk_shape"] = large
    (path / name).write_text(json.dumps(document))
    return str(path)


@pytest.mark.parametrize("kind", LARGE)
def test_a_write_says_which_chunk_has_no_room(tmp_path: Path, kind: str) -> None:
    codecs = {"precomputed": ("raw", "gzip"), "volume shards": ("gzip",)}.get(kind, CODECS)
    # Blocks of N5 say themselves how large they are, and may be smaller.
    wrong = "OutOfMemoryError" if kind == "n5" else "CorruptDataError"
    cases = [(codec, stored) for codec in codecs for stored in (False, True)]
    paths = [claiming(tmp_path / f"{codec} {stored}", kind, codec, stored) for codec, stored in cases]
    told = run_within(700 << 20, WRITE, *paths).splitlines()
    assert len(told) == 2 * len(cases)
    for line, (_, stored) in zip(told, (case for case in cases for _ in range(2)), strict=True):
        known, error, key, *_ = line.split(" ", 3)
        assert known == "True" and error == (wrong if stored else "OutOfMemoryError"), line
        assert key.endswith(":") and f"{LARGE[kind]} bytes" in line, line


@pytest.mark.parametrize("kind", ["zarr3", "zarr2"])
def test_chunks_that_only_python_encodes_say_so_too(tmp_path: Path, kind: str) -> None:
    texts = zvcore.create(tmp_path / "a", format=kind, shape=(8,), dtype=np.dtypes.StringDType(), chunks=(4,))
    assert texts.layout.value_codec is not None
    name, member = (".zarray", "chunks") if kind == "zarr2" else ("zarr.json", "chunk_shape")
    document = json.loads((tmp_path / "a" / name).read_text())
    document["shape"] = [2**33]
    (document if kind == "zarr2" else document["chunk_grid"]["configuration"])[member] = [2**33]
    (tmp_path / "a" / name).write_text(json.dumps(document))
    script = """
        import sys
        import zvcore
        from zvcore.errors import OutOfMemoryError
        try:
            zvcore.open(sys.argv[1], "r+")[:2] = "x"
        except OutOfMemoryError as error:
            print(error)
    """
    key = "0" if kind == "zarr2" else "c/0"
    assert run_within(700 << 20, script, tmp_path / "a") == f"{key}: chunk (0,): not enough memory for a chunk\n"


def test_a_codec_without_memory_says_which_chunk_it_was_for(tmp_path: Path) -> None:
    """The values fit, and what the codec needs to encode them does not."""
    zvcore.create(tmp_path / "a", format="zarr3", shape=(2**28,), dtype="u1", chunks=(2**28,), codec="zstd")
    script = """
        import sys
        import zvcore
        from zvcore.errors import OutOfMemoryError
        try:
            zvcore.open(sys.argv[1], "r+")[:2] = 1
        except OutOfMemoryError as error:
            print(error.key, error.chunk, error.codec)
    """
    assert run_within(400 << 20, script, tmp_path / "a") == "c/0 (0,) zstd\n"
