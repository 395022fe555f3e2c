"""Reads of many regions of an array that are made as one: chunks that several of them need are decoded once."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from zvcore.engine.selection import Selection
from zvcore.system.waiting import in_a_thread
from zvcore.transfer import empty

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zvcore.array import Array
    from zvcore.engine.work import Work

__all__ = ["read_regions", "read_soon"]

# Bytes of values that an event loop waits for together: who has asked for more gets some of it sooner.
_PORTION = 32 << 20
_PORTION_FAR = 8 << 20


class _Call(NamedTuple):
    selection: Selection
    nbytes: int
    found: asyncio.Future[Any]


# What was asked for since an event loop last had its turn: by the loop and the array's id. Only the loop's own thread
# adds to an entry, and removes it before the array can go.
_asked: dict[tuple[asyncio.AbstractEventLoop, int], list[_Call]] = {}


def read_regions(array: Array, regions: Iterable[Any], work: Work) -> list[Any]:
    """`Array.read_regions`."""
    if not array.uniform:
        return [array.read(region, threads=work.threads) for region in regions]
    return _read_selections(array, [Selection.basic(region, array.shape) for region in regions], work)


def _read_selections(array: Array, selections: list[Selection], work: Work) -> list[Any]:
    array.check_items()
    order: Literal["C", "F"] = "F" if array.order == "F" else "C"
    found = [empty(selection.result_shape, array.dtype, order) for selection in selections]
    array._read_into(found, selections, work)
    return [values[()] if one.is_item else values for one, values in zip(selections, found, strict=True)]


async def read_soon(array: Array, region: Any, out: Any) -> Any:
    """A region, read together with what others ask of the array in the same turn of the event loop."""
    if out is not None or not array.uniform:
        return await in_a_thread(array.read, region, out)
    loop = asyncio.get_running_loop()
    selection = Selection.basic(region, array.shape)
    nbytes = math.prod(selection.result_shape) * array.dtype.itemsize
    call = _Call(selection, nbytes, loop.create_future())
    calls = _asked.setdefault((loop, id(array)), [])
    calls.append(call)
    if len(calls) == 1:
        loop.call_soon(_begin, loop, array)
    return await call.found


def _begin(loop: asyncio.AbstractEventLoop, array: Array) -> None:
    for calls in _portions(_asked.pop((loop, id(array))), _PORTION_FAR if array.store.remote else _PORTION):
        # Who has given up is not waited for, and nobody waits for this task but those it gives the values to.
        task = loop.create_task(in_a_thread(_read, array, [call.selection for call in calls]))
        task.add_done_callback(partial(_hand_out, calls))


def _portions(calls: Sequence[_Call], most: int) -> Iterator[list[_Call]]:
    some: list[_Call] = []
    held = 0
    for call in calls:
        if call.found.cancelled():
            continue
        if some and held + call.nbytes > most:
            yield some
            some, held = [], 0
        some.append(call)
        held += call.nbytes
    if some:
        yield some


def _read(array: Array, selections: list[Selection]) -> list[tuple[Any, BaseException | None]]:
    """(the values of each, or what was raised)."""
    work = array._work
    if len(selections) > 1:
        # Where something is wrong, each by itself says what.
        with suppress(Exception):
            return [(values, None) for values in _read_selections(array, selections, work)]
    return [_read_one(array, selection, work) for selection in selections]


def _read_one(array: Array, selection: Selection, work: Work) -> tuple[Any, BaseException | None]:
    try:
        return _read_selections(array, [selection], work)[0], None
    except Exception as error:
        return None, error


def _hand_out(calls: Sequence[_Call], task: asyncio.Task[list[tuple[Any, BaseException | None]]]) -> None:
    if task.cancelled():
        for call in calls:
            call.found.cancel()
        return
    fault = task.exception()
    results = task.result() if fault is None else [(None, fault)] * len(calls)
    for call, (values, error) in zip(calls, results, strict=True):
        if call.found.done():
            continue
        if error is None:
            call.found.set_result(values)
        else:
            call.found.set_exception(error)
