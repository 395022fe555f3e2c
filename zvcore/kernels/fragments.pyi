import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

FINE_CELL: int
ABSENT_CELL: int

def measure_one(data: Buffer) -> tuple[int, int, int, int, int, int]: ...
def cell_error(data: Buffer) -> Exception | None: ...
def decode_cells(data: Buffer, starts: Ints, lengths: Ints) -> tuple[Ints, Ints, Ints, Bytes, Ints, Bytes]: ...
def sizes(
    cell: Ints, piece: Ints, offsets: Ints, first: Ints, count: Ints, listed: Bytes, pool: Ints, rows: Ints
) -> tuple[Ints, int]: ...
def take(
    source: Buffer,
    starts: Ints,
    row_bytes: int,
    cell: Ints,
    piece: Ints,
    offsets: Ints,
    first: Ints,
    count: Ints,
    listed: Bytes,
    pool: Ints,
    sums: Ints,
    out: Buffer,
    begin: int,
    end: int,
) -> None: ...
def encode_ranges(first: Ints, count: Ints) -> bytes: ...
def encode_mixed(listed: Bytes, first: Ints, count: Ints, pool: Ints) -> bytes: ...
