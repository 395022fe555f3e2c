"""Conversions in processes of their own that are killed in the middle."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import numpy as np

import zvcore
from tests.processes import PATIENCE
from zvcore.converting.note import FINISHED

DYING = """
import json, os, signal, sys
import zvcore

def tell(done, total):
    if done >= int(sys.argv[4]):
        os.kill(os.getpid(), signal.SIGKILL)

zvcore.convert(sys.argv[1], sys.argv[2], **json.loads(sys.argv[3]), progress=tell)
"""
# So little that the work has many parts.
MEMORY = 1 << 18


def left_behind(folder):
    """Hidden files, apart from the record that a conversion was finished."""
    return [path for path in folder.rglob(".*") if path.is_file() and path.name != FINISHED]


def source(path, shape=(96, 90, 70)):
    values = np.random.default_rng(3).integers(1, 250, shape).astype("uint8")
    array = zvcore.create(path, format="n5", shape=shape[::-1], dtype="uint8", chunks=(16, 16, 16), codec="gzip")
    array[...] = values.T
    return values


def killed(src, dst, options, after):
    answer = subprocess.run(
        [sys.executable, "-c", DYING, str(src), str(dst), json.dumps({**options, "memory": MEMORY}), str(after)],
        capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert answer.returncode == -signal.SIGKILL, answer.stderr
