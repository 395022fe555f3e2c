"""Arrays of every format in an object store: how many requests they cost, and what happens when those go wrong."""

from __future__ import annotations

import multiprocessing
import pickle
import threading
import uuid
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.stores.servers import PATIENCE
from zvcore.errors import ConflictError, CorruptDataError, NotFoundError, ReadOnlyError, StoreError, ZvcoreError
from zvcore.stores import MemoryStore, open_store
from zvcore.stores.indexes import index_cache

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.stores.servers import S3, Fault, Proxy, Request

SHARDED = {"chunks": (16, 16, 16), "shards": (32, 32, 32)}
FORMATS: dict[str, tuple[str, dict[str, Any]]] = {
    "zarr3": ("zarr3", {"chunks": (16, 16, 16)}),
    "zarr3-sharded": ("zarr3", SHARDED),
    "zarr3-index-first": ("zarr3", {**SHARDED, "index_location": "start"}),
    "n5": ("n5", {"chunks": (16, 16, 16)}),
    "zarr2": ("zarr2", {"chunks": (16, 16, 16)}),
    "precomputed": ("precomputed", {"chunks": (16, 16, 16)}),
    "precomputed-sharded": ("precomputed", {"chunks": (16, 16, 16), "sharding": "advise"}),
}
SHAPE = (40, 36, 32)


def values() -> np.ndarray:
    return np.random.default_rng(0).integers(1, 200, SHAPE, np.uint16)


@pytest.fixture
def url(s3: S3) -> str:
    return s3.url(f"remote-{uuid.uuid4()}")


def create(url: str, s3: S3, kind: str) -> tuple[zvcore.Array, np.ndarray]:
    """An array with something in it."""
    format, options = FORMATS[kind]
    array = zvcore.create(url, format=format, shape=SHAPE, dtype=np.uint16, storage_options=s3.options, **options)
    data = values().reshape(array.shape)
    array[...] = data
    return array, data


def reopen(url: str, s3: S3, mode: str = "r") -> zvcore.Array:
    """As another process would find it."""
    index_cache().clear()
    found = zvcore.open(url, mode, storage_options=s3.options)
    return found if isinstance(found, zvcore.Array) else found[0]


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format(s3: S3, url: str, kind: str) -> None:
    array, data = create(url, s3, kind)
    data = data.copy()
    other = reopen(url, s3, "r+")
    assert np.array_equal(other[...], data)
    other[3:30, 5:20, 7:9] = 7
    data[3:30, 5:20, 7:9] = 7
    # What the first has in its cache is not what is there any more.
    assert np.array_equal(array[...], data)
    array[:16, :16, :16] = 0
    data[:16, :16, :16] = 0
    assert np.array_equal(other[...], data)
    other[...] = 0
    assert not array[...].any()
    with pytest.raises(ReadOnlyError):
        reopen(url, s3)[0, 0, 0] = 1
    again = pickle.loads(pickle.dumps(other))
    assert not np.asarray(again[...]).any()


def requests_of(proxy: Proxy, action: Callable[[], object]) -> list[str]:
    """ "GET c/0/0/0 16-31" for each request that the action makes."""
    proxy.forget()
    action()
    return sorted(" ".join(filter(None, [one.method, one.key.partition("/")[2], one.range])) for one in proxy.requests)


def test_requests_of_a_sharded_zarr_array(s3: S3, url: str, proxy: Proxy) -> None:
    _, data = create(url, s3, "zarr3-sharded")
    found: list[zvcore.Array] = []
    note = "GET .zvcore-convert.json"
    # Which of the marks of the formats is there, all at once; and the note of a conversion, in the bucket's root too.
    asked = ["GET", "GET .zarray", "GET .zgroup", note, "GET attributes.json", "GET info", "GET zarr.json"]
    assert requests_of(proxy, lambda: found.append(reopen(url, s3))) == asked
    array = found[0]
    index = 16 * 8 + 4
    # The index and one chunk; then chunks only, each with the condition that the shard is still the same.
    first = requests_of(proxy, lambda: array[0:16, 0:16, 0:16])
    assert len(first) == s3.asks_for_ends + 1
    assert s3.asks_for_ends > 1 or f"GET c/0/0/0 -{index}" in first
    assert len(requests_of(proxy, lambda: array[0:16, 0:16, 16:32])) == 1
    assert proxy.requests[0].headers["if-match"]
    # Chunks that lie together come together: one request for each of the shards, whose indexes are read first.
    assert len(requests_of(proxy, lambda: array[...])) == 3 * s3.asks_for_ends + 4
    assert len(requests_of(proxy, lambda: array[...])) == 4
    opened = requests_of(proxy, lambda: zvcore.open(url, format="zarr3", storage_options=s3.options))
    assert opened == ["GET", note, "GET zarr.json"]
    # Whole shards are written without looking at them.
    writable = reopen(url, s3, "r+")
    assert requests_of(proxy, lambda: writable.write(np.s_[:32, :32], data[:32, :32])) == ["PUT c/0/0/0"]
    changed = requests_of(proxy, lambda: writable.write(np.s_[:16, :16, :16], data[:16, :16, :16]))
    # The index need not be asked for where the service has told the version of what was put just now.
    told = s3.scheme == "s3"
    index_asked = [] if told else ["GET", *["HEAD"] * (s3.asks_for_ends - 1)]
    assert sorted(one.split()[0] for one in changed) == sorted(["GET", *index_asked, "PUT"])


@pytest.mark.parametrize(
    ("kind", "cold"), [("n5", 1), ("precomputed", 3), ("precomputed-sharded", 3), ("zarr2", 1), ("zarr3", 1)]
)
def test_requests_of_other_formats(s3: S3, url: str, proxy: Proxy, kind: str, cold: int) -> None:
    _, data = create(url, s3, kind)
    found: list[zvcore.Array] = []
    assert len(requests_of(proxy, lambda: found.append(reopen(url, s3)))) == 7
    region = np.s_[0:16, 0:16, 0:16]
    assert len(requests_of(proxy, lambda: found[0][region])) == cold
    assert len(requests_of(proxy, lambda: found[0][region])) == 1
    assert np.array_equal(found[0][region], data[region])


def test_near_ranges_come_together(s3: S3, url: str, proxy: Proxy) -> None:
    store = open_store(url, "w", s3.options)
    data = np.random.default_rng(1).bytes(1 << 20)
    store.put("x", data)
    stamp = store.stamp("x")
    ranges = [(1000, 10), (1500, 20), (0, 5), (900_000, 100), (1510, 0)]
    proxy.forget()
    parts = store.get_ranges("x", ranges, stamp=stamp)
    assert parts == [data[start : start + length] for start, length in ranges]
    assert sorted(one.range for one in proxy.requests) == ["0-1519", "900000-900099"]
    proxy.forget()
    assert store.get_ranges("x", ranges) == parts
    assert [one.range for one in proxy.requests] == ["0-900099"]


def test_large_objects_are_stored_in_parts_and_read_in_parts(s3: S3, url: str, proxy: Proxy) -> None:
    store = open_store(url, "w", s3.options)
    data = np.random.default_rng(1).bytes((33 << 20) + 5)
    with store.writer("x") as writer:
        writer.write_at(0, data[: 20 << 20])
        writer.write_at(20 << 20, data[20 << 20 :])
    assert [one.method for one in proxy.requests].count("PUT") == 5 + s3.ends_with_puts
    stamp = store.stamp("x")
    proxy.forget()
    assert store.get_ranges("x", [(3, (33 << 20) - 7)], stamp=stamp) == [data[3:-9]]
    assert len(proxy.requests) == 5
    # With a condition it has to be one request.
    proxy.forget()
    with store.writer("x", stamp) as writer:
        writer.write_at(0, data[:-1])
    assert [one.method for one in proxy.requests] == ["PUT"]
    with pytest.raises(ConflictError), store.writer("x", stamp) as writer:
        writer.write_at(0, b"late")
    assert store.size("x") == len(data) - 1


# --- when requests go wrong


@pytest.mark.parametrize("fault", [500, 503, "reset", "lost", "cut", 0.3])
def test_passing_faults_are_overcome(s3: S3, url: str, proxy: Proxy, fault: Fault) -> None:
    array, data = create(url, s3, "zarr3-sharded")
    seen: set[tuple[str, str, str]] = set()
    turn = threading.Lock()

    def spoil(request: Request) -> Fault | None:
        """Whatever is asked for goes wrong once, in whichever order requests of several threads come."""
        with turn:
            known = len(seen)
            seen.add((request.method, request.path, request.range))
            return fault if len(seen) > known and not (fault == "cut" and request.method != "GET") else None

    proxy.spoil = spoil
    array[5:20, 5:20, 5:20] = 3
    expected = data.copy()
    expected[5:20, 5:20, 5:20] = 3
    assert np.array_equal(reopen(url, s3)[...], expected)
    assert len(seen) >= 4
    assert len(proxy.requests) > len(seen)


@pytest.mark.parametrize("fault", [500, "reset"])
def test_lasting_faults_are_clear_errors(s3: S3, url: str, proxy: Proxy, fault: Fault) -> None:
    create(url, s3, "zarr3-sharded")
    options = {**s3.options, "retry_config": {"max_retries": 1}}
    array = zvcore.open(url, "r+", storage_options=options)
    proxy.spoil = lambda _: fault
    for action in (
        lambda: array[...],
        lambda: array.write(..., 1),
        lambda: zvcore.open(url, storage_options=options),
        lambda: list(open_store(url, "r", options).list()),
        lambda: open_store(url, "r+", options).delete("zarr.json"),
    ):
        with pytest.raises(StoreError, match=r"500|error sending|connection|closed") as caught:
            action()
        assert isinstance(caught.value, OSError)
        assert caught.value.key
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("status", [409, 412])
def test_a_condition_that_is_refused_although_it_holds_is_no_other_writer(
    s3: S3, url: str, proxy: Proxy, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(url, s3, "zarr3")
    array = zvcore.open(url, "r+", storage_options={**s3.options, "retry_config": {"max_retries": 0}})
    monkeypatch.setattr("time.sleep", lambda _: None)
    proxy.spoil = lambda request: status if request.method == "PUT" else None
    for change, text in (((1, 1, 1), "a condition that holds"), (..., "")):
        proxy.forget()
        with pytest.raises(StoreError, match=f"{text}.*status code: {status}"):
            array[change] = 7
        # Each chunk is tried a few times, and not as often as other writers are given way to.
        assert len(proxy.seen("PUT")) < 100


@pytest.mark.parametrize("stamped", [False, True])
def test_an_object_that_is_replaced_while_its_answer_breaks(
    s3_process: S3, s3: S3, url: str, proxy: Proxy, stamped: bool
) -> None:
    old, new = b"o" * 500_000, b"n" * 500_000
    store, theirs = open_store(url, "w", s3.options), open_store(url, "w", s3_process.options)
    store.put("x", old)
    stamp = store.stamp("x") if stamped else None
    answers = 0

    def spoil(request: Request) -> Fault | None:
        nonlocal answers
        if request.method != "GET":
            return None
        answers += 1
        if answers == 2:
            theirs.put("x", new)
        return "cut" if answers == 1 else None

    proxy.spoil = spoil
    if stamped:
        with pytest.raises(ConflictError):
            store.get("x", stamp=stamp)
    else:
        assert bytes(store.get("x") or b"") == new
    assert answers > 1


def test_a_condition_that_is_refused_in_passing_loses_nothing(s3: S3, url: str, proxy: Proxy) -> None:
    array, data = create(url, s3, "zarr3")
    answers = iter([412, 412])
    proxy.spoil = lambda request: next(answers, None) if request.method == "PUT" else None
    array[1, 1, 1] = 300
    data[1, 1, 1] = 300
    assert np.array_equal(reopen(url, s3)[...], data)


def test_a_server_that_fails_is_no_other_writer_whatever_the_name(s3: S3, url: str, proxy: Proxy) -> None:
    name = "409"
    store = open_store(url, "w", {**s3.options, "retry_config": {"max_retries": 0}})
    store.put(name, b"one")
    proxy.spoil = lambda request: 500 if request.method == "PUT" else None
    with pytest.raises(StoreError, match="status code: 500"):
        store.put_if_unchanged(name, b"two", store.stamp(name))


def test_refused_access_is_no_missing_data(s3: S3, url: str, proxy: Proxy) -> None:
    create(url, s3, "zarr3-sharded")
    array = reopen(url, s3)
    proxy.spoil = lambda request: 403 if "/c/" in request.key else None
    with pytest.raises(StoreError, match="refused"):
        array[...]


def test_what_is_not_there(s3: S3, url: str) -> None:
    for mode in ("r", "r+"):
        with pytest.raises(NotFoundError, match="there is nothing here"):
            zvcore.open(url, mode, storage_options=s3.options)
    with pytest.raises(ZvcoreError, match="bucket"):
        zvcore.open(f"{s3.scheme}://no-such-bucket/a", storage_options=s3.options)
    with pytest.raises(ZvcoreError, match="bucket"):
        zvcore.create(
            f"{s3.scheme}://no-such-bucket/a", format="n5", shape=(4,), dtype="u1", storage_options=s3.options
        )
    zvcore.create(url, format="zarr3", shape=(4,), dtype="u1", storage_options=s3.options)
    with pytest.raises(ConflictError):
        zvcore.create(url, format="zarr3", shape=(4,), dtype="u1", storage_options=s3.options)


# --- when others change objects


@pytest.mark.parametrize("kind", ["zarr3-sharded", "zarr3-index-first", "precomputed-sharded"])
def test_a_shard_that_changes_between_its_index_and_its_chunks(s3: S3, url: str, proxy: Proxy, kind: str) -> None:
    writer, data = create(url, s3, kind)
    times = 0
    turn = threading.Lock()

    def spoil(request: Request) -> None:
        nonlocal times
        # Several shards are asked for at once; each change is whole before the next begins.
        with turn:
            if times < 3 and "if-match" in request.headers and request.method == "GET":
                times += 1
                proxy.spoil = None
                writer[...] = data + times
                proxy.spoil = spoil

    array = reopen(url, s3)
    proxy.spoil = spoil
    assert np.array_equal(array[...], data + times)
    assert times >= 1


def test_a_shard_that_always_changes_is_an_error(s3: S3, url: str, proxy: Proxy, monkeypatch: Any) -> None:
    writer, data = create(url, s3, "zarr3-sharded")
    monkeypatch.setattr("zvcore.stores.again._ATTEMPTS", 3)
    array = reopen(url, s3)
    times = 0

    def spoil(request: Request) -> None:
        nonlocal times
        if request.method == "GET" and "if-match" in request.headers:
            times += 1
            proxy.spoil = None
            writer[...] = data + times
            proxy.spoil = spoil

    proxy.spoil = spoil
    with pytest.raises(ConflictError, match="replaced faster than"):
        array[:16, :16, :16]
    # Each attempt asks quickly, and then those who can say why that failed.
    assert times == (2 * 3 if s3.signs else 3)


def test_chunks_that_appear_are_seen(s3: S3, url: str) -> None:
    """An index in the cache that says "nothing there" is not believed without asking."""
    writer = zvcore.create(url, format="zarr3", shape=SHAPE, dtype="u2", storage_options=s3.options, **SHARDED)
    array = reopen(url, s3)
    assert not array[...].any()
    writer[0, 0, 0] = 5
    assert array[0, 0, 0] == 5
    assert array[20, 20, 20] == 0  # the index of this shard is known now, and has nothing there
    other = pickle.loads(pickle.dumps(writer))
    other[20, 20, 20] = 6
    assert array[20, 20, 20] == 6


@pytest.mark.parametrize("kind", ["zarr3-sharded", "precomputed-sharded", "n5", "zarr3"])
@pytest.mark.parametrize("shared", [True, False], ids=["same-chunk", "other-chunks"])
def test_another_writer_in_the_middle_of_a_change(s3: S3, url: str, proxy: Proxy, kind: str, shared: bool) -> None:
    ours, data = create(url, s3, kind)
    theirs = pickle.loads(pickle.dumps(ours))
    done = False

    def spoil(request: Request) -> None:
        nonlocal done
        if request.method == "PUT" and not done:
            done = True
            theirs[(9, 9, 9) if shared else (20, 20, 20)] = 0

    proxy.spoil = spoil
    ours[1, 1, 1] = 300
    expected = data.copy()
    expected[1, 1, 1] = 300
    expected[(9, 9, 9) if shared else (20, 20, 20)] = 0
    assert done
    assert np.array_equal(reopen(url, s3)[...], expected)


def test_emptying_a_chunk_does_not_remove_what_another_writer_has_put_there(s3: S3, url: str, proxy: Proxy) -> None:
    for kind in ("n5", "zarr3-sharded", "precomputed-sharded", "zarr3"):
        array, _ = create(f"{url}/{kind}", s3, kind)
        array[...] = 0
        array[2, 2, 2] = 9
        theirs = pickle.loads(pickle.dumps(array))
        done = False

        def spoil(request: Request, theirs: zvcore.Array = theirs) -> None:
            nonlocal done
            if request.method in ("PUT", "DELETE") and not done:
                done = True
                theirs[3, 3, 3] = 8

        proxy.spoil = spoil
        array[2, 2, 2] = 0
        proxy.spoil = None
        assert done
        assert array[3, 3, 3] == 8, kind
        assert array[2, 2, 2] == 0


def _count(url: str, options: dict[str, Any], numbers: range, barrier: Any) -> None:
    found = zvcore.open(url, "r+", storage_options=options)
    array = found if isinstance(found, zvcore.Array) else found[0]
    barrier.wait(PATIENCE)
    flat = np.array(np.unravel_index(list(numbers), (4, 4, 4))).T
    for x, y, z in flat.tolist():
        array[x, y, z] = 1 + x * 16 + y * 4 + z
    found.attrs[f"writer-{numbers.start}"] = True


@pytest.mark.parametrize("kind", ["zarr3-sharded", "n5"])
def test_processes_that_write_one_object_lose_nothing(s3_process: S3, kind: str) -> None:
    url = s3_process.url(f"processes-{uuid.uuid4()}")
    array, _ = create(url, s3_process, kind)
    array[:4, :4, :4] = 0
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    workers = [
        context.Process(target=_count, args=(url, s3_process.options, range(start, 16, 2), barrier))
        for start in range(2)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(PATIENCE)
        assert worker.exitcode == 0
    found = reopen(url, s3_process)
    assert found[0, :4, :4].ravel().tolist() == [1 + i for i in range(16)]
    assert {name for name in found.attrs if name.startswith("writer")} == {"writer-0", "writer-1"}


def test_threads_that_change_attributes_lose_nothing(s3_process: S3) -> None:
    url = s3_process.url(f"threads-{uuid.uuid4()}")
    create(url, s3_process, "zarr3")
    arrays = [reopen(url, s3_process, "r+") for _ in range(4)]

    def write(number: int) -> None:
        for i in range(3):
            arrays[number].attrs[f"{number}-{i}"] = i

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(reopen(url, s3_process).attrs) == 12


def test_a_server_that_gives_less_than_it_was_asked_for(s3: S3, url: str, monkeypatch: Any) -> None:
    array, _ = create(url, s3, "zarr3-sharded")
    client = array.layout.store._client
    get = client.get

    def short(*args: Any) -> Any:
        found = get(*args)
        return found._replace(data=found.data[:-1])

    array[0, 0, 0]
    monkeypatch.setattr(client, "get", short)
    monkeypatch.setattr(client, "get_each", lambda *_: None)
    with pytest.raises(CorruptDataError, match="another number of bytes"):
        array[0, 0, 0]


@pytest.mark.parametrize("kind", ["zarr3", "n5", "precomputed"])
def test_what_only_marks_a_folder_is_no_object(s3: S3, url: str, kind: str) -> None:
    """Consoles and other libraries store empty objects whose names end with a slash: they could not be copied."""
    if s3.scheme != "s3":
        pytest.skip("made with the library of S3")
    import boto3

    _, data = create(url, s3, kind)
    store = open_store(url, "r+", s3.options)
    store.put("empty", b"")
    listed = list(store.list())
    client = boto3.client(
        "s3", endpoint_url=s3.endpoint, region_name="us-east-1", aws_access_key_id=s3.options["access_key_id"],
        aws_secret_access_key=s3.options["secret_access_key"],
    )  # fmt: skip
    prefix = url.partition("://")[2].partition("/")[2]
    for name in ("", "c/", "0/", "0/0/", "1_1_1/", "alone/"):
        client.put_object(Bucket=s3.bucket, Key=f"{prefix}/{name}", Body=b"")
    client.close()
    assert list(store.list()) == listed, "an object that is only empty stays one"
    names = {key for key in listed if "/" not in key}
    assert set(store.list_dir()[1]) == names and set(store.some_objects("", 1000)) >= names
    copy = MemoryStore()
    assert zvcore.copy(store, copy).ok
    found = zvcore.open(copy)
    np.testing.assert_array_equal((found if isinstance(found, zvcore.Array) else found[0])[...], data)


def test_names_that_urls_would_misread(s3: S3, url: str) -> None:
    for name in ("a b", "a+b", "50%", "ä/ö", "q?x#y", "a=b&c", "~"):
        array = zvcore.create(
            f"{url}/{name}", format="zarr3", shape=(4,), dtype="u1", chunks=(4,), storage_options=s3.options
        )
        array[...] = 5
        assert zvcore.open(f"{url}/{name}", storage_options=s3.options)[...].tolist() == [5] * 4
        assert sorted(open_store(f"{url}/{name}", "r", s3.options).list()) == ["c/0", "zarr.json"]
    assert {"a b", "50%", "q?x#y"} <= set(open_store(url, "r", s3.options).list_dir()[0])


@pytest.mark.parametrize("kind", FORMATS)
def test_chunks_here_and_there(s3: S3, url: str, kind: str) -> None:
    array, _ = create(url, s3, kind)
    array[16:32, 16:32, 16:32] = 0
    places = [tuple(one) for one in np.random.default_rng(3).permutation(list(np.ndindex(array.grid))).tolist()]
    for place, found in zip(places, reopen(url, s3).read_blocks(places), strict=True):
        expected = array.read_block(place)
        assert (found is None) == (expected is None)
        assert found is None or np.array_equal(found, expected)
    assert array.read_blocks([]) == []


@pytest.mark.parametrize("own", [True, False], ids=["own connections", "one call"])
def test_many_ranges_at_once_are_of_one_version(
    s3: S3, url: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    if own and not s3.signs:
        pytest.skip("nothing is signed here")
    monkeypatch.setattr("zvcore.stores.one_place._SETTLED_AFTER", -1.0)
    monkeypatch.setattr("zvcore.stores.one_place._NEAR", 60.0)
    store = open_store(url, "w", s3.options)
    assert store._client._own.ranges.goes  # type: ignore[attr-defined]
    monkeypatch.setattr(store._client._own.ranges, "possible", own)  # type: ignore[attr-defined]
    data = np.random.default_rng(1).bytes(1 << 20)
    store.put("x", data)
    found = store.snapshot("x", -10)
    assert found is not None and found.data == data[-10:] and found.size == len(data)
    ranges = [(start, 100) for start in range(0, 900_000, 90_000)]
    proxy.forget()
    assert store.get_ranges("x", ranges, stamp=found.stamp) == [data[start : start + 100] for start, _ in ranges]
    assert len(proxy.requests) == len(ranges)
    # Of one call, all but the last ask for no version; the last shows that none of them was of another.
    assert sum("if-match" in one.headers for one in proxy.requests) == (len(ranges) if own else 1)
    assert all(one.headers.get("user-agent") == "zvcore" for one in proxy.requests) == own

    def spoil(request: Request) -> None:
        proxy.spoil = None
        store.put("x", data[::-1])

    proxy.spoil = spoil
    with pytest.raises(ConflictError):
        store.get_ranges("x", ranges, stamp=found.stamp)


def test_converting_there_and_back_and_making_it_coarser(s3: S3, url: str, tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 999, SHAPE, dtype=np.uint16)
    zvcore.create(tmp_path / "a", format="zarr3", shape=SHAPE, dtype="u2", chunks=(16, 16, 16))[...] = values
    given = {"verify": True, "storage_options": s3.options}
    there = zvcore.convert(tmp_path / "a", f"{url}/volume", format="precomputed", sharding="advise", **given)
    assert there.ok and there.verified
    assert zvcore.downsample(f"{url}/volume", levels=1, storage_options=s3.options).ok
    assert len(zvcore.open(f"{url}/volume", storage_options=s3.options)) == 2
    assert zvcore.verify(f"{url}/volume", storage_options=s3.options).ok
    assert zvcore.convert(f"{url}/volume", tmp_path / "back", format="zarr3", **given).verified
    back = zvcore.open(tmp_path / "back")
    np.testing.assert_array_equal(next(iter(back.values()))[...], values)
    with pytest.raises(ValueError, match="neither"):
        zvcore.convert(tmp_path / "a", tmp_path / "b", format="n5", storage_options=s3.options)


def test_ranges_at_the_end_and_behind_it(s3: S3, url: str) -> None:
    store = open_store(url, "w", s3.options)
    store.put("x", b"0123456789")
    for start, length, expected in ((9, 5, b"9"), (10, None, b""), (10, 5, b""), (11, 5, b""), (10**9, 5, b"")):
        assert store.get("x", start, length) == expected
    assert store.get("x", -4) == b"6789"
    assert store.get("x", -40) == b"0123456789"
    found = store.snapshot("x", 10, 5)
    assert found is not None and (found.data, found.size) == (b"", 10)
    with pytest.raises(CorruptDataError):
        store.get_ranges("x", [(8, 3)])
    store.put("empty", b"")
    assert store.get("empty") == store.get("empty", 0, 5) == store.get("empty", -5) == b""


def test_removing_many_of_which_another_has_removed_some(s3: S3, url: str, proxy: Proxy) -> None:
    store = open_store(url, "w", s3.options)
    for number in range(8):
        store.put(f"d/{number}", b"1")
    other = open_store(url, "r+", s3.options)

    def spoil(request: Request) -> None:
        if "list" in request.path or request.method not in ("POST", "DELETE"):
            return
        proxy.spoil = None
        other.delete("d/2")
        other.delete("d/5")

    proxy.spoil = spoil
    assert store.delete_prefix("d") == 8
    assert proxy.spoil is None
    assert list(store.list()) == []
