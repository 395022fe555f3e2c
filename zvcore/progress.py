"""A bar on a terminal, or whatever function the caller has."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["shown"]


@contextmanager
def shown(
    progress: bool | Callable[[int, int], Any], parts: int | Iterable[Any], what: str, unit: str = "part"
) -> Iterator[Callable[[int], None]]:
    """A function to call with the number of parts that are newly done. With True, a bar where stderr is a terminal.

    `parts` is how many there are, or gives them one after the other: they are counted meanwhile, if anybody looks.
    """
    if callable(progress):
        with _told(progress, parts if isinstance(parts, int) else sum(1 for _ in parts)) as advance:
            yield advance
        return
    if not progress or not sys.stderr.isatty():
        yield lambda count: None
        return
    try:
        from tqdm import tqdm
    except ImportError:
        with _printed(parts, what, unit) as advance:
            yield advance
        return
    total = parts if isinstance(parts, int) else None
    with tqdm(total=total, desc=what, unit=unit, file=sys.stderr, leave=False) as bar:

        def found(number: int) -> None:
            bar.total = number

        with _counted(parts, found):
            yield lambda count: bar.update(count) and None


@contextmanager
def _told(tell: Callable[[int, int], Any], total: int) -> Iterator[Callable[[int], None]]:
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        tell(done, total)

    yield advance


@contextmanager
def _printed(parts: int | Iterable[Any], what: str, unit: str) -> Iterator[Callable[[int], None]]:
    done = 0
    of = f" of {parts}" if isinstance(parts, int) else ""

    def advance(count: int) -> None:
        nonlocal done
        done += count
        print(f"\r{what}: {done}{of} {unit}s", end="", file=sys.stderr, flush=True)

    yield advance
    print(file=sys.stderr)


@contextmanager
def _counted(parts: int | Iterable[Any], found: Callable[[int], None]) -> Iterator[None]:
    """Count the parts alongside the work, if their number is not known; if that fails, no total is shown."""
    if isinstance(parts, int):
        yield
        return
    stop = threading.Event()

    def count() -> None:
        number = 0
        try:
            for _ in parts:
                number += 1
                if stop.is_set():
                    return
        except Exception:
            return
        found(number)

    thread = threading.Thread(target=count, name="zvcore-count", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
