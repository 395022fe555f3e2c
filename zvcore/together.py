"""Many regions of an array that are read, or written, as one: chunks that several of them touch are decoded once."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from zvcore import transfer
from zvcore.engine.selection import Selection
from zvcore.system.waiting import in_a_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from zvcore.array import Array
    from zvcore.engine.work import Work

__all__ = ["read_regions", "read_soon", "write_regions", "write_soon"]


class _Call(NamedTuple):
    """What somebody waits for: the values of a selection, or (`value`) that they are written."""

    selection: Selection
    value: Any
    nbytes: int
    done: asyncio.Future[Any]


class _Portion(NamedTuple):
    array: Array
    calls: list[_Call]
    written: bool


# The outcome of a call, or what was raised.
_Outcome = tuple[Any, BaseException | None]

# Bytes of values that an event loop waits for together: who has asked for more gets some of it sooner.
_PORTION = 32 << 20
_PORTION_FAR = 8 << 20

# As many arrays of this machine are read or written at once: files may lie on a file system of a network.
_AT_ONCE = 4

# What was asked for since an event loop last had its turn, by the array's id and whether it is written. Only the loop's
# own thread adds to its entry, and removes it before the arrays can go.
_asked: dict[asyncio.AbstractEventLoop, dict[tuple[int, bool], tuple[Array, list[_Call]]]] = {}
_running: set[asyncio.Task[None]] = set()


def read_regions(array: Array, regions: Iterable[Any], work: Work) -> list[Any]:
    """`Array.read_regions`."""
    if not array.uniform:
        return [array.read(region, threads=work.threads) for region in regions]
    return _read_selections(array, [Selection.basic(region, array.shape) for region in regions], work)


def _read_selections(array: Array, selections: list[Selection], work: Work) -> list[Any]:
    array.check_items()
    order: Literal["C", "F"] = "F" if array.order == "F" else "C"
    found = [transfer.empty(selection.result_shape, array.dtype, order) for selection in selections]
    array._read_into(found, selections, work)
    return [values[()] if one.is_item else values for one, values in zip(selections, found, strict=True)]


def write_regions(array: Array, regions: Iterable[Any], values: Iterable[Any], work: Work) -> None:
    """`Array.write_regions`."""
    if not array.uniform:
        for region, value in zip(regions, values, strict=True):
            array.write(region, value, threads=work.threads)
        return
    pairs = [*zip(regions, values, strict=True)]
    _write_selections(array, [Selection.basic(region, array.shape) for region, _ in pairs], [v for _, v in pairs], work)


def _write_selections(array: Array, selections: list[Selection], values: list[Any], work: Work) -> None:
    array._check_current()
    array.check_items()
    given = [array._as_values(value, one.result_shape) for one, value in zip(selections, values, strict=True)]
    transfer.write_regions(array.layout, selections, given, work)


# --- for programs with an event loop


async def read_soon(array: Array, region: Any, out: Any) -> Any:
    """A region, read together with what others ask of the array in the same turn of the event loop."""
    if out is not None or not array.uniform:
        return await in_a_thread(array.read, region, out)
    return await _soon(array, region, None, written=False)


async def write_soon(array: Array, region: Any, value: Any) -> None:
    """A region, written together with what others assign to the array in the same turn of the event loop."""
    if array.uniform:
        await _soon(array, region, value, written=True)
    else:
        await in_a_thread(array.write, region, value)


async def _soon(array: Array, region: Any, value: Any, *, written: bool) -> Any:
    loop = asyncio.get_running_loop()
    selection = Selection.basic(region, array.shape)
    nbytes = math.prod(selection.result_shape) * array.dtype.itemsize
    call = _Call(selection, value, nbytes, loop.create_future())
    asked = _asked.setdefault(loop, {})
    if not asked:
        loop.call_soon(_begin, loop)
    asked.setdefault((id(array), written), (array, []))[1].append(call)
    return await call.done


def _begin(loop: asyncio.AbstractEventLoop) -> None:
    near: deque[_Portion] = deque()
    for (_, written), (array, calls) in _asked.pop(loop).items():
        far = array.store.remote
        for some in _portions(calls, _PORTION_FAR if far else _PORTION):
            near.append(_Portion(array, some, written))
            if far:
                _start(loop, deque([near.pop()]))
    for _ in range(min(len(near), _AT_ONCE)):
        _start(loop, near)


def _start(loop: asyncio.AbstractEventLoop, portions: deque[_Portion]) -> None:
    """A thread that takes portions until there are none left."""
    task = loop.create_task(in_a_thread(_work, loop, portions))
    # A task that nobody keeps may go before it is done.
    _running.add(task)
    task.add_done_callback(partial(_ended, portions))


def _ended(portions: deque[_Portion], task: asyncio.Task[None]) -> None:
    """Those whose turn does not come, as the loop ends or there is no thread, do not wait for ever."""
    _running.discard(task)
    if task.cancelled():
        fault: BaseException = asyncio.CancelledError()
    elif (found := task.exception()) is not None:
        fault = found
    else:
        return
    while portions:
        calls = portions.popleft().calls
        _tell(calls, [(None, fault)] * len(calls))


def _work(loop: asyncio.AbstractEventLoop, portions: deque[_Portion]) -> None:
    while True:
        try:
            portion = portions.popleft()
        except IndexError:
            return
        outcomes = _each(partial(_write if portion.written else _read, portion.array), portion.calls)
        with suppress(RuntimeError):  # a loop that is closed waits for nothing
            loop.call_soon_threadsafe(_tell, portion.calls, outcomes)


def _portions(calls: Sequence[_Call], most: int) -> Iterator[list[_Call]]:
    some: list[_Call] = []
    held = 0
    for call in calls:
        if call.done.cancelled():
            continue
        if some and held + call.nbytes > most:
            yield some
            some, held = [], 0
        some.append(call)
        held += call.nbytes
    if some:
        yield some


def _read(array: Array, calls: list[_Call]) -> list[Any]:
    return _read_selections(array, [call.selection for call in calls], array._work)


def _write(array: Array, calls: list[_Call]) -> list[Any]:
    _write_selections(array, [call.selection for call in calls], [call.value for call in calls], array._work)
    return [None] * len(calls)


def _each(work: Callable[[list[_Call]], list[Any]], calls: list[_Call]) -> list[_Outcome]:
    if len(calls) > 1:
        # Where something is wrong, each by itself says what.
        with suppress(Exception):
            return [(found, None) for found in work(calls)]
    return [_one(work, call) for call in calls]


def _one(work: Callable[[list[_Call]], list[Any]], call: _Call) -> _Outcome:
    try:
        return work([call])[0], None
    except Exception as error:
        return None, error


def _tell(calls: Sequence[_Call], outcomes: Sequence[_Outcome]) -> None:
    for call, (found, error) in zip(calls, outcomes, strict=True):
        if call.done.done():
            continue
        if error is None:
            call.done.set_result(found)
        elif isinstance(error, asyncio.CancelledError):
            call.done.cancel()
        else:
            call.done.set_exception(error)
