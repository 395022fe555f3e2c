"""Which units of which step are done: spans of numbers, as notes have them."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from zvcore.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Spans", "checked_spans", "checked_units", "insert", "joined"]

# [first, stop) of each, sorted; no two of them touch.
Spans = list[list[int]]
_first = itemgetter(0)


def checked_units(planned: Any, key: str) -> dict[str, tuple[int, tuple[str, ...]]]:
    """Step -> (how many units it has, the arrays that they write), from a note."""
    answer = {}
    for step, one in (planned if isinstance(planned, dict) else {"": None}).items():
        match one:
            case {"count": int(count), "arrays": [*arrays]} if 0 <= count < 2**62:
                answer[step] = (count, tuple(str(array) for array in arrays))
            case _:
                raise MetadataError("the journal of a conversion is damaged", key=key, found=repr(one)[:80])
    return answer


def checked_spans(done: Any, key: str) -> dict[str, Spans]:
    """Step -> the spans of its units that are done, from a note."""
    if not isinstance(done, dict):
        raise MetadataError("the journal of a conversion names no steps", key=key, found=repr(done)[:80])
    answer: dict[str, Spans] = {}
    for step, spans in done.items():
        if not isinstance(spans, list) or not all(_is_span(span) for span in spans):
            raise MetadataError("the journal of a conversion is damaged", key=key, found=repr(spans)[:80])
        flat = [number for span in spans for number in span]
        if any(a >= b for a, b in itertools.pairwise(flat)):
            raise MetadataError("the journal of a conversion is damaged", key=key, found=repr(spans)[:80])
        answer[step] = [list(span) for span in spans]
    return answer


def _is_span(span: Iterable[Any]) -> bool:
    return isinstance(span, list) and len(span) == 2 and all(type(n) is int and 0 <= n < 2**62 for n in span)


def insert(spans: Spans, unit: int) -> None:
    """Add one number. Numbers come nearly in order, but need not."""
    at = len(spans)
    if at and spans[-1][0] > unit:
        at = bisect_right(spans, unit, key=_first)
    if at and spans[at - 1][1] > unit:
        return
    joins_left = at > 0 and spans[at - 1][1] == unit
    joins_right = at < len(spans) and spans[at][0] == unit + 1
    if joins_left and joins_right:
        spans[at - 1][1] = spans[at][1]
        del spans[at]
    elif joins_left:
        spans[at - 1][1] += 1
    elif joins_right:
        spans[at][0] -= 1
    else:
        spans.insert(at, [unit, unit + 1])


def joined(several: Iterable[Spans]) -> Spans:
    """What any of several has."""
    answer: Spans = []
    for first, stop in sorted(span for spans in several for span in spans):
        if answer and first <= answer[-1][1]:
            answer[-1][1] = max(answer[-1][1], stop)
        else:
            answer.append([first, stop])
    return answer
