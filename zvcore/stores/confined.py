"""A folder that no link leads out of: for data that others made and that is shown to third parties.

Links are followed only if they lead to something in the folder. A folder may be replaced by a link between checking and
opening, so the path without links is resolved first, and then walked folder by folder, refusing links.
Hard links cannot be told from files.
"""

from __future__ import annotations

import errno
import os
import stat as modes
import struct
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from zvcore.errors import InvalidKeyError, UnsupportedError
from zvcore.stores import files
from zvcore.stores.absolute import absolute
from zvcore.stores.again import changed
from zvcore.stores.base import Snapshot, Stamp, check_span, prefix_path
from zvcore.stores.listing import Listing
from zvcore.stores.lock_names import lock_path
from zvcore.stores.others import Other, others_below, others_in, unreadable
from zvcore.stores.partial_writes import Unfinished, unfinished_of
from zvcore.stores.read_only import ReadOnlyStore
from zvcore.stores.reading import keys_below, read_ranges
from zvcore.system.beneath import open_beneath, open_kind_beneath

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from zvcore.stores.base import Refused
    from zvcore.stores.others import LookedInto

__all__ = ["ABSENT", "ConfinedStore", "Confinement", "Kind", "NoFileError", "any_name"]

T = TypeVar("T")
Names = tuple[bytes, ...]

_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
# What the system says of a link that is not to be followed.
_LINKS = (errno.ELOOP, errno.ENOTDIR, errno.EMLINK)
# And of what is not there.
ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.ENXIO)
_ATTEMPTS = 3
# As many as Linux follows.
_MOST_LINKS = 40
# So often a folder is listed that was listed already: links could make a tree without end of a few folders.
_MOST_REPEATED = 1000
# What `files.stamp` gives: device, inode, size, times of modification and change.
_STAMP = struct.Struct("=5Q")


def any_name(name: bytes) -> bool:
    return True


class NoFileError(FileNotFoundError):
    """Something is there and cannot be read: `other` is what."""

    def __init__(self, other: Other) -> None:
        super().__init__(errno.ENOENT, os.strerror(errno.ENOENT))
        self.other = other


class Kind(NamedTuple):
    """What a file or folder is, and which: `modified` in nanoseconds."""

    mode: int
    inode: int
    size: int
    modified: int


class Confinement:
    """An open folder. `allowed` says which names may stand on the way to what is asked for, links' targets included."""

    def __init__(self, path: str | os.PathLike[str] | bytes) -> None:
        # Links may name the folder by what it was called, and by what it is.
        self._given = os.fsencode(absolute(path)).rstrip(b"/")
        self.path = os.path.realpath(os.fsencode(path))
        self._descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._by_system = True
        try:
            os.close(open_beneath(self._descriptor, b".", _FOLDER))
        except (NotImplementedError, OSError):
            self._by_system = False

    def __reduce__(self) -> tuple[Any, ...]:
        return (Confinement, (self.path,))

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def beneath(self) -> int | None:
        """The folder's descriptor, for calls that the system keeps below it; None where it cannot."""
        return self._descriptor if self._by_system else None

    def open(self, names: Sequence[bytes], allowed: Callable[[bytes], bool] = any_name) -> tuple[int, Kind]:
        """A descriptor of the file or folder that these names lead to, and what it is: nothing else is ever opened.

        FileNotFoundError where there is none (NoFileError: but something else); InvalidKeyError where they lead out, or
        to a name that is not allowed.
        """
        return self._reach(names, allowed, self.open_here)

    def look(self, names: Sequence[bytes], allowed: Callable[[bytes], bool] = any_name) -> os.stat_result:
        """What `open` would find."""
        return self._reach(names, allowed, self.look_here)

    def _reach(
        self, names: Sequence[bytes], allowed: Callable[[bytes], bool], act: Callable[[Sequence[bytes]], T]
    ) -> T:
        if not all(map(allowed, names)):
            raise InvalidKeyError("this name may not be read here")
        if not names:
            self.refuse_if_gone()
        try:
            return self._reached(names, allowed, act)
        except NoFileError:
            raise
        except FileNotFoundError:
            self.refuse_if_gone()
            raise

    def refuse_if_gone(self) -> None:
        """Of a folder that is no longer where it was, nothing is known to be missing: that would be values to readers.

        What is open is empty if it was removed, and may lie elsewhere, or below what was mounted over it.
        """
        try:
            if os.path.samestat(os.fstat(self._descriptor), os.stat(self.path)):
                return
        except (FileNotFoundError, NotADirectoryError):
            pass
        # Without its path: servers tell others of this.
        raise OSError(errno.ESTALE, "this folder was removed, renamed or replaced since it was opened")

    def _reached(
        self, names: Sequence[bytes], allowed: Callable[[bytes], bool], act: Callable[[Sequence[bytes]], T]
    ) -> T:
        try:
            return act(names)
        except OSError as error:
            if error.errno not in _LINKS:
                raise
        for _ in range(_ATTEMPTS):
            way = self._without_links(names)
            if not all(map(allowed, way)):
                raise InvalidKeyError("a link leads to a name that may not be read here")
            try:
                return act(way)
            except OSError as error:
                if error.errno not in _LINKS:
                    raise
        raise InvalidKeyError("links are changed faster than they can be followed")

    def _without_links(self, names: Sequence[bytes]) -> builtins.list[bytes]:
        """The way to what these names lead to. Nothing outside of the folder is looked at, not even whether it is."""
        top = [name for name in self.path.split(b"/") if name]
        at = [*top]
        pending = [*reversed(names)]
        followed, given = 0, len(pending)
        while pending:
            by_link = len(pending) > given
            name = pending.pop()
            given = min(given, len(pending))
            if name in (b"", b"."):
                continue
            if name == b"..":
                del at[-1:]
                continue
            if len(at) < len(top):
                # Only the way back in is known without looking.
                if name != top[len(at)]:
                    raise InvalidKeyError("a link leads out of the folder")
                at.append(name)
                continue
            try:
                target = self._link([*at[len(top) :], name])
            except FileNotFoundError:
                if by_link:
                    raise NoFileError(Other.LINK) from None
                raise
            if target is None:
                at.append(name)
                continue
            followed += 1
            if followed > _MOST_LINKS:
                raise NoFileError(Other.LINK)
            if target.startswith(b"/"):
                at = []
                if target == self._given or target.startswith(self._given + b"/"):
                    at, target = [*top], target[len(self._given) :]
            pending.extend(reversed(target.split(b"/")))
        if len(at) < len(top):
            raise InvalidKeyError("a link leads out of the folder")
        return at[len(top) :]

    def _link(self, way: Sequence[bytes]) -> bytes | None:
        """Where a link leads; None for anything else."""
        above, name = self._above(way)
        try:
            return os.readlink(name, dir_fd=above)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            return None
        finally:
            os.close(above)

    # --- without links

    def open_here(self, names: Sequence[bytes]) -> tuple[int, Kind]:
        """`open`, but links are errors."""
        if self._by_system:
            above, name = _way(names)
            descriptor, *told = open_kind_beneath(self._descriptor, above, name, _FOLDER, _FILE)
            kind = Kind(*told)
            if descriptor < 0:
                _refuse_others(kind.mode)
            return descriptor, kind
        return self._open_step_by_step(names)

    def _open_step_by_step(self, names: Sequence[bytes]) -> tuple[int, Kind]:
        above, name = self._above(names)
        try:
            _refuse_others(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode)
            descriptor = os.open(name, _FILE, dir_fd=above)
        finally:
            os.close(above)
        try:
            # Somebody may have put another there meanwhile.
            found = os.fstat(descriptor)
            _refuse_others(found.st_mode)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor, Kind(found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns)

    def look_here(self, names: Sequence[bytes]) -> os.stat_result:
        """`look`, but links are errors."""
        above, name = self._above(names)
        try:
            found = os.stat(name, dir_fd=above, follow_symlinks=False)
        finally:
            os.close(above)
        _refuse_others(found.st_mode)
        return found

    def _above(self, names: Sequence[bytes]) -> tuple[int, bytes]:
        """(a descriptor of the folder, the name in it) of what these names lead to."""
        way, name = _way(names)
        if self._by_system:
            return open_beneath(self._descriptor, way, _FOLDER), name
        current = os.open(b".", _FOLDER, dir_fd=self._descriptor)
        try:
            for folder in names[:-1]:
                below = os.open(folder, _FOLDER, dir_fd=current)
                os.close(current)
                current = below
        except BaseException:
            os.close(current)
            raise
        return current, name


def _way(names: Sequence[bytes]) -> tuple[bytes, bytes]:
    """(the path of the folder, the name in it) that these names are."""
    if b".." in names or any(b"/" in name for name in names):
        raise InvalidKeyError("this cannot be the name of a file")
    return b"/".join(names[:-1]) or b".", names[-1] if names else b"."


def _refuse_others(mode: int) -> None:
    """A pipe or a device could keep us waiting for ever, and a link is not what was asked for."""
    if modes.S_ISLNK(mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if not (modes.S_ISREG(mode) or modes.S_ISDIR(mode)):
        raise NoFileError(Other.SPECIAL)


class ConfinedStore(ReadOnlyStore):
    """What lies in a folder, for reading, and never what lies outside of it, whatever links and names say.

    Native code gets no path to open by itself: every byte comes through `Confinement.open`.
    """

    of_files = True

    def __init__(
        self,
        folder: Confinement,
        names: Sequence[bytes] = (),
        allowed: Callable[[bytes], bool] = any_name,
        largest: int | None = None,
    ) -> None:
        """`largest`: no read may ask for more bytes at once."""
        self._folder = folder
        self._names = tuple(names)
        self._allowed = allowed
        self.largest = largest
        self.root = os.fsdecode(b"/".join([folder.path, *self._names]))

    def beneath(self) -> tuple[int, bytes] | None:
        """An open folder, and the way from there to where keys begin, for native code that follows no links; None where
        the system cannot see to that, or not everything may be read.
        """
        descriptor = self._folder.beneath()
        if descriptor is None or self.largest is not None or self._allowed is not any_name:
            return None
        return descriptor, b"".join(name + b"/" for name in self._names)

    def _way(self, key: str) -> Names:
        return (*self._names, *files.encode_key(key).split(b"/"))

    def _way_to_folder(self, prefix: str) -> Names:
        prefix = prefix_path(prefix)
        return self._way(prefix) if prefix else self._names

    def _open(self, key: str) -> files.OpenFile | None:
        way = self._way(key)
        try:
            descriptor, _ = self._folder.open(way, self._allowed)
            return files.OpenFile(b"/".join(way), descriptor)
        except OSError as error:
            if error.errno in ABSENT:
                return None
            raise
        except InvalidKeyError as error:
            raise error.located(key=key)

    def _look(self, way: Names) -> os.stat_result | None:
        try:
            return self._folder.look(way, self._allowed)
        except OSError as error:
            if error.errno in ABSENT:
                return None
            raise
        except InvalidKeyError as error:
            raise error.located(key=os.fsdecode(b"/".join(way)))

    def refuse_other(self, key: str) -> None:
        try:
            found = self._folder.look(self._way(key), self._allowed)
        except NoFileError as error:
            raise unreadable(error.other, key) from None
        except (OSError, InvalidKeyError):
            return  # there is nothing, or reading it was an error
        if modes.S_ISDIR(found.st_mode):
            raise unreadable(Other.FOLDER, key)

    # --- reading

    def opened_file(self, key: str) -> files.OpenFile | None:
        return self._open(key) if self.largest is None else None

    def get(
        self, key: str, start: int = 0, length: int | None = None, *, stamp: Stamp | None = None
    ) -> bytes | memoryview | None:
        check_span(start, length)
        file = self._open(key)
        if file is None:
            return None
        size = file.size()
        self._refuse_if_too_large(key, size, start, length)
        data = file.read(start, length, size)
        if stamp is not None and file.stamp() != stamp:
            raise changed(key, stamp)
        return data

    def get_ranges(
        self, key: str, ranges: Sequence[tuple[int, int]], *, stamp: Stamp | None = None
    ) -> builtins.list[memoryview] | None:
        file = self._open(key)
        if file is None:
            return None
        self._refuse_if_too_large(key, sum(length for _, length in ranges), 0, None)
        return read_ranges(file, key, ranges, stamp)

    def _refuse_if_too_large(self, key: str, size: int, start: int, length: int | None) -> None:
        wanted = min(-start, size) if start < 0 else max(0, size - start)
        wanted = wanted if length is None else min(wanted, length)
        if self.largest is not None and wanted > self.largest:
            raise UnsupportedError(
                "too much to be read at once", key=key, expected=f"at most {self.largest} bytes", found=wanted
            )

    def snapshot(
        self, key: str, start: int = 0, length: int | None = None, *, stamp: Stamp | None = None
    ) -> Snapshot | None:
        check_span(start, length)
        file = self._open(key)
        if file is None:
            return None
        found = file.stamp()
        size = files.stamp_size(found)
        self._refuse_if_too_large(key, size, start, length)
        data = file.read(start, length, size)
        if (stamp is not None and found != stamp) or file.stamp() != found:
            raise changed(key, stamp)
        return Snapshot(data, size, found)

    def size(self, key: str) -> int | None:
        found = self._look(self._way(key))
        return found.st_size if found is not None and modes.S_ISREG(found.st_mode) else None

    def stamp(self, key: str) -> Stamp | None:
        found = self._look(self._way(key))
        if found is None or not modes.S_ISREG(found.st_mode):
            return None
        return _STAMP.pack(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    def settled(self, stamp: Stamp) -> bool:
        assert isinstance(stamp, bytes)
        return files.settled(stamp)

    def unfinished(self, key: str) -> Unfinished | None:
        way = self._way(key)
        lock = (*way[:-1], lock_path(way[-1]))
        descriptors = []
        try:
            for names in (lock, way):
                descriptors.append(self._folder.open(names, self._allowed)[0])
            return unfinished_of(way[-1], *descriptors)
        except (OSError, InvalidKeyError):
            return None
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def list(self, prefix: str = "") -> Iterator[str]:
        return self._keys(prefix)

    def list_readable(self, refused: Refused, prefix: str = "") -> Iterator[str]:
        return self._keys(prefix, refused)

    def _keys(self, prefix: str, refused: Refused | None = None) -> Iterator[str]:
        seen: set[tuple[int, int]] = set()
        repeated = 0

        def enter(prefix: str) -> _OpenFolder | None:
            nonlocal repeated
            folder = self._enter(prefix)
            if folder is not None:
                repeated += folder.identity in seen
                if repeated > _MOST_REPEATED:
                    text = "links lead to the same folders again and again"
                    raise UnsupportedError(text, key=f"{self.root}/{prefix}")
                seen.add(folder.identity)
            return folder

        return keys_below(prefix_path(prefix), enter, refused)

    def _enter(self, prefix: str) -> _OpenFolder | None:
        opened = self._opened_folder(prefix)
        if opened is None:
            return None
        way, descriptor = opened
        return _OpenFolder(self, way, Listing(b"/".join(way), descriptor))

    def _opened_folder(self, prefix: str) -> tuple[Names, int] | None:
        """(the way to a folder, its descriptor)."""
        way = self._way_to_folder(prefix)
        try:
            descriptor, found = self._folder.open(way, self._allowed)
        except OSError as error:
            if error.errno in ABSENT:
                return None
            raise
        except InvalidKeyError as error:
            raise error.located(key=os.fsdecode(b"/".join(way)))
        if not modes.S_ISDIR(found.mode):
            os.close(descriptor)
            return None
        return way, descriptor

    def list_dir(self, prefix: str = "") -> tuple[builtins.list[str], builtins.list[str]]:
        folders, objects = self._found(prefix)
        return sorted(folders), sorted(objects)

    def some_objects(self, prefix: str, most: int) -> builtins.list[str]:
        return self._found(prefix, most)[1]

    def _found(self, prefix: str, most: int | None = None) -> tuple[builtins.list[str], builtins.list[str]]:
        folder = self._enter(prefix)
        return ([], []) if folder is None else folder.names(most)

    def others(self, prefix: str = "", refused: Refused | None = None) -> Iterator[tuple[str, Other]]:
        return others_below(
            prefix_path(prefix), self._looked_into, lambda key: self._kind_behind(self._way(key)), refused
        )

    def _looked_into(self, prefix: str) -> LookedInto | None:
        opened = self._opened_folder(prefix)
        if opened is None:
            return None
        try:
            found = others_in(opened[1])
        finally:
            os.close(opened[1])
        return found._replace(entries=[one for one in found.entries if self._may_be(one[0])])

    def _kind_behind(self, link: Names) -> int:
        """A folder or an object, or neither. A link that leads out passes for an object, and reading it is an error."""
        try:
            found = self._look(link)
        except InvalidKeyError:
            return modes.S_IFREG
        return 0 if found is None else modes.S_IFMT(found.st_mode)

    def _may_be(self, name: str) -> bool:
        return self._allowed is any_name or self._allowed(_encoded(name))

    # --- the store itself

    def object_id(self, key: str) -> Hashable:
        return (self._folder, *self._way(key))

    def child(self, prefix: str) -> ConfinedStore:
        return ConfinedStore(self._folder, self._way_to_folder(prefix), self._allowed, self.largest)


class _OpenFolder:
    """A folder of a confined store, open to be read once."""

    def __init__(self, store: ConfinedStore, way: Names, listing: Listing) -> None:
        self._store = store
        self._way = way
        self._listing = listing
        self.identity = listing.identity

    def names(self, most: int | None = None) -> tuple[list[str], list[str]]:
        """(names of folders, names of objects), as they come."""
        store = self._store
        folders, objects, links = (
            [name for name in names if store._may_be(name)] for names in self._listing.names(False, most)
        )
        for name in links:
            kind = store._kind_behind((*self._way, _encoded(name)))
            if modes.S_ISDIR(kind):
                folders.append(name)
            elif modes.S_ISREG(kind):
                objects.append(name)
        return folders, objects

    def keys(self, head: str) -> tuple[list[str], list[str]]:
        folders, objects = self.names()
        return [f"{head}{name}/" for name in folders], [head + name for name in objects]


def _encoded(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
