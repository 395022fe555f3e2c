"""What a process did to a folder: the calls to the system that changed it, in order, with what they wrote."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from tests.processes import PATIENCE, root

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_RECORD = struct.Struct("=4I3Q")
# The file, beside the store, in which a recorded process says how far it has come.
MARKS = "marks"


@dataclass(frozen=True)
class Call:
    """One call to the system that changed something.

    kind    c: a file was made, m: a folder, w: written, t: cut or lengthened, s: synced, r: renamed, x: exchanged,
            l: linked, u: removed
    offset  where was written, or the new length
    """

    kind: str
    inode: int
    offset: int
    first: str
    second: str
    data: bytes


@cache
def recorder() -> Path:
    """The library that a process loads first to be recorded."""
    library = Path(mkdtemp(prefix="zv-recorder")) / "recorder.so"
    compiler = (sysconfig.get_config_var("CC") or "cc").split()
    source = Path(__file__).with_name("recorder.c")
    subprocess.run([*compiler, "-O1", "-w", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


def record(folder: Path, names: Sequence[str], durability: str) -> list[Call]:
    """What happens below the folder while a process of its own does the kinds of writes of these names."""
    folder.mkdir()
    # The kinds say themselves whether they sync.
    return record_run(folder, ["-m", "tests.faults.powercut.kinds", str(folder), durability, *names])


def record_run(folder: Path, arguments: Sequence[str]) -> list[Call]:
    """What happens below the folder while Python runs with these arguments."""
    log = folder.with_name(folder.name + ".log")
    log.unlink(missing_ok=True)
    command = [sys.executable, "-W", "ignore", *arguments]
    environment = {
        **os.environ,
        "LD_PRELOAD": f"{recorder()} {os.environ.get('LD_PRELOAD', '')}".strip(),
        "ZV_RECORD_BELOW": str(folder),
        "ZV_RECORD_INTO": str(log),
        "PYTHONPATH": os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), root()])),
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    calls = list(_calls(log.read_bytes(), str(folder)))
    log.unlink()
    return calls


def _calls(raw: bytes, folder: str) -> Iterator[Call]:
    at = 0
    while at < len(raw):
        kind, first, second, _, inode, offset, size = _RECORD.unpack_from(raw, at)
        at += _RECORD.size
        names = []
        for length in (first, second):
            name = raw[at : at + length].decode()
            names.append(os.path.relpath(name, folder) if name else "")
            at += length
        yield Call(chr(kind), inode, offset, names[0], names[1], raw[at : at + size])
        at += size
