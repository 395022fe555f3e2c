import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

_Ints = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]

FINE_CELL: int
ABSENT_CELL: int

def cell_error(data: Buffer) -> Exception | None: ...
def decode_cells(data: Buffer, starts: _Ints, lengths: _Ints) -> tuple[_Ints, _Ints, _Ints, _Bytes, _Ints, _Bytes]: ...

class Gathering:
    sums: _Ints
    faulty: int
    def __init__(
        self, cell: _Ints, piece: _Ints, columns: tuple[_Ints, _Ints, _Ints, _Bytes, _Ints], rows: _Ints
    ) -> None: ...
    def take(self, source: Buffer, starts: _Ints, row_bytes: int, out: Buffer, begin: int, end: int) -> None: ...

def encode_ranges(first: _Ints, count: _Ints) -> bytes: ...
def encode_mixed(listed: _Bytes, first: _Ints, count: _Ints, pool: _Ints) -> bytes: ...
