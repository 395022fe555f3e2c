"""Packages that only a part of zvcore needs: where one is missing, that part says what installs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.processes import PATIENCE

# As if none of them were installed.
HIDING = """
from importlib.machinery import PathFinder
whole = PathFinder.find_spec
hidden = {"zarr", "dask", "numcodecs", "zarr_vectors"}
PathFinder.find_spec = lambda name, *where: None if name.partition(".")[0] in hidden else whole(name, *where)
import zvcore
from zvcore.stores import MemoryStore
"""
ARRAY = "zvcore.create(MemoryStore(), format='zarr3', shape=(4,), dtype='u1', chunks={})"
ZARR = 'needs zarr: pip install "zvcore[zarr]"'
DASK = 'ModuleNotFoundError: to_dask needs dask: pip install "zvcore[dask]"'


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("zvcore.zarr3.CodecPipeline", f"ModuleNotFoundError: zvcore.zarr3.CodecPipeline {ZARR}"),
        ("zvcore.zarr3.accelerate", f"ModuleNotFoundError: zvcore.zarr3.accelerate {ZARR}"),
        ("zvcore.n5.ZarrStore", f"ModuleNotFoundError: zvcore.n5.ZarrStore {ZARR}"),
        (f"{ARRAY.format((2,))}.to_dask()", DASK),
        (f"{ARRAY.format([[1, 3]])}.to_dask()", DASK),
        ("zvcore.zvf.accelerate()", 'accelerate needs zarr_vectors: pip install "zarr-vectors"'),
        ("zvcore.codecs.from_zarr2({'id': 'json2'})", 'if it is one of numcodecs: pip install "zvcore[numcodecs]"'),
    ],
)
def test_what_is_missing_is_named_with_what_installs_it(code: str, said: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", HIDING + code], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert run.returncode == 1
    assert said in run.stderr.splitlines()[-1]
