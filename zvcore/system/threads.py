"""How many threads there are to use."""

from __future__ import annotations

import os

__all__ = ["MOST_THREADS", "default_thread_count"]

# More threads than this are never used.
MOST_THREADS = 256


def default_thread_count() -> int:
    """The number of threads used by default: ZVCORE_THREADS, else the number of CPUs that this process may use."""
    text = os.environ.get("ZVCORE_THREADS", "")
    if text:
        if not text.isdigit() or int(text) < 1:
            raise ValueError(f"ZVCORE_THREADS must be a positive number, not {text!r}")
        return min(int(text), MOST_THREADS)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
