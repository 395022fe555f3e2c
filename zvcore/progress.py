"""A bar on a terminal, plain lines in a log, or whatever function the caller has."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["shown"]

# So often a log gets a line.
LINE_SECONDS = 5.0


@contextmanager
def shown(
    progress: bool | Callable[[int, int], Any], parts: int | Iterable[Any], what: str, unit: str = "part"
) -> Iterator[Callable[[int], None]]:
    """A function to call with the number of parts that are newly done. With True, a bar where stderr is a terminal, and
    else, in a log, a line every few seconds.

    `parts` is how many there are, or gives them one after the other: they are counted meanwhile, if anybody looks.
    """
    if callable(progress):
        with _told(progress, parts if isinstance(parts, int) else sum(1 for _ in parts)) as advance:
            yield advance
        return
    if not progress or sys.stderr is None:  # nobody looks: `2>&-`
        yield lambda count: None
        return
    if not sys.stderr.isatty():
        with _lines(parts, what, unit) as advance:
            yield advance
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
def _lines(parts: int | Iterable[Any], what: str, unit: str) -> Iterator[Callable[[int], None]]:
    """Nothing of what is done soon; of what takes long, lines with the time that is left, and one at the end."""
    total = parts if isinstance(parts, int) else None
    began = said = time.monotonic()
    done = told = 0

    def found(number: int) -> None:
        nonlocal total
        total = number

    def tell(now: float) -> None:
        nonlocal told
        told = done
        words = f"{what}: {done}{'' if total is None else f' of {total}'} {unit}s, {_duration(now - began)}"
        if total is not None and 0 < done < total:
            words += f", about {_duration((now - began) / done * (total - done))} left"
        print(words, file=sys.stderr, flush=True)

    def advance(count: int) -> None:
        nonlocal done, said
        done += count
        now = time.monotonic()
        if now - said >= LINE_SECONDS:
            said = now
            tell(now)

    with _counted(parts, found):
        yield advance
    if said > began and done != told:
        tell(time.monotonic())


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    return f"{round(whole / 60)} min" if whole < 100 * 60 else f"{whole // 3600} h {whole % 3600 // 60} min"


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
