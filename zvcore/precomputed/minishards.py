"""Reading the indices of a shard's minishards: all of a file's, or those that are asked for, in bounded memory.

A compressed index of a few bytes can stand for any number of entries. But values do not share bytes, so a file has at
most as many values as bytes, apart from empty ones: this bounds what is unpacked, whatever an index claims.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.care.checking import first_bad
from zvcore.engine import Buffers, Keys, fetch
from zvcore.errors import ConflictError, CorruptDataError, ZvcoreError
from zvcore.layout import Sources
from zvcore.precomputed._minishard import listed_ids
from zvcore.precomputed.external_sort import pieces_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zvcore.precomputed._minishard import Minishard
    from zvcore.precomputed.shard_reader import ShardFile, ShardReader

__all__ = ["ENTRY", "LISTED_BYTES", "each_table", "listed_at_once", "most_entries", "stored_minishards"]

U64 = npt.NDArray[np.uint64]

ENTRY = 24
# How many empty values one file may have.
_EMPTY_VALUES = 1 << 16
# From this many minishard indices on, the engine's threads decode them.
_BATCH_FROM = 8
# Stored bytes of indices that are in memory at once.
LISTED_BYTES = 16 << 20
# What is read at once of a shard index.
_INDEX_PIECE = 1 << 20


def most_entries(file: ShardFile) -> int:
    """How many values the minishards of a file can have in all."""
    return max(file.limit - file.base, _EMPTY_VALUES)


def stored_minishards(reader: ShardReader, file: ShardFile) -> tuple[npt.NDArray[np.int64], U64]:
    """(numbers, entries of the shard index) of the minishards that have one: start and end, counted from `file.base`.

    A large shard index is read in pieces: it may be mostly empty.
    """
    if file.index is not None:
        used = np.flatnonzero(file.index[:, 0] != file.index[:, 1])
        return used, file.index[used]
    numbers, entries = [], []
    for first, piece in _index_pieces(reader, file):
        used = np.flatnonzero(piece[:, 0] != piece[:, 1])
        numbers.append(used + first)
        entries.append(piece[used])
    return np.concatenate(numbers), np.concatenate(entries)


def _index_pieces(reader: ShardReader, file: ShardFile) -> Iterator[tuple[int, U64]]:
    """(number of the first minishard, entries) of a shard index that is not in memory."""
    size = reader.spec.index_size
    stamp = file.stamp if file.key == file.data_key else None
    for at in range(0, size, _INDEX_PIECE):
        wanted = min(_INDEX_PIECE, size - at)
        raw = reader.store.get(file.key, at, wanted, stamp=stamp)
        if raw is None or len(raw) < wanted:
            raise CorruptDataError("the shard index is cut off", key=file.key, offset=0, expected=f"{size} bytes")
        yield at // 16, np.frombuffer(raw, "<u8").astype(np.uint64, copy=False).reshape(-1, 2)


def each_table(
    reader: ShardReader,
    file: ShardFile,
    numbers: Sequence[int],
    ranges: U64,
    *,
    known: int = 0,
    threads: int | None = None,
) -> Iterator[tuple[int, Minishard | ZvcoreError]]:
    """(number, index, or what is wrong with it) of these minishards, whose indices lie at `ranges` (offset, size).

    `known` is how many entries the file has in other minishards.
    """
    most = most_entries(file)
    room = most - known
    for first, last in pieces_of(ranges[:, 1], LISTED_BYTES):
        # Indexes for which there is no room left are not even read.
        decoded, wrong = _decoded(reader, file, ranges[first:last], room, threads) if room > 0 else ({}, {})
        for row, number in enumerate(numbers[first:last]):
            place = {"key": file.data_key, "chunk": f"minishard {number}"}
            if row in wrong:
                offset, size = ranges[first + row].tolist()
                yield number, wrong[row].located(offset=offset, length=size, **place)
                continue
            try:
                if room <= 0 or len(decoded[row]) > ENTRY * room:
                    raise CorruptDataError(
                        "the minishards have more entries than the file can have values", expected=f"at most {most}"
                    )
                table = file.minishard(number, decoded[row])
            except ZvcoreError as error:
                yield number, error.located(**place)
                continue
            room -= len(table)
            yield number, table


def listed_at_once(
    reader: ShardReader, files: Sequence[ShardFile], ranges: Sequence[U64], threads: int | None
) -> list[U64] | None:
    """The ids of each of these files, whose minishards' indices lie at its `ranges`, without a table of each minishard;
    None if that cannot be done.
    """
    counts = [len(own) for own in ranges]
    if sum(counts) < _BATCH_FROM:
        return None
    # Alone, a file's indices could be larger; then they are listed one by one.
    most = min(ENTRY * most_entries(file) // max(1, count) for file, count in zip(files, counts, strict=True))
    try:
        indexes = _fetched(reader, files, ranges, max(ENTRY, most), threads)
    except ZvcoreError:
        return None
    found = []
    for file, first, last in zip(files, accumulate(counts[:-1], initial=0), accumulate(counts), strict=True):
        ids = listed_ids(indexes.select(range(first, last)), most_entries(file))
        if ids is None:
            return None
        found.append(ids)
    return found


def _decoded(
    reader: ShardReader, file: ShardFile, ranges: U64, room: int, threads: int | None
) -> tuple[dict[int, Any], dict[int, ZvcoreError]]:
    """The decoded indices at these places by their rows, and those that cannot be decoded."""
    found: dict[int, Any] = {}
    left = ENTRY * room

    def decode(first: int, last: int) -> None:
        nonlocal left
        # Alone, an index may take everything that is left; several together get equal shares.
        values = _decode(reader, file, ranges[first:last], max(ENTRY, left // (last - first)), threads)
        found.update(enumerate(values, first))
        left -= sum(map(len, values))

    return found, dict(first_bad(decode, 0, len(ranges)))


def _decode(reader: ShardReader, file: ShardFile, ranges: U64, most: int, threads: int | None) -> Sequence[Any]:
    if len(ranges) >= _BATCH_FROM:
        return [value for value in iter(_fetched(reader, [file], [ranges], most, threads)) if value is not None]
    stored = reader.store.get_ranges(file.data_key, [(a, b) for a, b in ranges.tolist()], stamp=file.stamp)
    if stored is None:
        raise ConflictError("the object was removed while it was being read", key=file.data_key)
    codec = reader.index_codec
    return stored if codec is None else [codec.decode(data, max_size=most) for data in stored]


def _fetched(
    reader: ShardReader, files: Sequence[ShardFile], ranges: Sequence[U64], most: int, threads: int | None
) -> Buffers:
    """The decoded indices at these places in each of the files, each index of at most so many bytes."""
    every = np.concatenate(ranges)
    sources = Sources(
        Keys.of([file.data_key for file in files]),
        np.repeat(np.arange(len(files), dtype=np.int32), [len(own) for own in ranges]),
        np.ascontiguousarray(every[:, 0]),
        np.ascontiguousarray(every[:, 1]),
        stamps=[file.stamp for file in files],
    )
    return fetch(reader.store, sources, reader.index_chain, max_size=most, threads=threads)
