"""The harness of the benchmarks: what it finds, that a failing peer is shown, what the page and the plots say."""

from __future__ import annotations

import gc
import json
import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
import pytest

from bench import growth, report, svg
from bench.contest import Contest
from bench.interleaved import all_times, turns_to_pass
from bench.measuring import Row, in_question, measure_contests, more_turns, seconds_due
from bench.memory import peak_of
from bench.suites import LIMITS, OURS, Entry

if TYPE_CHECKING:
    from pathlib import Path

MACHINE = {
    "processor": "a processor", "cores": 2, "memory": 2**34, "system": "Linux", "python": "3.12", "compiler": "GCC",
    "simd": "avx2", "libraries": {"libzstd": "1"}, "versions": {"numpy": "2"}, "date": "2026-01-01",
    "load at the start": 0.5,
}  # fmt: skip


class Clock:
    """Stands in for the machine's: only what is measured takes time, so that no other work on the machine changes what
    comes out.
    """

    def __init__(self) -> None:
        self.now = 1000.0

    def read(self) -> float:
        self.now += 1e-7  # looking at it takes a while
        return self.now

    def busy(self, microseconds: float) -> Any:
        def work() -> None:
            self.now += microseconds * 1e-6

        return work


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(time, "perf_counter", found.read)
    return found


def test_those_far_behind_take_fewer_turns_and_each_turn_begins_with_another() -> None:
    calls: list[str] = []
    functions = {name: partial(calls.append, name) for name in ("quick", "close", "slow")}
    passing = turns_to_pass({"quick": 1.0, "close": 1.9, "slow": 8.0})
    assert passing == {"quick": 1, "close": 1, "slow": 4}
    times = all_times(functions, 0.0, 8, passing)
    assert {name: len(found) for name, found in times.items()} == {"quick": 8, "close": 8, "slow": 2}
    assert calls[:8] == ["quick", "close", "slow", "close", "quick", "quick", "close", "quick"]


def write(folder: Path, name: str, results: Any) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps({"machine": MACHINE, "results": results}))


def test_a_contest_is_measured_and_a_loser_is_shown(tmp_path: Path, clock: Clock) -> None:
    def broken() -> dict[str, Any]:
        raise OSError("no such library")

    busy, slow = clock.busy, ("zvcore", "peer", "memcpy")
    contests = [
        Contest("slower", slow, lambda: {"zvcore": busy(40000), "peer": busy(100), "memcpy": busy(9)}),
        Contest("faster", ("zvcore", "peer"), lambda: {"zvcore": busy(100), "peer": busy(40000)}, 3),
        Contest("broken", ("zvcore", "peer"), broken),
    ]  # fmt: skip
    results = measure_contests([Entry("toys", contest) for contest in contests], 0.3)
    write(tmp_path / "results", "toys", results)
    report.write_report(tmp_path / "results", tmp_path / "RESULTS.md")
    text = (tmp_path / "RESULTS.md").read_text()
    losers = text.partition("## Where zvcore is not the fastest")[2].partition("## toys")[0]
    assert "1 of 2 tasks that a peer can do too are lost" in losers
    assert "| toys | slower |" in losers and "| faster |" not in losers
    assert "no such library" in text
    assert "(memcpy)" in text and "(peer)" in text
    ElementTree.fromstring((tmp_path / "results" / "toys.svg").read_text())


def test_what_is_lost_stands_first_with_the_reason_and_noise_has_a_table_of_its_own(tmp_path: Path) -> None:
    ratios = {"migrate 64 chunks of 64^3": 0.9, "lost": 0.964, "noise": 0.966, "even": 0.999, "won": 1.2}
    results = [
        {"task": task, "times": {"zvcore": {"best": 1.0, "median": 1.0}, "peer": {"best": ratio, "median": ratio}}}
        for task, ratio in ratios.items()
    ]
    write(tmp_path / "results", "zarr2", results)
    report.write_report(tmp_path / "results", tmp_path / "RESULTS.md")
    page = (
        (tmp_path / "RESULTS.md")
        .read_text()
        .partition("## Where zvcore is not the fastest")[2]
        .partition("## zarr2")[0]
    )
    assert "2 of 5 tasks that a peer can do too are lost" in page and "In 2 more a peer is ahead" in page
    lost, near = page.split("In 2 more")
    assert [line.split(" | ")[1:3] for line in lost.splitlines() if line.startswith("| zarr2")] == [
        ["migrate 64 chunks of 64^3", "0.90"], ["lost", "0.96"],
    ]  # fmt: skip
    assert "the disk decides" in lost and "won" not in page
    assert [line.split(" | ")[1] for line in near.splitlines() if line.startswith("| zarr2")] == ["noise", "even"]


def test_a_suite_that_was_measured_on_another_machine_says_so(tmp_path: Path) -> None:
    times = {who: {"best": 1.0, "median": 1.0} for who in ("zvcore", "peer")}
    for name in ("codecs", "n5", "zarr3"):
        write(tmp_path / "results", name, [{"task": "any", "times": times}])
    other = {**MACHINE, "simd": "avx512"}
    place = tmp_path / "results" / "n5.json"
    place.write_text(json.dumps({**json.loads(place.read_text()), "machine": other}))
    report.write_report(tmp_path / "results", tmp_path / "RESULTS.md")
    text = (tmp_path / "RESULTS.md").read_text()
    said = [part.partition("\n")[0] for part in text.split("\n## ") if "Measured apart from the others" in part]
    assert said == ["n5"]


def test_peers_that_are_close_or_faster_are_in_question_and_lack_turns() -> None:
    times = {"zvcore": [1.0, 2.0], "close": [1.05], "faster": [0.5], "slower": [1.2], "memcpy": [0.1], "inplace": [0.9]}
    assert in_question(times) == ["zvcore", "close", "faster"]
    assert in_question({"zvcore": [1.0], "slower": [1.2], "memcpy": [0.1]}) == []
    assert seconds_due(times) == pytest.approx(7 * 1.0 + 8 * 1.05 + 8 * 0.5)
    assert seconds_due({"zvcore": [1.0] * 9, "close": [1.05] * 9}) == 0
    more_turns(dict.fromkeys(times, lambda: 0.75), times, 0.0)
    assert times["zvcore"] == [1.0, 2.0, 0.75]
    assert times["close"] == [1.05, 0.75]
    assert times["slower"] == [1.2]


def test_those_that_are_close_take_three_turns_however_long_they_take(clock: Clock) -> None:
    works = {
        "zvcore": clock.busy(1_000_000), "close": clock.busy(1_400_000), "slower": clock.busy(2_000_000),
        "memcpy": clock.busy(10_000),
    }  # fmt: skip
    row = Row(Entry("files", Contest("long", tuple(works), lambda: works)))
    row.measure(0.5)
    turns = {name: len(times) for name, times in row.times.items()}
    assert turns == {"zvcore": 3, "close": 3, "slower": 1, "memcpy": 3}


def test_a_contest_that_is_lost_is_measured_again_when_all_have_had_their_turns(clock: Clock) -> None:
    prepared: list[str] = []

    def prepare(name: str, loops: int) -> Any:
        prepared.append(name)
        return {"zvcore": clock.busy(2000), "peer": clock.busy(loops)}

    loops = {"lost": 20, "far": 200_000}
    contests = [Contest(name, ("zvcore", "peer"), partial(prepare, name, n)) for name, n in loops.items()]
    results = measure_contests([Entry("toys", contest) for contest in contests], 2.0)
    assert prepared == ["lost", "far", "lost"]
    lost, far = (result["times"] for result in results)
    assert min(one["turns"] for one in lost.values()) >= 9
    assert far["peer"]["turns"] < far["zvcore"]["turns"]


def test_what_one_has_written_is_on_the_disk_before_the_next_begins_outside_of_the_clock(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def sync() -> None:
        said.append("sync")
        clock.now += 0.05

    monkeypatch.setattr(os, "sync", sync)
    works = {name: partial(said.append, name) for name in ("zvcore", "peer")}
    row = Row(Entry("own", Contest("write", tuple(works), lambda: works, writes=True)))
    row.measure(1.0)
    assert said[::2] == ["sync"] * (len(said) // 2)
    assert set(said[1::2]) == {"zvcore", "peer"}
    assert max(max(times) for times in row.times.values()) < 0.01
    said.clear()
    Row(Entry("own", Contest("read", tuple(works), lambda: works))).measure(0.1)
    assert "sync" not in said


def test_those_that_take_long_and_are_far_behind_are_called_once_where_time_is_short(clock: Clock) -> None:
    def prepare() -> Any:
        return {"zvcore": clock.busy(40_000), "close": clock.busy(50_000), "far": clock.busy(2_000_000)}

    entry = Entry("toys", Contest("row", ("zvcore", "close", "far"), prepare))
    hasty, patient = (measure_contests([entry], seconds)[0]["times"] for seconds in (1.0, 60.0))
    assert [hasty[name]["turns"] for name in ("zvcore", "close", "far")] == [3, 3, 1]
    assert hasty["far"]["best"] == pytest.approx(2.0, rel=0.01)
    assert patient["far"]["turns"] > 1
    start = clock.now
    measure_contests([entry], 1.0)
    assert clock.now - start < 2.4


def test_those_that_are_far_behind_are_called_again_unless_that_takes_long(clock: Clock) -> None:
    """What only a first call does must not stand on the page as what the peer costs."""

    def prepare() -> Any:
        calls: list[float] = []

        def far() -> None:
            calls.append(1.4 if not calls else 0.6)
            clock.now += calls[-1]

        return {"zvcore": clock.busy(40_000), "close": clock.busy(50_000), "far": far}

    entry = Entry("toys", Contest("row", ("zvcore", "close", "far"), prepare))
    far = measure_contests([entry], 1.0)[0]["times"]["far"]
    assert far["turns"] == 2
    assert far["best"] == pytest.approx(0.6, rel=0.01)


def test_no_call_is_made_with_the_collector_on(clock: Clock) -> None:
    found: list[bool] = []

    def work(microseconds: float) -> Any:
        def run() -> None:
            found.append(gc.isenabled())
            clock.now += microseconds * 1e-6

        return run

    works = {"zvcore": work(1000), "close": work(1050), "far": work(2_000_000)}
    enabled = gc.isenabled()
    gc.enable()
    try:
        measure_contests([Entry("toys", Contest("row", tuple(works), lambda: works))], 1.0)
        assert gc.isenabled()
    finally:
        if not enabled:
            gc.disable()
    assert found
    assert not any(found)


def test_growth_is_fitted() -> None:
    sizes = [1, 10, 100, 1000, 10000, 100000]
    assert growth.fit(sizes, [n**1.5 for n in sizes]) == pytest.approx(1.5)
    assert growth.fit(sizes, [5.0 for _ in sizes]) == pytest.approx(0)
    # What a call costs in any case does not hide that the rest is linear.
    assert growth.fit(sizes, [300 + n for n in sizes]) == pytest.approx(1, abs=0.15)
    assert growth.fit([1, 2], [1.0, 2.0]) == pytest.approx(1)


def test_what_is_too_steep_is_marked(tmp_path: Path, clock: Clock) -> None:
    def make(n: int, folder: Path) -> Any:
        return clock.busy(n * n)

    steep = growth.Growth("square", "things", [30, 100, 300, 1000], make, growth.LINEAR, memory=True)
    result = growth.measure_one(steep, 0.1)
    assert result["exponent"] > 1.5 and not result["within"]
    write(tmp_path / "results", "growth", [result])
    report.write_report(tmp_path / "results", tmp_path / "RESULTS.md")
    assert "**too steep**" in (tmp_path / "RESULTS.md").read_text()
    ElementTree.fromstring((tmp_path / "results" / "growth-0.svg").read_text())


def test_workloads_of_one_tool_that_fails(tmp_path: Path) -> None:
    from bench import workloads

    tasks = {task: {"best": 0.2, "median": 0.3, "turns": 3, "peak": 2**20} for task in workloads.TASKS}
    faster = {task: {**one, "best": 0.1} for task, one in tasks.items()}
    results = [
        {"who": "zvcore", "processors": 2, "tasks": tasks},
        {"who": "tensorstore", "processors": 2, "tasks": faster},
        {"who": "zarrs", "processors": 2, "error": "it died"},
    ]
    write(tmp_path / "results", "workloads", results)
    report.write_report(tmp_path / "results", tmp_path / "RESULTS.md")
    text = (tmp_path / "RESULTS.md").read_text()
    assert f"{len(tasks)} of {len(tasks)} tasks" in text
    assert "it died" in text


class Tool:
    """In the place of a process: it takes as long as it says, and dies after so many tasks."""

    def __init__(self, seconds: float, lives: int = 10**9) -> None:
        self.seconds, self.lives, self.orders = seconds, lives, list[str]()

    def do(self, order: str, task: str) -> tuple[float, int]:
        from bench.workloads import ChildDied

        self.orders.append(order)
        if len(self.orders) > self.lives:
            raise ChildDied("no more")
        return self.seconds, 7 if order == "peak" else 0


def test_tools_of_workloads_take_turns_until_they_die_or_are_far_behind() -> None:
    from bench import workloads

    tools: dict[str, Any] = {
        "zvcore": Tool(1.0),
        "tensorstore": Tool(1.05),
        "zarr": Tool(9.0),
        "zarrs": Tool(1.1, lives=1),
    }
    found: dict[str, dict[str, Any]] = {who: {"tasks": {}} for who in tools}
    workloads.measure_task(tools, found, "read all", 0.0)
    assert tools["zvcore"].orders == tools["tensorstore"].orders == ["peak", "time", "time"]
    assert tools["zarr"].orders == ["peak"]
    assert found["zarrs"] == {"error": "no more"}
    assert found["zvcore"]["tasks"] == {"read all": {"best": 1.0, "median": 1.0, "turns": 2, "peak": 7}}
    assert found["zarr"]["tasks"]["read all"]["best"] == 9.0
    dead = {who: {"error": "no more"} for who in tools}
    workloads.measure_task(tools, dead, "round trip", 0.0)
    assert dead == {who: {"error": "no more"} for who in tools}


def test_a_tool_that_cannot_begin_says_why(tmp_path: Path) -> None:
    from bench import workloads

    child = workloads.Child("nobody", tmp_path, [])
    try:
        with pytest.raises(workloads.ChildDied, match="nobody"):
            child.do("time", "read all")
    finally:
        child.stop()


def test_the_peak_of_memory_is_seen() -> None:
    assert 50 << 20 < peak_of(lambda: np.ones(60 << 20, "u1")) < 90 << 20
    assert peak_of(lambda: None) < 8 << 20


def test_plots_take_any_words() -> None:
    root = ElementTree.fromstring(svg.bars("<&>", [("a < b & c", 0.01, "(x)"), ("b", 250.0, "")]))
    assert "<&>" in [element.text for element in root.iter() if element.text]
    ElementTree.fromstring(svg.lines("t", "x", "y", [("one", [1, 10], [0.1, 100]), ("none", [1, 10], [0, 5])]))


def test_limits_are_no_competitors() -> None:
    assert not LIMITS & OURS
