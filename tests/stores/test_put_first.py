"""What is put first is put by one alone, without a lock, and by whatever the file system has for that."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from zvcore.errors import ConflictError, ReadOnlyError
from zvcore.stores import LocalStore

if TYPE_CHECKING:
    from pathlib import Path

    from zvcore.stores import Store

# What a system says that has neither: of names that must be new, and of links.
WITHOUT = """
#include <errno.h>
int renameat2(int a, const char *b, int c, const char *d, unsigned e) { errno = EINVAL; return -1; }
"""
LINKS = "int linkat(int a, const char *b, int c, const char *d, int e) { errno = EPERM; return -1; }"
RACE = """
import sys
from zvcore.errors import ConflictError
from zvcore.stores import LocalStore
store, won = LocalStore(sys.argv[1]), 0
for number in range(200):
    try:
        store.put_first(f"{number % 7}/{number}", sys.argv[2].encode())
        won += 1
    except ConflictError:
        assert store.get(f"{number % 7}/{number}") is not None
print(won)
"""


def left(folder: Path) -> list[str]:
    return sorted(name for _, _, names in os.walk(folder) for name in names)


@pytest.mark.parametrize("system", ["as it is", "no new names", "no links either"])
def test_of_several_processes_each_object_is_of_one(tmp_path: Path, system: str) -> None:
    environment = dict(os.environ)
    if system != "as it is":
        source = tmp_path / "old.c"
        source.write_text(WITHOUT + (LINKS if "links" in system else ""))
        compiler = (sysconfig.get_config_var("CC") or "cc").split()
        subprocess.run([*compiler, "-shared", "-fPIC", "-o", tmp_path / "old.so", source], check=True)
        environment["LD_PRELOAD"] = str(tmp_path / "old.so")
    folder = tmp_path / "store"
    command = [sys.executable, "-c", RACE, str(folder)]
    racers = [
        subprocess.Popen([*command, str(number)], env=environment, stdout=subprocess.PIPE, text=True)
        for number in range(3)
    ]
    won = [int(racer.communicate(timeout=120)[0]) for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0, 0]
    assert sum(won) == 200
    assert left(folder) == sorted(map(str, range(200)))
    writers = [(folder / f"{number % 7}/{number}").read_text() for number in range(200)]
    assert [writers.count(str(number)) for number in range(3)] == won


def test_of_several_threads_too(store: Store) -> None:
    def put(number: int) -> bool:
        try:
            store.put_first("x", str(number).encode())
        except ConflictError:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        won = list(threads.map(put, range(50)))
    assert won.count(True) == 1
    found = store.get("x")
    assert found is not None and bytes(found) == str(won.index(True)).encode()


def test_nothing_is_left_of_what_is_refused(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put_first("x", b"1")
    with pytest.raises(ConflictError):
        store.put_first("x", b"2")
    assert left(tmp_path) == ["x"]
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConflictError):
        store.put_first("folder", b"3")
    with pytest.raises(ReadOnlyError):
        LocalStore(tmp_path, read_only=True).put_first("y", b"4")
    assert left(tmp_path) == ["x"]
