"""Shards in an object store that are changed together: how many requests that takes, and whose changes stay."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.precomputed import ShardedStore, ShardingSpec
from zvcore.stores import open_store, puts_together
from zvcore.stores.indexes import index_cache

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.stores.servers import S3, Proxy, Request

SHAPE = (32, 64, 64)
KINDS: dict[str, dict[str, Any]] = {
    "one level": {"chunks": (8, 8, 8), "shards": (32, 32, 32), "codec": "zstd"},
    "index first": {"chunks": (8, 8, 8), "shards": (32, 32, 32), "index_location": "start"},
    "two levels": {"chunks": (8, 8, 8), "shards": (32, 32, 32)},
    "volume": {"chunks": (8, 8, 8), "sharding": ShardingSpec(4, "identity", 2, 2, "raw", "raw")},
    "packed volume": {"chunks": (8, 8, 8), "sharding": ShardingSpec(6, "identity", 0, 2, "gzip", "gzip")},
}
SHARDS = [f"c/0/{row}/{column}" for row in range(2) for column in range(2)]
SHARDS_OF_VOLUMES = [f"1_1_1/{number}.shard" for number in range(4)]


def create(s3: S3, kind: str = "one level", seed: int = 0) -> tuple[zvcore.Array, np.ndarray]:
    array = make(kind, s3.url(f"together-{uuid.uuid4()}"), s3.options)
    if kind == "two levels":
        array = within_others(array, s3)
    data = np.random.default_rng(seed).integers(1, 200, array.shape, np.uint16)
    array[...] = data
    return array, data


def make(kind: str, where: Any, options: dict[str, Any] | None = None) -> zvcore.Array:
    """Four shards, along the two last axes of space."""
    format: Any = "precomputed" if "volume" in kind else "zarr3"
    found = zvcore.create(where, format=format, shape=SHAPE, dtype="u2", storage_options=options, **KINDS[kind])
    return found if isinstance(found, zvcore.Array) else found[0]


def within_others(array: zvcore.Array, s3: S3) -> zvcore.Array:
    """An empty array whose shards lie in other shards."""
    store = array.store
    document = json.loads(bytes(store.get("zarr.json") or b""))
    [inner] = document["codecs"]
    configuration = {**inner["configuration"], "codecs": [inner], "chunk_shape": [16, 16, 16]}
    document["codecs"] = [{**inner, "configuration": configuration}]
    store.put("zarr.json", json.dumps(document).encode())
    return zvcore.open(store.address, "r+", storage_options=s3.options)


def stored(array: zvcore.Array, s3: S3) -> np.ndarray:
    """What a program finds that has asked for nothing yet."""
    index_cache().clear()
    found = zvcore.open(array.store.address, storage_options=s3.options)
    return np.asarray((found if isinstance(found, zvcore.Array) else found[0])[...])


def asked(proxy: Proxy, action: Callable[[], object]) -> list[str]:
    proxy.forget()
    action()
    return sorted(one.method for one in proxy.requests)


@pytest.mark.parametrize("kind", ["one level", "volume", "packed volume"])
def test_a_shard_that_was_put_is_known(s3: S3, proxy: Proxy, kind: str) -> None:
    array, data = create(s3, kind)
    index_cache().clear()
    found = [asked(proxy, lambda row=row: array.write(row, data[row] + 1)) for row in (0, 1, 2)]
    data[:3] += 1
    told = s3.scheme == "s3"
    for number, methods in enumerate(found):
        # Of each of the four shards: the index, the chunks that are changed, those that stay, and the new one.
        assert methods.count("PUT") == 4
        assert methods.count("GET") > 4
        if number and told:
            asked_for = 2 if "volume" in kind else 1
            assert len(methods) == len(found[0]) - 4 * asked_for
    assert np.array_equal(stored(array, s3), data)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("enough", [1, 20_000, 64 << 20])
def test_changes_of_all_kinds(s3: S3, kind: str, enough: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much of it is held at once."""
    monkeypatch.setattr(puts_together, "_ENOUGH", enough)
    array, data = create(s3, kind)
    generator = np.random.default_rng(1)
    for number in range(12):
        corner = generator.integers(0, SHAPE).tolist()
        box = tuple(slice(at, at + int(generator.integers(1, 40))) for at in corner)
        if number % 3 == 0:  # whole chunks, of which nothing is read
            box = tuple(slice(part.start // 8 * 8, -(-part.stop // 8) * 8) for part in box)
        data[box] = 0 if number % 4 == 3 else number + 300
        array[box] = data[box]
    assert np.array_equal(array[...], data)
    assert np.array_equal(stored(array, s3), data)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("before", ["GET", "PUT"])
@pytest.mark.parametrize("which", [0, 1, 5])
def test_what_others_put_meanwhile_is_not_lost(s3: S3, proxy: Proxy, kind: str, before: str, which: int) -> None:
    """Before any of the requests of a change, by a program that shares no memory with this one."""
    array, data = create(s3, kind)
    other, theirs = create(s3, kind, seed=1)
    array[0] = data[0]  # whose indexes are known now
    target = open_store(array.store.address, "r+", s3.options)
    source = open_store(other.store.address, "r", s3.options)
    new: dict[str, Any] = {key: source.get(key) for key in (SHARDS_OF_VOLUMES if "volume" in kind else SHARDS)[1:3]}
    assert all(new.values())
    turn = 0

    def spoil(request: Request) -> None:
        nonlocal turn
        if request.method == before:
            turn += 1
            if turn == which + 1:
                proxy.spoil = None
                for key, value in new.items():
                    target.put(key, value)

    proxy.spoil = spoil
    array[3] = 7
    done = proxy.spoil is None
    proxy.spoil = None
    found = stored(array, s3)
    places = (np.s_[:, :32, 32:], np.s_[:, 32:, :32])
    for place in places if done else ():
        data[place] = theirs[place]
        # Requests are under way at once: theirs may come after ours, and are the last word then.
        if before == "PUT" and np.array_equal(found[place], theirs[place]):
            found[place][3] = 7
    data[3] = 7
    assert done or which
    assert np.array_equal(found, data)


@pytest.mark.parametrize("kind", ["one level", "index first", "volume"])
def test_what_was_foreseen_in_vain(s3: S3, kind: str) -> None:
    """Parts of chunks of which nothing is left leave other bytes to be kept than was thought, or none."""
    array, data = create(s3, kind)
    for rows in (slice(7, 16), slice(0, 7), slice(17, 32), slice(16, 17)):
        array[rows] = data[rows] = 0
        assert np.array_equal(stored(array, s3), data)
    array[5, 5, 5] = data[5, 5, 5] = 3
    assert np.array_equal(stored(array, s3), data)


@pytest.mark.parametrize("kind", ["volume", "packed volume"])
def test_shards_are_those_that_a_disk_gets(s3: S3, tmp_path: Path, kind: str) -> None:
    """With values that belong to no chunk, and bytes that belong to no value."""
    url = s3.url(f"together-{uuid.uuid4()}")
    far, near = make(kind, url, s3.options), make(kind, tmp_path)
    for array in (far, near):
        array[...] = 5
    spec = KINDS[kind]["sharding"]
    stores = [
        ShardedStore(open_store(f"{url}/1_1_1", "r+", s3.options), spec, mode="r+"),
        ShardedStore(tmp_path / "1_1_1", spec, mode="r+"),
    ]
    generator = np.random.default_rng(2)
    for store in stores:
        store.update([(5, store[5]), (70, store[70])], unindexed={5: b"before", 70: b"unmentioned"})
        store.update([(1 << 40, b"of no chunk"), (257, b"of none either")], encoded=True)
    for number in range(8):
        corner = generator.integers(0, SHAPE).tolist()
        box = tuple(slice(at, at + int(generator.integers(1, 40))) for at in corner)
        for array in (far, near):
            array[box] = 0 if number % 3 == 2 else number
    keys = [key.rpartition("/")[2] for key in near.store.list("1_1_1")]
    assert keys
    for key in keys:
        assert bytes(far.store.get(f"1_1_1/{key}") or b"") == bytes(near.store.get(f"1_1_1/{key}") or b""), key
    assert any(b"unmentioned" in bytes(near.store.get(f"1_1_1/{key}") or b"") for key in keys)


@pytest.mark.parametrize("method", ["GET", "PUT"])
@pytest.mark.parametrize("fault", [403, "reset"])
def test_a_change_that_fails_says_so(s3: S3, proxy: Proxy, method: str, fault: Any) -> None:
    array, data = create(s3)
    proxy.spoil = lambda request: fault if request.method == method and "/c/" in request.key else None
    with pytest.raises(zvcore.errors.StoreError):
        array[3] = 7
    proxy.spoil = None
    found = stored(array, s3)
    assert ((found == data) | (found == 7)).all()
    array[3] = data[3] = 7
    assert np.array_equal(stored(array, s3), data)
