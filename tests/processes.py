"""Processes of their own that tests start, and how long they wait for them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from contextlib import suppress

# Seconds. Only what hangs takes as long, however busy the machine is; pytest says where after ten minutes.
PATIENCE = 300


def root() -> str:
    """Where the package `tests` lies."""
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    """A Python process that runs the script with the arguments in sys.argv, and can import `tests`."""
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script), *map(str, arguments)]
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), root()]))
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


def tell(process: subprocess.Popen[str], line: str = "go") -> None:
    """A line for its standard input."""
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def told(process: subprocess.Popen[str]) -> str:
    """The next line that it prints. What is left is to be read from `process.stdout`, where some of it is kept."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    return line.removesuffix("\n")


def finish(process: subprocess.Popen[str], patience: float = PATIENCE) -> str:
    """All that it prints; it must end well."""
    try:
        out, err = process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        process.kill()
        with suppress(subprocess.TimeoutExpired):  # what it has forked may hold its pipes for ever
            process.communicate(timeout=5)
        raise
    assert process.returncode == 0, f"status {process.returncode}\n{err}"
    return out


def run(script: str, *arguments: object, patience: float = PATIENCE) -> str:
    return finish(start(script, *arguments), patience)


# The script sees as much address space as the process has once zvcore is loaded, and so much more.
_WITHIN = """
import resource
import zvcore, zvcore.n5, zvcore.zarr3, zvcore.precomputed, zvcore.zvf, numpy
from zvcore.format import formats
for _format in formats().values():
    _format.care()
with open("/proc/self/statm") as _status:
    _taken = int(_status.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (_taken + {memory}, resource.RLIM_INFINITY))
"""


def run_within(memory: int, script: str, *arguments: object) -> str:
    """`run`, with no more than so many bytes of address space for what zvcore does."""
    return run(_WITHIN.format(memory=memory) + textwrap.dedent(script), *arguments)
