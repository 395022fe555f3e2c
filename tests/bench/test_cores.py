"""What each processor brings: how the benchmark runs on few of them, and how the page shows it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest

from bench import cores, report

if TYPE_CHECKING:
    from pathlib import Path


def test_one_two_four_and_all() -> None:
    assert cores.counts(1) == [1]
    assert cores.counts(6) == [1, 2, 4, 6]
    assert cores.counts(16) == [1, 2, 4, 8, 16]


def test_every_task_runs_for_every_tool() -> None:
    settings = {"ZVCORE_BENCH_CORES_SIDE": "128", "ZVCORE_BENCH_CORES_SECONDS": "0"}
    script = "import json; from bench import cores; print(json.dumps(cores.measure()))"
    command = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["processors"] == cores.counts(len(cores.processors()))
    assert set(found["tasks"]) == {name for name, _ in cores.Machine.tasks(Mock())}
    for by_number in found["tasks"].values():
        assert len(by_number) == len(found["processors"])
        assert all(one["zvcore"] > 0 and one["tensorstore"] > 0 for one in by_number)


FOUND = {
    "processors": [1, 16],
    "tasks": {"read": [{"zvcore": 0.008, "tensorstore": 0.016}, {"zvcore": 0.001, "tensorstore": 0.004}]},
}


def test_the_table_says_what_others_take() -> None:
    assert list(cores.table(FOUND))[2:] == [
        "| read | zvcore | 8 ms | 8.0 |",
        "|  | tensorstore | 16 ms, 2.00 | 4.0, 4.00 |",
    ]


@pytest.mark.parametrize("alone", [True, False])
def test_the_page_names_the_machine_of_these_numbers(tmp_path: Path, alone: bool) -> None:
    machine = {
        "date": "2026-01-01 00:00 UTC", "processor": "Small", "cores": 2, "simd": "avx2", "memory": 2**30,
        "system": "x", "python": "3.12", "compiler": "c", "libraries": {}, "versions": {}, "load at the start": 0.0,
    }  # fmt: skip
    large = machine | {"processor": "Large", "cores": 16}
    (tmp_path / "cores.json").write_text(json.dumps({"machine": large, "results": FOUND}))
    if not alone:
        (tmp_path / "threads.json").write_text(json.dumps({"machine": machine, "results": {}}))
    report.write_report(tmp_path, tmp_path / "RESULTS.md")
    head, _, part = (tmp_path / "RESULTS.md").read_text().partition("### What each processor more brings")
    assert ("Large" if alone else "Small, 2 processors available") in head
    assert "another machine: Large, 16 processors" in part
