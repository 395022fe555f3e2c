"""The index cache among threads, processes and forks."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.engine.caching import ENTRY, Loader, get, put
from tests.processes import PATIENCE
from zvcore.errors import ConflictError, CorruptDataError
from zvcore.stores import LocalStore, Snapshot, Store
from zvcore.stores.indexes import IndexCache

if TYPE_CHECKING:
    from collections.abc import Callable


ROOT = Path(__file__).parents[2]


class Slow(Loader):
    """Loads when told to."""

    def __init__(self, store: Store, key: str) -> None:
        super().__init__(store, key)
        self.entered = threading.Semaphore(0)
        self.go = threading.Event()

    def __call__(self, found: Snapshot) -> tuple[bytes, int]:
        answer = super().__call__(found)
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
    threads = [Thread(lambda: get(cache, store, "x", load)) for _ in range(8)]
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
    thread = Thread(lambda: get(cache, store, "x", load))
    assert load.entered.acquire(timeout=PATIENCE)
    assert get(cache, store, "y", Loader(store, "y")) == b"2"
    assert get(cache, store, "x", Loader(store, "x"), part=1) == b"1"
    load.go.set()
    assert thread.result() == b"1"


def test_a_failure_fails_all_that_wait_and_none_after(store: Store) -> None:
    cache = IndexCache(10_000)
    put(store, "x", b"1")
    go = threading.Event()
    calls = []

    def fail(found: Snapshot) -> tuple[bytes, int]:
        calls.append(1)
        assert go.wait(PATIENCE)
        raise CorruptDataError("the index is broken", key="x")

    def work() -> Any:
        try:
            get(cache, store, "x", fail)
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
    assert get(cache, store, "x", Loader(store, "x")) == b"1"


def test_other_errors_are_passed_on(store: Store) -> None:
    cache = IndexCache(10_000)
    put(store, "x", b"1")
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            get(cache, store, "x", lambda found: (1 // 0, 1))
    assert get(cache, store, "x", Loader(store, "x")) == b"1"


def test_when_the_loading_thread_is_interrupted_another_takes_over(store: Store) -> None:
    cache = IndexCache(10_000)
    put(store, "x", b"1")
    go = threading.Event()
    load = Loader(store, "x")

    def interrupted(found: Snapshot) -> tuple[bytes, int]:
        assert go.wait(PATIENCE)
        raise KeyboardInterrupt

    first = Thread(lambda: get(cache, store, "x", interrupted))
    wait_for([first])
    others = [Thread(lambda: get(cache, store, "x", load)) for _ in range(4)]
    wait_for(others)
    go.set()
    with pytest.raises(KeyboardInterrupt):
        first.result()
    assert [thread.result() for thread in others] == [b"1"] * 4
    assert load.calls == 1


def test_a_loader_that_needs_itself_is_an_error_and_no_hang(store: Store) -> None:
    cache = IndexCache(10_000)
    put(store, "x", b"1")

    def load(found: Snapshot) -> tuple[Any, int]:
        return get(cache, store, "x", load), 1

    with pytest.raises(RuntimeError, match="needs this index"):
        get(cache, store, "x", load)
    assert get(cache, store, "x", Loader(store, "x")) == b"1"


def test_a_loader_may_need_another_part(store: Store) -> None:
    cache = IndexCache(10_000)
    put(store, "x", b"1")
    inner = Loader(store, "x")

    def load(found: Snapshot) -> tuple[bytes, int]:
        return (get(cache, store, "x", inner) or b"") * 2, 1

    assert get(cache, store, "x", load, part=7) == b"11"
    assert get(cache, store, "x", inner) == b"1"
    assert inner.calls == 1


def test_a_change_while_loading(store: Store) -> None:
    """A caller that asks after the change gets the new value, and the old one is not kept."""
    cache = IndexCache(10_000)
    put(store, "x", b"old")
    slow = Slow(store, "x")
    early = Thread(lambda: get(cache, store, "x", slow))
    assert slow.entered.acquire(timeout=PATIENCE)
    put(store, "x", b"new")
    load = Loader(store, "x")
    assert get(cache, store, "x", load) == b"new"
    slow.go.set()
    assert early.result() == b"old"
    assert get(cache, store, "x", load) == b"new"
    assert load.calls == 1
    assert len(cache) == 1


def test_invalidating_while_loading(store: Store) -> None:
    """As after an own write that the stamp would not show."""
    cache = IndexCache(10_000)
    put(store, "x", b"1")
    slow = Slow(store, "x")
    early = Thread(lambda: get(cache, store, "x", slow))
    assert slow.entered.acquire(timeout=PATIENCE)
    cache.invalidate(store, "x")
    load = Loader(store, "x")
    assert get(cache, store, "x", load) == b"1"  # and does not wait for what began before
    assert load.calls == 1
    slow.go.set()
    early.result()
    assert get(cache, store, "x", load) == b"1"
    assert load.calls == 1


def test_a_loading_that_was_overtaken_leaves_the_next_one_alone(store: Store) -> None:
    cache = IndexCache(10_000)
    put(store, "x", b"1")
    slow = [Slow(store, "x"), Slow(store, "x")]
    first = Thread(lambda: get(cache, store, "x", slow[0]))
    assert slow[0].entered.acquire(timeout=PATIENCE)
    cache.invalidate(store, "x")
    second = Thread(lambda: get(cache, store, "x", slow[1]))
    assert slow[1].entered.acquire(timeout=PATIENCE)
    slow[0].go.set()
    first.result()
    assert len(cache) == 0
    third = Thread(lambda: get(cache, store, "x", Loader(store, "x")))
    wait_for([third])
    slow[1].go.set()
    assert third.result() is second.result()
    assert len(cache) == 1


def test_an_object_that_changes_between_stamp_and_reading_is_loaded_again(store: Store) -> None:
    cache = IndexCache(10_000)
    put(store, "x", b"0")
    calls = []

    def load(found: Snapshot) -> tuple[bytes, int]:
        calls.append(found.stamp)
        if len(calls) < 4:
            put(store, "x", b"%d" % len(calls))
        data = store.get("x", stamp=found.stamp)
        assert data is not None
        return bytes(data), 1

    assert get(cache, store, "x", load) == b"3"
    assert len(calls) == len(set(calls)) == 4


def test_an_object_that_never_stands_still(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zvcore.stores.again.give_way", lambda number: None)
    cache = IndexCache(10_000)
    put(store, "x", b"0")
    calls = []

    def load(found: Snapshot) -> tuple[bytes, int]:
        calls.append(1)
        store.put("x", b"%d" % len(calls))
        return bytes(store.get("x", stamp=found.stamp) or b""), 1

    with pytest.raises(ConflictError):
        get(cache, store, "x", load)
    assert 1 < len(calls) <= 100


def test_a_conflict_that_has_nothing_to_do_with_the_object(store: Store) -> None:
    cache = IndexCache(10_000)
    put(store, "x", b"0")
    calls = []

    def load(found: Snapshot) -> tuple[bytes, int]:
        calls.append(1)
        raise ConflictError("something else", key="y")

    with pytest.raises(ConflictError, match="something else"):
        get(cache, store, "x", load)
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
                    value = get(cache, store, key, loads[key])
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


def test_a_fork_while_loading(tmp_path: Path) -> None:
    """The child neither waits for its parent's threads nor finds their lock taken."""
    put(LocalStore(tmp_path), "x", b"1")
    script = """
        import os, signal, sys, threading
        from tests.engine.caching import get
        from zvcore.stores.indexes import IndexCache, index_cache
        from zvcore.stores import LocalStore
        store = LocalStore(sys.argv[1])
        entered, go, stop = threading.Event(), threading.Event(), threading.Event()
        def slow(found):
            entered.set()
            go.wait()
            return b"parent", 1
        caches = [IndexCache(10_000), index_cache()]
        loading = [threading.Thread(target=get, args=(cache, store, "x", slow)) for cache in caches]
        def churn():
            while not stop.is_set():
                get(caches[0], store, "x", lambda found: (b"", 1), part=1)
                caches[0].invalidate(store, "y")
        churning = [threading.Thread(target=churn) for _ in range(2)]
        for thread in loading + churning: thread.start()
        entered.wait()
        for _ in range(30):
            child = os.fork()
            if child == 0:
                signal.alarm(250)  # never outlives a failing test
                good = all(get(cache, store, "x", lambda found: (b"child", 1)) == b"child" for cache in caches)
                os._exit(0 if good else 1)
            assert os.waitpid(child, 0)[1] == 0
        stop.set()
        go.set()
        for thread in loading + churning: thread.join()
        print(get(caches[0], store, "x", slow))
    """
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=ROOT)
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
            assert get(cache, store, "x", Loader(store, "x")) == b"%04d" % i
        process.stdin.close()
