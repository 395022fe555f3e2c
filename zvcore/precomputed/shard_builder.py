"""Putting one shard file together, from values in order, without holding them."""

from __future__ import annotations

import itertools
import tempfile
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np
import numpy.typing as npt

from zvcore.engine import encode_many
from zvcore.errors import UnsupportedError
from zvcore.kernels import encode_minishard_index

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Buffer

    from zvcore.codecs import CodecChain
    from zvcore.precomputed.entries import U64, Entries
    from zvcore.precomputed.sharding_spec import ShardingSpec

__all__ = ["MAX_MINISHARD_BITS", "Output", "ShardBuilder", "ends_of"]

# A shard index of 16 GiB. Reading knows no such limit.
MAX_MINISHARD_BITS = 30
_BATCH_BYTES = 1 << 20
_SPOOL_BYTES = 4 << 20
_INDEX_BLOCK = 1 << 16
_NO_DATA = np.empty(0, np.uint8)


class Output(Protocol):
    """The object that a shard is written to."""

    def write_at(self, offset: int, data: Buffer) -> None: ...


class _Ends:
    """What lies before the values of a shard and behind them."""

    def __init__(self, head: int, tail_at: int) -> None:
        self.head = bytearray(head)
        self.tail = bytearray()
        self._tail_at = tail_at

    def write_at(self, offset: int, data: Buffer) -> None:
        view = memoryview(data).cast("B")
        part, at = (self.head, offset) if offset < len(self.head) else (self.tail, offset - self._tail_at)
        part[at : at + len(view)] = view


def ends_of(
    spec: ShardingSpec, index_chain: CodecChain, entries: Entries, loose: int = 0, threads: int | None = None
) -> tuple[bytes, bytes]:
    """What stands in a shard before these values, which are in order, and behind them and so many bytes that belong to
    none; `data` of the values is not looked at.
    """
    ends = _Ends(spec.index_size, spec.index_size + int(entries.spans.sum(dtype=np.uint64)) + loose)
    with ShardBuilder(ends, spec, index_chain, threads) as builder:
        builder.add_written(entries)
        builder.add_loose_written(loose)
        builder.finish()
    return bytes(ends.head), bytes(ends.tail)


class ShardBuilder:
    """Writes the shard index's place, the values, the minishard indices, and at last the shard index.

    Minishard indices lie together at the end of the file, so that listing the ids of a shard takes two reads.
    """

    def __init__(self, output: Output, spec: ShardingSpec, index_chain: CodecChain, threads: int | None = None) -> None:
        if spec.minishard_bits > MAX_MINISHARD_BITS:
            raise UnsupportedError(
                "a shard index of this size is not written", expected=f"minishard_bits <= {MAX_MINISHARD_BITS}",
                found=spec.minishard_bits,
            )  # fmt: skip
        self.output = output
        self.spec = spec
        self.index_chain = index_chain
        self.threads = threads
        self.count = 0
        # Counted from the end of the shard index, as offsets in the file are.
        self._end = 0
        self._open: list[Entries] = []
        self._open_minishard = -1
        self._open_starts: list[U64] = []
        # Indices that wait for being compressed together, and those that are.
        self._raw: list[bytes] = []
        self._raw_bytes = 0
        self._raw_numbers: list[int] = []
        self._spool = tempfile.SpooledTemporaryFile(_SPOOL_BYTES)  # noqa: SIM115
        self._numbers: list[npt.NDArray[np.int64]] = []
        self._lengths: list[npt.NDArray[np.int64]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._spool.close()

    def add(self, entries: Entries) -> None:
        """The next values of this shard, in order of minishard and id."""
        if not len(entries):
            return
        self.output.write_at(self.spec.index_size + self._end, entries.data.data)
        self.add_written(entries)

    def add_written(self, entries: Entries) -> None:
        """`add`, for values that lie in their place already: `data` is not looked at."""
        if not len(entries):
            return
        _, minishards = self.spec.split(entries.hashes)
        spans = entries.spans
        starts = np.uint64(self._end) + np.cumsum(spans, dtype=np.uint64) - entries.sizes
        self._end += int(spans.sum(dtype=np.uint64))
        self.count += len(entries)
        edges = np.flatnonzero(minishards[1:] != minishards[:-1]) + 1
        bounds = [0, *edges.tolist(), len(entries)]
        for first, last in itertools.pairwise(bounds):
            number = int(minishards[first])
            if number != self._open_minishard:
                self._close_minishard()
                self._open_minishard = number
            # Not a view of the data, which would keep it.
            self._open.append(entries.rows(first, last, _NO_DATA))
            self._open_starts.append(starts[first:last])

    def add_loose(self, data: Buffer) -> None:
        """Bytes that no index mentions and that precede no value."""
        self.output.write_at(self.spec.index_size + self._end, data)
        self.add_loose_written(memoryview(data).nbytes)

    def add_loose_written(self, size: int) -> None:
        """`add_loose`, for so many bytes that lie in their place already."""
        self._end += size

    def finish(self) -> int:
        """Write the indices; the size of the file."""
        self._close_minishard()
        self._compress()
        at = self.spec.index_size + self._end
        self._spool.seek(0)
        while block := self._spool.read(1 << 20):
            self.output.write_at(at, block)
            at += len(block)
        if self._numbers:
            numbers = np.concatenate(self._numbers)
            ends = self._end + np.cumsum(np.concatenate(self._lengths))
            self._write_shard_index(numbers, np.concatenate([[self._end], ends[:-1]]), ends)
        else:
            self._write_shard_index(*(np.empty(0, np.int64),) * 3)
        return at

    def _close_minishard(self) -> None:
        if not self._open:
            return
        ids = np.concatenate([rows.ids for rows in self._open])
        sizes = np.concatenate([rows.sizes for rows in self._open])
        raw = encode_minishard_index(ids, np.concatenate(self._open_starts), sizes)
        self._open.clear()
        self._open_starts.clear()
        self._raw.append(raw)
        self._raw_numbers.append(self._open_minishard)
        self._raw_bytes += len(raw)
        if self._raw_bytes > _BATCH_BYTES:
            self._compress()

    def _compress(self) -> None:
        if not self._raw:
            return
        data, starts = encode_many(self._raw, self.index_chain, threads=self.threads).joined()
        self._spool.write(data.data)
        self._numbers.append(np.array(self._raw_numbers, np.int64))
        self._lengths.append(np.diff(starts))
        self._raw.clear()
        self._raw_numbers.clear()
        self._raw_bytes = 0

    def _write_shard_index(
        self, numbers: npt.NDArray[np.int64], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
    ) -> None:
        """Blocks without any entry are left as they are: zeros, which say that there is nothing."""
        count = self.spec.minishard_count
        for first in range(0, count, _INDEX_BLOCK):
            low, high = np.searchsorted(numbers, [first, first + _INDEX_BLOCK])
            last = min(first + _INDEX_BLOCK, count)
            if low == high and count > _INDEX_BLOCK:
                continue
            block = np.zeros((last - first, 2), "<u8")
            block[numbers[low:high] - first, 0] = starts[low:high]
            block[numbers[low:high] - first, 1] = ends[low:high]
            self.output.write_at(16 * first, block.reshape(-1).view(np.uint8).data)
