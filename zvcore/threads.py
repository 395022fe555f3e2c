"""How many threads there are to use."""

from __future__ import annotations

import os

__all__ = ["default_thread_count"]

_MOST = 256


def default_thread_count() -> int:
    """How many threads are used when nobody says otherwise: ZVCORE_THREADS, else the CPUs this process may use."""
    text = os.environ.get("ZVCORE_THREADS", "")
    if text:
        if not text.isdigit() or int(text) < 1:
            raise ValueError(f"ZVCORE_THREADS must be a positive number, not {text!r}")
        return min(int(text), _MOST)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
