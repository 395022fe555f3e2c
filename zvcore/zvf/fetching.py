"""Reading and decoding many chunks at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.layout import ABSENT, Sources

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zvcore.stores import Store

Ints = npt.NDArray[np.int64]


class Keys(list[str]):
    @staticmethod
    def of(names: Sequence[str]) -> Keys:
        return Keys(names)


def make_chain(codecs: Sequence[Any]) -> Any:
    return tuple(codecs)


def fetch(
    store: Store, sources: Sources, chain: Any, count: int
) -> tuple[npt.NDArray[np.uint8], Ints, npt.NDArray[np.bool_]]:
    parts: list[Any] = []
    if sources.length is None:
        parts = list(store.get_many(sources.keys))
    else:
        parts = [None] * count
        assert sources.key is not None and sources.offset is not None
        for number, key in enumerate(sources.keys):
            mine = np.flatnonzero((sources.key == number) & (sources.length != ABSENT))
            ranges = list(zip(sources.offset[mine].tolist(), sources.length[mine].tolist(), strict=True))
            found = store.get_ranges(key, ranges) if ranges else []
            for i, data in zip(mine.tolist(), found or [], strict=True):
                parts[i] = data
    absent = np.array([part is None for part in parts], bool)
    for codec in reversed(chain):
        parts = [None if part is None else codec.decode(part) for part in parts]
    begins = np.zeros(count + 1, np.int64)
    np.cumsum([0 if part is None else len(part) for part in parts], out=begins[1:])
    return np.frombuffer(b"".join(part for part in parts if part is not None), np.uint8), begins, absent
