"""What power cuts do to writes without `fsync`: `python -m tests.faults.powercut [STATES [DURABILITY [KIND...]]]`
prints a table of docs/guarantees.md. Of each kind, or of those that are named, so many states that chance chooses are
tried: at most twice as many.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.faults.powercut.kinds import KINDS
from tests.faults.powercut.recording import record
from tests.faults.powercut.trials import cuts, try_kind

WORDS = ("wrong", "told", "gone")


def main(most: int, durability: str, kinds: list[str]) -> None:
    with TemporaryDirectory() as folder:
        calls = record(Path(folder, "recorded"), kinds, durability)
    states = 0
    for name in kinds:
        row = []
        for ordered in (False, True):
            counts = try_kind(name, cuts(calls, name, ordered, chances=20, most=most)).counts
            total = counts.total()
            states += total
            row += [f"{100 * counts[word] / total:.3g} %" if counts[word] else "-" for word in WORDS]
        print(f"| {name} | {' | '.join(row)} |", flush=True)
    print(states, "states")


if __name__ == "__main__":
    states, durability, *kinds = [*sys.argv[1:], *["500", "rename"][len(sys.argv) - 1 :]]
    main(int(states), durability, kinds or [*KINDS])
