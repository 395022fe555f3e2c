"""What every store can do: objects of bytes under "/"-separated keys.

Keys and prefixes are relative: `..`, absolute paths, backslashes, NUL and empty names are refused with
`InvalidKeyError`, which is also a `ValueError`. A prefix names a folder: `list("a")` gives what lies below `a/`, not
`ab`, and not the object `a`. Stores may be used from many threads at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from zvcore.errors import ConflictError, CorruptDataError, InvalidKeyError, ReadOnlyError, UnsupportedError, ZvcoreError
from zvcore.stores.again import BEING_REPLACED, again, changed
from zvcore.stores.editing import Edit, EditAll, lock_all
from zvcore.stores.files import encode_key
from zvcore.stores.writing import ANYTHING, Anything, ObjectWriter, SpooledWriter

if TYPE_CHECKING:
    import builtins
    from contextlib import AbstractContextManager

    from typing_extensions import Buffer

    from zvcore.stores.chunk_cache import ChunkCache
    from zvcore.stores.files import OpenFile, Watched
    from zvcore.stores.one_place import LookedAt
    from zvcore.stores.others import Other
    from zvcore.stores.partial_writes import Unfinished
    from zvcore.stores.within import Within

__all__ = [
    "Facts",
    "Refused",
    "Snapshot",
    "Span",
    "Stamp",
    "Store",
    "UnlistedError",
    "not_passing_over",
    "prefix_path",
]

T = TypeVar("T")
R = TypeVar("R")

# Identifies the content of an object: when it differs, the content may, and when the content does, it differs.
Stamp: TypeAlias = Hashable
# (start, length) of bytes of an object, as `Store.get` takes them.
Span: TypeAlias = "tuple[int, int | None]"
# Is told the key of a folder that cannot be looked into, or the name of an object that is no key, and why.
Refused: TypeAlias = Callable[[str, OSError | InvalidKeyError], None]


def not_passing_over(key: str, error: OSError | InvalidKeyError) -> None:
    """For those who want everything: the first thing that is refused is an error."""
    raise error


class UnlistedError(UnsupportedError):
    """The store does not tell what it has, as web servers do not: that may be sound, and cannot be checked."""


class Snapshot(NamedTuple):
    """Bytes of an object, and of which version of it they are."""

    data: bytes | memoryview
    size: int
    stamp: Stamp


class Facts(NamedTuple):
    """What a store tells of an object without reading it; `md5` is None where it does not tell that."""

    size: int
    md5: str | None


class Store(ABC):
    """Where bytes live.

    root           URL or path, for messages
    local_root     the absolute folder as the file system's bytes if objects are plain files below it, which native
                   code may then open directly; else None
    of_files       objects are files that others may name, pack or change as files are
    in_one_file    objects may lie in a file of this machine: `in_file` says where
    file           the name of the one object that there may be, where the store is a file and no folder
    pattern        which objects of a folder there are, by the names that it stands for, where not all of them are meant
    largest        how many bytes of it may be read, or decoded, at once: for what others made; None: any number
    read_only      every write raises `ReadOnlyError`
    remote         every call is a request over a network: what can be asked at once should be, and nothing twice
    blind          sizes and stamps cost as much as the object itself, and stamps say nothing
    can_lock       whether `lock` works; without it, read-modify-write goes through `put_if_unchanged`
    creates        whether `put_if_unchanged` with None is one step, which costs no more than `put`
    supports_patch whether `append` and `patch` work
    fsync          whether every write is durable before it returns
    durability     how files take the place of older ones, see `zvcore.stores.durability`; nothing to other stores
    chunk_cache    where decoded chunks are kept; None: nowhere
    """

    root: str
    local_root: bytes | None = None
    of_files: bool = False
    in_one_file: bool = False
    file: str | None = None
    pattern: str | None = None
    largest: int | None = None
    read_only: bool = False
    remote: bool = False
    blind: bool = False
    can_lock: bool = False
    creates: bool = False
    supports_patch: bool = False
    fsync: bool = False
    durability: str = "rename"
    chunk_cache: ChunkCache | None = None

    @property
    def address(self) -> str:
        """What it can be opened by again: `root`, with the password, if there is one in it."""
        return self.root

    # --- reading

    @abstractmethod
    def get(
        self, key: str, start: int = 0, length: int | None = None, *, stamp: Stamp | None = None
    ) -> bytes | memoryview | None:
        """The bytes of an object from `start` on, at most `length` of them; None if there is no such object.

        A negative `start` means the last `-start` bytes, or the whole object if it is shorter, and takes no `length`.
        Bytes past the object's end are left out. With `stamp`, `ConflictError` if the object is no longer that one.
        """

    async def aget(self, key: str, start: int = 0, length: int | None = None) -> bytes | memoryview | None:
        """`get`, which lets others run meanwhile: in a thread of the event loop, or in none if the store can."""
        from asyncio import to_thread

        return await to_thread(self.get, key, start, length)

    @abstractmethod
    def get_ranges(
        self, key: str, ranges: Sequence[tuple[int, int]], *, stamp: Stamp | None = None
    ) -> builtins.list[memoryview] | None:
        """The bytes of each (offset, length), in the order asked for; None if there is no such object.

        All come from one version of the object. Near ranges are fetched together, so what is returned may be views into
        one buffer. A range that does not lie within the object raises `CorruptDataError`.
        """

    def get_many(self, keys: Iterable[str]) -> Iterator[bytes | memoryview | None]:
        """Whole objects, in the order of the keys."""
        return map(self.get, keys)

    def get_ranges_many(
        self, requests: Sequence[tuple[str, Sequence[tuple[int, int]], Stamp | None]]
    ) -> builtins.list[builtins.list[memoryview] | None]:
        """`get_ranges` for each (key, ranges, stamp). Errors say which key."""
        return [self.get_ranges(key, ranges, stamp=stamp) for key, ranges, stamp in requests]

    def snapshot(
        self, key: str, start: int = 0, length: int | None = None, *, stamp: Stamp | None = None
    ) -> Snapshot | None:
        """`get`, together with the size and the stamp of the object that the bytes were read from."""
        if stamp is None:
            found = None
            for attempt in again(key, BEING_REPLACED):
                with attempt:
                    now = self.stamp(key)
                    found = None if now is None else self.snapshot(key, start, length, stamp=now)
            return found
        size = self.size(key)
        data = self.get(key, start, length, stamp=stamp)
        if size is None or data is None:
            raise changed(key, stamp)
        return Snapshot(data, size, stamp)

    def version(self, key: str) -> tuple[bytes | memoryview, Stamp | None] | None:
        """All bytes of an object, and a stamp that no later version has (see `settled`); None where that would be a
        request of its own, or nobody knows.
        """
        stamp = None if self.remote or self.blind else self.stamp(key)
        if stamp is not None and not self.settled(stamp):
            stamp = None
        data = self.get(key)
        return None if data is None else (data, stamp)

    def snapshots(self, keys: Sequence[str], spans: Sequence[Span] | None = None) -> builtins.list[Snapshot | None]:
        """`snapshot` of each object, whatever version is there, or of this (start, length) of it."""
        wanted = [(0, None)] * len(keys) if spans is None else spans
        return self.each(lambda one: self.snapshot(one[0], *one[1]), [*zip(keys, wanted, strict=True)])

    def in_file(self, keys: Sequence[str], stamps: Sequence[Stamp | None] | None) -> Within | None:
        """Where these objects lie, if that is in one file of this machine, and they are what they were by their stamps,
        as far as those are given; None: they have to be asked for.
        """
        return None

    def is_in_file(self, stamp: Stamp | None) -> bool:
        """Whether `in_file` would tell of objects of the file with this stamp, as far as is known without a look."""
        return False

    def each(self, function: Callable[[T], R], items: Sequence[T]) -> builtins.list[R]:
        """What `function` gives for each item. Where that means waiting for a network, several calls run at once."""
        return [function(item) for item in items]

    def gives_parts(self) -> bool:
        """Whether `snapshots` of parts of objects cost no more requests than those of whole ones."""
        return False

    def parts_ahead(self) -> int:
        """How many parts of a large read should be under way while one is worked on; 0: nothing is waited for."""
        return 0

    def small_parts_pay(self) -> bool:
        """Whether a read of a few megabytes should come in parts too, so that one is worked on while others come."""
        return True

    @abstractmethod
    def size(self, key: str) -> int | None:
        """How many bytes an object has; None if there is no such object."""

    def sizes(self, keys: Iterable[str]) -> builtins.list[int | None]:
        """`size` for each of these objects."""
        return self.each(self.size, [*keys])

    @abstractmethod
    def stamp(self, key: str) -> Stamp | None:
        """What identifies the object's present content, as cheaply as the store can tell; None: no such object."""

    def stamps(self, keys: Sequence[str]) -> builtins.list[Stamp | None]:
        """`stamp` of each of these objects, which are asked for at once."""
        return self.each(self.stamp, keys)

    def md5(self, key: str) -> str | None:
        """The MD5 of an object, if the store tells it without reading the object; else None."""
        return None

    def facts_by(self, stamp: Stamp) -> Facts | None:
        """What a stamp tells of its object, if it tells anything."""
        return None

    def facts(self, keys: Iterable[str]) -> builtins.list[Facts | None]:
        """Size and MD5 of each of these objects; None where there is none."""

        def told(key: str) -> Facts | None:
            size = self.size(key)
            return None if size is None else Facts(size, self.md5(key))

        return self.each(told, [*keys])

    def facts_listed(self, keys: Iterable[str]) -> dict[str, Facts] | None:
        """`facts` of those of these objects that a list names, without a request for each. Others may be there all the
        same, which `put_if_unchanged` finds out in one step.

        None where no list tells.
        """
        return None

    def settled(self, stamp: Stamp) -> bool:
        """Whether every later change is sure to give another stamp than this one, so that a cache may rely on it.

        Files that changed a few milliseconds ago may change again and look the same. Ask after taking the stamp and
        before reading the object.
        """
        return True

    def same(self, one: Stamp, other: Stamp) -> bool:
        """Whether two stamps are of one version, of which a write may tell less than a look."""
        return bool(one == other)

    def watched(self, key: str) -> Watched | None:
        """An object that reads look at when they are done, without a call of their own; None where that cannot be."""
        return None

    def watched_stamp(self, stamp: Stamp | None) -> bytes | None:
        """The stamp of the file that is watched while an object has this one; None where it has none."""
        return stamp if isinstance(stamp, bytes) else None

    def kept_file(self, key: str) -> OpenFile | None:
        """An object of a local store as an open file, which is kept open as long as others do not need it more.

        None where there are no files, or no such object.
        """
        return None

    def exists(self, key: str) -> bool:
        return self.size(key) is not None

    def present(self, keys: Iterable[str]) -> set[str] | None:
        """Those of a few objects that are there, or of which only a closer look can tell; None where to ask for all of
        them at once is not cheaper than to ask for the first ones.
        """
        return None

    @abstractmethod
    def list(self, prefix: str = "") -> Iterator[str]:
        """The keys of all objects below a folder, in order."""

    def opened_file(self, key: str) -> OpenFile | None:
        """An object as an open file of this machine, which the system can copy; None where it is none, or not there."""
        return None

    def list_readable(self, refused: Refused, prefix: str = "") -> Iterator[str]:
        """What `list` gives, without what lies in folders that cannot be looked into, and without objects whose names
        are no keys, as services may have them: `refused` is told of each.
        """
        return self.list(prefix)

    def list_told(self, refused: Refused) -> Iterator[tuple[str, Facts | None]]:
        """`list_readable`, with the `facts` of each as far as the list itself tells them."""
        return ((key, None) for key in self.list_readable(refused))

    @abstractmethod
    def list_dir(self, prefix: str = "") -> tuple[builtins.list[str], builtins.list[str]]:
        """What a folder holds itself, in order: (names of folders, names of objects)."""

    def others(self, prefix: str = "", refused: Refused | None = None) -> Iterator[tuple[str, Other]]:
        """What else lies below a folder, by its key: folders, and what has the name of an object and cannot be read.

        Nothing, where objects are all that there can be. Folders that cannot be looked into are passed over where
        `refused` is told of them.
        """
        return iter(())

    def refuse_other(self, key: str) -> None:
        """StoreError if something has the name of an object that there is not: then it may have been stored once."""

    def some_objects(self, prefix: str, most: int) -> builtins.list[str]:
        """The names of some of the objects that a folder holds itself, found among `most` of its entries."""
        return self.list_dir(prefix)[1][:most]

    # --- writing

    @abstractmethod
    def put(self, key: str, data: Buffer | Sequence[Buffer]) -> None:
        """Store an object as a whole: readers see the old bytes or the new ones, never a part.

        A list or tuple of buffers is stored as their concatenation, without joining them first.
        """

    async def aput(self, key: str, data: bytes) -> None:
        """`put`, as `aget` is to `get`."""
        from asyncio import to_thread

        await to_thread(self.put, key, data)

    async def aput_data(self, key: str, data: bytes) -> None:
        """`put_data`, as `aget` is to `get`."""
        from asyncio import to_thread

        await to_thread(self.put_data, key, data)

    @abstractmethod
    def put_if_unchanged(self, key: str, data: Buffer | Sequence[Buffer], stamp: Stamp | None) -> None:
        """`put`, unless the object is no longer what it was when `stamp` was taken: then `ConflictError`.

        A stamp of None means that the object must not exist.
        """

    def put_each(
        self, wanted: Sequence[tuple[str, Buffer | Sequence[Buffer], Stamp | Anything | None]]
    ) -> builtins.list[bool]:
        """Store chunks or shards, each (key, data, condition): a stamp, None for none, as `put_if_unchanged` takes
        them, or ANYTHING. Whether each was stored; False where the condition did not hold.
        """

        def put(one: tuple[str, Buffer | Sequence[Buffer], Stamp | Anything | None]) -> bool:
            key, data, condition = one
            try:
                if isinstance(condition, Anything):
                    self.put_data(key, data)
                else:
                    self.put_if_unchanged(key, data, condition)
            except ConflictError:
                return False
            return True

        return self.each(put, wanted)

    def put_stamped(
        self, wanted: Sequence[tuple[str, Buffer | Sequence[Buffer], Stamp | Anything | None]]
    ) -> builtins.list[Stamp | bool]:
        """`put_each`; where it is told, a stamp of what was stored stands for True. It serves to read or replace just
        that; what `stamp` gives may say more.
        """
        return [*self.put_each(wanted)]

    def put_data(self, key: str, data: Buffer | Sequence[Buffer]) -> None:
        """`put` of what there is much of, such as chunks and shards, and not of a document: as durable as the store's
        `durability` says, where `put` may do more.
        """
        self.put(key, data)

    def put_first(self, key: str, data: Buffer | Sequence[Buffer]) -> None:
        """`put` of what only this begins, which none does under a lock: `ConflictError` if something is there."""
        self.put_if_unchanged(key, data, None)

    def writer(self, key: str, unchanged: Stamp | Anything | None = ANYTHING) -> ObjectWriter:
        """A context manager to write an object of any size piece by piece, which readers see only when it is whole.

        With `unchanged`, leaving it is a `put_if_unchanged` with that stamp.
        """
        self._refuse_if_read_only(key)
        encode_key(key)
        return SpooledWriter(self, key, unchanged)

    def append(self, key: str, parts: Buffer | Sequence[Buffer], at: int, *, ending: bool = False) -> None:
        """Lengthen an object in place. `at` is the size that it must have, else `ConflictError`.

        `ending`: readers look first at what the object ends with, of which the last part takes the place. They find the
        old end or the new one at every moment, if it is no longer than 4096 bytes. Bytes that mean nothing may come to
        lie between the last part and those before.
        """
        raise UnsupportedError(f"{self.root}: objects here cannot be changed in place", key=key)

    def patch(self, key: str, offset: int, data: Buffer | Sequence[Buffer], *, crash_safe: bool = False) -> None:
        """Overwrite bytes of an object in place, all of them within its size.

        `crash_safe`, under the object's lock: the change is completed even if the process dies during it, see
        `partial_writes`.
        """
        raise UnsupportedError(f"{self.root}: objects here cannot be changed in place", key=key)

    def unfinished(self, key: str) -> Unfinished | None:
        """The old or the new state of an object that a writer appends to or patches (`crash_safe`), or died doing so.

        For readers that find bytes they cannot understand. A caller that takes the lock never sees such a state.
        """
        return None

    @abstractmethod
    def delete(self, key: str) -> bool:
        """Remove an object; False if there was none."""

    def delete_all(self, keys: Iterable[str]) -> None:
        """Remove those of these objects that there are, by as few requests as the store needs."""
        self.each(self.delete, [*keys])

    @abstractmethod
    def delete_prefix(self, prefix: str) -> int:
        """Remove a folder and everything below it: how many objects went. An empty prefix empties the store."""

    def lock(self, key: str, timeout: float | None = None) -> AbstractContextManager[None]:
        """Keep other threads and processes from a read-modify-write of this object, as long as they take the lock too.

        After `timeout` seconds of waiting: `ConflictError`.
        """
        raise UnsupportedError(f"{self.root}: objects here cannot be locked", key=key)

    def lock_all(self, keys: builtins.list[str]) -> AbstractContextManager[None]:
        """`lock` for several objects at once, whose keys are sorted: so no two writers wait for each other's locks."""
        return lock_all(self, keys)

    def edit(self, key: str) -> Edit:
        """Replace an object by what is made of it, so that no writer's change is lost: see `Edit`.

        The lock of the object is held meanwhile, if the store has locks. If it has none, another writer may be
        quicker: then storing it raises `ConflictError`, and `again` starts over.
        """
        return Edit(self, key)

    def edit_all(self, keys: Iterable[str]) -> AbstractContextManager[dict[str, Edit]]:
        """`edit` for several objects at once, by their keys."""
        return EditAll(self, keys)

    def change(self, key: str, change: Callable[[bytes | None], bytes | None]) -> None:
        """Replace an object by what `change` makes of its bytes (None: there is none), losing no other writer's change.

        If `change` gives None, nothing is written. Without locks it may be called several times.
        """
        for attempt in again(key):
            with self.edit(key) as edit:
                old = edit.get()
                new = change(None if old is None else bytes(old))
                if new is not None:
                    # Here and not around it all: conflicts of `change` are its own.
                    with attempt:
                        edit.put(new)

    # --- the store itself

    def looking_at(
        self, keys: Sequence[str], otherwise: Sequence[str] = (), around: Sequence[str] = ()
    ) -> AbstractContextManager[None]:
        """Within this, a remote store asks for each object once. It fetches `keys` at once, and `otherwise` if there is
        none of them; and together with whatever it asks for first, what lies `around`: here and in the folders above.
        """
        return nullcontext()

    def as_it_is(self) -> Store:
        """The store from which a file is read that is opened now: of a single one, no other version than this."""
        return self

    def look_at_file(self, key: str, around: Sequence[str]) -> LookedAt | None:
        """The beginning of an object, and others `around` it, asked for at once where that is a request over a network:
        `used`, it answers what is asked of it; None elsewhere.
        """
        return None

    def telling(self, stamps: Mapping[str, Stamp | None]) -> AbstractContextManager[None]:
        """Within this, where nothing is written, a remote store answers this thread's questions for the stamps of these
        objects so, without asking. One that turns out to be another is asked for again.
        """
        return nullcontext()

    @abstractmethod
    def object_id(self, key: str) -> Hashable:
        """What names this object within this process, whichever store object it is reached through."""

    @abstractmethod
    def child(self, prefix: str) -> Store:
        """The store of what lies below a folder."""

    def above(self) -> Iterator[Store]:
        """The stores of the folders around it in the same place, the nearest first, where no path leads to them."""
        return iter(())

    def damaged(self) -> Iterator[ZvcoreError]:
        """What the store itself can tell of objects whose bytes are not those that were written."""
        return iter(())

    def finish(self) -> None:
        """Let others see what was written, where they do not see it at once. More can be written afterwards."""

    def put_back(self, key: str | None = None) -> builtins.list[str]:
        """Undo what a power cut has left of writes with `durability="late"`: the keys of the objects that are now what
        they were before. Writes that were whole stay. With `key`, no other object is looked at.
        """
        return []

    def explained(self, error: ZvcoreError) -> ZvcoreError:
        """The error of an object that could not be read; it says so if `put_back` would help."""
        return error

    def durable(self, fsync: bool | None, durability: str | None = None) -> Store:
        """This store, with writes that are durable before they return, or not; None: as it is. `durability` says more
        closely how files take the place of older ones: see `zvcore.stores.durability`.

        Where writes are not files, they are as durable as the store itself.
        """
        if durability is not None:
            raise ValueError(f"durability={durability!r} is for stores in folders; {self.root} is in none")
        return self

    def caching(self, max_bytes: int) -> Store:
        """This store, with a cache of this many bytes for the decoded chunks of its arrays; 0: without one."""
        if max_bytes:
            raise ValueError(f"cache={max_bytes!r} is for stores in folders; {self.root} is in none")
        return self

    def close(self) -> None:
        """Let go of what is kept open. The store can still be used."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.root}{' (read-only)' if self.read_only else ''}>"

    # --- for subclasses

    def _refuse_if_read_only(self, key: str) -> None:
        if self.read_only:
            raise ReadOnlyError(f"{self.root} was opened for reading", key=key)


def prefix_path(prefix: str) -> str:
    """A folder's key without the trailing slash that users may write; "" is the store itself."""
    if not isinstance(prefix, str):
        raise TypeError(f"a prefix is a str, not {type(prefix).__name__}")
    if prefix != "/":
        prefix = prefix.removesuffix("/")
    if prefix:
        encode_key(prefix)
    return prefix


def check_span(start: int, length: int | None) -> None:
    """Arguments of `get`, before anything is looked up."""
    if length is not None and (length < 0 or start < 0):
        raise ValueError("a range has no negative length" if length < 0 else "the end of an object takes no length")


def check_ranges(key: str, ranges: Sequence[tuple[int, int]], size: int) -> None:
    """Arguments of `get_ranges`: each lies within the object, which has this size."""
    for offset, length in ranges:
        if offset < 0 or length < 0:
            raise ValueError(f"{key}: a range cannot have offset {offset} and length {length}")
        if offset + length > size:
            raise outside(key, offset, length, size)


def outside(key: str, offset: int, length: int, size: int) -> CorruptDataError:
    """The error of a range that does not lie within its object."""
    return CorruptDataError(
        "the range does not lie within the object", key=key, offset=offset, length=length,
        expected=f"at most {size} bytes", found=offset + length,
    )  # fmt: skip
