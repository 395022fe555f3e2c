"""Commands that are asked to end, as by batch systems: in order, whatever they do."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

import zvcore
from tests.processes import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

# The command says when it is there, and goes on when it is told to.
HINDERED = """
import sys
from zvcore.commands import cli

def wait(*_, **__):
    print("there", flush=True)
    sys.stdin.readline()

import {module} as module
module.{name} = wait
sys.exit(cli.main(sys.argv[1:]))
"""


def ended(script: str, arguments: list[str]) -> tuple[int, str]:
    """(exit status, what it said) of a command that gets a SIGTERM in the middle of its work."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "there\n"
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=PATIENCE)[1]
    return process.returncode, said


@pytest.mark.skipif(sys.platform == "win32", reason="no signals")
@pytest.mark.parametrize(
    ("command", "module", "name"),
    [(["refs", "a", "-o", "out/refs.json"], "json", "dump"), (["verify", "a"], "zvcore", "verify"),
     (["get", "a", "-o", "out/a.npy"], "zvcore.images.slabs", "slabs"), (["info", "a"], "zvcore", "inspect"),
     (["repair", "a"], "zvcore", "repair")],
)  # fmt: skip
def test_a_command_that_is_terminated_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], module: str, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    zvcore.create("a", format="zarr2", data=np.arange(8), chunks=(4,))
    (tmp_path / "out").mkdir()
    assert ended(HINDERED.format(module=module, name=name), command) == (143, "")
    assert [*(tmp_path / "out").iterdir()] == []


@pytest.mark.skipif(sys.platform == "win32", reason="no signals")
def test_a_server_that_is_terminated_has_done_its_work(tmp_path: Path) -> None:
    script = HINDERED.format(module="zvcore.serving.server", name="DataServer.serve_forever")
    # In place of the address.
    status, said = ended(f"import zvcore.commands.terminal as t; t.put = lambda *_, **__: None{script}",
                         ["serve", str(tmp_path), "--port", "0"])  # fmt: skip
    assert (status, said) == (0, "")
