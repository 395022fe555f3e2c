"""Whatever fsspec has a file system for."""

from __future__ import annotations

import inspect
import os
import re
import threading
from contextlib import ExitStack, contextmanager, nullcontext
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

import fsspec
from fsspec.asyn import AsyncFileSystem
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.spec import AbstractFileSystem

from zvcore.errors import StoreError, ZvcoreError
from zvcore.stores.again import BEING_REPLACED, again
from zvcore.stores.clients import ChangedError, Client, Found, Version, failure, within
from zvcore.stores.writing import Anything, joined

if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from typing_extensions import Buffer

__all__ = ["NOT_THERE", "FsspecClient", "part_of", "replacing", "wants_all"]

# What file systems raise of what is no object.
NOT_THERE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)

# Parameters of file systems that lie in another one.
_LEADS_FURTHER = frozenset({"fo", "fs", "target_protocol"})
_IPV6_HOST = re.compile(r"://(?:[^/]*@)?\[[^\]/]*\]")
_E_TAGS = ("ETag", "etag", "e_tag", "md5Hash", "content_md5", "crc32c", "checksum", "sha", "sha256", "md5")
# By what names file systems tell when an object was changed, FTP's, HDFS's and Google Drive's among them. When it was
# made says that only where objects are replaced, and not where they are written anew.
_TIMES = (
    "mtime", "LastModified", "last_modified", "updated", "modified", "modify", "modificationTime", "modifiedTime",
    "server_modified", "created",
)  # fmt: skip

# File system -> the lock of all its users: fsspec returns the same file system to all callers in a thread that name the
# same place.
_turns: WeakKeyDictionary[Any, AbstractContextManager[object]] = WeakKeyDictionary()
_making = threading.Lock()


# For replacing an object whose version was looked at: other threads have other file systems and clients for the same
# place, so these locks belong to the process. Few objects share one.
_replacing: builtins.list[threading.Lock] = []


def _renew_locks() -> None:
    """In a child, nobody is left who would release what other threads held."""
    _replacing[:] = [threading.Lock() for _ in range(64)]


_renew_locks()


def _turn_of(filesystem: Any) -> AbstractContextManager[object]:
    """What a thread holds while it uses the file system.

    Only asynchronous file systems and those of this machine can be used by many threads at once. Archives have one open
    file and one position in it, FTP has one connection.
    """
    if filesystem.async_impl or isinstance(filesystem, LocalFileSystem | MemoryFileSystem):
        return nullcontext()
    with _making:
        return _turns.setdefault(filesystem, threading.RLock())


class FsspecClient(Client):
    """fsspec knows no conditions: whether an object is still the same is asked before it is replaced, and this process
    does only one such step at a time. Writers in other processes may come in between.
    """

    atomic = False
    unique_tags = False
    deletes_at_once = 1

    def __init__(self, filesystem: Any) -> None:
        self._filesystem = filesystem
        self._turn = _turn_of(filesystem)
        self._is_parents = False
        _clients.add(self)

    @contextmanager
    def _using(self) -> Iterator[Any]:
        if self._is_parents:
            with _making:
                kept = self._filesystem
                anew = type(kept)(*kept.storage_args, **kept.storage_options)
            self._filesystem, self._turn = anew, _turn_of(anew)
            self._is_parents = False
        with self._turn:
            yield self._filesystem

    def after_fork(self) -> None:
        """Connections are the parent's, and so is the position in open files; threads that held locks are not here.
        The file system is recreated when it is used.
        """
        self._is_parents = True

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self._filesystem,))

    def get(self, path: str, start: int, stop: int | None, version: Version | None) -> Found | None:
        if version is not None:
            return self._get(path, start, stop, version, given=True)
        answer: Found | None = None
        for attempt in again(path, BEING_REPLACED, on=ChangedError):
            with attempt:
                found = self.head(path)
                answer = None if found is None else self._get(path, start, stop, found, given=False)
        return answer

    def _get(self, path: str, start: int, stop: int | None, found: Version, *, given: bool) -> Found | None:
        """`get` of the object whose version was given, or has been looked at."""
        first, last = within(found.size, start, stop)
        whole = not given and wants_all(found.size, start, stop)
        try:
            with self._using() as filesystem:
                end = stop if whole else last
                # Some have other parameters before these two.
                data = filesystem.cat_file(path, start=first, end=end) if last > first else b""
        except FileNotFoundError:
            data = None
        except Exception as error:
            raise failure(error, path) from error
        # Whether this was the version that it should be is known only now. Some file systems state wrong sizes.
        if not (whole and data is not None and len(data) == found.size) and self.head(path) != found:
            raise ChangedError("the object has changed", key=path)
        return None if data is None else Found(part_of(data, found.size, first, last), found)

    def head(self, path: str) -> Version | None:
        try:
            # Listings that some file systems keep would hide what has changed since.
            with self._using() as filesystem:
                filesystem.invalidate_cache(path.rpartition("/")[0])
                found = filesystem.info(path)
        except NOT_THERE:
            return None
        except Exception as error:
            raise failure(error, path) from error
        return self._told(path, found)

    def _told(self, path: str, found: dict[str, Any]) -> Version | None:
        """What `info` says of an object."""
        if found.get("type") == "directory":
            return None
        size = found.get("size")
        if size is None:
            raise StoreError(f"{type(self._filesystem).__name__} does not say how large the object is", key=path)
        e_tag = next((str(found[name]) for name in _E_TAGS if found.get(name)), None)
        number = next((str(found[name]) for name in ("generation", "VersionId", "ino") if found.get(name)), None)
        time = next((found[name] for name in _TIMES if found.get(name)), None)
        if e_tag is None and time is not None:
            number = f"{number or ''}@{time}"
        return Version(e_tag, number, None, int(size))

    def put(self, path: str, parts: Sequence[Buffer], condition: Version | Anything | None) -> None:
        data = joined(parts)
        try:
            if isinstance(condition, Anything):
                self._put(path, data)
                return
            with replacing([path]):
                if self.head(path) != condition:
                    raise ChangedError("the object has changed", key=path)
                self._put(path, data)
        except ZvcoreError:
            raise
        except Exception as error:
            raise failure(error, path) from error

    def _put(self, path: str, data: bytes) -> None:
        with self._using() as filesystem:
            try:
                filesystem.pipe_file(path, data)
            except FileNotFoundError:
                filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
                filesystem.pipe_file(path, data)

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            try:
                with self._using() as filesystem:
                    filesystem.rm_file(path)
            except FileNotFoundError:
                continue
            except Exception as error:
                raise failure(error, path) from error

    def list(self, folder: str) -> builtins.list[str]:
        root = folder.rstrip("/")
        try:
            with self._using() as filesystem:
                filesystem.invalidate_cache(root)
                # Both give an object of the folder's name too.
                names = filesystem.find(root) if _lists_all(filesystem) else _found_below(filesystem, root)
                found = [self._plain(path, folder) for path in names]
                return [path for path in found if path.startswith(folder)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except Exception as error:
            raise failure(error, folder) from error

    def list_dir(self, folder: str) -> tuple[builtins.list[str], builtins.list[str]]:
        root = folder.rstrip("/")
        try:
            with self._using() as filesystem:
                filesystem.invalidate_cache(root)
                found = filesystem.ls(root, detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return [], []
        except Exception as error:
            raise failure(error, folder) from error
        folders = [self._plain(one["name"], folder) for one in found if one["type"] == "directory"]
        return folders, [self._plain(one["name"], folder) for one in found if one["type"] != "directory"]

    def _plain(self, name: str, folder: str) -> str:
        """The path that a name in a folder stands for. Some have a slash before them, however they are asked for."""
        path = str(self._filesystem._strip_protocol(name)).rstrip("/")
        return path if folder.startswith("/") else path.lstrip("/")


@contextmanager
def replacing(paths: Iterable[str]) -> Iterator[None]:
    """Keep other threads from replacing these objects, whose versions are looked at before that."""
    with ExitStack() as held:
        for number in sorted({hash(path) % len(_replacing) for path in paths}):
            held.enter_context(_replacing[number])
        yield


def wants_all(size: int, start: int, stop: int | None) -> bool:
    """Whether all of an object of this size is asked for, and more, so that it would be seen if it had become longer.

    Where any version will do, it needs another look only if it has another size.
    """
    return start == 0 and (stop is None or stop > size)


def part_of(data: bytes, size: int, first: int, last: int) -> memoryview:
    """What was asked for of an object of this size: some web servers give everything whatever part that is."""
    whole = len(data) == size and last - first != size
    return memoryview(data)[first:last] if whole else memoryview(data)


def _lists_all(filesystem: Any) -> bool:
    """Whether it has a way of its own to list all objects. The one of fsspec leaves out folders that fail."""
    while isinstance(filesystem, DirFileSystem):
        filesystem = filesystem.fs
    if filesystem.async_impl:
        return type(filesystem)._find is not AsyncFileSystem._find
    return type(filesystem).find is not AbstractFileSystem.find


def _found_below(filesystem: Any, root: str) -> builtins.list[str]:
    """The names of all objects below a folder; whatever keeps one of the folders from being listed is raised."""
    found = []
    folders = [root]
    while folders:
        folder = folders.pop()
        try:
            filesystem.invalidate_cache(folder)
            listed = filesystem.ls(folder, detail=True)
        except (FileNotFoundError, NotADirectoryError):
            continue  # it has gone meanwhile
        for one in listed:
            name = one["name"].rstrip("/")
            if one["type"] != "directory":
                found.append(name)
            elif name != folder:
                folders.append(name)
    return found


def filesystem_of(url: str, options: dict[str, Any]) -> tuple[Any, str]:
    """(the file system, the path in it) that an address names."""
    _refuse_ignored(_IPV6_HOST.sub("://", url).split("::"))
    filesystem, path = fsspec.core.url_to_fs(url, **options)
    return filesystem, path


def _refuse_ignored(links: Sequence[str]) -> None:
    """Refuse a chain of addresses where fsspec would leave out what stands behind one that leads no further: it may be
    the rest of a name with two colons in it, and the data would go elsewhere.
    """
    for link, behind in pairwise(links):
        scheme = link.partition("://")[0] if "://" in link else link if link.isalpha() and link.islower() else "file"
        kinds = [one for one in fsspec.get_filesystem_class(scheme).__mro__ if "__init__" in vars(one)]
        taken = {name for one in kinds for name in inspect.signature(one.__init__).parameters}
        if not _LEADS_FURTHER & taken:
            raise ValueError(f"{scheme} addresses lead to nothing else, and {behind!r} stands behind '::'")


_clients: WeakSet[FsspecClient] = WeakSet()


def _after_fork() -> None:
    global _turns, _making
    _turns = WeakKeyDictionary()
    _making = threading.Lock()
    _renew_locks()
    for client in [*_clients]:
        client.after_fork()


os.register_at_fork(after_in_child=_after_fork)
