"""The index cache: what it keeps, when it looks again, and what threads and forks do to it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.processes import PATIENCE
from zvcore.engine import cache as cache_module
from zvcore.engine.cache import IndexCache, index_cache
from zvcore.errors import ConflictError, CorruptDataError
from zvcore.stores import LocalStore, MemoryStore, Stamp, Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ENTRY = 512  # what the cache counts for an entry besides its value


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return LocalStore(tmp_path) if request.param == "local" else MemoryStore()


class Loader:
    """Loads an object as the value, and counts."""

    def __init__(self, store: Store, key: str, nbytes: int = 100) -> None:
        self.store = store
        self.key = key
        self.nbytes = nbytes
        self.calls = 0

    def __call__(self, stamp: Stamp) -> tuple[bytes, int]:
        self.calls += 1
        data = self.store.get(self.key, stamp=stamp)
        assert data is not None
        return bytes(data), self.nbytes


def settle(store: Store, key: str) -> None:
    """Wait until the object is old enough for a cache to rely on its stamp."""
    deadline = time.monotonic() + PATIENCE
    while (stamp := store.stamp(key)) is not None and not store.settled(stamp):
        assert time.monotonic() < deadline
        time.sleep(0.001)


def put(store: Store, key: str, data: bytes) -> None:
    store.put(key, data)
    settle(store, key)


def test_loads_once(store: Store) -> None:
    cache = IndexCache(10_000)
    put(store, "a/x", b"1")
    load = Loader(store, "a/x")
    first = cache.get(store, "a/x", load)
    assert first == b"1"
    for _ in range(5):
        assert cache.get(store, "a/x", load) is first
    assert load.calls == 1
    assert len(cache) == 1
    assert cache.nbytes == 100 + ENTRY


def test_one_object_through_many_stores(tmp_path: Path) -> None:
    cache = IndexCache(10_000)
    store = LocalStore(tmp_path)
    put(store, "a/b/x", b"1")
    load = Loader(store, "a/b/x")
    for view, key in (
        (store, "a/b/x"),
        (LocalStore(tmp_path, read_only=True), "a/b/x"),
        (store.child("a"), "b/x"),
        (LocalStore(tmp_path / "a" / "b"), "x"),
    ):
        assert cache.get(view, key, load) == b"1"
    assert load.calls == 1
    cache.invalidate(store.child("a/b"), "x")
    assert len(cache) == 0


def test_same_key_in_two_stores(tmp_path: Path) -> None:
    cache = IndexCache(10_000)
    one, two = LocalStore(tmp_path / "1"), LocalStore(tmp_path / "2")
    put(one, "x", b"1")
    put(two, "x", b"2")
    for _ in range(2):
        assert cache.get(one, "x", Loader(one, "x")) == b"1"
        assert cache.get(two, "x", Loader(two, "x")) == b"2"
    assert len(cache) == 2


def test_a_missing_object_is_not_loaded(store: Store) -> None:
    cache = IndexCache(10_000)
    load = Loader(store, "x")
    assert cache.get(store, "x", load) is None
    put(store, "x", b"1")
    assert cache.get(store, "x", load) == b"1"
    store.delete("x")
    assert cache.get(store, "x", load) is None
    assert load.calls == 1
    assert (len(cache), cache.nbytes) == (0, 0)


def test_changes_are_seen(store: Store) -> None:
    cache = IndexCache(10_000)
    put(store, "x", b"0000")
    changes: list[Callable[[], None]] = [
        lambda: store.put("x", b"1111"),
        lambda: store.put_if_unchanged("x", b"2222", store.stamp("x")),
        lambda: store.patch("x", 0, b"3333"),
        lambda: store.append("x", b"4", at=4),
        lambda: (store.delete("x"), store.put("x", b"5555"))[1],
    ]
    for wait in (True, False):
        for change in changes:
            store.put("x", b"0000")
            if wait:
                settle(store, "x")
            assert cache.get(store, "x", Loader(store, "x")) == b"0000"
            change()
            assert cache.get(store, "x", Loader(store, "x")) == store.get("x") != b"0000"


def test_changes_in_place_within_one_tick_of_the_clock_are_seen(tmp_path: Path) -> None:
    """By a program that knows nothing of us: size and inode stay."""
    cache = IndexCache(10_000)
    store = LocalStore(tmp_path)
    path = tmp_path / "x"
    path.write_bytes(b"----")
    for i in range(500):
        with path.open("r+b") as file:
            file.write(b"%04d" % i)
        assert cache.get(store, "x", Loader(store, "x")) == b"%04d" % i


def test_replacements_within_one_tick_of_the_clock_are_seen(tmp_path: Path) -> None:
    """By a program that knows nothing of us. After two of them, the first file's inode number is in use again."""
    cache = IndexCache(10_000)
    store = LocalStore(tmp_path)
    for i in range(500):
        for value in (b"a%03d", b"b%03d"):
            (tmp_path / "new").write_bytes(value % i)
            os.replace(tmp_path / "new", tmp_path / "x")
        assert cache.get(store, "x", Loader(store, "x")) == b"b%03d" % i


def test_an_object_that_changed_just_now_is_loaded_but_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = IndexCache(10_000)
    store = LocalStore(tmp_path)
    put(store, "x", b"1")
    monkeypatch.setattr(LocalStore, "settled", lambda self, stamp: False)
    assert cache.get(store, "x", Loader(store, "x")) == b"1"
    assert len(cache) == 0
    monkeypatch.undo()
    assert cache.get(store, "x", Loader(store, "x")) == b"1"
    assert len(cache) == 1


def test_parts_of_one_object(store: Store) -> None:
    cache = IndexCache(10_000)
    put(store, "x", b"1")
    put(store, "y", b"1")
    loads = {part: Loader(store, "x") for part in (None, 0, 1, ("a", 2))}
    for _ in range(2):
        for part, load in loads.items():
            assert cache.get(store, "x", load, part=part) == b"1"
    cache.get(store, "y", Loader(store, "y"), part=0)
    assert [load.calls for load in loads.values()] == [1, 1, 1, 1]
    assert len(cache) == 5
    cache.invalidate(store, "x")
    assert len(cache) == 1
    assert cache.nbytes == 100 + ENTRY
    cache.invalidate(store, "x")
    cache.invalidate(store, "never seen")


def test_is_bounded_and_drops_what_was_not_used_longest(store: Store) -> None:
    cache = IndexCache(3 * (100 + ENTRY))
    loads = {}
    for name in "abcd":
        store.put(name, name.encode())
        loads[name] = Loader(store, name)
    settle(store, "d")
    for name in "abc":
        cache.get(store, name, loads[name])
    cache.get(store, "a", loads["a"])
    cache.get(store, "d", loads["d"])  # and b goes
    for name in "acd":
        cache.get(store, name, loads[name])
    assert [loads[name].calls for name in "abcd"] == [1, 1, 1, 1]
    cache.get(store, "b", loads["b"])  # and a goes
    cache.get(store, "a", loads["a"])
    assert [loads[name].calls for name in "abcd"] == [2, 2, 1, 1]
    assert cache.nbytes <= cache.max_bytes


def test_what_is_larger_than_the_cache_is_not_kept_and_pushes_nothing_out(store: Store) -> None:
    cache = IndexCache(1000)
    put(store, "small", b"1")
    put(store, "large", b"1")
    small, large = Loader(store, "small"), Loader(store, "large", nbytes=10_000)
    cache.get(store, "small", small)
    for _ in range(2):
        assert cache.get(store, "large", large) == b"1"
        cache.get(store, "small", small)
    assert (small.calls, large.calls) == (1, 2)


def test_no_cache(store: Store) -> None:
    cache = IndexCache(0)
    put(store, "x", b"1")
    load = Loader(store, "x", nbytes=0)
    for _ in range(3):
        assert cache.get(store, "x", load) == b"1"
    assert load.calls == 3
    assert len(cache) == 0
    with pytest.raises(ValueError, match="-1 bytes"):
        IndexCache(-1)


def test_many_values_that_are_small_by_their_own_account(store: Store) -> None:
    """Bookkeeping takes memory too."""
    cache = IndexCache(50 * ENTRY)
    put(store, "x", b"")
    for i in range(500):
        cache.get(store, "x", lambda stamp: (b"", 0), part=i)
    assert len(cache) == 50


def test_values_that_grow_in_use(store: Store) -> None:
    cache = IndexCache(2 * (100 + ENTRY))
    loads = {name: Loader(store, name) for name in "abc"}
    for name in "abc":
        put(store, name, name.encode())
    values = {name: cache.get(store, name, loads[name]) for name in "ab"}
    cache.resize(store, "a", values["a"], 90)
    assert cache.nbytes == 90 + 100 + 2 * ENTRY
    cache.resize(store, "a", values["a"], 101)  # and b, not used for longer, has to go
    assert cache.nbytes == 101 + ENTRY
    cache.resize(store, "a", object(), 5)  # another value than the one that is kept
    cache.resize(store, "b", values["b"], 5)
    assert cache.nbytes == 101 + ENTRY
    cache.resize(store, "a", values["a"], 10_000)
    assert (len(cache), cache.nbytes) == (0, 0)


def test_clear(store: Store) -> None:
    cache = IndexCache(10_000)
    put(store, "x", b"1")
    load = Loader(store, "x")
    cache.get(store, "x", load)
    cache.clear()
    assert (len(cache), cache.nbytes) == (0, 0)
    cache.get(store, "x", load)
    assert load.calls == 2


# --- threads


class Slow(Loader):
    """Loads when told to."""

    def __init__(self, store: Store, key: str) -> None:
        super().__init__(store, key)
        self.entered = threading.Semaphore(0)
        self.go = threading.Event()

    def __call__(self, stamp: Stamp) -> tuple[bytes, int]:
        answer = super().__call__(stamp)
        self.entered.release()
        assert self.go.wait(PATIENCE)
        return answer


class Thread(threading.Thread):
    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self.work = work
        self.value: Any = None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.value = self.work()
        except BaseException as error:
            self.error = error

    def result(self) -> Any:
        self.join(PATIENCE)
        assert not self.is_alive(), "still waiting"
        if self.error is not None:
            raise self.error
        return self.value


def wait_for(threads: list[Thread]) -> None:
    """Until all of them stand still in `Event.wait`: there is nothing else they could be waiting for."""
    deadline = time.monotonic() + PATIENCE
    while True:
        frames = sys._current_frames()
        inside = [frames.get(thread.ident or 0) for thread in threads]
        if all(frame is not None and frame.f_code.co_name == "wait" for frame in inside):
            return
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_many_threads_load_once(store: Store) -> None:
    cache = IndexCache(10_000)
    put(store, "x", b"1")
    load = Slow(store, "x")
    threads = [Thread(lambda: cache.get(store, "x", load)) for _ in range(8)]
    assert load.entered.acquire(timeout=PATIENCE)
    wait_for(threads)
    load.go.set()
    values = [thread.result() for thread in threads]
    assert all(value is values[0] for value in values)
    assert load.calls == 1


def test_other_objects_do_not_wait(store: Store) -> None:
    cache = IndexCache(10_000)
    put(store, "x", b"1")
    put(store, "y", b"2")
    load = Slow(store, "x")
    thread = Thread(lambda: cache.get(store, "x", load))
    assert load.entered.acquire(timeout=PATIENCE)
    assert cache.get(store, "y", Loader(store, "y")) == b"2"
    assert cache.get(store, "x", Loader(store, "x"), part=1) == b"1"
    load.go.set()
    assert thread.result() == b"1"


def test_a_failure_fails_all_that_wait_and_nobody_after(store: Store) -> None:
    cache = IndexCache(10_000)
    put(store, "x", b"1")
    go = threading.Event()
    calls = []

    def fail(stamp: Stamp) -> tuple[bytes, int]:
        calls.append(1)
        assert go.wait(PATIENCE)
        raise CorruptDataError("the index is broken", key="x")

    def work() -> Any:
        try:
            cache.get(store, "x", fail)
        except CorruptDataError as error:
            return error.located(chunk=threading.get_ident())

    threads = [Thread(work) for _ in range(5)]
    wait_for(threads)
    go.set()
    errors = [thread.result() for thread in threads]
    assert len(calls) == 1
    # Each has an error of its own, with what it says of itself.
    assert len({error.chunk for error in errors}) == 5
    assert {(error.message, error.key) for error in errors} == {("the index is broken", "x")}
    assert cache.get(store, "x", Loader(store, "x")) == b"1"


def test_other_errors_are_passed_on(store: Store) -> None:
    cache = IndexCache(10_000)
    put(store, "x", b"1")
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            cache.get(store, "x", lambda stamp: (1 // 0, 1))
    assert cache.get(store, "x", Loader(store, "x")) == b"1"


def test_when_the_loading_thread_is_interrupted_another_takes_over(store: Store) -> None:
    cache = IndexCache(10_000)
    put(store, "x", b"1")
    go = threading.Event()
    load = Loader(store, "x")

    def interrupted(stamp: Stamp) -> tuple[bytes, int]:
        assert go.wait(PATIENCE)
        raise KeyboardInterrupt

    first = Thread(lambda: cache.get(store, "x", interrupted))
    wait_for([first])
    others = [Thread(lambda: cache.get(store, "x", load)) for _ in range(4)]
    wait_for(others)
    go.set()
    with pytest.raises(KeyboardInterrupt):
        first.result()
    assert [thread.result() for thread in others] == [b"1"] * 4
    assert load.calls == 1


def test_a_loader_that_needs_itself_is_an_error_and_no_hang(store: Store) -> None:
    cache = IndexCache(10_000)
    put(store, "x", b"1")

    def load(stamp: Stamp) -> tuple[Any, int]:
        return cache.get(store, "x", load), 1

    with pytest.raises(RuntimeError, match="needs this index"):
        cache.get(store, "x", load)
    assert cache.get(store, "x", Loader(store, "x")) == b"1"


def test_a_loader_may_need_another_part(store: Store) -> None:
    cache = IndexCache(10_000)
    put(store, "x", b"1")
    inner = Loader(store, "x")

    def load(stamp: Stamp) -> tuple[bytes, int]:
        return (cache.get(store, "x", inner) or b"") * 2, 1

    assert cache.get(store, "x", load, part=7) == b"11"
    assert cache.get(store, "x", inner) == b"1"
    assert inner.calls == 1


def test_a_change_while_loading(store: Store) -> None:
    """Whoever asks after the change gets the new value, and the old one is not kept."""
    cache = IndexCache(10_000)
    put(store, "x", b"old")
    slow = Slow(store, "x")
    early = Thread(lambda: cache.get(store, "x", slow))
    assert slow.entered.acquire(timeout=PATIENCE)
    put(store, "x", b"new")
    load = Loader(store, "x")
    assert cache.get(store, "x", load) == b"new"
    slow.go.set()
    assert early.result() == b"old"
    assert cache.get(store, "x", load) == b"new"
    assert load.calls == 1
    assert len(cache) == 1


def test_invalidating_while_loading(store: Store) -> None:
    """As after an own write that the stamp would not show."""
    cache = IndexCache(10_000)
    put(store, "x", b"1")
    slow = Slow(store, "x")
    early = Thread(lambda: cache.get(store, "x", slow))
    assert slow.entered.acquire(timeout=PATIENCE)
    cache.invalidate(store, "x")
    load = Loader(store, "x")
    assert cache.get(store, "x", load) == b"1"  # and does not wait for what began before
    assert load.calls == 1
    slow.go.set()
    early.result()
    assert cache.get(store, "x", load) == b"1"
    assert load.calls == 1


def test_a_loading_that_was_overtaken_leaves_the_next_one_alone(store: Store) -> None:
    cache = IndexCache(10_000)
    put(store, "x", b"1")
    slow = [Slow(store, "x"), Slow(store, "x")]
    first = Thread(lambda: cache.get(store, "x", slow[0]))
    assert slow[0].entered.acquire(timeout=PATIENCE)
    cache.invalidate(store, "x")
    second = Thread(lambda: cache.get(store, "x", slow[1]))
    assert slow[1].entered.acquire(timeout=PATIENCE)
    slow[0].go.set()
    first.result()
    assert len(cache) == 0
    third = Thread(lambda: cache.get(store, "x", Loader(store, "x")))
    wait_for([third])
    slow[1].go.set()
    assert third.result() is second.result()
    assert len(cache) == 1


def test_an_object_that_changes_between_stamp_and_reading_is_loaded_again(store: Store) -> None:
    cache = IndexCache(10_000)
    put(store, "x", b"0")
    calls = []

    def load(stamp: Stamp) -> tuple[bytes, int]:
        calls.append(stamp)
        if len(calls) < 4:
            put(store, "x", b"%d" % len(calls))
        data = store.get("x", stamp=stamp)
        assert data is not None
        return bytes(data), 1

    assert cache.get(store, "x", load) == b"3"
    assert len(calls) == len(set(calls)) == 4


def test_an_object_that_never_stands_still(store: Store) -> None:
    cache = IndexCache(10_000)
    put(store, "x", b"0")
    calls = []

    def load(stamp: Stamp) -> tuple[bytes, int]:
        calls.append(1)
        store.put("x", b"%d" % len(calls))
        return bytes(store.get("x", stamp=stamp) or b""), 1

    with pytest.raises(ConflictError):
        cache.get(store, "x", load)
    assert 1 < len(calls) < 100


def test_a_conflict_that_has_nothing_to_do_with_the_object(store: Store) -> None:
    cache = IndexCache(10_000)
    put(store, "x", b"0")
    calls = []

    def load(stamp: Stamp) -> tuple[bytes, int]:
        calls.append(1)
        raise ConflictError("something else", key="y")

    with pytest.raises(ConflictError, match="something else"):
        cache.get(store, "x", load)
    assert len(calls) == 1


def test_threads_and_changes_at_once(store: Store) -> None:
    """Under a cache too small for all, with writers: never a value of an older version than was there when asked."""
    cache = IndexCache(3 * (100 + ENTRY))
    keys = [f"k{i}" for i in range(5)]
    newest = dict.fromkeys(keys, 0)
    for key in keys:
        store.put(key, b"0")
    stop = threading.Event()

    def write() -> None:
        for i in range(1, 150):
            for key in keys:
                store.put(key, b"%d" % i)
                newest[key] = i
        stop.set()

    def read() -> int:
        loads = {key: Loader(store, key) for key in keys}
        count = 0
        while not stop.is_set():
            for key in keys:
                before = newest[key]
                try:
                    value = cache.get(store, key, loads[key])
                except ConflictError:  # 20 changes in a row
                    continue
                assert value is not None
                assert int(value) >= before
                count += 1
        return count

    readers = [Thread(read) for _ in range(4)]
    Thread(write).result()
    assert all(reader.result() > 0 for reader in readers)
    assert cache.nbytes == len(cache) * (100 + ENTRY) <= cache.max_bytes


# --- processes


def test_a_fork_while_loading(tmp_path: Path) -> None:
    """The child neither waits for its parent's threads nor finds their lock taken."""
    put(LocalStore(tmp_path), "x", b"1")
    script = """
        import os, signal, sys, threading
        from zvcore.engine.cache import IndexCache, index_cache
        from zvcore.stores import LocalStore
        store = LocalStore(sys.argv[1])
        entered, go, stop = threading.Event(), threading.Event(), threading.Event()
        def slow(stamp):
            entered.set()
            go.wait()
            return b"parent", 1
        caches = [IndexCache(10_000), index_cache()]
        loading = [threading.Thread(target=cache.get, args=(store, "x", slow)) for cache in caches]
        def churn():
            while not stop.is_set():
                caches[0].get(store, "x", lambda stamp: (b"", 1), part=1)
                caches[0].invalidate(store, "y")
        churning = [threading.Thread(target=churn) for _ in range(2)]
        for thread in loading + churning: thread.start()
        entered.wait()
        for _ in range(30):
            child = os.fork()
            if child == 0:
                signal.alarm(250)  # never outlives a failing test
                good = all(cache.get(store, "x", lambda stamp: (b"child", 1)) == b"child" for cache in caches)
                os._exit(0 if good else 1)
            assert os.waitpid(child, 0)[1] == 0
        stop.set()
        go.set()
        for thread in loading + churning: thread.join()
        print(caches[0].get(store, "x", slow))
    """
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "b'parent'\n"


def test_another_process_changes_the_object(tmp_path: Path) -> None:
    cache = IndexCache(10_000)
    store = LocalStore(tmp_path)
    put(store, "x", b"0000")
    script = """
        import sys
        from zvcore.stores import LocalStore
        store = LocalStore(sys.argv[1])
        for line in sys.stdin:
            how, i = line.split()
            if how == "put":
                store.put("x", b"%04d" % int(i))
            else:
                store.patch("x", 0, b"%04d" % int(i))
            print("done", flush=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for i in range(1, 200):
            process.stdin.write(f"{'put' if i % 2 else 'patch'} {i}\n")
            process.stdin.flush()
            assert process.stdout.readline() == "done\n"
            assert cache.get(store, "x", Loader(store, "x")) == b"%04d" % i
        process.stdin.close()


@pytest.mark.parametrize(("setting", "expected"), [(None, 256 * 2**20), ("", 256 * 2**20), ("0", 0), ("12345", 12345)])
def test_the_cache_of_the_process(monkeypatch: pytest.MonkeyPatch, setting: str | None, expected: int) -> None:
    monkeypatch.setattr(cache_module, "_default", None)
    if setting is None:
        monkeypatch.delenv("ZVCORE_INDEX_CACHE_BYTES", raising=False)
    else:
        monkeypatch.setenv("ZVCORE_INDEX_CACHE_BYTES", setting)
    assert index_cache().max_bytes == expected
    assert index_cache() is index_cache()


@pytest.mark.parametrize("setting", ["-1", "1e6", "lots", "1 GB", "٣"])
def test_settings_that_make_no_sense(monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
    monkeypatch.setattr(cache_module, "_default", None)
    monkeypatch.setitem(os.environ, "ZVCORE_INDEX_CACHE_BYTES", setting)
    with pytest.raises(ValueError, match="ZVCORE_INDEX_CACHE_BYTES"):
        index_cache()


def test_a_value_that_fills_says_how_large_it_is() -> None:
    store = MemoryStore()
    for key in ("a", "b"):
        store.put(key, b"x")
    cache = IndexCache(10_000)
    value = cache.get(store, "a", lambda stamp: ([], 100))
    before = cache.nbytes
    cache.resize(store, "a", value, 5000)
    assert cache.nbytes == before + 4900
    # Another value of the object is not the one that was meant.
    cache.resize(store, "a", [], 1)
    assert cache.nbytes == before + 4900
    assert cache.get(store, "a", lambda stamp: ([1], 100)) is value
    # The other has to go when there is no room for both.
    cache.get(store, "b", lambda stamp: ("b", 4500))
    assert len(cache) == 1
    cache.resize(store, "b", cache.get(store, "b", lambda stamp: ("c", 1)), 20_000)
    assert len(cache) == 0
