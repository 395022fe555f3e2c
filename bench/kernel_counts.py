"""Kernels run once each; callgrind counts the instructions between two system calls that nothing else makes.

    valgrind --tool=callgrind --zero-before=getppid --dump-after=getpgrp python -m bench.kernel_counts

Started by `bench/check.py`. The counts do not depend on what else the machine does, so a loss of a few per cent shows.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import zvcore
from bench.data import volume
from zvcore import codecs, kernels
from zvcore.kernels import blocks, keys, vlen
from zvcore.kernels.compressed_segmentation import decode_compressed_segmentation, encode_compressed_segmentation
from zvcore.stores import MemoryStore
from zvcore.stores.http_ranges import PlainLines, Ranges
from zvcore.stores.range_requests import Wanted, address_of

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["cases"]

SHAPE = (32, 32, 32)


def cases() -> dict[str, Callable[[], Any]]:
    rng = np.random.default_rng(0)
    bulk = rng.bytes(1 << 18)
    ids = rng.integers(0, 2**60, 20_000).astype(np.uint64)
    sizes = rng.integers(1, 5000, 20_000).astype(np.uint64)
    starts = np.cumsum(sizes) - sizes
    raw = kernels.encode_minishard_index(np.sort(ids), starts, sizes)
    grid = (538, 618, 805)
    places = np.stack([rng.integers(0, n, 20_000) for n in grid], 1)
    labels = np.asfortranarray(volume("labels64", SHAPE).transpose(2, 1, 0)[..., None])
    packed = encode_compressed_segmentation(labels, (8, 8, 8))
    grey = volume("microscopy", SHAPE)
    room = np.empty(SHAPE[::-1], "u2")
    manifests = [[(tuple(rng.integers(-5, 5, 3).tolist()), int(rng.integers(0, 99)))] for _ in range(3000)]
    blobs = zvcore.zvf.encode_manifests(manifests, 3)
    ends = np.cumsum([0, *map(len, blobs)]).astype(np.int64)
    chunk = bytes(vlen.join_rows(b"".join(blobs), ends))
    fragments = zvcore.zvf.encode_fragments([(3 * i, 3) if i % 3 else rng.integers(0, 900, 5) for i in range(3000)])
    # Without a second one alive, Python takes memory from the system for each index and gives it back.
    kept = zvcore.zvf.decode_fragments(fragments)
    array = zvcore.create(
        MemoryStore(),
        format="zarr3",
        shape=(64, 64, 64),
        dtype="u2",
        chunks=(16, 16, 16),
        shards=(64, 64, 64),
        codec=None,
    )
    tile = np.tile(grey, (2, 2, 2))
    array[...] = tile
    found: dict[str, Callable[[], Any]] = {
        "crc32c of 256 KiB": lambda: kernels.crc32c(bulk),
        "murmurhash3 of 20000 ids": lambda: kernels.murmurhash3_x86_128(ids),
        "minishard index of 20000, decoded": lambda: kernels.decode_minishard_index(raw),
        "minishard index of 20000, encoded": lambda: kernels.encode_minishard_index(ids, starts, sizes),
        "morton codes of 20000": lambda: kernels.compressed_morton(places, grid),
        "compressed_segmentation of 32^3, decoded": lambda: decode_compressed_segmentation(
            packed, labels.shape, (8, 8, 8), "u8"
        ),
        "compressed_segmentation of 32^3, encoded": lambda: encode_compressed_segmentation(labels, (8, 8, 8)),
        "block of 32^3 u2, axes reversed": lambda: blocks.copy(room.T, grey),
        "block of 32^3 u2, bytes swapped": lambda: blocks.copy(room, grey, True),
        "20000 keys": lambda: keys.format_keys(places, ["c/", "/", "/", ""]),
        "rows of a vlen chunk": lambda: vlen.split_rows(chunk),
        "3000 manifests, decoded": lambda: zvcore.zvf.decode_manifests(chunk, 3),
        "3000 manifests, encoded": lambda: zvcore.zvf.encode_manifests(manifests, 3),
        "index of 3000 fragments": lambda: (kept, zvcore.zvf.decode_fragments(fragments)),
        "read of 64 raw chunks": lambda: array.read(..., threads=1),
        "write of 64 raw chunks": lambda: array.write(..., tile, threads=1),
        "64 ranges over connections of our own": ranges_over_connections(),
        "read of one chunk": lambda: [array.read((slice(16, 32),) * 3, threads=1) for _ in range(20)],
    }
    for name in ("gzip", "zstd", "lz4", "blosc"):
        codec = codecs.get(name)
        encoded = codec.encode(grey)
        out = bytearray(grey.nbytes)
        found[f"{name}, decoded"] = partial(codec.decode, encoded, out=out)
    return found


def ranges_over_connections() -> Callable[[], None]:
    """Requests and answers for ranges, without a network: the answers are there before they are asked for."""
    count, length = 64, 256
    wanted = Wanted(address_of("http://127.0.0.1:9000/bucket/object?signature=x"), 512, 512 + length, '"tag"', 1 << 20)
    head = b"HTTP/1.1 206 Partial Content\r\nContent-Length: 256\r\nContent-Range: bytes 512-767/1048576\r\n"
    facts = b'Last-Modified: Sat, 01 Nov 2025 10:00:00 GMT\r\nAccept-Ranges: bytes\r\nETag: "tag"\r\n\r\n'
    answer = head + facts + bytes(length)
    pairs = [socket.socketpair() for _ in range(count)]
    for ours, _ in pairs:
        ours.setblocking(False)

    def run() -> None:
        ranges = Ranges([wanted] * count)
        lines = PlainLines(ranges, count, 60.0)
        for ours, theirs in pairs:
            theirs.send(answer)
            lines.add(ours.fileno(), True, True)
        while found := lines.wait(0.0):
            for descriptor, *_ in found:
                lines.remove(descriptor)
        for _, theirs in pairs:
            theirs.recv(4096)
        assert all(ranges.received(number) is not None for number in range(count))

    weakref.finalize(run, close_all, pairs)
    return run


def close_all(pairs: list[tuple[socket.socket, socket.socket]]) -> None:
    for pair in pairs:
        for end in pair:
            end.close()


def main() -> None:
    extra = float(os.environ.get("ZVCORE_BENCH_PLANT", "0"))
    chosen = cases()
    if sys.argv[1:] == ["--names"]:
        print("\n".join(chosen))
        return
    gc.collect()
    gc.disable()
    for _ in range(2):  # what only the first dump counts
        os.getppid()
        os.getpgrp()
    for function in chosen.values():
        function()  # what is made or imported on the first call
        os.getppid()
        for _ in range(10):
            function()
        for _ in range(round(10 * extra)):  # a planted loss, to see that it is caught
            function()
        os.getpgrp()


if __name__ == "__main__":
    main()
