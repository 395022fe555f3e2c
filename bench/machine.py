"""On what machine, and with which versions, something was measured."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import Any

from zvcore import _build
from zvcore.kernels import cpu

__all__ = ["describe", "load", "processor"]

PEERS = (
    "numpy", "tensorstore", "zarr", "zarrs", "zarr-n5", "z5py", "cloud-volume", "zarr-vectors", "numcodecs",
    "google-crc32c", "crc32c", "mmh3", "deflate", "isal", "zstandard", "lz4", "blosc", "compressed-segmentation",
)  # fmt: skip


def processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def load() -> float | None:
    """How many processes wanted to run, over the last minute."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def memory() -> int | None:
    with suppress(ValueError, OSError, AttributeError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None


def versions() -> dict[str, str]:
    found = {}
    for name in ("zvcore", *PEERS):
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def describe() -> dict[str, Any]:
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "simd": cpu.simd_path(),
        "memory": memory(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "compiler": _build.compiler,
        "libraries": dict(_build.libraries),
        "versions": versions(),
        "load at the start": load(),
    }
