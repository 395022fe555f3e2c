"""Every kind of write that power may cut off, and the process that does them, step by step, while it is recorded."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.faults.powercut import n5, outputs, precomputed, stores, vectors, zarr, zarr2
from tests.faults.powercut.kind import STEPS
from tests.faults.powercut.recording import MARKS
from zvcore.stores import LocalStore

KINDS = {kind.name: kind for room in (zarr, zarr2, n5, precomputed, vectors, stores, outputs) for kind in room.kinds()}


def folder_of(name: str) -> str:
    """Where the store of a kind is made."""
    return f"{list(KINDS).index(name)}/store"


def main(folder: Path, durability: str, names: list[str]) -> None:
    with open(folder / MARKS, "w") as marks:

        def mark(*words: object) -> None:
            print(*words, file=marks, flush=True)

        for name in names:
            path = folder / folder_of(name)
            path.parent.mkdir()
            KINDS[name].begin(path)
            mark("begin", name)
            for value in STEPS:
                mark("write", value)
                KINDS[name].step(LocalStore(path, durability=durability), value)
                mark("written", value)
            mark("end", name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
