"""Objects in this process's memory."""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from zvcore.errors import ConflictError, NotFoundError
from zvcore.stores.again import changed
from zvcore.stores.base import Stamp, Store, check_ranges, check_span, outside, prefix_path
from zvcore.stores.files import encode_key
from zvcore.stores.ropes import Rope, kept
from zvcore.stores.sorted_keys import SortedKeys, all_below, directly_below
from zvcore.stores.writing import as_parts

if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterator, Sequence

    from typing_extensions import Buffer

__all__ = ["MemoryStore"]


class _Memory:
    """What all views of one memory share. Versions are never used twice, so they serve as stamps."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes | memoryview | Rope, int]] = {}
        self.names = SortedKeys()
        self.versions = itertools.count(1)
        self.guard = threading.Lock()
        # Object -> (the holder of its lock, how many want it, the lock).
        self.locks: dict[str, _KeyLock] = {}
        _memories.add(self)

    def after_fork(self) -> None:
        self.guard = threading.Lock()
        self.locks = {}

    def names_in_order(self) -> list[str]:
        """The keys of all objects, sorted; to be looked at while the guard is held."""
        return self.names.of(self.objects)

    def keep(self, full: str, whole: bytes | memoryview | Rope) -> None:
        """Store an object; called while the guard is held."""
        if full not in self.objects:
            self.names.added(full)
        self.objects[full] = (whole, next(self.versions))

    def joined(self, full: str, rope: Rope, version: int) -> bytes:
        """An object that lies in pieces, which is in one from now on."""
        whole = rope.joined()
        with self.guard:
            if self.objects.get(full) == (rope, version):
                self.objects[full] = (whole, version)
        return whole

    def drop(self, full: str) -> bool:
        """Remove an object; called while the guard is held. Whether there was one."""
        found = self.objects.pop(full, None)
        if found is not None:
            self.names.removed()
        return found is not None


class _KeyLock:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0
        self.holder = 0


_memories: weakref.WeakSet[_Memory] = weakref.WeakSet()
_named: dict[str, _Memory] = {}
_naming = threading.Lock()


def _after_fork() -> None:
    global _naming
    _naming = threading.Lock()
    for memory in [*_memories]:
        memory.after_fork()


os.register_at_fork(after_in_child=_after_fork)


class MemoryStore(Store):
    """Objects in a dictionary. With a name, all stores of that name in this process share their objects.

    It cannot be pickled: in another process it would be another, empty store.
    """

    can_lock = True
    supports_patch = True

    def __init__(self, name: str | None = None, read_only: bool = False) -> None:
        if name is None:
            self._memory = _Memory()
        else:
            with _naming:
                self._memory = _named.setdefault(name, _Memory())
        self._prefix = ""
        self.read_only = read_only
        self.root = f"memory://{name if name is not None else hex(id(self._memory))}"

    @staticmethod
    def is_known(name: str) -> bool:
        """Whether there is a memory of this name."""
        return name in _named

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self.root} lives in this process only; use a folder to share data between processes")

    def _full(self, key: str) -> str:
        encode_key(key)
        return self._prefix + key

    # --- reading

    def get(
        self, key: str, start: int = 0, length: int | None = None, *, stamp: Stamp | None = None
    ) -> bytes | memoryview | None:
        check_span(start, length)
        full = self._full(key)
        found = self._memory.objects.get(full)
        if found is None:
            return None
        data, version = found
        if stamp is not None and version != stamp:
            raise changed(key, stamp)
        if isinstance(data, Rope):
            if start == 0 and length is None:
                return self._memory.joined(full, data, version)
            start, stop, _ = slice(start, None if length is None else start + length).indices(len(data))
            return data.part(start, stop)
        if start == 0 and length is None:
            return data
        return memoryview(data)[start : None if length is None else start + length]

    def get_ranges(
        self, key: str, ranges: Sequence[tuple[int, int]], *, stamp: Stamp | None = None
    ) -> builtins.list[memoryview] | None:
        found = self._memory.objects.get(self._full(key))
        if found is None:
            return None
        data, version = found
        if stamp is not None and version != stamp:
            raise changed(key, stamp)
        check_ranges(key, ranges, len(data))
        if isinstance(data, Rope):
            return [data.part(offset, offset + length) for offset, length in ranges]
        whole = memoryview(data)
        return [whole[offset : offset + length] for offset, length in ranges]

    def size(self, key: str) -> int | None:
        found = self._memory.objects.get(self._full(key))
        return None if found is None else len(found[0])

    def stamp(self, key: str) -> Stamp | None:
        found = self._memory.objects.get(self._full(key))
        return None if found is None else found[1]

    def list(self, prefix: str = "") -> Iterator[str]:
        skip = len(self._prefix)
        return iter([key[skip:] for key in self._below(prefix)])

    def list_dir(self, prefix: str = "") -> tuple[builtins.list[str], builtins.list[str]]:
        with self._memory.guard:
            return directly_below(self._memory.names_in_order(), self._start(prefix))

    def _start(self, prefix: str) -> str:
        """What all keys below a folder begin with."""
        prefix = prefix_path(prefix)
        return self._prefix + (prefix + "/" if prefix else "")

    def _below(self, prefix: str) -> builtins.list[str]:
        with self._memory.guard:
            names = self._memory.names_in_order()
            return names[all_below(names, self._start(prefix))]

    # --- writing

    def put(self, key: str, data: Buffer | Sequence[Buffer]) -> None:
        self._refuse_if_read_only(key)
        full = self._full(key)
        whole = kept(as_parts(data))
        with self._memory.guard:
            self._memory.keep(full, whole)

    def put_if_unchanged(self, key: str, data: Buffer | Sequence[Buffer], stamp: Stamp | None) -> None:
        self._refuse_if_read_only(key)
        full = self._full(key)
        whole = kept(as_parts(data))
        with self._locked(key, None, again=True), self._memory.guard:
            found = self._memory.objects.get(full)
            if (None if found is None else found[1]) != stamp:
                raise changed(key, stamp)
            self._memory.keep(full, whole)

    def append(self, key: str, parts: Buffer | Sequence[Buffer], at: int, *, ending: bool = False) -> None:
        self._refuse_if_read_only(key)
        full = self._full(key)
        _check_offset(key, at)
        pieces = as_parts(parts)
        with self._memory.guard:
            data = self._existing(full, key)
            if len(data) != at:
                text = "the object was lengthened or cut by someone else in the meantime"
                raise ConflictError(text, key=key, expected=f"{at} bytes", found=len(data))
            self._memory.keep(full, b"".join((data, *pieces)))

    def patch(self, key: str, offset: int, data: Buffer | Sequence[Buffer], *, crash_safe: bool = False) -> None:
        self._refuse_if_read_only(key)
        full = self._full(key)
        _check_offset(key, offset)
        new = b"".join(as_parts(data))
        with self._memory.guard:
            old = self._existing(full, key)
            if offset + len(new) > len(old):
                raise outside(key, offset, len(new), len(old))
            self._memory.keep(full, b"".join((memoryview(old)[:offset], new, memoryview(old)[offset + len(new) :])))

    def _existing(self, full: str, key: str) -> bytes | memoryview:
        found = self._memory.objects.get(full)
        if found is None:
            raise NotFoundError("there is no such object to change", key=key)
        data, _ = found
        return data.joined() if isinstance(data, Rope) else data

    def delete(self, key: str) -> bool:
        self._refuse_if_read_only(key)
        full = self._full(key)
        with self._memory.guard:
            return self._memory.drop(full)

    def delete_prefix(self, prefix: str) -> int:
        self._refuse_if_read_only(prefix)
        keys = self._below(prefix)
        with self._memory.guard:
            return sum(map(self._memory.drop, keys))

    def lock(self, key: str, timeout: float | None = None) -> AbstractContextManager[None]:
        self._refuse_if_read_only(key)
        self._full(key)
        return self._locked(key, timeout)

    def lock_all(self, keys: builtins.list[str]) -> AbstractContextManager[None]:
        for key in keys:
            self._refuse_if_read_only(key)
            self._full(key)
        return self._all_locked(keys, None)

    @contextmanager
    def _locked(self, key: str, timeout: float | None, again: bool = False) -> Iterator[None]:
        """The lock of a key. `again`: this thread may hold it already."""
        entry = self._memory.locks.get(self._prefix + key)
        if again and entry is not None and entry.holder == threading.get_ident():
            yield
            return
        with self._all_locked([key], timeout):
            yield

    @contextmanager
    def _all_locked(self, keys: Sequence[str], timeout: float | None) -> Iterator[None]:
        memory = self._memory
        me = threading.get_ident()
        wanted: dict[str, _KeyLock] = {}
        taken: builtins.list[_KeyLock] = []
        try:
            with memory.guard:
                for key in dict.fromkeys(keys):
                    full = self._prefix + key
                    entry = memory.locks.setdefault(full, _KeyLock())
                    if entry.holder == me:
                        raise RuntimeError(f"{key}: this thread holds the lock already")
                    entry.users += 1
                    wanted[full] = entry
            for key, entry in zip(dict.fromkeys(keys), wanted.values(), strict=True):
                if not entry.lock.acquire(timeout=-1 if timeout is None else timeout):
                    raise ConflictError(f"someone else has held the lock for all of {timeout} s", key=key)
                taken.append(entry)
                entry.holder = me
            yield
        finally:
            for entry in taken:
                entry.holder = 0
                entry.lock.release()
            with memory.guard:
                for full, entry in wanted.items():
                    entry.users -= 1
                    if entry.users == 0 and memory.locks.get(full) is entry:
                        del memory.locks[full]

    # --- the store itself

    def object_id(self, key: str) -> tuple[Any, ...]:
        return (self._memory, self._full(key))

    def child(self, prefix: str) -> MemoryStore:
        prefix = prefix_path(prefix)
        view = object.__new__(MemoryStore)
        view._memory = self._memory
        view._prefix = self._prefix + (prefix + "/" if prefix else "")
        view.read_only = self.read_only
        view.of_files = self.of_files
        view.root = f"{self.root}/{prefix}" if prefix else self.root
        return view

    def above(self) -> Iterator[MemoryStore]:
        whole = self.root[: len(self.root) - len(self._prefix)].rstrip("/")
        parts = self._prefix.split("/")[:-1]
        while parts:
            view = self.child("")
            parts.pop()
            view._prefix = "".join(f"{part}/" for part in parts)
            view.root = "/".join([whole, *parts])
            yield view


def _check_offset(key: str, offset: int) -> None:
    if not 0 <= offset < 2**63:
        raise ValueError(f"{key}: no object has an offset {offset}")
