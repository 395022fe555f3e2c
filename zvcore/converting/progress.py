"""A bar on a terminal, or whatever function the caller has."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["shown"]


@contextmanager
def shown(progress: bool | Callable[[int, int], Any], total: int, what: str) -> Iterator[Callable[[int], None]]:
    """A function to call with the number of parts that are newly done. With True, a bar where stderr is a terminal."""
    done = 0
    if callable(progress):
        tell = progress

        def advance(count: int) -> None:
            nonlocal done
            done += count
            tell(done, total)

        yield advance
        return
    if not progress or not sys.stderr.isatty():
        yield lambda count: None
        return
    try:
        from tqdm import tqdm
    except ImportError:
        tqdm = None
    if tqdm is None:

        def print_on(count: int) -> None:
            nonlocal done
            done += count
            print(f"\r{what}: {done} of {total} parts", end="", file=sys.stderr, flush=True)

        yield print_on
        print(file=sys.stderr)
        return
    with tqdm(total=total, desc=what, unit="part", file=sys.stderr, leave=False) as bar:

        def update(count: int) -> None:
            bar.update(count)

        yield update
