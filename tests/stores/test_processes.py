"""Real processes that write, die and fork around one store."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.processes import PATIENCE, finish, run, start, tell, told
from zvcore.errors import ConflictError
from zvcore.stores import LocalStore
from zvcore.stores.lock_files import ARE_BYTES

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path)


def test_locked_changes_of_four_processes_lose_nothing(store: LocalStore) -> None:
    script = """
        import json, sys, threading
        from zvcore.stores import LocalStore
        store = LocalStore(sys.argv[1])
        sys.stdin.readline()
        def work(name):
            for i in range(60):
                key = f"deep/folder/{i % 3}"
                with store.lock(key):
                    data = store.get(key)
                    entries = json.loads(bytes(data)) if data else []
                    entries.append([name, i])
                    store.put(key, json.dumps(entries).encode())
        threads = [threading.Thread(target=work, args=(f"{sys.argv[2]}.{n}",)) for n in range(2)]
        for t in threads: t.start()
        for t in threads: t.join()
    """
    processes = [start(script, store.root, name) for name in range(4)]
    for process in processes:
        tell(process)
    for process in processes:
        finish(process)
    expected = {(f"{p}.{t}", i) for p in range(4) for t in range(2) for i in range(60)}
    found = [tuple(entry) for i in range(3) for entry in json.loads(store.get(f"deep/folder/{i}") or b"")]
    assert len(found) == len(expected)
    assert set(found) == expected
    assert sorted(os.listdir(os.path.join(store.root, "deep", "folder"))) == ["0", "1", "2"]


def test_conditional_changes_of_four_processes_lose_nothing(store: LocalStore) -> None:
    """Half of them lock, half of them compare: both see each other."""
    store.put("n", b"000000")
    script = """
        import sys
        from zvcore.errors import ConflictError
        from zvcore.stores import LocalStore
        store = LocalStore(sys.argv[1])
        conflicts = 0
        for i in range(60):
            while True:
                try:
                    if sys.argv[2] == "lock":
                        with store.lock("n"):
                            store.put("n", b"%06d" % (int(store.get("n")) + 1))
                    else:
                        stamp = store.stamp("n")
                        store.put_if_unchanged("n", b"%06d" % (int(store.get("n", stamp=stamp)) + 1), stamp)
                except ConflictError:
                    conflicts += 1
                    continue
                break
        print(conflicts)
    """
    processes = [start(script, store.root, how) for how in ("lock", "compare", "lock", "compare")]
    outcomes = [int(finish(process)) for process in processes]
    assert store.get("n") == b"000240"
    assert outcomes[0] == outcomes[2] == 0


def test_a_killed_writer_leaves_the_old_or_the_new(store: LocalStore) -> None:
    script = """
        import sys
        from zvcore.stores import LocalStore
        store = LocalStore(sys.argv[1])
        i = 0
        while True:
            i += 1
            store.put("d/x", [bytes([i % 256]) * 4096] * 512)
            if i == 1:
                print("started", flush=True)
    """
    chance = random.Random(5)
    for _ in range(8):
        process = start(script, store.root)
        assert told(process) == "started"
        time.sleep(chance.uniform(0, 0.03))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        data = store.get("d/x")
        assert data is not None
        assert len(data) == 2 * 2**20
        assert data == bytes([data[0]]) * len(data)
        assert list(store.list()) == ["d/x"]
        store.put("d/x", b"next")
    left_over = len(os.listdir(os.path.join(store.root, "d"))) - 1
    assert store.clean(older_than=0) == left_over
    assert os.listdir(os.path.join(store.root, "d")) == ["x"]


def test_a_killed_holder_frees_its_lock(store: LocalStore) -> None:
    process = start(
        """
        import sys, time
        from zvcore.stores import LocalStore
        with LocalStore(sys.argv[1]).lock("d/x"):
            print("locked", flush=True)
            time.sleep(1000)
        """,
        store.root,
    )
    assert told(process) == "locked"
    with pytest.raises(ConflictError), store.lock("d/x", timeout=0.05):
        pass
    process.kill()
    process.communicate()
    assert os.listdir(os.path.join(store.root, "d")) == ["..zvlock" if ARE_BYTES else ".x.zvlock"]
    assert list(store.list()) == []
    with store.lock("d/x", timeout=PATIENCE):
        pass
    assert os.listdir(os.path.join(store.root, "d")) == []


def test_readers_in_other_processes_see_whole_objects(store: LocalStore) -> None:
    """Each version says itself what its bytes must be, so a mixture would show."""
    store.put("x", bytes([7]) * 100_000)
    readers = [
        start(
            """
            import sys
            from zvcore.errors import ConflictError
            from zvcore.stores import LocalStore
            store = LocalStore(sys.argv[1], read_only=True)
            seen = set()
            while len(seen) < 5:
                stamp = store.stamp("x")
                try:
                    first, *more = store.get_ranges("x", [(0, 10), (50_000, 10), (99_990, 10)], stamp=stamp)
                    whole = store.get("x", stamp=stamp)
                except ConflictError:
                    continue
                assert first == more[0] == more[1], (bytes(first), bytes(more[0]))
                assert whole == bytes(first[:1]) * 100_000
                seen.add(whole[0])
            print(len(seen))
            """,
            store.root,
        )
        for _ in range(2)
    ]
    # Until they have seen enough, however late they start.
    deadline = time.monotonic() + PATIENCE
    for i in itertools.count():
        if all(reader.poll() is not None for reader in readers) or time.monotonic() > deadline:
            break
        store.put("x", bytes([i % 256]) * 100_000)
    assert [finish(reader) for reader in readers] == ["5\n"] * 2


def test_a_write_that_finds_no_room_leaves_everything_as_it_was(store: LocalStore) -> None:
    store.put("x", b"old")
    store.put("grow", b"0123")
    answer = run(
        """
        import errno, os, resource, signal, sys
        from zvcore.stores import LocalStore
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        store = LocalStore(sys.argv[1])
        big = [b"x" * 33_000] * 5
        for write in (
            lambda: store.put("x", big),
            lambda: store.put("new/y", big),
            lambda: store.put_if_unchanged("x", big, store.stamp("x")),
            lambda: store.put_if_unchanged("z", big, None),
            lambda: store.append("grow", big, 4),
        ):
            try:
                write()
            except OSError as error:
                print(errno.errorcode[error.errno], end=" ")
        """,
        store.root,
    )
    assert answer.split() == ["EFBIG"] * 5
    assert store.get("x") == b"old"
    assert store.get("grow") == b"0123"
    assert sorted(os.listdir(store.root)) == ["grow", "new", "x"]
    assert os.listdir(os.path.join(store.root, "new")) == []


def test_few_descriptors_are_enough(store: LocalStore) -> None:
    for i in range(100):
        store.put(str(i), b"%03d" % i)
    answer = run(
        """
        import os, resource, sys
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        from zvcore.stores import LocalStore, open_files
        assert open_files.pool.limit == 8
        store = LocalStore(sys.argv[1])
        taken = []
        for i in range(100):
            assert store.get(str(i), 1, 2) == b"%02d" % (i % 100)
        # Others take all the descriptors but those that are kept: reading gives those up.
        while True:
            try:
                taken.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                break
        assert len(open_files.pool) == 8
        for i in range(100):
            assert store.get(str(i), 1, 2) == b"%02d" % (i % 100)
        open_files.pool.clear()
        taken += [os.open(os.devnull, os.O_RDONLY) for _ in range(8)]
        try:
            store.get("5", 1, 2)
        except OSError as error:
            print(error.strerror)
        """,
        store.root,
    )
    assert "open files" in answer


def test_fork_while_threads_read_and_lock(store: LocalStore) -> None:
    for i in range(20):
        store.put(str(i), b"%02d" % i)
    run(
        """
        import os, signal, sys, threading
        from zvcore.stores import LocalStore, MemoryStore
        store = LocalStore(sys.argv[1])
        memory = MemoryStore("forked")
        stop = threading.Event()
        def read():
            while not stop.is_set():
                for i in range(20):
                    assert store.get(str(i), 0, 2) == b"%02d" % i
                    with store.lock(str(i)), memory.lock(str(i)):
                        memory.put(str(i), b"x")
        threads = [threading.Thread(target=read) for _ in range(3)]
        for t in threads: t.start()
        for _ in range(40):
            child = os.fork()
            if child == 0:
                signal.alarm(250)  # never outlives a failing test
                try:
                    for i in range(20):
                        assert store.get(str(i), 0, 2) == b"%02d" % i
                        with memory.lock(str(i), timeout=200):
                            memory.put(str(i), b"y")
                        MemoryStore("forked").put("z", b"")
                    with store.lock("own", timeout=200):
                        store.put("own", b"x")
                except BaseException:
                    os._exit(1)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        stop.set()
        for t in threads: t.join()
        """,
        store.root,
    )
    assert store.get("own") == b"x"


def test_fork_inside_a_lock(store: LocalStore) -> None:
    """The child does not have its parent's lock, cannot free it, and does not keep it alive."""
    answer = run(
        """
        import os, signal, sys, time
        from zvcore.errors import ConflictError
        from zvcore.stores import LocalStore
        store = LocalStore(sys.argv[1])
        there, here = os.pipe()
        parent = os.fork()
        if parent == 0:
            child = -1
            with store.lock("x"):
                child = os.fork()
                if child == 0:
                    try:
                        with store.lock("x", timeout=0.05):
                            os.write(here, b"child had the lock;")
                    except ConflictError:
                        os.write(here, b"child was kept out;")
                else:
                    time.sleep(1000)
            os.write(here, b"child left;%d" % os.getpid())
            time.sleep(1000)
            os._exit(0)
        words = b""
        while b"left;" not in words:
            words += os.read(there, 1000)
        try:
            with store.lock("x", timeout=0.05):
                words += b";free too early"
        except ConflictError:
            pass
        os.kill(parent, signal.SIGKILL)
        os.waitpid(parent, 0)
        with store.lock("x", timeout=200):
            words += b";free"
        os.kill(int(words.split(b";")[2]), signal.SIGKILL)
        print(words.decode())
        """,
        store.root,
    )
    words = answer.strip().split(";")
    assert words[:2] == ["child was kept out", "child left"]
    assert words[3:] == ["free"]
