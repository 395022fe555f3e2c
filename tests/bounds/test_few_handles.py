"""Writes where the process may open hardly any file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.processes import run

if TYPE_CHECKING:
    from pathlib import Path


def test_writes_of_all_kinds_get_along_with_32_open_files(tmp_path: Path) -> None:
    """Files that are kept open for reading are closed, and no more objects are locked at once than can be."""
    script = """
        import resource, sys
        import numpy as np
        import zvcore
        made = {
            "rewrite": {"format": "zarr3", "shards": (8, 8)},
            "append": {"format": "zarr3", "shards": (8, 8), "write_mode": "append"},
            "inplace": {"format": "zarr3", "shards": (8, 8), "write_mode": "inplace"},
            "plain": {"format": "zarr3"},
            "n5": {"format": "n5"},
        }
        arrays = {
            name: zvcore.create(f"{sys.argv[1]}/{name}", shape=(80, 80), dtype="u2", chunks=(4, 4), codec=None, **given)
            for name, given in made.items()
        }
        volume = {"format": "precomputed", "chunks": (8, 8, 8), "shards": (16, 16, 16)}
        arrays["volume"] = zvcore.create(f"{sys.argv[1]}/volume", shape=(80, 80, 8), dtype="u2", **volume)
        for array in arrays.values():
            array[...] = 1
        resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
        for name, array in arrays.items():
            for other in arrays.values():
                for i in range(0, 80, 2):
                    other[i : i + 1, i : i + 1]
            array[3:5, 3:5] = 2
            array[0:50, 1:50] = 5
            found = np.asarray(array[...])
            assert (found[0:50, 1:50] == 5).all() and (found[50:] == 1).all() and (found[:, 0] == 1).all(), name
    """
    run(script, tmp_path)


def test_reads_of_many_shards_get_along_with_32_open_files(tmp_path: Path) -> None:
    """What is kept open is closed where the engine opens files itself, too."""
    script = """
        import resource, sys
        import zvcore
        given = {"format": "precomputed", "chunks": (8, 8, 8), "shards": (16, 8, 8)}
        zvcore.create(sys.argv[1], shape=(512, 8, 8), dtype="u1", **given)[...] = 1
        resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
        array = zvcore.open(sys.argv[1])[0]
        assert all((array[i : i + 4] == 1).all() for i in range(0, 512, 16))
        assert zvcore.verify(sys.argv[1]).ok
    """
    run(script, tmp_path)
