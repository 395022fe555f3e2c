"""The Range header: which bytes of a file somebody wants."""

from __future__ import annotations

import re

__all__ = ["Unsatisfiable", "parse_ranges"]

_ONE = re.compile(r"([0-9]*)-([0-9]*)")
_MOST = 256
# Lies behind the end of every file. Clients say 2**64 - 1, and more, for an end that they do not know.
_FAR = 10**18


class Unsatisfiable(Exception):
    """None of the ranges lies in the file: status 416."""


def parse_ranges(header: str | None, size: int) -> list[tuple[int, int]] | None:
    """[(start, stop), ...] of a file of this size; None: the header asks for nothing that is to be heeded.

    A header that is not well-formed is ignored, as are units other than bytes: so says HTTP. Ranges are cut at the
    file's end; a suffix `-n` means the last n bytes.
    """
    if header is None:
        return None
    unit, equals, specs = header.partition("=")
    if unit.strip().lower() != "bytes" or not equals:
        return None
    given = [spec.strip() for spec in specs.split(",") if spec.strip()]
    if not given or len(given) > _MOST:
        return None
    ranges = []
    for spec in given:
        match = _ONE.fullmatch(spec)
        if match is None or spec == "-":
            return None
        first, last = match.groups()
        if first and last and _number(last) < _number(first):
            return None
        if first:
            start, stop = _number(first), min(_number(last) + 1, size) if last else size
        else:
            start, stop = max(0, size - _number(last)), size
        if start < stop:
            ranges.append((start, stop))
    if not ranges:
        raise Unsatisfiable
    if sum(stop - start for start, stop in ranges) > size:
        # They overlap so much that the whole file is less: no honest client needs that.
        return None
    return ranges


def _number(digits: str) -> int:
    """A number of any length: Python refuses to read very long ones."""
    significant = digits.lstrip("0")
    return _FAR if len(significant) > len(str(_FAR)) else int(significant or "0")
