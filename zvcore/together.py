"""Many regions of an array that are read, or written, as one: chunks that several of them touch are decoded once."""

from __future__ import annotations

import asyncio
import math
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


# The outcome of a call, or what was raised.
_Outcome = tuple[Any, BaseException | None]

# Bytes of values that an event loop waits for together: who has asked for more gets some of it sooner.
_PORTION = 32 << 20
_PORTION_FAR = 8 << 20

# What was asked for since an event loop last had its turn: by the loop, the array's id, and whether it is written. Only
# the loop's own thread adds to an entry, and removes it before the array can go.
_asked: dict[tuple[asyncio.AbstractEventLoop, int, bool], list[_Call]] = {}


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
    calls = _asked.setdefault((loop, id(array), written), [])
    calls.append(call)
    if len(calls) == 1:
        loop.call_soon(_begin, loop, array, written)
    return await call.done


def _begin(loop: asyncio.AbstractEventLoop, array: Array, written: bool) -> None:
    most = _PORTION_FAR if array.store.remote else _PORTION
    for calls in _portions(_asked.pop((loop, id(array), written)), most):
        # Who gives up is not waited for, and nobody waits for this task but those whom it tells.
        task = loop.create_task(in_a_thread(_write if written else _read, array, calls))
        task.add_done_callback(partial(_tell, calls))


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


def _read(array: Array, calls: list[_Call]) -> list[_Outcome]:
    def read(some: list[_Call]) -> list[Any]:
        return _read_selections(array, [call.selection for call in some], array._work)

    return _each(read, calls)


def _write(array: Array, calls: list[_Call]) -> list[_Outcome]:
    def write(some: list[_Call]) -> list[Any]:
        selections, values = [call.selection for call in some], [call.value for call in some]
        _write_selections(array, selections, values, array._work)
        return [None] * len(some)

    return _each(write, calls)


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


def _tell(calls: Sequence[_Call], task: asyncio.Task[list[_Outcome]]) -> None:
    if task.cancelled():
        for call in calls:
            call.done.cancel()
        return
    fault = task.exception()
    outcomes = task.result() if fault is None else [(None, fault)] * len(calls)
    for call, (found, error) in zip(calls, outcomes, strict=True):
        if call.done.done():
            continue
        if error is None:
            call.done.set_result(found)
        else:
            call.done.set_exception(error)
