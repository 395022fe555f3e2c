"""Runs batches of chunks over threads: fetch, decode, scatter; gather, encode, place."""

from __future__ import annotations

from zvcore.engine.buffers import Buffers, Keys
from zvcore.engine.fetching import StaleSourcesError, encode_many, fetch, fetch_sound
from zvcore.engine.form import Form
from zvcore.engine.selection import Selection
from zvcore.engine.sources import ABSENT, Sources
from zvcore.engine.work import Work
from zvcore.system.threads import default_thread_count, thread_count

__all__ = [
    "ABSENT",
    "Buffers",
    "Form",
    "Keys",
    "Selection",
    "Sources",
    "StaleSourcesError",
    "Work",
    "default_thread_count",
    "encode_many",
    "fetch",
    "fetch_sound",
    "thread_count",
]
