"""What verify counts in files of their own, on threads that may take turns anywhere."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import zvcore
from tests.precomputed.test_skeletons_and_meshes import ATTRIBUTES, skeleton
from zvcore.precomputed import object_files, write_skeletons

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MANY = 200
PACKAGE = object_files.__file__.rpartition("object_files")[0]


def switching(frame: Any, event: str, _: Any) -> Any:
    """Has another thread go on between any two steps of what a pool calls, as interpreters without a lock do."""
    if not frame.f_code.co_filename.startswith(PACKAGE):
        return None
    frame.f_trace_opcodes = True
    if event == "opcode":
        time.sleep(0)
    return switching


@pytest.fixture
def taking_turns() -> Iterator[None]:
    """Threads that begin meanwhile take turns at every step."""
    before = threading.gettrace()
    threading.settrace(switching)
    yield
    # What measures which lines are reached goes on.
    threading.settrace(before)


@pytest.mark.usefixtures("taking_turns")
@pytest.mark.parametrize("kind", ["skeletons", "legacy meshes"])
def test_every_file_is_counted_on_however_many_threads(tmp_path: Path, kind: str) -> None:
    if kind == "skeletons":
        write_skeletons(tmp_path / "s", {id: skeleton(2) for id in range(MANY)}, vertex_attributes=ATTRIBUTES)
        counted = "values"
    else:
        (tmp_path / "s").mkdir()
        (tmp_path / "s" / "info").write_text(json.dumps({"@type": "neuroglancer_legacy_mesh"}))
        (tmp_path / "s" / "7:0").write_text(json.dumps({"fragments": [str(number) for number in range(MANY)]}))
        for number in range(MANY):
            (tmp_path / "s" / str(number)).write_bytes(bytes(4))
        counted = "fragments"
    assert zvcore.verify(tmp_path / "s", fast=True, threads=8).counts[counted] == MANY
