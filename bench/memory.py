"""How much memory a piece of work takes at its peak, beyond what the process had before."""

from __future__ import annotations

import ctypes
import gc
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zvcore.engine import large, medium

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["peak_of"]


def status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) << 10
    raise OSError(f"no {field} in /proc/self/status")


def give_back() -> None:
    """Return freed memory to the system; otherwise the work would reuse it, and seem to need none."""
    gc.collect()
    large.forget()
    medium.forget()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def peak_of(work: Callable[[], Any]) -> int:
    """Bytes of resident memory at the peak of `work`, less those before it; its result counts."""
    give_back()
    try:
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak to what is resident now
        before = status("VmRSS")
        result = work()
        peak = status("VmHWM")
    except OSError:
        # Without /proc the peak cannot be reset: an earlier, higher peak hides this one.
        unit = 1 if sys.platform == "darwin" else 1024
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
        result = work()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    del result
    return max(0, peak - before)
