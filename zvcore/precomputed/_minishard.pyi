from collections.abc import Sequence
from typing import SupportsIndex

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

from zvcore.engine import Buffers

def place(wanted: int, preshift: int, hashed: bool, minishard_bits: int, shard_bits: int) -> tuple[int, int]: ...

class Minishard:
    ids: npt.NDArray[np.uint64]
    starts: npt.NDArray[np.uint64]
    sizes: npt.NDArray[np.uint64]
    base: int
    limit: int
    has_duplicates: bool
    ascending: bool
    nbytes: int
    def __init__(self, raw: Buffer, base: int, limit: int) -> None: ...
    def __len__(self) -> int: ...
    def find(self, wanted: int) -> tuple[int, int] | None: ...
    def find_quietly(self, wanted: int) -> tuple[int, int] | None: ...
    def bad_entries(self) -> npt.NDArray[np.bool_]: ...

def find_many(
    tables: dict[int, Minishard | None],
    minishards: npt.NDArray[np.uint64],
    ids: npt.NDArray[np.uint64],
    offsets: npt.NDArray[np.uint64],
    sizes: npt.NDArray[np.uint64],
) -> list[int]: ...
def listed_ids(indexes: Buffers, most: int) -> npt.NDArray[np.uint64] | None: ...
def plain_ids(values: Sequence[SupportsIndex]) -> npt.NDArray[np.uint64] | None: ...
