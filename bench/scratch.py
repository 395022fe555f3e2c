"""A folder for the files of one run of benchmarks."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

__all__ = ["scratch"]


@cache
def scratch() -> Path:
    """The same whenever it is asked for; it goes when the process ends."""
    path = Path(tempfile.mkdtemp(prefix="zvcore-bench-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path
