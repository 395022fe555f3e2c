"""Some of what `make faults FORKS=50000` does."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tests.faults import forks
from tests.processes import PATIENCE, run

if TYPE_CHECKING:
    from pathlib import Path


def test_forks_while_threads_read_write_and_open() -> None:
    count = int(os.environ.get("ZVCORE_FAULT_FORKS", "60"))
    script = "import sys; from tests.faults import forks; print(forks.run(int(sys.argv[1])))"
    assert run(script, count, patience=max(PATIENCE, count)) == "0\n"


def test_a_child_that_stalls_is_seen() -> None:
    assert forks.fork(lambda: None, 100)
    script = """
        import time
        from tests.faults import forks
        forks.describe = print
        print(forks.fork(lambda: time.sleep(1000), 0.1))
    """
    assert run(script).splitlines()[-1] == "False"


def test_a_child_does_not_wait_for_a_module_that_another_thread_was_importing(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import sys\nsys.begun.set()\nsys.ended.wait(0.5)\nplugin = 5\n")
    script = """
        import os, sys, threading
        import zvcore.engine
        zvcore.__path__.append(sys.argv[1])
        sys.begun, sys.ended = threading.Event(), threading.Event()
        def use():
            from zvcore.slow import plugin
            return plugin
        thread = threading.Thread(target=use)
        thread.start()
        sys.begun.wait()
        child = os.fork()
        if child == 0:
            os._exit(use())
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        thread.join()
    """
    assert run(script, tmp_path) == "5\n"


def test_a_child_does_not_wait_for_what_another_thread_was_working_out() -> None:
    """functools has a lock for each property until Python 3.11, which all objects share."""
    script = """
        import os, threading
        from zvcore.cached import cached_property
        begun, ended = threading.Event(), threading.Event()
        class Slow:
            def __init__(self, waits):
                self.waits = waits
            @cached_property
            def found(self):
                if self.waits:
                    begun.set()
                    ended.wait(20)
                return [self.waits]
        slow, quick = Slow(True), Slow(False)
        thread = threading.Thread(target=lambda: slow.found)
        thread.start()
        begun.wait()
        child = os.fork()
        if child == 0:
            os._exit(7 if quick.found == [False] and quick.found is quick.found else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        ended.set()
        thread.join()
        print(slow.found, Slow.__dict__["found"].__get__(None, Slow) is Slow.found)
    """
    assert run(script, patience=15) == "7\n[True] True\n"


def test_a_child_does_not_wait_for_a_lock_that_it_has_itself(tmp_path: Path) -> None:
    """It inherited the descriptor by which another thread was waiting for a lock that its holder then left."""
    script = """
        import os, sys, threading
        from zvcore.stores import LocalStore
        from zvcore.stores.locks import FileLocks
        store = LocalStore(sys.argv[1])
        waiting, forked = threading.Event(), threading.Event()
        acquire = FileLocks._acquire
        def in_order(self, *arguments):
            if child == 0:
                os.write(to_parent, b"x")
                os.read(from_parent, 1)
            elif threading.current_thread() is not threading.main_thread():
                waiting.set()
                forked.wait()
            acquire(self, *arguments)
        FileLocks._acquire = in_order
        (from_parent, to_child), (from_child, to_parent) = os.pipe(), os.pipe()
        child = None
        holder = store.lock("a")
        holder.__enter__()
        def wait():
            with store.lock("a"):
                pass
        thread = threading.Thread(target=wait)
        thread.start()
        waiting.wait()
        child = os.fork()
        if child == 0:
            os.close(to_child)
            with store.lock("a", timeout=200):
                os._exit(7)
        os.read(from_child, 1)
        holder.__exit__(None, None, None)
        forked.set()
        thread.join()
        os.close(to_child)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert run(script, tmp_path) == "7\n"


def test_a_child_waits_for_none_of_our_locks(tmp_path: Path) -> None:
    """Whichever were held when it was forked: all that we have ever made are, here."""
    script = """
        import _thread, os, sys, threading
        from pathlib import Path
        made, lock, rlock = [], threading.Lock, threading.RLock
        def recorded(make):
            def made_by_us(*arguments):
                one = make(*arguments)
                if sys._getframe(1).f_globals.get("__name__", "").startswith("zvcore"):
                    made.append(one)
                return one
            return made_by_us
        threading.Lock, threading.RLock = recorded(lock), recorded(rlock)
        import numpy as np
        import zvcore, zvcore.zarr3.direct, zvcore.converting.running
        from zvcore.stores import MemoryStore
        from tests.faults import forks
        folder = Path(sys.argv[1])
        arrays = forks.make(folder)
        arrays["memory"] = zvcore.create(MemoryStore(), shape=(4,), dtype="u2", format="zarr3")
        zvcore.convert(folder / "n5", folder / "n5.zip", format="zarr3")
        arrays["zip"] = zvcore.open(folder / "n5.zip")
        def use(write):
            for number in range(len(forks.ARRAYS)):
                forks.use(arrays, folder, number, write=write)
            arrays["memory"][...] = 3
            assert arrays["zip"][...].sum() == zvcore.open(folder / "n5.zip")[...].sum()
            zvcore.convert(folder / "n5", MemoryStore(), format="precomputed")
            with zvcore.zarr3.accelerate():
                pass
        use(True)
        held, go_on = threading.Event(), threading.Event()
        def hold():
            taken = [one for one in made if one.acquire(blocking=False)]
            held.set()
            go_on.wait()
            for one in taken:
                one.release()
        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        print(len(made) > 10, forks.fork(lambda: use(True), 120))
        go_on.set()
        thread.join()
    """
    assert run(script, tmp_path) == "True True\n"


def test_a_child_has_the_locks_of_a_store_of_zarr_python_to_itself() -> None:
    """Whoever held them in its parent is not in it, and shares no memory with it."""
    script = """
        import os, threading
        import zarr.storage
        from zvcore.stores import open_store
        store = open_store(zarr.storage.MemoryStore(), "w")
        held, go_on = threading.Event(), threading.Event()
        def hold():
            with store.lock("a"), store._place._guard:
                held.set()
                go_on.wait()
        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        child = os.fork()
        if child == 0:
            threading.Timer(200, os._exit, [1]).start()  # never outlives a failing test
            with store.lock("a"):
                os._exit(7)
        go_on.set()
        thread.join()
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert run(script) == "7\n"


def test_a_thread_with_the_gil_waits_for_no_lock_that_a_fork_has_taken() -> None:
    """What others do before a fork may come after zvcore has taken its locks, and then waits for the GIL."""
    script = """
        import os, threading
        forking, done = threading.Event(), threading.Event()
        def before():
            forking.set()
            done.wait(60)
        os.register_at_fork(before=before)  # before zvcore's, so it is called after that
        from zvcore.engine.large import LEAST, LargeMemory
        from zvcore.engine.medium import LEAST_MEDIUM, MediumMemory
        kept = [MediumMemory(LEAST_MEDIUM), LargeMemory(LEAST)]
        def use():
            forking.wait()
            MediumMemory(LEAST_MEDIUM), LargeMemory(LEAST)
            kept.clear()
            done.set()
        thread = threading.Thread(target=use)
        thread.start()
        child = os.fork()
        if child == 0:
            MediumMemory(LEAST_MEDIUM), LargeMemory(LEAST)
            os._exit(0)
        print(done.is_set(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        thread.join()
    """
    assert run(script) == "True 0\n"
