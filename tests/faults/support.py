"""Writers of every format and write mode, as scripts for processes of their own, and how what they leave is judged.

Each writer changes its store again and again; every change gives everything it touches one value. What is found later
must be whole: in each unit (a chunk, a shard, a value, a store, as the format promises) one value and nothing else.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import zvcore
from tests import processes
from tests.processes import PATIENCE
from zvcore.precomputed import ShardedStore, ShardingSpec, write_sharded

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

SPEC = ShardingSpec(0, "murmurhash3_x86_128", 1, 1, "gzip", "gzip")
IDS = range(40)


@dataclass(frozen=True)
class Writer:
    """`make` begins a store with value 1, `loop` is what a process does with `path` and `value`, `check` gives the
    values that are there, one for each unit, and fails if one is torn."""

    name: str
    make: Callable[[Path], Any]
    loop: str
    check: Callable[[Path], list[int]]


def whole(values: Any) -> int:
    found = np.unique(np.asarray(values))
    assert len(found) == 1, f"torn: {found[:10]}"
    return int(found[0])


def array_maker(**options: Any) -> Callable[[Path], Any]:
    def make(path: Path) -> None:
        zvcore.create(path, dtype="u4", **options)[...] = 1

    return make


def by_block(path: Path, side: tuple[int, ...], **options: Any) -> list[int]:
    values = zvcore.open(path, **options)[...]
    grid = [n // s for n, s in zip(values.shape, side, strict=True)]
    return [
        whole(values[tuple(slice(i * s, i * s + s) for i, s in zip(at, side, strict=True))]) for at in np.ndindex(*grid)
    ]


def zarr(name: str, unit: tuple[int, ...], loop: str = "array[...] = value", **options: Any) -> Writer:
    mode = options.pop("write_mode", None)
    opened = f"array = zvcore.open(path, mode='r+'{'' if mode is None else f', write_mode={mode!r}'})"
    make = array_maker(format="zarr3", shape=(64, 96), chunks=(16, 16), **options)
    return Writer(name, make, f"{opened}\n---\n{loop}", lambda path: by_block(path, unit))


def make_sharded(path: Path) -> None:
    write_sharded(path, SPEC, dict.fromkeys(IDS, b"%d " % 1 * 50))


def check_sharded(path: Path) -> list[int]:
    kv = ShardedStore(path, SPEC)
    found: dict[int, list[bytes]] = {}
    for id, data in kv.items():
        shard = int(SPEC.locate(np.array([id], np.uint64))[0][0])
        assert len(set(data.split())) == 1 and len(data.split()) == 50
        found.setdefault(shard, []).append(data.split()[0])
    assert len(kv) == len(IDS)
    return [whole([int(value) for value in values]) for values in found.values()]


def lines(value: int) -> list[Any]:
    return [np.full((5 + i, 3), value, "f4") + i for i in range(6)]


def make_lines(path: Path) -> None:
    zvcore.zvf.write_polylines(path, lines(1), chunk_shape=(16.0,) * 3, bounds=([0] * 3, [10000] * 3))


def check_lines(path: Path) -> list[int]:
    """Whole batches of six lines, each of one value and complete."""
    level = zvcore.zvf.open(path).level(0)
    ids = level.object_ids(present_only=True)
    assert len(ids) % 6 == 0
    found = []
    for start in range(0, len(ids), 6):
        vectors = level.read_objects(ids[start : start + 6])
        value = int(vectors[0][0, 0])
        for i in range(6):
            np.testing.assert_array_equal(vectors[i], lines(value)[i])
        found.append(value)
    assert zvcore.zvf.validate(path).ok
    return found


def check_attributes(path: Path) -> list[int]:
    attrs = dict(zvcore.open(path).attrs)
    return [whole([attrs[f"a{i}"] for i in range(20)])]


def make_attributes(path: Path) -> None:
    array = zvcore.create(path, format="n5", shape=(4,), dtype="u1", chunks=(4,))
    array.attrs.update({f"a{i}": 1 for i in range(20)})


VOLUME = {"format": "precomputed", "chunks": (16, 16, 8), "shape": (32, 32, 16), "codec": None}

WRITERS = {
    writer.name: writer
    for writer in (
        zarr("zarr3 chunks", (16, 16)),
        zarr("zarr3 shards, rewrite", (32, 48), shards=(32, 48)),
        zarr("zarr3 shards, append", (16, 16), shards=(32, 48), write_mode="append"),
        zarr("zarr3 part of a shard", (16, 16), "array[16:48, 16:80] = value", shards=(64, 96)),
        zarr("zarr3 shard_writer", (32, 96), "with array.shard_writer() as w: w[...] = value", shards=(32, 96)),
        Writer(
            "n5 blocks",
            array_maker(format="n5", shape=(64, 48), chunks=(16, 16), codec="gzip"),
            "array = zvcore.open(path, mode='r+')\n---\narray[...] = value",
            lambda path: by_block(path, (16, 16)),
        ),
        Writer(
            "n5 attributes",
            make_attributes,
            "array = zvcore.open(path, mode='r+')\n---\narray.attrs.update({f'a{i}': value for i in range(20)})",
            check_attributes,
        ),
        Writer(
            "precomputed volume",
            array_maker(**VOLUME),
            "array = zvcore.open(path, mode='r+', scale=0)\n---\narray[...] = value",
            lambda path: by_block(path, (16, 16, 8, 1), scale=0),
        ),
        Writer(
            "precomputed volume, sharded",
            array_maker(**VOLUME, shards=(32, 32, 16)),
            "array = zvcore.open(path, mode='r+', scale=0)\n---\narray[...] = value",
            lambda path: by_block(path, (32, 32, 16, 1), scale=0),
        ),
        Writer(
            "precomputed values",
            make_sharded,
            "kv = zvcore.precomputed.ShardedStore(path, SPEC, mode='r+')\n---\n"
            "kv.update({id: b'%d ' % value * 50 for id in IDS})",
            check_sharded,
        ),
        Writer(
            "zarr vectors, append",
            make_lines,
            "---\nzvcore.zvf.write_polylines(path, lines(value), append=True)",
            check_lines,
        ),
    )
}

HEAD = """
import sys, zvcore
from tests.faults.support import IDS, SPEC, lines
path, value = sys.argv[1], int(sys.argv[2])
"""


def writing_forever(writer: Writer, path: Path, value: int) -> subprocess.Popen[str]:
    """A process that writes value + 1, value + 2 and so on, and says which it begins and which it has written."""
    before, _, body = writer.loop.partition("---\n")
    script = (
        HEAD
        + before
        + "\nwhile True:\n    value += 1\n    print('begin', value, flush=True)\n"
        + textwrap.indent(body, "    ")
        + "\n    print('done', value, flush=True)\n"
    )
    return processes.start(script, path, value)


def run(script: str, *arguments: object, patience: float = PATIENCE) -> str:
    """What a process prints that has `path` and the list `value` of arguments; it must end well."""
    return processes.run(
        HEAD.replace("int(sys.argv[2])", "sys.argv[2:]") + textwrap.dedent(script), *arguments, patience=patience
    )
