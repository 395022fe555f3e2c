import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

_Ints = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]

FINE_CELL: int
ABSENT_CELL: int

def measure_one(data: Buffer) -> tuple[int, int, int, int, int, int]: ...
def cell_error(data: Buffer) -> Exception | None: ...
def decode_cells(data: Buffer, starts: _Ints, lengths: _Ints) -> tuple[_Ints, _Ints, _Ints, _Bytes, _Ints, _Bytes]: ...
def sizes(
    cell: _Ints, piece: _Ints, offsets: _Ints, first: _Ints, count: _Ints, listed: _Bytes, pool: _Ints, rows: _Ints
) -> tuple[_Ints, int]: ...
def take(
    source: Buffer,
    starts: _Ints,
    row_bytes: int,
    cell: _Ints,
    piece: _Ints,
    offsets: _Ints,
    first: _Ints,
    count: _Ints,
    listed: _Bytes,
    pool: _Ints,
    sums: _Ints,
    out: Buffer,
    begin: int,
    end: int,
) -> None: ...
def encode_ranges(first: _Ints, count: _Ints) -> bytes: ...
def encode_mixed(listed: _Bytes, first: _Ints, count: _Ints, pool: _Ints) -> bytes: ...
