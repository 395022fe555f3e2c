"""A session of fuzzing: every target in turn, each for its share of the time, one process at a time.

    python -m fuzz.session --minutes 30 [--site build/fuzzer/site] [TARGET...]

Inputs that reach something new gather in build/fuzz/TARGET and are there for the next session; `--save` reduces them
to the fewest that reach the same, and puts those into fuzz/corpus. Findings lie in build/fuzz/findings. Exit status 1
if there was one.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

from fuzz import corpus

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "fuzz"
FINDINGS = WORK / "findings"
# What counts is memory that is touched (rss). Room for data of unknown size may be asked for up to 2 GiB and an eighth.
LIMITS = ["-rss_limit_mb=3000", "-malloc_limit_mb=2600", "-max_len=4096", "-print_final_stats=1"]


def environment(site: Path) -> dict[str, str]:
    import atheris

    runtime = Path(atheris.path(), "asan_with_fuzzer.so")
    options = ("detect_leaks=0", "allocator_may_return_null=1", "abort_on_error=0", "handle_abort=1", "symbolize=1")
    return {
        **os.environ,
        "LD_PRELOAD": str(runtime),
        "ASAN_OPTIONS": ":".join(options),
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)]),
        "PYTHONSAFEPATH": "1",
        "ZVCORE_THREADS": "1",
    }


def run(target: str, arguments: list[str], surroundings: dict[str, str]) -> tuple[int, str]:
    command = [sys.executable, "-m", "fuzz", target, *arguments]
    # Not in the checkout, where the ordinary modules lie.
    done = subprocess.run(
        command, cwd=WORK, env=surroundings, capture_output=True, text=True, errors="replace", check=False
    )
    return done.returncode, done.stdout + done.stderr


def processor_seconds() -> float:
    """Of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def fuzz(target: str, seconds: int, patience: int, surroundings: dict[str, str]) -> bool:
    """Whether nothing was found."""
    folder = WORK / target
    options = [f"-max_total_time={seconds}", f"-timeout={patience}", f"-artifact_prefix={FINDINGS}/{target}-", *LIMITS]
    before = processor_seconds()
    status, text = run(target, ["--in", str(folder), *options], surroundings)
    minutes = (processor_seconds() - before) / 60
    runs = re.search(r"stat::number_of_executed_units: (\d+)", text)
    covered = re.findall(r"cov: (\d+) ft: (\d+) corp: (\d+)", text)
    what = f"{runs[1] if runs else '?'} runs, coverage %s, features %s, corpus %s" % (
        covered[-1] if covered else ("?",) * 3
    )
    found = "" if status == 0 else "   FOUND SOMETHING"
    print(f"{target:28} {minutes:6.2f} minutes of processor, {what}{found}", flush=True)
    if status:
        (FINDINGS / f"{target}.log").write_text(text)
        print("\n".join(text.splitlines()[-60:]), flush=True)
    return status == 0


def save(target: str, surroundings: dict[str, str]) -> None:
    smallest = WORK / "smallest" / target
    smallest.mkdir(parents=True, exist_ok=True)
    for old in smallest.iterdir():
        old.unlink()
    status, text = run(target, ["-merge=1", *LIMITS, str(smallest), str(WORK / target)], surroundings)
    if status or not any(smallest.iterdir()):
        print(f"{target}: cannot be reduced\n{text[-2000:]}")
        return
    print(f"{target:28} {corpus.save(target, [path.read_bytes() for path in smallest.iterdir()])} inputs")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=0.0, help="for all targets together")
    parser.add_argument("--site", type=Path, default=ROOT / "build" / "fuzzer" / "site")
    parser.add_argument("--patience", type=int, default=20, help="seconds for one input; more where others run too")
    parser.add_argument("--save", action="store_true", help="reduce what was gathered, into fuzz/corpus")
    parser.add_argument("targets", nargs="*")
    options = parser.parse_args()
    surroundings = environment(options.site.resolve())
    FINDINGS.mkdir(parents=True, exist_ok=True)
    targets = options.targets or [
        line for line in run("", ["--list"], surroundings)[1].splitlines() if re.fullmatch(r"\w+", line)
    ]
    start = time.monotonic()
    well = True
    if options.minutes:
        for target in targets:
            (WORK / target).mkdir(exist_ok=True)
            well &= fuzz(target, max(1, int(60 * options.minutes / len(targets))), options.patience, surroundings)
        passed, used = (time.monotonic() - start) / 60, processor_seconds() / 60
        print(f"{len(targets)} targets in {passed:.1f} minutes, {used:.1f} of processor", flush=True)
    if options.save:
        for target in targets:
            save(target, surroundings)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
