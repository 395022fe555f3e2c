"""Writers in processes of their own, for `check_format`: two that write at once, and some that are killed."""

from __future__ import annotations

import base64
import itertools
import json
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import zvcore

if TYPE_CHECKING:
    from zvcore.array import Array
    from zvcore.format import Format

__all__ = ["regions", "start_writer", "wait_for"]

_PROGRAM = "import sys, json; given = json.loads(sys.argv[1]); sys.path[:] = given['path']; \
from zvcore.testing.processes import write; write(given)"


def regions(array: Array) -> list[tuple[slice, ...]]:
    """Where each chunk lies, in the order in which the writers take them."""
    places = itertools.product(*map(range, array.grid))
    return [tuple(slice(i * n, (i + 1) * n) for i, n in zip(place, array.chunks, strict=True)) for place in places]


def start_writer(
    format: Format, place: str, member: str, part: slice, turns: int, first: int = 1
) -> subprocess.Popen[str] | None:
    """A process that sets these chunks of an array to `first`, then to the next number, and so on.

    It prints a line after each chunk. None if the format is one that another process cannot import.
    """
    try:
        kind = base64.b64encode(pickle.dumps(type(format))).decode()
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    given = {
        "path": sys.path,
        "kind": kind,
        "format": format.name,
        "place": place,
        "member": member,
        "part": [part.start, part.stop, part.step],
        "turns": turns,
        "first": first,
    }
    command = [sys.executable, "-W", "ignore", "-c", _PROGRAM, json.dumps(given)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(writer: subprocess.Popen[str]) -> str:
    """Wait until it has ended; returns what it said went wrong."""
    _, errors = writer.communicate()
    return errors.strip().rpartition("\n")[2] if writer.returncode else ""


def write(given: dict[str, Any]) -> None:
    """What such a process does."""
    from zvcore.format import formats, register_format

    if given["format"] not in formats():
        register_format(pickle.loads(base64.b64decode(given["kind"]))())
    node: Any = zvcore.open(given["place"], "r+", format=given["format"])
    for name in filter(None, given["member"].split("\n")):
        node = node.children()[name]
    for turn in range(given["turns"]):
        for region in regions(node)[slice(*given["part"])]:
            node[region] = (given["first"] + turn) % 100 + 1
            print(flush=True)
