"""Small objects copied many at a time, by what stores have to read and to write many at once."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from zvcore.errors import ZvcoreError
from zvcore.stores.request_threads import one_ahead, side_by_side
from zvcore.stores.writing import ANYTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from typing_extensions import Buffer

    from zvcore.stores import Store
    from zvcore.stores.base import Facts

__all__ = ["LARGEST", "Put", "Wanted", "copied_together"]

# What takes longer than being asked for gains nothing.
LARGEST = 1 << 20
# What is read at once, in each of so many lanes; of the first less, so that writing begins early.
_OBJECTS, _BYTES, _FIRST_BYTES = 64, 4 << 20, 1 << 20
_LANES = 2


class Wanted(NamedTuple):
    """An object that is not at the destination yet, its name there, and how many bytes it has, as far as is known."""

    key: str
    to: str
    size: int


class Put(NamedTuple):
    """An object that was copied: its size, the digest of its bytes, and what the destination has told of it."""

    size: int
    digest: str
    told: Facts | None


class _Read(NamedTuple):
    wanted: Wanted
    data: bytes | memoryview
    size: int
    digest: str


def copied_together(
    source: Store,
    target: Store,
    wanted: Sequence[Wanted],
    digests: Callable[[Sequence[Buffer]], Sequence[str]],
    *,
    at_once: int,
    creates: bool,
) -> Mapping[str, Put]:
    """Those that were copied, by the keys of the source. What comes of the others, who copies them one by one finds
    out.

    at_once  how many threads there may be that write
    creates  nothing is replaced that is at the destination by now
    """
    groups = [*_groups(wanted)]
    copy = partial(_copied, source, target, digests=digests, creates=creates)
    lanes = min(_LANES, at_once, len(groups))
    copied = side_by_side(copy, [groups[number::lanes] for number in range(lanes)], lanes)
    return {key: one for some in copied for key, one in some.items()}


def _copied(
    source: Store,
    target: Store,
    groups: Iterable[Sequence[Wanted]],
    *,
    digests: Callable[[Sequence[Buffer]], Sequence[str]],
    creates: bool,
) -> dict[str, Put]:
    """Each group is read while the one before it is written."""
    done: dict[str, Put] = {}
    with closing(one_ahead(partial(_read, source, digests=digests), groups)) as found:
        for group in found:
            done |= _written(target, group, creates=creates)
    return done


def _groups(wanted: Sequence[Wanted]) -> Iterator[list[Wanted]]:
    group: list[Wanted] = []
    held, most = 0, _FIRST_BYTES
    for one in wanted:
        if group and (len(group) == _OBJECTS or held + one.size > most):
            yield group
            group, held, most = [], 0, min(2 * most, _BYTES)
        group.append(one)
        held += one.size
    if group:
        yield group


def _read(
    source: Store, group: Sequence[Wanted], *, digests: Callable[[Sequence[Buffer]], Sequence[str]]
) -> list[_Read]:
    try:
        found = source.snapshots([one.key for one in group])
    except (ZvcoreError, OSError):
        return []
    whole = [
        (one, snapshot)
        for one, snapshot in zip(group, found, strict=True)
        if snapshot is not None and memoryview(snapshot.data).nbytes == snapshot.size
    ]
    told = digests([snapshot.data for _, snapshot in whole])
    return [
        _Read(one, snapshot.data, snapshot.size, digest) for (one, snapshot), digest in zip(whole, told, strict=True)
    ]


def _written(target: Store, group: Sequence[_Read], *, creates: bool) -> dict[str, Put]:
    condition = None if creates else ANYTHING
    try:
        stored = target.put_stamped([(one.wanted.to, one.data, condition) for one in group])
    except (ZvcoreError, OSError):
        return {}
    return {
        one.wanted.key: Put(one.size, one.digest, target.facts_by(stamp))
        for one, stamp in zip(group, stored, strict=True)
        if stamp
    }
