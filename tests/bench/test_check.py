"""The comparison with the baseline: what it lets pass, what it does not, and that a planted loss is seen."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING

from bench import check, faults, kernel_counts

if TYPE_CHECKING:
    import pytest


def test_a_loss_beyond_the_margin_is_named() -> None:
    expected = {"a": 1.0, "b": 2.0, "c": 3.0}
    found = {"a": 1.14, "b": 2.4, "new": 9.0}
    losses = check.judge("ratio", found, expected, check.RATIO_MARGIN)
    assert len(losses) == 1
    assert losses[0].startswith("ratio: b: 2.4, baseline 2: +20%")


def test_reads_that_take_new_pages_each_time_are_named() -> None:
    expected = {"kept": 0.0, "lost": 0.0}
    losses = check.judge_faults({"kept": 1.5, "lost": 128.0, "new": 9.0}, expected)
    assert losses == ["pages: lost: 128.0, baseline 0.0, allowed +2"]


def test_pages_are_counted_for_each_read_in_the_best_of_three_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    taken, turns = 0, iter([500, 64, 64, 24, 8])  # what only the first calls need is not counted

    def work() -> None:
        nonlocal taken
        taken += next(turns)

    monkeypatch.setattr(faults.resource, "getrusage", lambda who: SimpleNamespace(ru_minflt=taken))
    assert faults.faults_of(work, 8) == 1.0


def test_another_machine_gets_wider_margins() -> None:
    here = check.surroundings()
    assert check.margins(here, here) == (check.RATIO_MARGIN, check.COUNT_MARGIN)
    assert check.margins(here, {**here, "processor": "another"}) == (check.FOREIGN_RATIO_MARGIN, check.COUNT_MARGIN)
    assert check.margins(here, {}) == (check.FOREIGN_RATIO_MARGIN, check.FOREIGN_COUNT_MARGIN)


def test_a_planted_loss_makes_functions_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 0.125  # looking at it takes a while
        return now

    def work() -> None:
        nonlocal now
        now += 100.0

    assert check.planted(work) is work
    monkeypatch.setattr(check, "PLANT", 0.2)
    monkeypatch.setattr(check.time, "perf_counter", clock)
    check.planted(work)()
    assert 120 <= now < 121


def test_the_baseline_is_about_what_is_measured(tmp_path_factory: pytest.TempPathFactory) -> None:
    baseline = json.loads(check.BASELINE.read_text())
    assert set(baseline["ratios"]) == set(check.pairs(tmp_path_factory.mktemp("pairs")))
    assert set(baseline["faults"]) == set(faults.CASES)
    assert set(baseline["instructions"]) == set(kernel_counts.cases())
    assert all(value > 0 for kind in ("ratios", "instructions") for value in baseline[kind].values())
    assert all(any(part in name for name in baseline["ratios"]) for part in check.SHORT)
