"""HDF5 closes what is open after Python is gone, and must not find a file over a store then."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from pathlib import Path

h5py = pytest.importorskip("h5py")

PROGRAM = """
import ctypes, pathlib, sys
import zvcore
from zvcore.stores import MemoryStore
from zvcore.stores.single_file import SingleFileStore

store = MemoryStore()
store.put("a.h5", pathlib.Path(sys.argv[1]).read_bytes())
array = zvcore.open(SingleFileStore(store, "a.h5"))["d"]
# Nobody gives it up, as in a thread that still runs.
ctypes.pythonapi.Py_IncRef(ctypes.py_object(array))
print(array[...].sum())
"""


def test_a_file_that_is_still_open(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["d"] = np.arange(10)
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path / "a.h5"], capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stdout) == (0, "45\n"), found.stderr
