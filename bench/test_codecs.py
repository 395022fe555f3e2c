"""Each codec beside the leanest Python bindings of its library: one chunk of 64^3, encoded and decoded.

    pytest bench/test_codecs.py --benchmark-enable      times
    python -m bench.test_codecs [codec ...]             ratios, the competitors taking turns

All decoders get the bytes that zvcore wrote, and are told the decoded size where they can be.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import deflate
import numcodecs
import pytest
import zstandard
from isal import igzip, isal_zlib

from bench.data import KINDS, volume
from bench.interleaved import best_times
from zvcore import codecs

Encode = Callable[[bytes], Any]
Decode = Callable[[bytes, int], Any]


@dataclass(frozen=True)
class Case:
    """A codec and its peers, each a pair of functions: encode(data) and decode(stored, size), or None."""

    codec: str
    parameters: dict[str, Any]
    peers: dict[str, tuple[Encode | None, Decode | None]]

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
    peers = {"zstandard": by_zstandard(level), "numcodecs": by_numcodecs(id="zstd", level=level)}
    return Case("zstd", {"level": level}, peers)


CASES = [gzip_case(1), gzip_case(6), zlib_case(6), zstd_case(1), zstd_case(3)]


def competitors(case: Case, kind: str) -> tuple[dict[str, Callable[[], Any]], dict[str, Callable[[], Any]]]:
    """(encoders, decoders) of one chunk: zvcore's first."""
    codec = codecs.get(case.codec, **case.parameters)
    data = volume(kind).tobytes()
    stored = codec.encode(data)
    out = bytearray(len(data))
    encoders: dict[str, Callable[[], Any]] = {"zvcore": lambda: codec.encode(data)}
    decoders: dict[str, Callable[[], Any]] = {
        "zvcore": lambda: codec.decode(stored),
        "zvcore into out": lambda: codec.decode(stored, out=out),
    }
    for peer, (encode, decode) in case.peers.items():
        if encode is not None:
            assert bytes(codec.decode(bytes(encode(data)))) == data, f"{peer} encodes something else"
            encoders[peer] = lambda encode=encode: encode(data)
        if decode is not None:
            assert bytes(decode(stored, len(data))) == data, f"{peer} decodes to something else"
            decoders[peer] = lambda decode=decode: decode(stored, len(data))
    return encoders, decoders


def parameters(direction: int) -> list[Any]:
    """One pytest parameter for each case, kind of data and competitor."""
    found = []
    for case in CASES:
        names = ["zvcore", *(["zvcore into out"] if direction else [])]
        names += [peer for peer, pair in case.peers.items() if pair[direction] is not None]
        for kind in KINDS:
            found += [pytest.param(case, kind, name, id=f"{case.name}-{kind}-{name}") for name in names]
    return found


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
    """What a call costs beside the work."""
    codec = codecs.get("gzip")
    stored = codec.encode(b"zvcore")
    out = bytearray(6)
    benchmark.group = "decode gzip of 6 bytes"
    benchmark.name = who
    calls: dict[str, Callable[[], Any]] = {
        "zvcore": lambda: codec.decode(stored),
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
                speed = volume(kind).nbytes / ours / 1e6
                print(f"| {case.name} | {kind} | {direction} | {speed:.0f} | {ratios} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
