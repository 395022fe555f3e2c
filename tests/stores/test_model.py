"""Both stores against a dictionary, in any order of operations, with other programs changing the files in between."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.examples import examples
from zvcore.errors import ConflictError, CorruptDataError, NotFoundError
from zvcore.stores import LocalStore, MemoryStore, Store

# None of them is a folder of another.
KEYS = st.sampled_from(["a/x", "a/y", "b", "c/d/e", "c/f", "a.x"])
PREFIXES = ["", "a", "b", "c", "c/d", "a/x", "z"]
CONTENT = st.binary(max_size=12)
NUMBER = st.integers(0, 14)


class StoreMachine(RuleBasedStateMachine):
    def make(self) -> Store:
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.store = self.make()
        self.model: dict[str, bytes] = {}
        self.stamps: dict[str, object] = {}

    @rule(key=KEYS, data=CONTENT)
    def put(self, key: str, data: bytes) -> None:
        self.store.put(key, data)
        self.model[key] = data

    @rule(key=KEYS, parts=st.lists(CONTENT, max_size=4))
    def put_parts(self, key: str, parts: list[bytes]) -> None:
        self.store.put(key, parts)
        self.model[key] = b"".join(parts)

    @rule(key=KEYS)
    def remember(self, key: str) -> None:
        self.stamps[key] = (self.store.stamp(key), self.model.get(key))

    @rule(key=KEYS, data=CONTENT)
    def put_if_unchanged(self, key: str, data: bytes) -> None:
        stamp, then = self.stamps.get(key, (None, None))
        current = self.store.stamp(key)
        try:
            self.store.put_if_unchanged(key, data, stamp)
        except ConflictError:
            assert current != stamp
        else:
            assert current == stamp
            assert self.model.get(key) == then
            self.model[key] = data

    @rule(key=KEYS, data=CONTENT, at=NUMBER)
    def append(self, key: str, data: bytes, at: int) -> None:
        old = self.model.get(key)
        try:
            self.store.append(key, data, at)
        except NotFoundError:
            assert old is None
        except ConflictError:
            assert old is not None
            assert len(old) != at
        else:
            assert old is not None
            assert len(old) == at
            self.model[key] = old + data

    @rule(key=KEYS, data=CONTENT, offset=NUMBER)
    def patch(self, key: str, data: bytes, offset: int) -> None:
        old = self.model.get(key)
        try:
            self.store.patch(key, offset, data)
        except NotFoundError:
            assert old is None
        except CorruptDataError:
            assert old is not None
            assert offset + len(data) > len(old)
        else:
            assert old is not None
            assert offset + len(data) <= len(old)
            self.model[key] = old[:offset] + data + old[offset + len(data) :]

    @rule(key=KEYS)
    def delete(self, key: str) -> None:
        assert self.store.delete(key) == (self.model.pop(key, None) is not None)

    @rule(prefix=st.sampled_from(PREFIXES))
    def delete_prefix(self, prefix: str) -> None:
        gone = self.below(prefix)
        assert self.store.delete_prefix(prefix) == len(gone)
        for key in gone:
            del self.model[key]

    @rule(key=KEYS, start=st.integers(-14, 14), length=st.none() | NUMBER)
    def get(self, key: str, start: int, length: int | None) -> None:
        data = self.model.get(key)
        if start < 0:
            expected = None if data is None else data[start:]
            length = None
        else:
            expected = None if data is None else data[start : None if length is None else start + length]
        assert self.store.get(key, start, length) == expected

    @rule(key=KEYS, ranges=st.lists(st.tuples(NUMBER, NUMBER), max_size=4))
    def get_ranges(self, key: str, ranges: list[tuple[int, int]]) -> None:
        data = self.model.get(key)
        try:
            answer = self.store.get_ranges(key, ranges)
        except CorruptDataError:
            assert data is not None
            assert any(offset + length > len(data) for offset, length in ranges)
        else:
            assert answer == (None if data is None else [data[o : o + n] for o, n in ranges])

    @rule(prefix=st.sampled_from(PREFIXES))
    def listing(self, prefix: str) -> None:
        below = self.below(prefix)
        assert list(self.store.list(prefix)) == sorted(below)
        names = [key[len(prefix) + 1 if prefix else 0 :] for key in below]
        folders, objects = self.store.list_dir(prefix)
        assert objects == sorted(name for name in names if "/" not in name)
        # Folders stay when their last object goes.
        assert {name.partition("/")[0] for name in names if "/" in name} <= set(folders)

    @rule()
    def let_go(self) -> None:
        self.store.close()

    @invariant()
    def everything_is_there(self) -> None:
        assert {key: self.store.get(key) for key in self.store.list()} == self.model
        for key in ("a/x", "b"):
            assert self.store.size(key) == (len(self.model[key]) if key in self.model else None)

    def below(self, prefix: str) -> list[str]:
        return [key for key in self.model if not prefix or key.startswith(prefix + "/")]


class MemoryMachine(StoreMachine):
    def make(self) -> Store:
        return MemoryStore().child("some/folder")


class LocalMachine(StoreMachine):
    def make(self) -> Store:
        self.folder = Path(tempfile.mkdtemp(prefix="zvcore-test-"))
        return LocalStore(self.folder)

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)

    @rule(key=KEYS, data=CONTENT)
    def replaced_by_others(self, key: str, data: bytes) -> None:
        path = self.folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name("new").write_bytes(data)
        self.tell_apart(path.with_name("new"))
        os.replace(path.with_name("new"), path)
        self.model[key] = data

    @rule(key=KEYS, data=CONTENT)
    def written_in_place_by_others(self, key: str, data: bytes) -> None:
        path = self.folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self.tell_apart(path)
        self.model[key] = data

    def tell_apart(self, path: Path) -> None:
        # As if the other program had done this after a while: within a tick of the clock versions may look the same.
        os.utime(path, ns=(0, time.time_ns()))

    @rule(key=KEYS)
    def removed_by_others(self, key: str) -> None:
        (self.folder / key).unlink(missing_ok=True)
        self.model.pop(key, None)


TestMemoryStore = MemoryMachine.TestCase
TestLocalStore = LocalMachine.TestCase
TestMemoryStore.settings = examples(40, stateful_step_count=25)
TestLocalStore.settings = examples(40, stateful_step_count=25)
