from typing import Any

import numpy as np
import numpy.typing as npt

_Numbers = npt.NDArray[np.uint64]

def look_up(
    indexes: list[Any],
    which: npt.NDArray[np.int32],
    slots: npt.NDArray[np.int64],
    offsets: _Numbers,
    lengths: _Numbers,
) -> None: ...
def split_entries(raw: memoryview | npt.NDArray[np.uint8], offsets: _Numbers, lengths: _Numbers) -> None: ...
def next_wrong(offsets: _Numbers, lengths: _Numbers, start: int, stop: int, begin: int = 0) -> int: ...
def plan(
    order: npt.NDArray[np.int64],
    offsets: _Numbers,
    lengths: _Numbers,
    slots: npt.NDArray[np.int64],
    sizes: _Numbers,
    head: int,
) -> tuple[list[tuple[int, int, int]], list[int], int]: ...
