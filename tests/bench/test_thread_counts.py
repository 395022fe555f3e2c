"""What threads cost each other: how the benchmark takes the call apart from its chunks, and how the page shows it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from bench import report, thread_counts

if TYPE_CHECKING:
    from pathlib import Path

GRIDS = {8: (2, 2, 2), 64: (4, 4, 4)}


def test_what_a_chunk_costs_is_apart_from_what_the_call_costs() -> None:
    counts = [1000.0 * threads + 7 * chunks for _, threads, chunks in thread_counts.order(GRIDS, (1, 16))]
    found = thread_counts.slopes(GRIDS, (1, 16), counts)
    assert set(found) == set(thread_counts.NAMES)
    for one in found.values():
        assert one == [{"chunk": 7.0, "call": 1000.0}, {"chunk": 7.0, "call": 16000.0}]


def test_of_several_turns_the_least_counts() -> None:
    turns = thread_counts.REPEATS
    assert thread_counts.least([5.0] * (turns - 1) + [3.0] + [8.0] * turns) == [3.0, 8.0]


def test_each_call_comes_in_the_order_in_which_it_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_counts.time, "sleep", lambda seconds: None)
    done = [step[:3] for step in thread_counts.steps(tmp_path, GRIDS, (1, 2))]
    assert done == thread_counts.order(GRIDS, (1, 2))


def test_a_dump_of_callgrind_is_read(tmp_path: Path) -> None:
    dump = tmp_path / "out.3"
    dump.write_text("version: 1\nevents: Ir Ge\nsummary: 120 4\nfn=(1) f\n1 120 4\ntotals: 120 4\n")
    assert thread_counts.totals(dump) == {"Ir": 120, "Ge": 4}
    dump.write_text("events: Ir Ge\nsummary: 120\n")
    assert thread_counts.totals(dump) == {"Ir": 120, "Ge": 0}


@pytest.mark.parametrize("counted", [("instructions", "atomic", "locks", "futex"), ("instructions", "atomic"), ()])
def test_the_page_shows_what_could_be_counted(tmp_path: Path, counted: tuple[str, ...]) -> None:
    from tests.bench.test_harness import MACHINE

    numbers = [100.0 + 3 * chunks for _, _, chunks in thread_counts.order(GRIDS, (1, 16))]
    results: dict[str, Any] = {what: thread_counts.slopes(GRIDS, (1, 16), numbers) for what in counted}
    if counted:
        results["threads"] = [1, 16]
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "threads.json").write_text(json.dumps({"machine": MACHINE, "results": results}))
    report.write_report(folder, tmp_path / "RESULTS.md")
    text = (tmp_path / "RESULTS.md").read_text().partition("### What a chunk costs")[2]
    if counted:
        last = "3.00 | 3.00 | 3.00 |" if len(counted) == 4 else "3.00 |  |  |"
        assert f"| read: N5, raw | 3 | 3 | 100 | 100 | {last}" in text
    else:
        assert "there was no valgrind" in text
