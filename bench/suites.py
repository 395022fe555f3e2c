"""Every contest by suite: the lists `CONTESTS` of the modules beside this one, found by their names.

A new module `test_<suite>.py` or `test_kernels_<what>.py` with a list `CONTESTS` takes part without being listed here.
"""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.contest import Contest

__all__ = ["LIMITS", "OURS", "Entry", "entries"]

# Not competitors, but the work that nobody can avoid: the bytes copied, the bytes read, the library's own decoding,
# what a server in C takes.
LIMITS = {
    "memcpy",
    "bare",
    "decoding alone",
    "python",
    "one os.stat",
    "plain pread",
    "stored bytes alone",
    "codec alone",
    "files",
    "joining them",
    "nginx",
}
# zvcore in another shape: through zarr-python, by another of its functions, in another write mode.
OURS = {
    "zvcore", "zvcore into out", "zvcore, one by one", "zarr+zvcore", "zarr+zvcore, accelerated", "read_block",
    "inplace", "rewrite", "zvcore, rename", "zvcore, none", "zvcore, settled",
}  # fmt: skip

# What `make bench` measures unless asked for everything: for each suite, expressions that a task's name matches.
HEADLINES = {
    "kernels": (
        r"crc32c of (1 KiB|1 MiB)", r"(de|en)code 100000 entries", r"murmurhash3 of 1000000", r"md5 of 12",
        r"1,000,000 keys", r"morton codes of 1000000 i8 positions, C", r"positions of 1000000",
        r"u1 64\^3 out, same$", r"u2 64\^3 in, reversed$", r"f8 64\^3 out, reversed$",
        r"u4 64\^3 out, same, swapped", r"u2 64\^3 holds",
    ),
    "codecs": (
        r"(gzip level=6|zstd level=3|framing=lz4block|cname=lz4|cname=zstd|bzip2|preset=1|use_zlib).*(em|labels32)$",
        r"(gzip level=6|zstd level=[13]|framing=(lz4block|frame)|cname).*(labels64|microscopy)$",
        r"(gzip level=6|zstd level=3|framing=frame|cname=lz4).*mri$",
    ),
    "n5": (r"(raw|gzip|zstd|blosc)$",),
    "pipeline": (r"^read", r"in a bucket"),
}  # fmt: skip


@dataclass(frozen=True)
class Entry:
    suite: str
    contest: Contest

    @property
    def name(self) -> str:
        return self.contest.name

    @property
    def is_headline(self) -> bool:
        patterns = HEADLINES.get(self.suite)
        return patterns is None or any(re.search(pattern, self.name) for pattern in patterns)


def entries() -> list[Entry]:
    found = []
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        suite = path.stem.removeprefix("test_").partition("_")[0]
        module = importlib.import_module(f"bench.{path.stem}")
        found += [Entry(suite, contest) for contest in getattr(module, "CONTESTS", [])]
    return found
