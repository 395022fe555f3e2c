import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

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
    tables: list[Minishard | None],
    bounds: npt.NDArray[np.intp],
    ids: npt.NDArray[np.uint64],
    offsets: npt.NDArray[np.uint64],
    sizes: npt.NDArray[np.uint64],
) -> None: ...
