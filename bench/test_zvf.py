"""Zarr Vectors beside zarr-vectors: manifests, fragments, reading, packing into shards.

pytest bench/test_zvf.py --benchmark-enable
python -m bench.test_zvf            # the table in docs/zvf.md; a few minutes, nearly all of them the reference's
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import time
import warnings
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from bench.contest import Contest, entrants, run_alone
from bench.scale import BRIEF, pick
from zvcore import zvf
from zvcore.kernels.vlen import join_rows

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from zarr_vectors import sharding as reference_sharding
    from zarr_vectors.building import get_resolution_level, open_store
    from zarr_vectors.core.arrays import read_object_manifest
    from zarr_vectors.encoding import fragments as reference
    from zarr_vectors.types.points import read_points, write_points
    from zarr_vectors.types.polylines import read_polylines, write_polylines

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.filterwarnings("ignore")

OBJECTS = pick(100_000, 1000)
# As many as in the stores of the reference's own numbers.
LINES, SIDE = pick((20_000, 16), (1000, 4)) if not BRIEF else (5000, 8)


@cache
def folder() -> Path:
    path = Path(tempfile.mkdtemp(prefix="zvcore-bench-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def mixed_piece(rng: np.random.Generator) -> Any:
    kind = rng.integers(0, 3)
    if kind == 0:
        return int(rng.integers(0, 100))
    if kind == 1:
        return int(rng.integers(0, 100)), int(rng.integers(1, 9))
    return rng.permutation(20)[:5].astype(np.int64)


@cache
def manifests(mixed: bool, count: int = OBJECTS) -> tuple[list[Any], list[bytes], bytes]:
    """Objects that touch 1 to 6 of a thousand chunks, as lists, as blobs, and as one chunk of the stored array."""
    rng = np.random.default_rng(0)
    lists = [
        [
            (tuple(rng.integers(-5, 5, 3).tolist()), mixed_piece(rng) if mixed else int(rng.integers(0, 100)))
            for _ in range(rng.integers(1, 7))
        ]
        for _ in range(count)
    ]
    blobs = zvf.encode_manifests(lists, 3)
    offsets = np.cumsum([0, *map(len, blobs)]).astype(np.int64)
    return lists, blobs, bytes(join_rows(b"".join(blobs), offsets))


def decoding(mixed: bool) -> dict[str, Callable[[], Any]]:
    _, blobs, chunk = manifests(mixed)
    return {
        "zvcore": lambda: zvf.decode_manifests(chunk, 3),
        "zarr-vectors, one by one": lambda: [reference.decode_object_manifest_blocks(blob, 3) for blob in blobs],
        "zarr-vectors, in bulk": lambda: reference.decode_object_manifests_many(blobs, 3),
    }


def decoding_blobs(mixed: bool) -> dict[str, Callable[[], Any]]:
    _, blobs, _ = manifests(mixed)
    calls = decoding(mixed)
    return {**calls, "zvcore": lambda: zvf.decode_manifests(blobs, 3), "joining them": lambda: b"".join(blobs)}


def listing(mixed: bool) -> dict[str, Callable[[], Any]]:
    _, blobs, chunk = manifests(mixed)
    return {
        "zvcore": lambda: zvf.decode_manifests(chunk, 3).to_lists(),
        "zarr-vectors, in bulk": lambda: reference.decode_object_manifests_many(blobs, 3),
    }


def listing_some() -> dict[str, Callable[[], Any]]:
    """The lists of one object in a hundred: who asks for these needs not make them all."""
    _, blobs, chunk = manifests(False)
    wanted = np.random.default_rng(6).permutation(OBJECTS)[: OBJECTS // 100].tolist()

    def ours() -> list[Any]:
        table = zvf.decode_manifests(chunk, 3)
        return [table[row] for row in wanted]

    def theirs() -> list[Any]:
        lists, _ = reference.decode_object_manifests_many(blobs, 3)
        return [lists[row] for row in wanted]

    return {"zvcore": ours, "zarr-vectors, in bulk": theirs}


def encoding(mixed: bool) -> dict[str, Callable[[], Any]]:
    lists, _, _ = manifests(mixed)
    return {
        "zvcore": lambda: zvf.encode_manifests(lists, 3),
        "zarr-vectors, one by one": lambda: [reference.encode_object_manifest_blocks(blocks, 3) for blocks in lists],
        "zarr-vectors, in bulk": lambda: reference.encode_object_manifests_many(lists, 3),
    }


def table_encoding() -> dict[str, Callable[[], Any]]:
    lists, _, chunk = manifests(False)
    columns = zvf.decode_manifests(chunk, 3)
    return {
        "zvcore": columns.encoded,
        "zarr-vectors, in bulk": lambda: reference.encode_object_manifests_many(lists, 3),
    }


def fragments(count: int, mixed: bool) -> dict[str, Callable[[], Any]]:
    rng = np.random.default_rng(1)
    pieces = [(3 * i, 3) if not mixed or i % 3 else rng.integers(0, 3 * count, 5) for i in range(count)]
    raw = zvf.encode_fragments(pieces)
    return {"zvcore": lambda: zvf.decode_fragments(raw), "zarr-vectors": lambda: reference.decode_fragments(raw)}


def single_fragments(what: str, mixed: bool) -> dict[str, Callable[[], Any]]:
    rng = np.random.default_rng(5)
    pieces = [(3 * i, 3) if not mixed or i % 3 else rng.integers(0, 3 * OBJECTS, 5) for i in range(OBJECTS)]
    raw = zvf.encode_fragments(pieces)
    wanted = [i for i in rng.permutation(OBJECTS).tolist() if what == "indices" or isinstance(pieces[i], tuple)][:1000]
    ours, theirs = getattr(zvf.decode_fragments(raw), what), getattr(reference.decode_fragments(raw), what)
    return {
        "zvcore": lambda: [ours(fragment) for fragment in wanted],
        "zarr-vectors": lambda: [theirs(fragment) for fragment in wanted],
    }


@cache
def line_store(sharded: bool) -> Path:
    path = folder() / f"lines-{sharded}"
    rng = np.random.default_rng(2)
    steps = np.cumsum(rng.normal(size=(LINES, 20, 3)) * 12, 1)
    lines = list(np.clip(rng.random((LINES, 1, 3)) * 1000 + steps, 0, 999).astype("f4"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write_polylines(path, lines, chunk_shape=(100.0,) * 3, shard_shape=8 if sharded else None)
    return path


@cache
def point_store(sharded: bool) -> Path:
    path = folder() / f"points-{sharded}"
    positions = (np.random.default_rng(3).random((20 * SIDE**3, 3)) * 100 * SIDE).astype("f4")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write_points(path, positions, chunk_shape=(100.0,) * 3, shard_shape=8 if sharded else None)
    return path


def one_manifest() -> dict[str, Callable[[], Any]]:
    level = zvf.open(line_store(False)).level(0)
    group = get_resolution_level(open_store(line_store(False)), 0)
    return {"zvcore": lambda: level.manifest(777), "zarr-vectors": lambda: read_object_manifest(group, 777)}


def some_objects(sharded: bool) -> dict[str, Callable[[], Any]]:
    path = line_store(sharded)
    ids = np.random.default_rng(4).choice(LINES, 1000, replace=False)
    level = zvf.open(path).level(0)
    return {
        "zvcore": lambda: level.read_objects(ids),
        "zarr-vectors": lambda: read_polylines(path, object_ids=ids.tolist()),
    }


def whole(make: Callable[[bool], Path], read: Callable[[Path], Any], sharded: bool) -> dict[str, Callable[[], Any]]:
    path = make(sharded)
    return {"zvcore": lambda: zvf.open(path).level(0).read(), "zarr-vectors": lambda: read(path)}


ONE_BY_ONE = ("zvcore", "zarr-vectors, one by one", "zarr-vectors, in bulk")
BOTH = ("zvcore", "zarr-vectors")
CONTESTS = [
    Contest("decode 100k mixed manifests into a table", ONE_BY_ONE, partial(decoding, True)),
    Contest("decode 100k uniform manifests into a table", ONE_BY_ONE, partial(decoding, False)),
    Contest(
        "decode 100k mixed manifests, a list of them", (*ONE_BY_ONE, "joining them"), partial(decoding_blobs, True)
    ),
    Contest(
        "decode 100k uniform manifests, a list of them", (*ONE_BY_ONE, "joining them"), partial(decoding_blobs, False)
    ),
    Contest("decode 100k uniform manifests into lists", ("zvcore", "zarr-vectors, in bulk"), partial(listing, False)),
    Contest("decode 100k mixed manifests into lists", ("zvcore", "zarr-vectors, in bulk"), partial(listing, True)),
    Contest("decode 100k uniform manifests, lists of 1000", ("zvcore", "zarr-vectors, in bulk"), listing_some),
    Contest("encode 100k uniform manifests from lists", ONE_BY_ONE, partial(encoding, False)),
    Contest("encode 100k mixed manifests from lists", ONE_BY_ONE, partial(encoding, True)),
    Contest("encode 100k uniform manifests from a table", ("zvcore", "zarr-vectors, in bulk"), table_encoding),
    Contest("decode an index of 100k ranges", BOTH, partial(fragments, OBJECTS, False)),
    Contest("decode an index of 100k mixed fragments", BOTH, partial(fragments, OBJECTS, True)),
    Contest("rows of 1000 fragments, one by one", BOTH, partial(single_fragments, "indices", False)),
    Contest("rows of 1000 mixed fragments, one by one", BOTH, partial(single_fragments, "indices", True)),
    Contest("ranges of 1000 mixed fragments, one by one", BOTH, partial(single_fragments, "range", True)),
    Contest("one manifest by id, warm", BOTH, one_manifest, 20),
    Contest("1000 lines by id", BOTH, partial(some_objects, False)),
    Contest("1000 lines by id, sharded", BOTH, partial(some_objects, True)),
    Contest("all lines", BOTH, partial(whole, line_store, read_polylines, False)),
    Contest("all lines, sharded", BOTH, partial(whole, line_store, read_polylines, True)),
    Contest("all points", BOTH, partial(whole, point_store, read_points, False)),
    Contest("all points, sharded", BOTH, partial(whole, point_store, read_points, True)),
]


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_speed(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


# --- conversions change their input, so each turn begins with a copy ------------------------------------------

CONVERSIONS: dict[str, tuple[bool, Callable[[Path], Any], Callable[[Path], Any]]] = {
    "shard_store": (False, zvf.shard_store, reference_sharding.shard_store),
    "reshard": (True, lambda path: zvf.reshard(path, 4), lambda path: reference_sharding.reshard(path, 4)),
    "unshard_store": (True, zvf.unshard_store, reference_sharding.unshard_store),
}


def a_copy(sharded: bool) -> Path:
    path = folder() / "copy"
    shutil.rmtree(path, ignore_errors=True)
    return Path(shutil.copytree(point_store(sharded), path))


@pytest.mark.parametrize("who", BOTH)
@pytest.mark.parametrize("name", CONVERSIONS)
def test_conversion(benchmark: Any, name: str, who: str) -> None:
    sharded, ours, theirs = CONVERSIONS[name]
    benchmark.group = f"{name} of {SIDE**3} chunks in two arrays"
    function = ours if who == "zvcore" else theirs
    benchmark.pedantic(function, setup=lambda: ((a_copy(sharded),), {}), rounds=1 if who != "zvcore" else 5)


def conversion_table(rounds: int = 2) -> None:
    for name, (sharded, *functions) in CONVERSIONS.items():
        best = [float("inf"), float("inf")]
        for _ in range(rounds):
            for i, function in enumerate(functions):
                path = a_copy(sharded)
                start = time.perf_counter()
                function(path)
                best[i] = min(best[i], time.perf_counter() - start)
        text = f"{name} of {SIDE**3} chunks in two arrays"
        print(f"| {text} | {best[0] * 1e6:.0f} | zarr-vectors {best[1] / best[0]:.1f} |", flush=True)


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run_alone(CONTESTS, seconds=0.5)
        conversion_table()
