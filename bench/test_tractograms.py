"""Files of streamlines, read and converted, beside nibabel, which most programs read them with, and trx-python.

    pytest bench/test_tractograms.py --benchmark-enable      times
    python -m bench.test_tractograms [word]                  ratios, the competitors taking turns

Streamlines of white matter that dipy ships, many times over. Whoever reads all of a file has every vertex, in the
world's coordinates, and every value of each vertex and line.
"""

from __future__ import annotations

from collections import deque
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from bench.contest import Contest, entrants, run_alone
from bench.measured import tracts
from bench.scale import pick
from bench.scratch import scratch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Calls = dict[str, "Callable[[], Any]"]

COPIES = pick(100, 1)


def _optional(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:  # its contests take no part
        return None


streamlines = import_module("nibabel.streamlines")
trx = _optional("trx.trx_file_memmap")


@cache
def stored(name: str, copies: int = COPIES) -> Path:
    """A file of this name, of which "with values" has some for each vertex and line."""
    path = scratch() / f"{copies} {name}"
    lines = tracts(copies)
    data: dict[str, Any] = {}
    if "values" in name:
        numbers = np.arange(len(lines), dtype="f4")[:, None]
        data = {
            "data_per_point": {"fa": [line[:, :1] for line in lines], "colour": lines},
            "data_per_streamline": {"bundle": numbers},
        }
    made = streamlines.Tractogram(lines, affine_to_rasmm=np.eye(4), **data)
    streamlines.save(made, str(path))
    return path


def through(batches: Any) -> None:
    """Go through all of them, and keep none."""
    deque(batches, 0)


def reading(name: str) -> Calls:
    path = stored(name)

    def ours() -> Any:
        opened = zvcore.open(path)
        return list(opened.batches()), opened.of_objects

    return {"zvcore": ours, "nibabel": lambda: streamlines.load(path)}


def iterating(name: str) -> Calls:
    """In bounded memory: nibabel goes from line to line, zvcore from some to others."""
    path = stored(name)
    return {
        "zvcore": lambda: through(zvcore.open(path).batches()),
        "nibabel": lambda: through(streamlines.load(path, lazy_load=True).streamlines),
    }


def opening(name: str) -> Calls:
    """A file of a few lines, of which most of the time goes into the header."""
    path = stored(name, 1)
    return {
        "zvcore": lambda: through(zvcore.open(path).batches()),
        "nibabel": lambda: streamlines.load(path),
    }


def converting(name: str) -> Calls:
    source, reference = stored(name), str(stored("a.trk", 1))
    ours, theirs = scratch() / "ours.trx", scratch() / "theirs.trx"

    def by_trx_python() -> None:
        made = trx.TrxFile.from_tractogram(streamlines.load(source).tractogram, reference)
        trx.save(made, str(theirs))
        made.close()

    return {
        "zvcore": lambda: zvcore.convert(source, ours, format="trx", overwrite=True),
        "nibabel, trx-python": by_trx_python,
    }


KINDS = {".trk": "a.trk", ".trk with values": "with values.trk", ".tck": "a.tck"}
TASKS = {"read all of a": reading, "go through a": iterating, "open and read a small": opening}
BOTH = ("zvcore", "nibabel")
CONTESTS = [
    *(
        Contest(f"{task} {kind}", BOTH, partial(make, name))
        for task, make in TASKS.items()
        for kind, name in KINDS.items()
    ),
    *(
        Contest(f"convert a {kind} to TRX", ("zvcore", "nibabel, trx-python"), partial(converting, name), writes=True)
        for kind, name in KINDS.items()
        if trx is not None
    ),
]


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of trx-python, which leaves its folders to the interpreter
@pytest.mark.parametrize(*entrants(CONTESTS))
def test_contest(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    run_alone(CONTESTS)
