"""kill -9 of writers at moments nobody chose, for every format and write mode.

ZVCORE_FAULT_KILLS says how often each of them dies: a few times here, hundreds of times with `make faults`.
"""

from __future__ import annotations

import os
import random
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.faults.support import WRITERS, writing_forever

if TYPE_CHECKING:
    from pathlib import Path

KILLS = int(os.environ.get("ZVCORE_FAULT_KILLS", "2"))


@pytest.mark.parametrize("name", WRITERS)
def test_a_killed_writer_leaves_everything_old_or_new(tmp_path: Path, name: str) -> None:
    writer = WRITERS[name]
    path = tmp_path / "store"
    writer.make(path)
    assert set(writer.check(path)) == {1}
    # Where moments fall is chance, but not another chance each time.
    chance = random.Random(name)
    last = safe = 1  # begun by somebody; surely written
    for _ in range(KILLS):
        process = writing_forever(writer, path, last)
        assert process.stdout is not None
        try:
            first = process.stdout.readline()
            assert first.split() == ["begin", str(last + 1)], process.communicate()[1]
            time.sleep(chance.choice((0.002, 0.02, 0.1)) * chance.random())
        finally:
            process.send_signal(signal.SIGKILL)
            # Not communicate(), which passes over what readline() has taken from the pipe already.
            rest = process.stdout.read().split("\n")[:-1]
            process.communicate()
        begun, done = last + 1, safe
        for line in rest:
            word, value = line.split()
            begun, done = (int(value), done) if word == "begin" else (begun, int(value))
        found = writer.check(path)
        assert max(found) <= begun, "values that nobody has written"
        if "append" in name and "vectors" in name:
            assert found[-1] >= done and found == sorted(found), "what was written is gone"
        elif "part" in name:
            # Nothing may have been written yet.
            assert done == 1 or min(value for value in found if value != 1) >= done, "what was written is gone"
        else:
            assert min(found) >= done, "what was written is gone"
        last, safe = begun, done
    # Nothing that the dead left stands in the way of the next.
    process = writing_forever(writer, path, last)
    assert process.stdout is not None
    try:
        for word in ("begin", "done"):
            line = process.stdout.readline().split()
            assert line[:1] == [word], process.communicate()[1]
    finally:
        process.kill()
        process.communicate()
    assert max(writer.check(path)) >= last + 1
