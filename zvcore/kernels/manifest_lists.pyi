from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

_Ints = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]
_Piece = int | tuple[int, int] | _Ints
_Block = tuple[tuple[int, ...], _Piece]

def decode_one(data: Buffer, ndim: int) -> list[_Block]: ...
def to_list(
    coords: _Ints, mode: _Bytes | None, first: _Ints, count: _Ints | None, pool: _Ints, start: int, stop: int
) -> list[_Block]: ...
def to_lists(
    offsets: _Ints, coords: _Ints, mode: _Bytes | None, first: _Ints, count: _Ints | None, pool: _Ints
) -> list[list[_Block]]: ...
def encode_one(blocks: Iterable[tuple[Sequence[int], Any]], ndim: int, force_explicit: bool = False) -> bytes: ...
def encode_lists(
    manifests: Iterable[Iterable[tuple[Sequence[int], Any]]], ndim: int, force_explicit: bool = False
) -> list[bytes]: ...
