"""Each codec beside the leanest Python bindings of its library: one chunk of 64^3, encoded and decoded.

    pytest bench/test_codecs.py --benchmark-enable      times
    python -m bench.test_codecs [codec ...]             ratios, the competitors taking turns

All decoders get the bytes that zvcore wrote, and the decoded size if they accept it.
"""

from __future__ import annotations

import bz2
import lzma
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import blosc
import deflate
import lz4.block
import lz4.frame
import numcodecs
import numcodecs.blosc
import pytest
import xxhash
import zstandard
from isal import igzip, isal_zlib

from bench.contest import Contest
from bench.data import CHUNK, volume
from bench.data import KINDS as MADE
from bench.interleaved import best_times
from bench.measured import image
from bench.scale import pick
from zvcore import codecs

# zvcore gives each thread chunks of its own; so do its peers here.
numcodecs.blosc.set_nthreads(1)
blosc.set_nthreads(1)

KINDS = (*MADE, "mri")

Encode = Callable[[bytes], Any]
Decode = Callable[[bytes, int], Any]
Peers = dict[str, tuple[Encode | None, Decode | None]]


@dataclass(frozen=True, eq=False)
class Case:
    """A codec and its peers, each a pair of functions: encode(data) and decode(stored, size), or None."""

    codec: str
    parameters: dict[str, Any]
    peers: Peers

    @property
    def name(self) -> str:
        return " ".join([self.codec, *(f"{key}={value}" for key, value in self.parameters.items())])


def by_numcodecs(**config: Any) -> tuple[Encode, Decode]:
    codec = numcodecs.get_codec(config)
    return codec.encode, lambda stored, size: codec.decode(stored)


def by_zstandard(level: int) -> tuple[Encode, Decode]:
    compressor, decompressor = zstandard.ZstdCompressor(level=level), zstandard.ZstdDecompressor()
    return compressor.compress, lambda stored, size: decompressor.decompress(stored)


def gzip_case(level: int) -> Case:
    return Case(
        "gzip",
        {"level": level},
        {
            "deflate": (
                lambda data: deflate.gzip_compress(data, level),
                lambda stored, size: deflate.gzip_decompress(stored, size),
            ),
            # ISA-L has no such levels: its best is nearer to zlib's 1.
            "isal": (None, lambda stored, size: igzip.decompress(stored)),
            "zlib": (
                lambda data: zlib.compress(data, level, 31),
                lambda stored, size: zlib.decompress(stored, 31, size),
            ),
            "numcodecs": by_numcodecs(id="gzip", level=level),
        },
    )


def zlib_case(level: int) -> Case:
    return Case(
        "gzip",
        {"level": level, "use_zlib": True},
        {
            "deflate": (
                lambda data: deflate.zlib_compress(data, level),
                lambda stored, size: deflate.zlib_decompress(stored, size),
            ),
            "isal": (None, lambda stored, size: isal_zlib.decompress(stored, bufsize=size)),
            "numcodecs": by_numcodecs(id="zlib", level=level),
        },
    )


def zstd_case(level: int) -> Case:
    peers: Peers = {"zstandard": by_zstandard(level), "numcodecs": by_numcodecs(id="zstd", level=level)}
    return Case("zstd", {"level": level}, peers)


def lz4_case(framing: str) -> Case:
    def encode(data: bytes) -> Any:
        return lz4.block.compress(data, store_size=False)

    def decode(stored: bytes, size: int) -> Any:
        return lz4.block.decompress(stored, uncompressed_size=size)

    peers_of: dict[str, Peers] = {
        "block": {"lz4": (encode, decode)},
        "size_prefixed": {
            "lz4": (lz4.block.compress, lambda stored, size: lz4.block.decompress(stored)),
            "numcodecs": by_numcodecs(id="lz4"),
        },
        "frame": {
            "lz4": (
                lambda data: lz4.frame.compress(data, content_checksum=True),
                lambda stored, size: lz4.frame.decompress(stored),
            )
        },
        "lz4block": {"lz4 and xxhash": (None, decode_stream)},
    }
    return Case("lz4", {"framing": framing}, peers_of[framing])


def decode_stream(stored: bytes, size: int) -> bytes:
    """lz4-java's stream, which no other Python package reads, assembled from packages over the same libraries."""
    parts: list[bytes | memoryview] = []
    view = memoryview(stored)
    at = 0
    while True:
        packed, length, checksum = (int.from_bytes(view[at + i : at + i + 4], "little") for i in (9, 13, 17))
        if length == 0:
            return b"".join(parts)
        data = view[at + 21 : at + 21 + packed]
        part = data if view[at + 8] < 0x20 else lz4.block.decompress(data, uncompressed_size=length)
        if xxhash.xxh32_intdigest(part, 0x9747B28C) & 0x0FFFFFFF != checksum:
            raise ValueError("checksum")
        parts.append(part)
        at += 21 + packed


def blosc_case(cname: str, level: int, shuffle: int, typesize: int) -> Case:
    parameters = {"cname": cname, "clevel": level, "shuffle": shuffle, "typesize": typesize}

    def by_numcodecs(data: bytes) -> Any:
        return numcodecs.blosc.compress(data, cname.encode(), level, shuffle, 0, typesize)

    def by_blosc(data: bytes) -> Any:
        return blosc.compress(data, typesize, level, shuffle, cname)

    peers: Peers = {
        "numcodecs": (by_numcodecs, lambda stored, size: numcodecs.blosc.decompress(stored)),
        "blosc": (by_blosc, lambda stored, size: blosc.decompress(stored)),
    }
    return Case("blosc", parameters, peers)


def bzip2_case(block_size: int) -> Case:
    encode_decode = (lambda data: bz2.compress(data, block_size), lambda stored, size: bz2.decompress(stored))
    return Case("bzip2", {"block_size": block_size}, {"bz2": encode_decode})


def xz_case(preset: int) -> Case:
    encode_decode = (lambda data: lzma.compress(data, preset=preset), lambda stored, size: lzma.decompress(stored))
    return Case("xz", {"preset": preset}, {"lzma": encode_decode})


CASES = [
    *(gzip_case(1), gzip_case(6), zlib_case(6), zstd_case(1), zstd_case(3)),
    *(lz4_case(framing) for framing in ("lz4block", "frame", "size_prefixed", "block")),
    *(blosc_case("lz4", 5, 1, 4), blosc_case("zstd", 5, 2, 4), blosc_case("blosclz", 6, 0, 1)),
    *(bzip2_case(9), xz_case(1), xz_case(6)),
]


@lru_cache(maxsize=1)
def competitors(case: Case, kind: str) -> tuple[dict[str, Callable[[], Any]], dict[str, Callable[[], Any]]]:
    """(encoders, decoders) of one chunk: zvcore's first."""
    codec = codecs.get(case.codec, **case.parameters)
    data = sample(kind)
    stored = codec.encode(data)
    out = bytearray(len(data))
    encoders: dict[str, Callable[[], Any]] = {"zvcore": lambda: codec.encode(data)}
    decoders: dict[str, Callable[[], Any]] = {
        "zvcore": lambda: codec.decode(stored, max_size=len(data)),
        "zvcore into out": lambda: codec.decode(stored, out=out),
    }
    for peer, (encode, decode) in case.peers.items():
        if encode is not None:
            assert bytes(codec.decode(bytes(encode(data)))) == data, f"{peer} encodes something else"
            encoders[peer] = partial(encode, data)
        if decode is not None:
            assert bytes(decode(stored, len(data))) == data, f"{peer} decodes to something else"
            decoders[peer] = partial(decode, stored, len(data))
    return encoders, decoders


def sample(kind: str) -> bytes:
    if kind == "mri":
        return bytes(image("mri")[: pick(64, 16), 16:80].tobytes())
    return volume(kind, pick(CHUNK, (32, 32, 32))).tobytes()


def parameters(direction: int) -> list[Any]:
    """One pytest parameter for each case, kind of data and competitor."""
    found = []
    for case in CASES:
        for kind in KINDS:
            found += [
                pytest.param(case, kind, name, id=f"{case.name}-{kind}-{name}") for name in names(case, direction)
            ]
    return found


def one_way(case: Case, kind: str, direction: int) -> dict[str, Callable[[], Any]]:
    return competitors(case, kind)[direction]


def names(case: Case, direction: int) -> tuple[str, ...]:
    ours = ("zvcore", "zvcore into out") if direction else ("zvcore",)
    return (*ours, *(peer for peer, pair in case.peers.items() if pair[direction] is not None))


CONTESTS = [
    Contest(f"{word} {case.name}, {kind}", names(case, direction), partial(one_way, case, kind, direction))
    for case in CASES
    for kind in KINDS
    for direction, word in enumerate(("encode", "decode"))
]


@pytest.mark.parametrize(("case", "kind", "who"), parameters(0))
def test_encode(benchmark: Any, case: Case, kind: str, who: str) -> None:
    benchmark.group = f"encode {case.name} {kind}"
    benchmark.name = who
    benchmark(competitors(case, kind)[0][who])


@pytest.mark.parametrize(("case", "kind", "who"), parameters(1))
def test_decode(benchmark: Any, case: Case, kind: str, who: str) -> None:
    benchmark.group = f"decode {case.name} {kind}"
    benchmark.name = who
    benchmark(competitors(case, kind)[1][who])


@pytest.mark.parametrize("who", ["zvcore", "zvcore into out", "deflate", "zlib"])
def test_decode_of_almost_nothing(benchmark: Any, who: str) -> None:
    """The cost of a call, with hardly any work in it."""
    codec = codecs.get("gzip")
    stored = codec.encode(b"zvcore")
    out = bytearray(6)
    benchmark.group = "decode gzip of 6 bytes"
    benchmark.name = who
    calls: dict[str, Callable[[], Any]] = {
        "zvcore": lambda: codec.decode(stored, max_size=len(out)),
        "zvcore into out": lambda: codec.decode(stored, out=out),
        "deflate": lambda: deflate.gzip_decompress(stored, 6),
        "zlib": lambda: zlib.decompress(stored, 31),
    }
    benchmark(calls[who])


def main(wanted: list[str]) -> None:
    print("| codec | data | direction | zvcore, MB/s | times as fast as |\n|---|---|---|---|---|")
    for case in CASES:
        if wanted and case.codec not in wanted:
            continue
        for kind in KINDS:
            for direction, functions in zip(("encode", "decode"), competitors(case, kind), strict=True):
                times = best_times(functions)
                ours = times.pop("zvcore")
                ratios = ", ".join(f"{peer} {time / ours:.2f}" for peer, time in times.items())
                speed = len(sample(kind)) / ours / 1e6
                print(f"| {case.name} | {kind} | {direction} | {speed:.0f} | {ratios} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
