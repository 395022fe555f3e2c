"""How many threads there are to use."""

from __future__ import annotations

import os
from typing import Any

from zvcore.boxes import whole_number
from zvcore.errors import MetadataError

__all__ = ["MOST_THREADS", "default_thread_count", "thread_count"]

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


def thread_count(given: Any) -> int | None:
    """What a caller gave as `threads`; None: as many as there are by default.

    Checked where calls come in: further inside, half a thread is cut off, and text ends in an error about `<`.
    """
    if given is None:
        return None
    try:
        count = whole_number(given, "threads")
    except MetadataError:
        raise ValueError(f"threads must be a whole number, not {given!r}") from None
    if count < 1:
        raise ValueError(f"threads must be at least 1, not {given}")
    return count
