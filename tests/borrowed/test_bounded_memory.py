"""Sources that are larger than the memory that their reader may have: a process of its own has as much and no more."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.processes import run

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
    import os, resource, sys

    import numpy as np
    import zvcore

    kind, folder = sys.argv[1:]
    SHAPE, CHUNKS = (768, 1024, 1024), (64, 256, 1024)
    PLANE = np.arange(1024, dtype="u1")

    def block(shape=CHUNKS):
        return np.broadcast_to(PLANE[: shape[-1]], shape)

    def stored(array):
        for z in range(0, SHAPE[0], CHUNKS[0]):
            array[z : z + CHUNKS[0]] = block((CHUNKS[0], *SHAPE[1:]))
        return array

    class Anything:
        shape, dtype = SHAPE, np.dtype("u1")

        def __getitem__(self, region):
            return np.broadcast_to(PLANE, SHAPE)[region].copy()

    def memmap():
        array = np.lib.format.open_memmap(f"{folder}/a.npy", "w+", "u1", SHAPE)
        for z in (5, 100):  # the rest of the file is a hole
            array[z] = block((1, *SHAPE[1:]))
        return array

    def dask():
        import dask.array
        dask.config.set(scheduler="threads", num_workers=2)
        return dask.array.map_blocks(lambda block_id: block().copy(), chunks=tuple((c,) * (n // c) for n, c in
                                     zip(SHAPE, CHUNKS)), dtype="u1", meta=np.empty((0, 0, 0), "u1"))

    def xarray():
        import xarray
        return xarray.DataArray(dask(), dims=("z", "y", "x"))

    def h5py():
        import h5py
        file = h5py.File(f"{folder}/a.h5", "w")
        return stored(file.create_dataset("a", SHAPE, "u1", chunks=(64, 64, 1024), compression="lzf"))

    def zarr(version=3):
        import zarr
        zarr.config.set({"threading.max_workers": 2})
        path = f"{folder}/a.zarr"
        return stored(zarr.create_array(path, shape=SHAPE, chunks=CHUNKS, dtype="u1", zarr_format=version))

    def zarr_version_2():
        return zarr(2)

    def tensorstore():
        import tensorstore
        spec = {"driver": "n5", "kvstore": {"driver": "file", "path": f"{folder}/ts"}}
        schema = tensorstore.Schema(chunk_layout=tensorstore.ChunkLayout(chunk_shape=CHUNKS))
        context = tensorstore.Context({"data_copy_concurrency": {"limit": 2}, "file_io_concurrency": {"limit": 2}})
        return stored(tensorstore.open(spec, create=True, dtype="uint8", shape=SHAPE, schema=schema,
                                       context=context).result())

    source = Anything() if kind == "anything" else globals()[kind]()
    np.asarray(source[0:1, 0:1, 0:8])  # what libraries import and start when they are first asked
    zvcore.convert(np.zeros((8, 8, 8), "u1"), f"{folder}/warm", format="zarr3")

    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    nbytes = int(np.prod(SHAPE))
    assert nbytes > MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))

    zvcore.convert(source, f"{folder}/one", format="zarr3", chunks=(64, 128, 128), shards=(64, 256, 1024), codec="zstd",
                   memory=128 << 20, threads=2)
    zvcore.create(f"{folder}/two", format="n5", data=source, chunks=(64, 128, 128))
    zvcore.convert(source, f"{folder}/three", format="precomputed", chunks=(1024, 256, 64),
                   memory=128 << 20, threads=2)
    for name in ("one", "two", "three"):
        found = zvcore.open(f"{folder}/{name}")
        found = found[0] if name == "three" else found
        line = found[5, 700, 100] if name == "three" else found[100, 700, 5]
        assert line == 5, (name, line)
    print("done")
"""
KINDS = ("memmap", "dask", "xarray", "h5py", "zarr", "zarr_version_2", "tensorstore", "anything")


@pytest.mark.skipif(sys.platform != "linux", reason="the address space of a process is limited by Linux alone")
@pytest.mark.parametrize("kind", KINDS)
def test_a_source_larger_than_memory_is_converted_and_fills_arrays(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Address space that the C library sets aside for each thread holds nothing.
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    if kind not in ("anything", "memmap"):
        pytest.importorskip(kind.partition("_")[0])
    script = SCRIPT.replace("MEMORY", str(640 << 20))
    assert "done" in run(script, kind, tmp_path)
