"""What a test needs besides Python and zvcore itself: `make test` leaves out those that need anything.

That is read from where the test lies, from its code and the fixtures it takes, so that nobody has to think of a mark.
"""

from __future__ import annotations

import ast
import re
import socket
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

MARKS = frozenset({"process", "network", "interop"})

FOLDERS = {
    "bench": "process",
    "faults": "process",
    "interop": "interop",
    "plugins/test_zarr_python.py": "interop",
    "serving": "network",
    "test_build.py": "process",
}
CODE = {
    "process": re.compile(
        r"^\s*(?:import|from) (?:subprocess|multiprocessing)\b|\bos\.fork\(|\bcheck_format\("
        r"|^from (?:tests|zvcore\.testing) import processes|^from zvcore\.testing\.processes import"
        r"|^from tests\.processes import (?!PATIENCE$)|^from tests\.\w+\.interrupting import .*\bkilled\b",
        re.MULTILINE,
    ),
    "network": re.compile(
        r"\bhttp\.server\b|\bsocket\.create_server\(|^from tests\.stores\.servers import|\bimport DataServer\b"
        r"|\bfrom tests\.serving\.conftest import\b",
        re.MULTILINE,
    ),
    "interop": re.compile(
        r"^\s*(?:import|from) (?:cloudvolume|dask|distributed|h5py|mrcfile|nibabel|tensorstore|tifffile|xarray|z5py"
        r"|zarrs?|npe2|zarr_n5|zarr_vectors)\b"
        r"|\bimportorskip\(\"(?:dask.array|h5py|icechunk|mrcfile|nibabel|npe2|ome_zarr_models|tensorstore|tifffile|xarray|zarr)\"",
        re.MULTILINE,
    ),
}
FIXTURES = {"third_party_folder": "process", "s3_process": "network"}
# Values of parameters by which fixtures choose what they give.
PARAMETERS = {"s3": "network"}


def needs_of(item: pytest.Item) -> set[str]:
    """The marks of a test."""
    needs = set(needs_of_function(item.path, getattr(item, "originalname", item.name)))
    needs |= {FIXTURES[name] for name in getattr(item, "fixturenames", ()) if name in FIXTURES}
    given = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return needs | {PARAMETERS[value] for value in given if isinstance(value, str) and value in PARAMETERS}


def needs_of_function(path: Path, name: str) -> set[str]:
    """What a test needs for where it lies and for its code, and for what stands in its file outside of all tests."""
    here = Path(__file__).parent
    if not path.is_relative_to(here):
        return set()
    place = path.relative_to(here).as_posix()
    needs = {need for folder, need in FOLDERS.items() if place == folder or place.startswith(f"{folder}/")}
    tests, rest = parts(path)
    text = rest + tests.get(name, "")
    return needs | {need for need, pattern in CODE.items() if pattern.search(text)}


class Guard:
    """Lets no test that needs nothing, as its marks say, start a process or talk to a server."""

    events = frozenset({
        "subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "socket.connect", "socket.bind",
    })  # fmt: skip

    def __init__(self) -> None:
        self.closed = False

    def __call__(self, event: str, given: tuple[Any, ...]) -> None:
        if self.closed and event in self.events and not _is_in_a_folder(event, given):
            raise AssertionError(f"{event}: nothing in tests/needs.py says that this test needs it")

    def watch(self, item: pytest.Item) -> None:
        self.closed = not any(mark.name in MARKS for mark in item.iter_markers())


def _is_in_a_folder(event: str, given: tuple[Any, ...]) -> bool:
    """Whether a socket gets a name in a folder, which is a kind of file, and no server that anybody could reach."""
    return event == "socket.bind" and given[0].family == socket.AF_UNIX


@cache
def parts(path: Path) -> tuple[dict[str, str], str]:
    """({test: its code}, the rest) of a file."""
    lines = path.read_text().splitlines(keepends=True)
    tests = {}
    for node in ast.parse("".join(lines)).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            tests[node.name] = "".join(lines[node.lineno - 1 : node.end_lineno])
            lines[node.lineno - 1 : node.end_lineno] = ["\n"] * len(tests[node.name].splitlines())
    return tests, "".join(lines)
