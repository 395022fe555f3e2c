"""bench/RESULTS.md and its plots, from the numbers in bench/results/*.json."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from bench.reasons import reason_of
from bench.suites import LIMITS, OURS
from bench.svg import bars, lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["write_report"]

SPECIAL = ("workloads", "growth", "own", "check", "threads", "cores")
# From here on to 1.00 the same code may be on either side from one run to the next.
NOISE = 0.97
ABOUT = """\
# Results

Made by `make bench`; the raw numbers and plots are in `results/`. All tools in a row work on the same bytes, in one
process, taking turns, so that other work on the machine hits all alike; "best" is the shortest of all turns, "median"
the middle one. Every call, the first too, is made without Python's garbage collector, as `timeit` does it: what that
costs depends on whatever else the process keeps (workloads have processes of their own, and leave it on). Who is far
behind and takes long is called only twice, or once if that takes more than 1.5 seconds. Where files are written, what
one tool leaves to the system is on the disk before the next has its turn, outside of the clock (`os.sync`). "times as
fast" is the best peer's best time divided by zvcore's: below 1.00 zvcore
loses, and those rows are gathered first. "of the limit" is zvcore's time divided by that of the work that nobody can
avoid (memcpy, plain pread, the bare library's decoding, as the row says): 1.00 would be perfect; below 1.00 zvcore
does less work or uses more threads. Data is made from a seed (`data.py`): electron microscopy (em), light-sheet
microscopy, dense segmentations; nothing is all zeros.
"""


def read(folder: Path) -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


def write_report(folder: Path, page: Path) -> None:
    found = read(folder)
    if not found:
        raise SystemExit(f"there are no results in {folder}")
    suites = {name: document for name, document in found.items() if name not in SPECIAL}
    parts = [ABOUT, *machine_part(found), *losers_part(suites, found)]
    for name, document in suites.items():
        parts += suite_part(name, document, folder, apart(document["machine"], headline(found)))
    if "workloads" in found:
        parts += workloads_part(found["workloads"], folder)
    if "growth" in found:
        parts += growth_part(found["growth"], folder)
    if "threads" in found:
        parts += threads_part(found["threads"])
    if "cores" in found:
        parts += cores_part(found["cores"])
    if "own" in found:
        parts += own_part(found["own"])
    page.write_text("\n".join(parts) + "\n")


def machines_of(found: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    here = {name: document for name, document in found.items() if name != "cores"}  # which has a machine of its own
    return [document["machine"] for document in (here or found).values()]


def headline(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The machine that the page begins with."""
    return machines_of(found)[-1]


def apart(machine: dict[str, Any], others: dict[str, Any]) -> str:
    """What to say of a suite that was measured on another machine than the others; empty if it was not."""
    if all(machine[what] == others[what] for what in ("processor", "cores", "simd", "system")):
        return ""
    return (
        f"Measured apart from the others, {machine['date']}, on another machine: {machine['processor']}, "
        f"{machine['cores']} processors, {machine['system']}, SIMD path {machine['simd']}.\n"
    )


def machine_part(found: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Suites may have been measured one by one: what they share is said once, what differs for each suite."""
    machines, first = machines_of(found), headline(found)
    yield "## Machine\n"
    memory = f"{first['memory'] / 2**30:.0f} GiB" if first.get("memory") else "?"
    yield f"{first['processor']}, {first['cores']} processors available, {memory}, {first['system']}  "
    yield f"Python {first['python']}, {first['compiler']}, SIMD path {first['simd']}  "
    yield "C libraries: " + ", ".join(f"{name} {version}" for name, version in first["libraries"].items()) + "  "
    yield "Packages: " + ", ".join(f"{name} {version}" for name, version in first["versions"].items()) + "  "
    dates = sorted({machine["date"] for machine in machines})
    loads = sorted({machine["load at the start"] for machine in machines if machine["load at the start"] is not None})
    yield f"Measured {dates[0]}{'' if len(dates) == 1 else f' to {dates[-1]}'}; load before: " + ", ".join(
        map(str, loads)
    )
    yield ""


def best_peer(times: dict[str, Any]) -> tuple[str, float] | None:
    peers = {who: found["best"] for who, found in times.items() if who not in OURS | LIMITS}
    return min(peers.items(), key=lambda item: item[1]) if peers else None


def limit_of(times: dict[str, Any]) -> tuple[str, float] | None:
    limits = {who: found["best"] for who, found in times.items() if who in LIMITS}
    return min(limits.items(), key=lambda item: item[1]) if limits else None


def rows_behind(suites: dict[str, Any], found: dict[str, Any]) -> tuple[int, list[tuple[float, str, str, str]]]:
    """(tasks that a peer can do too; ratio, suite, task and peer of those at which one was faster, the worst first)."""
    rows = []
    for name, document in suites.items():
        for result in document["results"]:
            if "times" in result and (peer := best_peer(result["times"])):
                rows.append((peer[1] / result["times"]["zvcore"]["best"], name, result["task"], peer[0]))
    for one in workload_rows(found.get("workloads", {"results": []})):
        rows.append((one["ratio"], "workloads", f"{one['task']}, {one['processors']} processors", one["peer"]))
    return len(rows), sorted(row for row in rows if row[0] < 1)


def losers_part(suites: dict[str, Any], found: dict[str, Any]) -> Iterator[str]:
    count, rows = rows_behind(suites, found)
    lost = [row for row in rows if round(row[0], 2) < NOISE]
    near = rows[len(lost) :]
    yield "## Where zvcore is not the fastest\n"
    yield f"{len(lost)} of {count} tasks that a peer can do too are lost, the worst first.\n"
    if lost:
        yield "| suite | task | times as fast as the best peer | who is faster | why, where it is known |"
        yield "|---|---|---|---|---|"
        yield from (
            f"| {suite} | {task} | {ratio:.2f} | {peer} | {reason_of(suite, task)} |"
            for ratio, suite, task, peer in lost
        )
        yield ""
    yield f"In {len(near)} more a peer is ahead by no more than runs of the same code differ ({NOISE} to 1.00).\n"
    if near:
        yield "| suite | task | times as fast as the best peer | who is ahead |\n|---|---|---|---|"
        yield from (f"| {suite} | {task} | {ratio:.2f} | {peer} |" for ratio, suite, task, peer in near)
        yield ""


def suite_part(name: str, document: dict[str, Any], folder: Path, apart: str = "") -> Iterator[str]:
    """`apart`: what to say before the table."""
    yield f"## {name}\n"
    if apart:
        yield apart
    yield f"![{name}](results/{name}.svg)\n"
    yield "| task | zvcore best | median | times as fast as the best peer | of the limit | all others, times as slow |"
    yield "|---|---|---|---|---|---|"
    plotted = []
    for result in document["results"]:
        if "error" in result:
            yield f"| {result['task']} | failed: {result['error'][:120].replace('|', '/')} | | | | |"
            continue
        times = result["times"]
        ours = times["zvcore"]
        peer, limit = best_peer(times), limit_of(times)
        versus = "" if peer is None else f"{peer[1] / ours['best']:.2f} ({peer[0]})"
        of_limit = "" if limit is None else f"{ours['best'] / limit[1]:.2f} ({limit[0]})"
        others = ", ".join(
            f"{who} {found['best'] / ours['best']:.2f}"
            for who, found in times.items()
            if who != "zvcore" and who not in LIMITS and (peer is None or who != peer[0])
        )
        yield (
            f"| {result['task']} | {duration(ours['best'])} | {duration(ours['median'])} | {versus} | {of_limit} | "
            f"{others} |"
        )
        if peer is not None:
            plotted.append((result["task"], peer[1] / ours["best"], f"({peer[0]})"))
    if plotted:
        title = f"{name}: how many times as fast as the best peer"
        (folder / f"{name}.svg").write_text(bars(title, plotted))
    yield ""


def workload_rows(document: dict[str, Any]) -> list[dict[str, Any]]:
    """One row for each workload and number of processors: zvcore beside the fastest other tool."""
    rows = []
    results = [result for result in document["results"] if "tasks" in result]
    for count in sorted({result["processors"] for result in results}):
        tasks = {result["who"]: result["tasks"] for result in results if result["processors"] == count}
        if "zvcore" not in tasks:
            continue
        for task, ours in tasks["zvcore"].items():
            peers = {who: found[task]["best"] for who, found in tasks.items() if who not in OURS}
            if not peers:
                continue
            peer = min(peers, key=peers.__getitem__)
            rows.append({"task": task, "processors": count, "ratio": peers[peer] / ours["best"], "peer": peer})
    return rows


def workloads_part(document: dict[str, Any], folder: Path) -> Iterator[str]:
    from bench import workloads

    shape = " x ".join(map(str, workloads.SHAPE))
    yield "## Workloads of the zarr_benchmarks suite\n"
    yield f"{shape} of uint16 light-sheet microscopy, shards of {workloads.SHARD}^3, inner chunks of"
    yield f"{workloads.INNER}^3, blosc {workloads.BLOSC['cname']} {workloads.BLOSC['clevel']}, bits shuffled."
    yield "Each tool has processes of its own, with all processors or one; memory is the peak beyond what the process"
    yield "had before.\n"
    yield "![workloads](results/workloads.svg)\n"
    yield "| processors | task | who | best | median | of zvcore's time | peak memory, MiB |"
    yield "|---|---|---|---|---|---|---|"
    results = document["results"]
    ours = {r["processors"]: r["tasks"] for r in results if r["who"] == "zvcore" and "tasks" in r}
    for task in workloads.TASKS:
        for result in results:
            count = result["processors"]
            if "error" in result:
                if task == workloads.TASKS[0]:
                    yield f"| {count} | all | {result['who']} | failed: {result['error'][:100]} | | | |"
                continue
            one = result["tasks"][task]
            ratio = f"{one['best'] / ours[count][task]['best']:.2f}" if count in ours else ""
            times = f"{duration(one['best'])} | {duration(one['median'])}"
            yield f"| {count} | {task} | {result['who']} | {times} | {ratio} | {one['peak'] / 2**20:.0f} |"
    rows = [
        (f"{one['task']}, {one['processors']} processors", one["ratio"], f"({one['peer']})")
        for one in workload_rows(document)
    ]
    if rows:
        (folder / "workloads.svg").write_text(bars("workloads: how many times as fast as the best peer", rows))
    yield ""


def growth_part(document: dict[str, Any], folder: Path) -> Iterator[str]:
    from bench import growth

    yield "## Cost as work grows\n"
    yield (growth.__doc__ or "").partition("\n\n")[2].partition("\n\n")[0] + "\n"
    yield "| what | grows with | from | to | time ~ n ** | may be | |\n|---|---|---|---|---|---|---|"
    plots = []
    for number, one in enumerate(document["results"]):
        within = "" if one["within"] else "**too steep**"
        sizes = f"{one['sizes'][0]}: {duration(one['seconds'][0])} | {one['sizes'][-1]}: {duration(one['seconds'][-1])}"
        yield f"| {one['name']} | {one['unit']} | {sizes} | {one['exponent']:.2f} | {one['most']} | {within} |"
        plot = f"growth-{number}.svg"
        series = [(f"milliseconds ~ n ** {one['exponent']:.2f}", one["sizes"], [s * 1e3 for s in one["seconds"]])]
        if one["peaks"]:
            within = "" if one["memory within"] else "**too steep**"
            yield (
                f"| memory of the same | {one['unit']} | {one['sizes'][0]}: {one['peaks'][0] / 2**20:.1f} MiB | "
                f"{one['sizes'][-1]}: {one['peaks'][-1] / 2**20:.1f} MiB | {one['memory exponent']:.2f} | "
                f"{growth.LINEAR} | {within} |"
            )
            memory = [max(p, 1) / 2**20 for p in one["peaks"]]
            series.append((f"MiB at the peak ~ n ** {one['memory exponent']:.2f}", one["sizes"], memory))
        (folder / plot).write_text(lines(one["name"], one["unit"], "ms, MiB", series))
        plots.append(f"![{one['name']}](results/{plot})")
    yield ""
    yield "\n".join(plots)
    yield ""


def threads_part(document: dict[str, Any]) -> Iterator[str]:
    from bench import thread_counts

    yield "### What a chunk costs, by the number of threads\n"
    found = document["results"]
    if not found:
        yield "Not counted: there was no valgrind.\n"
        return
    yield (thread_counts.__doc__ or "").split("\n\n")[2] + "\n"
    yield "Instructions of a chunk stand under the numbers of threads, those of the call under the fewest and the most."
    yield "Then what a chunk takes that threads may have to wait for, the most for any number of threads: atomic"
    yield "instructions, locks, system calls by which threads wait for each other. Files lie in memory.\n"
    yield from thread_counts.table(found)
    yield ""


def cores_part(document: dict[str, Any]) -> Iterator[str]:
    from bench import cores

    machine = document["machine"]
    yield "### What each processor more brings\n"
    yield f"Measured on another machine: {machine['processor']}, {machine['cores']} processors, {machine['system']},"
    yield f"SIMD path {machine['simd']}, {machine['date']}.\n"
    yield "\n\n".join((cores.__doc__ or "").split("\n\n")[2:]) + "\n"
    yield "Under one processor stands the time, under more of them how many times as fast it was than on one. For the"
    yield "others follows how many times as long they took as zvcore on as many processors.\n"
    yield from cores.table(document["results"])
    yield ""


def own_part(document: dict[str, Any]) -> Iterator[str]:
    yield "## Datasets of your own\n"
    for number, one in enumerate(document["results"]):
        yield f"Dataset {number + 1}: `{one['array']}`\n"
        yield "| task | threads | who | best | median | MB/s |\n|---|---|---|---|---|---|"
        for row in one["rows"]:
            speed = f"{row['bytes'] / row['best'] / 1e6:.0f}"
            yield (
                f"| {row['task']} | {row['threads']} | {row['who']}{' (limit)' if row['limit'] else ''} | "
                f"{duration(row['best'])} | {duration(row['median'])} | {speed} |"
            )
        yield ""


def duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"
