"""Measures the contests, the workloads and how cost grows, and writes bench/RESULTS.md, plots and raw numbers.

    python -m bench                                 about eight minutes (BENCH_SECONDS: of measuring)
    python -m bench --suite zarr3 --suite n5        some suites
    python -m bench --all                           every contest, not only the headlines: give it an hour
    python -m bench --report                        write the page and the plots again from the numbers that are there

ZVCORE_BENCH_DATA names datasets of your own (separated by ":") that are read too.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
# Before the contests are imported: data large enough for times that mean something.
os.environ.setdefault("ZVCORE_BENCH_SIDE", "256")
os.environ.setdefault("ZVCORE_BENCH_BRIEF", "0" if "--all" in sys.argv else "1")


def measure_own(seconds: float) -> list[dict[str, Any]]:
    """The datasets that ZVCORE_BENCH_DATA names."""
    import zvcore
    from zvcore.commands import measuring
    from zvcore.engine import default_thread_count

    found = []
    for path in filter(None, os.environ.get("ZVCORE_BENCH_DATA", "").split(os.pathsep)):
        opened = zvcore.open(path)
        array = opened if hasattr(opened, "read") else opened[0]
        counts = sorted({1, default_thread_count()})
        rows = [r.to_json() for r in measuring.measure_array(array, path, seconds, threads=counts)]
        found.append({"path": path, "array": repr(array), "rows": rows})
    return found


def store(name: str, value: Any, machine: dict[str, Any], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    document = {"machine": machine, "results": value}
    (folder / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("BENCH_SECONDS", "360")))
    parser.add_argument(
        "--suite", action="append", help="only this one; again for others; also workloads, growth, threads, cores, own"
    )
    parser.add_argument("--all", action="store_true", help="every contest, not only the headlines")
    parser.add_argument("--report", action="store_true", help="measure nothing: the page and the plots again")
    parser.add_argument("--out", type=Path, default=HERE, help="where RESULTS.md and results/ go")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    folder = options.out / "results"
    if not options.report:
        run(options, folder)
    from bench.report import write_report

    write_report(folder, options.out / "RESULTS.md")
    print(options.out / "RESULTS.md")
    return 0


def run(options: argparse.Namespace, folder: Path) -> None:
    from bench import cores, growth, machine, suites, thread_counts, workloads
    from bench.measuring import measure_contests

    here = machine.describe()
    chosen = [entry for entry in suites.entries() if options.all or entry.is_headline]
    names = dict.fromkeys(entry.suite for entry in chosen)
    known = [*names, "workloads", "growth", "threads", "own"]
    wanted = set(options.suite or known)
    if unknown := wanted - {*known, "cores"}:
        sys.exit(f"no such suite: {', '.join(sorted(unknown))}; there are {', '.join(known)}, cores")
    # Shares of the time: the contests of the suites get most of it.
    weights = {"workloads": 0.25, "growth": 0.15, "own": 0.1 if os.environ.get("ZVCORE_BENCH_DATA") else 0.0}
    weights = {name: weight for name, weight in weights.items() if name in wanted}
    contests = [entry for entry in chosen if entry.suite in wanted]
    left = 1.0 - sum(weights.values()) if contests else 0.0
    scale = options.seconds / ((left + sum(weights.values())) or 1.0)
    end = time.perf_counter() + left * scale
    for suite in dict.fromkeys(entry.suite for entry in contests):
        mine = [entry for entry in contests if entry.suite == suite]
        rest = sum(1 for entry in contests if list(names).index(entry.suite) >= list(names).index(suite))
        store(suite, measure_contests(mine, (end - time.perf_counter()) * len(mine) / rest), here, folder)
    if "workloads" in wanted:
        store("workloads", workloads.measure(weights["workloads"] * scale), here, folder)
    if "growth" in wanted:
        store("growth", growth.measure(weights["growth"] * scale), here, folder)
    if "threads" in wanted:  # counts, which take the time that they take
        store("threads", thread_counts.measure(), here, folder)
    if "cores" in wanted:  # only when it is named: it is about machines with more of them than two
        store("cores", cores.measure(), here, folder)
    if weights.get("own"):
        store("own", measure_own(weights["own"] * scale), here, folder)


if __name__ == "__main__":
    sys.exit(main())
