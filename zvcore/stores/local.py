"""Objects as files below a folder."""

from __future__ import annotations

import errno
import os
import stat
import time
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

from zvcore.errors import ConflictError, CorruptDataError, InvalidKeyError, NotFoundError, OutOfMemoryError
from zvcore.stores import file_writes, files
from zvcore.stores.absolute import absolute
from zvcore.stores.again import changed
from zvcore.stores.base import Snapshot, Stamp, Store, check_span, outside, prefix_path
from zvcore.stores.chunk_cache import ChunkCache, shared_cache
from zvcore.stores.durability import chosen_durability, durability_code, single_object_code
from zvcore.stores.folders import put_aside, remove_tree
from zvcore.stores.growing import Growth
from zvcore.stores.kept_versions import cut_short, is_cut_short, kept_version, settle_kept, settle_kept_of
from zvcore.stores.late_writes import settle, start
from zvcore.stores.listing import Listing
from zvcore.stores.lock_names import lock_path, too_long
from zvcore.stores.locks import FileLocks, held_locks, holds, remove_stale_lock
from zvcore.stores.open_files import pool
from zvcore.stores.others import others_below, others_in, refuse_other
from zvcore.stores.partial_writes import Note, Unfinished, noted, unfinished
from zvcore.stores.presence import mode_of
from zvcore.stores.reading import keys_below, read_ranges
from zvcore.stores.writing import ANYTHING, Anything, FileWriter, ObjectWriter, as_parts
from zvcore.system.walking import walk

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from typing_extensions import Buffer

    from zvcore.errors import ZvcoreError
    from zvcore.stores.base import Refused
    from zvcore.stores.files import OpenFile
    from zvcore.stores.others import LookedInto, Other

__all__ = ["LocalStore"]

T = TypeVar("T")

_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
_CUT_SHORT = "a power failure has cut it short, and an older version lies beside it, which `zvcore repair` puts back"
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)


class LocalStore(Store):
    """A folder. Objects are its regular files, whatever made them; symbolic links to files and folders are followed.

    `put` writes a new file beside the old one and renames it, so it replaces a symbolic link, not what that points to.
    What other programs see under an object's name is never incomplete, except by `append` and `patch`, which change the
    file itself.

    What a power cut leaves, `durability` decides: "none" leaves it to chance (but not for `put`), with "late" old
    versions stay until new ones are on the disk and can be `put_back`, with "rename" the file system writes the new
    file out before the old one goes (ext4 does), with "fsync" every write, file and folders, is on the disk before it
    returns. `fsync=True` is "fsync". Where nothing is said, the environment variables ZVCORE_FSYNC=1 and
    ZVCORE_DURABILITY do; else it is "late".

    Names that begin with a dot and end with `.zvtmp` or `.zvlock` are the store's own and never listed; what a killed
    writer leaves of them harms nothing, and `clean` removes it.
    """

    of_files = True
    can_lock = True
    supports_patch = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        read_only: bool = False,
        fsync: bool | None = None,
        durability: str | None = None,
    ) -> None:
        path = os.fsdecode(path)
        if not path or "\0" in path:
            raise ValueError(f"{path!r} names no folder")
        # Only the file system knows what `..` means after a symbolic link.
        self.root = absolute(path, through_links=".." in path.split(os.sep))
        self.local_root: bytes = os.fsencode(self.root)
        self.read_only = read_only
        self.durability = chosen_durability(durability, fsync)
        self.fsync = self.durability == "fsync"
        self._folder = self.local_root if self.local_root.endswith(b"/") else self.local_root + b"/"
        self.chunk_cache = shared_cache()

    def __reduce__(self) -> tuple[Any, ...]:
        return (LocalStore, (self.root, self.read_only, None, self.durability))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LocalStore):
            return NotImplemented
        return self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[bytes, bool, str]:
        return self.local_root, self.read_only, self.durability

    def durable(self, fsync: bool | None, durability: str | None = None) -> LocalStore:
        if durability is None and fsync in (None, self.fsync):
            return self
        store = LocalStore(self.root, self.read_only, fsync, durability)
        store.chunk_cache = self.chunk_cache
        return store

    def caching(self, max_bytes: int) -> LocalStore:
        if isinstance(max_bytes, bool) or not isinstance(max_bytes, int):
            raise TypeError(f"cache is a number of bytes, not {max_bytes!r}")
        store = LocalStore(self.root, self.read_only, durability=self.durability)
        store.chunk_cache = ChunkCache(max_bytes) if max_bytes else None
        return store

    # --- reading

    def get(
        self, key: str, start: int = 0, length: int | None = None, *, stamp: Stamp | None = None
    ) -> bytes | memoryview | None:
        check_span(start, length)
        if start == 0 and length is None and stamp is None:
            try:
                return pool.making_room(lambda: files.read_whole(self._folder, key))
            except MemoryError as error:
                raise _no_memory(key, start, length) from error
        path = files.join(self._folder, key)
        # Objects that are read in parts will be read again. Under a lock, the file must be reopened: only that makes a
        # network file system ask its server.
        in_parts = (start != 0 or length is not None) and not held_locks
        try:
            if in_parts and (file := pool.find(path)) is not None:
                data = self._read_kept(file, start, length)
                if data is not None:
                    # Afterwards, so that what was read is known to be of that version.
                    if stamp is not None and file.stamp() != stamp:
                        raise changed(key, stamp)
                    return data
            file = pool.open(path) if in_parts else pool.open_once(path)
            data = file.read(start, length)
        except FileNotFoundError:
            return None
        except MemoryError as error:
            raise _no_memory(key, start, length) from error
        if stamp is not None and file.stamp() != stamp:
            raise changed(key, stamp)
        return data

    def version(self, key: str) -> tuple[bytes | memoryview, Stamp | None] | None:
        try:
            return pool.making_room(lambda: files.read_version(self._folder, key))
        except MemoryError as error:
            raise _no_memory(key, 0, None) from error

    def kept_file(self, key: str) -> OpenFile | None:
        path = files.join(self._folder, key)
        file = pool.find(path)
        try:
            if file is None or not file.is_current():
                file = pool.open(path)
        except FileNotFoundError:
            return None
        return file

    def _read_kept(self, file: OpenFile, start: int, length: int | None) -> bytes | None:
        """None: the file is not the object any more."""
        try:
            data = file.read_if_current(start, length)
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
            data = None
        if data is None:
            pool.drop(file.path, file)
        return data

    def get_ranges(
        self, key: str, ranges: Sequence[tuple[int, int]], *, stamp: Stamp | None = None
    ) -> builtins.list[memoryview] | None:
        path = files.join(self._folder, key)
        try:
            if not held_locks and (file := pool.find(path)) is not None:
                if file.is_current():
                    try:
                        return read_ranges(file, key, ranges, stamp)
                    except OSError as error:
                        if error.errno != errno.ESTALE:
                            raise
                pool.drop(path, file)
            file = pool.open_once(path) if held_locks else pool.open(path)
            return read_ranges(file, key, ranges, stamp)
        except FileNotFoundError:
            return None
        except MemoryError as error:
            first, last = min(ranges), max(ranges, key=sum)
            raise _no_memory(key, first[0], sum(last) - first[0]) from error

    def snapshot(
        self, key: str, start: int = 0, length: int | None = None, *, stamp: Stamp | None = None
    ) -> Snapshot | None:
        if stamp is None:
            return super().snapshot(key, start, length)
        data = self.get(key, start, length, stamp=stamp)
        if data is None:
            raise changed(key, stamp)
        assert isinstance(stamp, bytes)
        return Snapshot(data, files.stamp_size(stamp), stamp)

    def present(self, keys: Iterable[str]) -> set[str]:
        return files.present(self._folder, keys)

    def size(self, key: str) -> int | None:
        stamp = files.stamp(self._folder, key)
        return None if stamp is None else files.stamp_size(stamp)

    def stamp(self, key: str) -> Stamp | None:
        if not held_locks:
            return files.stamp(self._folder, key)
        try:
            return pool.open_once(files.join(self._folder, key)).stamp()
        except FileNotFoundError:
            return None

    def watched(self, key: str) -> files.Watched | None:
        return files.Watched(files.join(self._folder, key))

    def settled(self, stamp: Stamp) -> bool:
        assert isinstance(stamp, bytes)
        return files.settled(stamp)

    def list(self, prefix: str = "") -> Iterator[str]:
        return keys_below(prefix_path(prefix), self._listing)

    def list_readable(self, refused: Refused, prefix: str = "") -> Iterator[str]:
        return keys_below(prefix_path(prefix), self._listing, refused)

    def _listing(self, prefix: str) -> Listing | None:
        try:
            return Listing(self._prefix_folder(prefix))
        except OSError as error:
            if error.errno not in _ABSENT:
                raise
            return None

    def _prefix_folder(self, prefix: str) -> bytes:
        prefix = prefix_path(prefix)
        return files.join(self._folder, prefix) if prefix else self.local_root

    def list_dir(self, prefix: str = "") -> tuple[builtins.list[str], builtins.list[str]]:
        folders, objects = self._found(prefix)
        return sorted(folders), sorted(objects)

    def some_objects(self, prefix: str, most: int) -> builtins.list[str]:
        return self._found(prefix, most)[1]

    def _found(self, prefix: str, most: int | None = None) -> tuple[builtins.list[str], builtins.list[str]]:
        """(names of folders, names of objects) in a folder, as they come."""
        listing = self._listing(prefix)
        if listing is None:
            return [], []
        folders, objects, _ = listing.names(most=most)
        return folders, objects

    def others(self, prefix: str = "", refused: Refused | None = None) -> Iterator[tuple[str, Other]]:
        return others_below(prefix_path(prefix), self._looked_into, self._type_behind, refused)

    def refuse_other(self, key: str) -> None:
        refuse_other(files.join(self._folder, key), key)

    def _looked_into(self, prefix: str) -> LookedInto | None:
        try:
            return others_in(os.fsdecode(self._prefix_folder(prefix)))
        except OSError as error:
            _unless_absent(error)
            return None

    def _type_behind(self, key: str) -> int:
        try:
            return stat.S_IFMT(os.stat(files.join(self._folder, key)).st_mode)
        except OSError as error:
            if error.errno not in (*_ABSENT, errno.ELOOP):
                raise
            return 0

    # --- writing

    def put(self, key: str, data: Buffer | Sequence[Buffer]) -> None:
        self._refuse_if_read_only(key)
        self._replace(files.join(self._folder, key), as_parts(data))

    def put_if_unchanged(self, key: str, data: Buffer | Sequence[Buffer], stamp: Stamp | None) -> None:
        self._refuse_if_read_only(key)
        path = files.join(self._folder, key)
        with nullcontext() if holds(path) else self.lock(key):
            if self.stamp(key) != stamp:
                raise changed(key, stamp)
            try:
                self._replace(path, as_parts(data), exclusive=stamp is None)
            except FileExistsError:
                raise changed(key) from None
            except OSError as error:
                if stamp is not None or error.errno not in _NO_LINKS:
                    raise
                # No hard links here: the lock has to do.
                self._replace(path, as_parts(data))

    def put_data(self, key: str, data: Buffer | Sequence[Buffer]) -> None:
        self._refuse_if_read_only(key)
        if self.durability == "late":
            start()
        self._replace(files.join(self._folder, key), as_parts(data), durability_code(self.durability))

    def put_first(self, key: str, data: Buffer | Sequence[Buffer]) -> None:
        self._refuse_if_read_only(key)
        try:
            self._replace(files.join(self._folder, key), as_parts(data), exclusive=True)
        except FileExistsError:
            raise changed(key) from None
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            self.put_if_unchanged(key, data, None)

    def _replace(
        self, path: bytes, parts: tuple[Buffer, ...], durability: int | None = None, exclusive: bool = False
    ) -> None:
        way = single_object_code(self.durability) if durability is None else durability
        try:
            self._in_its_folder(path, lambda: file_writes.replace(path, parts, way, exclusive))
        finally:
            pool.drop(path)

    def _in_its_folder(self, path: bytes, write: Callable[[], T]) -> T:
        for _ in range(100):
            try:
                return pool.making_room(write)
            except FileNotFoundError:
                self._make_folder(os.path.dirname(path))
            except OSError as error:
                raise too_long(path) if error.errno == errno.ENAMETOOLONG else error
        # Someone removes the folder as fast as we make it.
        return write()

    def writer(self, key: str, unchanged: Stamp | Anything | None = ANYTHING) -> ObjectWriter:
        self._refuse_if_read_only(key)
        path = files.join(self._folder, key)
        if not isinstance(unchanged, Anything):
            return super().writer(key, unchanged)
        return self._in_its_folder(path, lambda: FileWriter(path, durability_code(self.durability)))

    def opened_file(self, key: str) -> OpenFile | None:
        try:
            return pool.open_once(files.join(self._folder, key))
        except FileNotFoundError:
            return None

    def make_folder(self, prefix: str = "") -> None:
        """Make a folder, and those above it that are missing; the store's own if none is named."""
        self._refuse_if_read_only(prefix)
        self._make_folder(self._prefix_folder(prefix))

    def _make_folder(self, folder: bytes) -> None:
        try:
            file_writes.make_folder(folder, self.local_root, self.fsync)
        except OSError as error:
            raise too_long(folder) if error.errno == errno.ENAMETOOLONG else error

    def append(self, key: str, parts: Buffer | Sequence[Buffer], at: int, *, ending: bool = False) -> None:
        path = self._to_be_changed(key, at)
        growth = Growth.planned(at, as_parts(parts), ending)
        with self._noted(key, path, lambda: Note.of_growth(path, growth)):
            done, size = file_writes.extend(path, growth.parts, at, growth.copy_at, growth.last_at, self.fsync)
        if not done:
            text = "the object was lengthened or cut by someone else in the meantime"
            raise ConflictError(text, key=key, expected=f"{at} bytes", found=size)

    def patch(self, key: str, offset: int, data: Buffer | Sequence[Buffer], *, crash_safe: bool = False) -> None:
        path = self._to_be_changed(key, offset)
        parts = as_parts(data)
        with self._noted(key, path, (lambda: Note.of_patch(path, offset, parts)) if crash_safe else None):
            done, size = file_writes.write_at(path, parts, offset, self.fsync)
        if not done:
            raise outside(key, offset, sum(memoryview(part).nbytes for part in parts), size)

    def _to_be_changed(self, key: str, offset: int) -> bytes:
        self._refuse_if_read_only(key)
        if not 0 <= offset < 2**63:
            raise ValueError(f"{key}: no object has an offset {offset}")
        if self.durability == "late":
            # What is changed here has another time than the version before it is kept for.
            self._settle()
        return files.join(self._folder, key)

    @contextmanager
    def _noted(self, key: str, path: bytes, make: Callable[[], Note] | None) -> Iterator[None]:
        """A block that changes a file; if we hold its lock, under a note of what it is about."""
        try:
            if make is None or not holds(path):
                yield
            else:
                with noted(path, make(), self.fsync):
                    yield
        except FileNotFoundError:
            raise NotFoundError("there is no such object to change", key=key) from None

    def unfinished(self, key: str) -> Unfinished | None:
        return unfinished(files.join(self._folder, key))

    def delete(self, key: str) -> bool:
        self._refuse_if_read_only(key)
        path = files.join(self._folder, key)
        try:
            os.unlink(path)
            if self.fsync:
                file_writes.sync_entry(path)
        except PermissionError:
            if os.path.isdir(path):  # what macOS says of a folder
                return False
            raise
        except OSError as error:
            if error.errno in (*_ABSENT, errno.EISDIR):
                return False
            raise
        finally:
            pool.drop(path)
        return True

    def delete_prefix(self, prefix: str) -> int:
        self._refuse_if_read_only(prefix)
        folder = self._prefix_folder(prefix)
        if folder != self.local_root:
            mode = mode_of(folder)
            if mode is None or not stat.S_ISDIR(mode):  # an object of this very name does not lie below it
                return 0
            pool.drop_below(folder + b"/")
            return self._remove([folder])
        pool.drop_below(self._folder)
        try:
            with os.scandir(folder) as entries:
                found = {entry.path: entry.is_dir(follow_symlinks=False) for entry in entries}
        except (FileNotFoundError, NotADirectoryError):
            return 0
        # Documents go first: without what says what the rest is, a part of it is nothing, and not data with holes.
        documents = [path for path, is_folder in found.items() if not is_folder and not _is_number(path)]
        return self._remove(documents) + self._remove([*(found.keys() - documents)])

    def _remove(self, paths: builtins.list[bytes]) -> int:
        """Remove files and folders that lie in one folder, each at once for all who look: how many objects went."""
        removed = 0
        doomed = []
        for path in paths:
            try:
                try:
                    os.unlink(path)
                    removed += files.is_key_name(os.path.basename(path))
                except (IsADirectoryError, PermissionError):
                    if not os.path.isdir(path):
                        raise
                    doomed.append(put_aside(path))
            except (FileNotFoundError, NotADirectoryError):
                pass
        if self.fsync and paths:
            file_writes.sync_entry(paths[0])
        return removed + sum(map(remove_tree, doomed))

    def clean(self, older_than: float = 3600.0) -> int:
        """Remove what killed writers left behind: how many files went.

        An unfinished write counts as left behind when nothing was written to it for `older_than` seconds; a lock file
        when nobody holds it.
        """
        self._refuse_if_read_only("")
        removed, locks = 0, []
        for folder, below, names in walk(self.local_root, _unless_absent):
            kept = [name for name in names if kept_version(name) is not None]
            settle_kept(folder, kept)
            # Those that are left are new versions that nobody has exchanged yet.
            gone = {name for name in kept if not os.path.lexists(os.path.join(folder, name))}
            removed += len(gone)
            names = [name for name in names if name not in gone]
            for name in below:
                if name.startswith(b".") and name.endswith(b".zvtmp"):
                    remove_tree(os.path.join(folder, name))
                    removed += 1
            for name in names:
                path = os.path.join(folder, name)
                if name.startswith(b".") and name.endswith(b".zvlock"):
                    locks.append(path)
                elif name.startswith(b".") and name.endswith(b".zvtmp"):
                    try:
                        if time.time() - os.lstat(path).st_mtime >= older_than:
                            os.unlink(path)
                            removed += 1
                    except FileNotFoundError:
                        pass
        # Notes first: that takes a lock file, and removes it.
        for path in sorted(locks, key=len, reverse=True):
            remove_stale_lock(path)
        return removed + sum(not os.path.lexists(path) for path in locks)

    def damaged(self) -> Iterator[ZvcoreError]:
        for folder, _, names in walk(self.local_root, _unless_absent):
            for one in cut_short(folder, names):
                key = os.path.join(folder, one.of).removeprefix(self._folder)
                yield CorruptDataError(_CUT_SHORT, key=os.fsdecode(key), expected=f"{one.size} bytes", found=one.found)

    def explained(self, error: ZvcoreError) -> ZvcoreError:
        if error.key is not None and _CUT_SHORT not in error.message and self._is_cut_short(error.key):
            error.message = f"{error.message}; {_CUT_SHORT}"
        return error

    def _is_cut_short(self, key: str) -> bool:
        try:
            return is_cut_short(files.join(self._folder, key))
        except InvalidKeyError:  # errors may name other places
            return False

    def put_back(self, key: str | None = None) -> builtins.list[str]:
        self._refuse_if_read_only(key or "")
        found: builtins.list[str] = []
        if key is not None:
            path = files.join(self._folder, key)
            if settle_kept_of(path):
                pool.drop(path)
                found.append(key)
            return found
        for folder, _, names in walk(self.local_root, _unless_absent):
            for name in settle_kept(folder, names):
                path = os.path.join(folder, name)
                pool.drop(path)
                found.append(os.fsdecode(path.removeprefix(self._folder)))
        return sorted(found)

    def lock(self, key: str, timeout: float | None = None) -> AbstractContextManager[None]:
        self._refuse_if_read_only(key)
        return self._locks([key], timeout)

    def lock_all(self, keys: builtins.list[str]) -> AbstractContextManager[None]:
        if keys:
            self._refuse_if_read_only(keys[0])
        return self._locks(keys, None)

    def _locks(self, keys: builtins.list[str], timeout: float | None) -> FileLocks:
        return FileLocks([lock_path(files.join(self._folder, key)) for key in keys], keys, timeout, self._make_folder)

    # --- the store itself

    def object_id(self, key: str) -> bytes:
        return files.join(self._folder, key)

    def child(self, prefix: str) -> LocalStore:
        store = LocalStore(os.fsdecode(self._prefix_folder(prefix)), self.read_only, durability=self.durability)
        store.chunk_cache = self.chunk_cache
        return store

    def close(self) -> None:
        """Close the files kept open below this folder: some network file systems cannot remove a folder before.

        What was written with `durability="late"` is on the disk when this returns.
        """
        pool.drop_below(self._folder)
        if self.durability == "late" and not self.read_only:
            self._settle()

    def _settle(self) -> None:
        try:
            settle()
        except OSError as error:
            what = "what was replaced could not be brought to the disk; the old version is kept beside it"
            raise OSError(error.errno, f"{os.strerror(error.errno or 0)}: {what}", self.root) from error


def _unless_absent(error: OSError) -> None:
    """Folders that cannot be listed are no empty ones; those that have gone meanwhile, or can have no objects, are."""
    if error.errno not in _ABSENT:
        raise error


def _is_number(path: bytes) -> bool:
    return os.path.basename(path).isdigit()


def _no_memory(key: str, start: int, length: int | None) -> OutOfMemoryError:
    """The error of bytes that are there, or a hole in a file that is said to be that long, and do not fit."""
    return OutOfMemoryError("not enough memory for these bytes", key=key, offset=max(start, 0), length=length)
