"""Work on other machines, through a dask.distributed `Client` that the user has. Nothing is scheduled here.

Tasks are functions of small arguments that may run twice: a worker that dies costs the time of its tasks, which the
scheduler gives to another one.
"""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["cluster", "run_tasks"]

Item = TypeVar("Item")

# How many tasks per thread of the cluster are under way: enough to keep workers busy while results travel.
_AHEAD = 4
# How often a task may be given up by the scheduler because its workers went away, each time after some attempts.
_LOSSES = 5


@contextmanager
def cluster(address: str | None) -> Iterator[Any]:
    """A client of the scheduler at an address such as `tcp://host:8786`, or None without one.

    It is closed in the end: until then it is where everything of Dask in this process goes.
    """
    if address is None:
        yield None
        return
    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError('working on a cluster needs dask.distributed: pip install "zvcore[dask]"') from error
    with Client(address) as client:
        yield client


def run_tasks(
    client: Any, function: Callable[..., Any], items: Iterable[Item], *arguments: Any
) -> Iterator[tuple[Item, Any]]:
    """`function(item, *arguments)` for each item, on the client's workers: (item, answer) as they come.

    Items are taken as workers become free, so that there may be any number of them. An error that a task raises is
    raised here, and what has not begun is then given up.
    """
    from distributed import KilledWorker, as_completed

    rest = iter(items)
    threads = max(1, sum(client.nthreads().values()))
    pending: Any = as_completed()
    held: dict[Any, tuple[Item, int]] = {}

    def submit(item: Item, losses: int) -> None:
        future = client.submit(function, item, *arguments, pure=False)
        held[future] = (item, losses)
        pending.add(future)

    try:
        for item in itertools.islice(rest, _AHEAD * threads):
            submit(item, 0)
        for future in pending:
            item, losses = held.pop(future)
            try:
                answer = future.result()
            except KilledWorker:
                # The scheduler blames the task when several workers that held it went away.
                if losses >= _LOSSES:
                    raise
                submit(item, losses + 1)
                continue
            for following in itertools.islice(rest, 1):
                submit(following, 0)
            yield item, answer
    finally:
        if held:
            client.cancel(list(held), force=True)
