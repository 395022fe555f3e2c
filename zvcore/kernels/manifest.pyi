from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Piece = int | tuple[int, int] | Ints
Block = tuple[tuple[int, ...], Piece]

FINE_ROW: int
ABSENT_ROW: int

Columns = tuple[Ints, Ints, Bytes | None, Ints, Ints | None, Ints, Bytes]

def decode_rows(data: Buffer, starts: Ints, lengths: Ints, ndim: int) -> Columns: ...
def decode_chunk(data: Buffer, ndim: int) -> Columns | None: ...
def row_error(data: Buffer, ndim: int) -> Exception | None: ...
def decode_one(data: Buffer, ndim: int) -> list[Block]: ...
def to_lists(
    offsets: Ints, coords: Ints, mode: Bytes | None, first: Ints, count: Ints | None, pool: Ints
) -> list[list[Block]]: ...
def to_list(
    coords: Ints, mode: Bytes | None, first: Ints, count: Ints | None, pool: Ints, start: int, stop: int
) -> list[Block]: ...
def expand(
    offsets: Ints, coords: Ints, mode: Bytes, first: Ints, count: Ints, pool: Ints, limit: int
) -> tuple[Ints, Ints, Ints] | None: ...
def encode_rows(
    offsets: Ints, coords: Ints, mode: Bytes | None, first: Ints, count: Ints | None, pool: Ints
) -> tuple[Bytes, Ints]: ...
def encode_one(blocks: Iterable[tuple[Sequence[int], Any]], ndim: int, force_explicit: bool = False) -> bytes: ...
def encode_lists(
    manifests: Iterable[Iterable[tuple[Sequence[int], Any]]], ndim: int, force_explicit: bool = False
) -> list[bytes]: ...
def cut(data: Buffer, offsets: Ints) -> list[bytes]: ...
