from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

_Ints = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]
_Columns = tuple[_Ints, _Ints, _Bytes | None, _Ints, _Ints | None, _Ints, _Bytes]

def decode_rows(data: Buffer, starts: _Ints, lengths: _Ints, ndim: int) -> _Columns: ...
def decode_blobs(blobs: Iterable[bytes | None], ndim: int) -> _Columns | None: ...
def decode_chunk(data: Buffer, ndim: int) -> _Columns | None: ...
def expand(
    offsets: _Ints, coords: _Ints, mode: _Bytes, first: _Ints, count: _Ints, pool: _Ints, limit: int
) -> tuple[_Ints, _Ints, _Ints] | None: ...
def encode_rows(
    offsets: _Ints, coords: _Ints, mode: _Bytes | None, first: _Ints, count: _Ints | None, pool: _Ints
) -> tuple[_Bytes, _Ints]: ...
def cut(data: Buffer, offsets: _Ints) -> list[bytes]: ...
