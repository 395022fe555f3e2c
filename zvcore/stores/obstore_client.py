"""S3, Google Cloud Storage, Azure and plain HTTP through obstore."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import obstore
import obstore.store
from obstore import exceptions

from zvcore.cached import cached_property
from zvcore.errors import NotFoundError, StoreError, UnsupportedError
from zvcore.stores.clients import Arrived, ChangedError, Found, Version, are_same, first_line
from zvcore.stores.obstore_calls import HTTP_FAILURES, awaiting, begin, failure, threads_are_gone, with_threads
from zvcore.stores.obstore_lists import ObstoreLists
from zvcore.stores.own_requests import OwnRequests, is_strong
from zvcore.stores.writing import Anything

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from obstore import GetOptions, GetResult, ObjectMeta
    from typing_extensions import Buffer

    from zvcore.stores.base import Span

__all__ = ["ObstoreClient"]

T = TypeVar("T")

# Larger objects are stored in parts of this size, several at once.
_PART_BYTES = 8 << 20
_MULTIPART_FROM = 32 << 20
# S3 takes ten thousand parts, so those of very large objects grow.
_MOST_PARTS = 9_000
# Connections that break in the middle of an answer; obstore itself repeats only what fails before.
_REQUESTS = 4
_NOTHING = memoryview(b"")
# No object has as many bytes.
_BEYOND_ALL = 1 << 62
_MOST_OF_WEB_SERVERS = 32

# How web servers say that they answer requests for objects only.
_NO_HEADS = "405 Method Not Allowed"
# What obstore says where the rest of an answer that broke is no longer there.
_REPLACED = "Request precondition failure"
# How S3 refuses one of two conditional writes at the same moment.
_TWO_AT_ONCE = "status code: 409"
# How servers or obstore refuse ranges that begin beyond the end (some servers send an empty object as a whole).
_BEYOND = ("416 Range", "InvalidRange", "start offset", "Wanted range starting", "non-partial response")

# What obstore says of answers without what it needs to know. Google's servers, and others, unpack what is stored with
# `Content-Encoding: gzip` for whoever does not say that it may come as it is, and then know neither its size nor its
# version.
_UNPACKED = "Header missing from response"
_MOST_FOLDERS = 4096
# Of `Content-Encoding`: gzip and zstd show by their first bytes, and are unpacked by whoever expects them.
_NEVER_UNPACKED = ("br", "deflate", "compress", "dcb", "dcz")


class _CutOffError(StoreError):
    """An answer has other bytes than it says: lost on their way, and no damage of the object. Another may have all."""


class Maker(Protocol):
    """Makes obstore's store, at the root of a bucket or server."""

    def __call__(self, writing: bool, *, packed: bool = False, **options: Any) -> Any:
        """`packed`: one that asks for objects as they are stored, where that can be said."""
        ...

    def own_requests(self) -> OwnRequests:
        """Requests over connections of our own, where an address is all that they need."""
        ...


class ObstoreClient(ObstoreLists):
    """Requests through obstore, and over connections of our own."""

    def __init__(self, make: Maker, *, is_http: bool = False, plain: bool = False) -> None:
        """`plain`: an address, signed or not, is all that requests over connections of our own need."""
        self._make = make
        self._is_http = is_http
        self.unique_tags = not is_http
        self._plain = plain
        self._own = make.own_requests() if plain else OwnRequests(make(False), None)
        self._store = self._own.store
        # What some servers do not do, once that has shown.
        self._takes_ranges = True
        self._takes_suffixes = True
        self._takes_heads = True
        # Method -> by what its last answer has told versions apart.
        self._told: dict[str, tuple[bool, ...]] = {}
        # Folders whose objects the server unpacks unless it is told not to.
        self._unpacked: set[str] = set()

    @cached_property
    def _packed(self) -> Any:
        """For objects that are to come as they are stored. Not for other requests: answers of other kinds, such as
        lists, may come packed too, which obstore does not expect.
        """
        return self._make(False, packed=True)

    def _store_for(self, path: str) -> Any:
        return self._packed if path.rpartition("/")[0] in self._unpacked else self._store

    def _either_way(self, path: str, ask: Callable[[Any], T]) -> T:
        """What `ask` gives of the store whose answers can be used."""
        folder = path.rpartition("/")[0]
        first = self._store_for(path)
        try:
            return ask(first)
        except exceptions.BaseError as error:
            if _UNPACKED not in first_line(error):
                raise
            other = self._packed if first is self._store else self._store
            if other is first:
                raise  # it was opened by somebody else
        found = ask(other)
        # Objects of a folder are mostly stored alike.
        if other is self._store:
            self._unpacked.discard(folder)
        else:
            if len(self._unpacked) >= _MOST_FOLDERS:
                self._unpacked.clear()
            self._unpacked.add(folder)
        return found

    @cached_property
    def _writing(self) -> Any:
        return self._make(True)

    @cached_property
    def _listing(self) -> Any:
        # Web servers that do not list say so by what otherwise is a passing failure.
        return self._make(False, retry_config={"max_retries": 0}) if self._is_http else self._store

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (self._make, self._is_http, self._plain))

    # --- reading

    def get(self, path: str, start: int, stop: int | None, version: Version | None) -> Found | None:
        if (stop is not None and stop <= start) or start >= _BEYOND_ALL:
            return self._empty(path, version)
        if version is None or threads_are_gone():
            arrived = self._patiently(lambda: self._arrived(path, start, stop))
            if arrived is not None:
                found = None if arrived.data is None else Found(arrived.data, self.version_of(arrived))
                return None if found is None else Found(found.data, _same(found.version, version, path))
        begin(path)
        for attempt in range(_REQUESTS):
            try:
                return self._either_way(path, lambda store: self._get(store, path, start, stop, version))
            except FileNotFoundError:
                return None
            except exceptions.PreconditionError:
                raise ChangedError("the object has changed", key=path) from None
            except _CutOffError:
                if attempt == _REQUESTS - 1:
                    raise
            except (*HTTP_FAILURES, exceptions.BaseError, TimeoutError) as error:
                if isinstance(error, HTTP_FAILURES):
                    raise failure(error, path) from None
                if _REPLACED in first_line(error):
                    # obstore went on with an answer that broke, and the object was another by then.
                    if version is not None or attempt == _REQUESTS - 1:
                        raise ChangedError("the object has changed", key=path) from None
                    continue
                if start or stop is not None:
                    if self._is_beyond(path, start, error):
                        return self._empty(path, version)
                    if self._knows_less(start, error):
                        continue
                if attempt == _REQUESTS - 1 or not _is_passing(error):
                    raise failure(error, path) from None
        raise StoreError("the server's answers contradict each other", key=path)

    def _get(self, store: Any, path: str, start: int, stop: int | None, version: Version | None) -> Found:
        options: GetOptions = {}
        if start < 0 and not self._takes_suffixes:
            head = self._head(store, path)
            start = max(0, head.size + start)
            stop = head.size
            if not head.size:
                return Found(_NOTHING, _same(head, version, path))
        whole = not self._takes_ranges or (start == 0 and stop is None)
        if not whole:
            if start < 0:
                options["range"] = {"suffix": min(-start, _BEYOND_ALL)}
            elif stop is None:
                options["range"] = {"offset": start}
            else:
                options["range"] = (start, min(stop, _BEYOND_ALL))
        if version is not None and version.e_tag is not None and is_strong(version):
            options["if_match"] = version.e_tag
        result: GetResult = obstore.get(store, path, options=options or None)
        _check_encoding(result, path)
        # Servers need not heed conditions, and some have only dates to tell versions apart.
        found = _same(self._version(result.meta), version, path)
        data = memoryview(cast("Any", result.bytes()))
        said = result.range[1] - result.range[0]
        if len(data) != said:
            raise _CutOffError(
                "the server's answer has not as many bytes as it says", key=path, expected=said, found=len(data)
            )
        if whole and (start or stop is not None):
            data = data[max(0, found.size + start) if start < 0 else start : stop]
        return Found(data, found)

    async def aget(self, path: str, start: int, stop: int | None) -> bytes | memoryview | None:
        if threads_are_gone():
            return await super().aget(path, start, stop)
        awaiting(path)
        options: GetOptions = {}
        if start < 0:
            options["range"] = {"suffix": -start}
        elif stop is not None:
            options["range"] = (start, stop)
        elif start:
            options["range"] = {"offset": start}
        if (start >= 0 and (stop is None or start < stop <= _BEYOND_ALL)) or -_BEYOND_ALL < start < 0:
            try:
                result = await obstore.get_async(self._store_for(path), path, options=options or None)
                _check_encoding(result, path)
                data = memoryview(cast("Any", await result.bytes_async()))
            except FileNotFoundError:
                return None
            except (*HTTP_FAILURES, exceptions.BaseError, OSError):
                pass  # what that means, and whether to ask again, is decided in one place
            else:
                begins = max(0, result.meta["size"] + start) if start < 0 else start
                # Some servers send all of it, whatever is asked for, and some less than they say.
                if result.range == (begins, begins + len(data)):
                    return data
        return await super().aget(path, start, stop)

    async def aput(self, path: str, data: bytes) -> None:
        awaiting(path)
        if len(data) < _MULTIPART_FROM:
            try:
                await obstore.put_async(self._writing, path, data, use_multipart=False)
            except (exceptions.BaseError, OSError):
                pass
            else:
                return
        await super().aput(path, data)

    def _head(self, store: Any, path: str) -> Version:
        if self._takes_heads:
            try:
                found = self._version(obstore.head(store, path), "HEAD")
            except FileNotFoundError as error:
                # Which obstore also takes for an object that is not there.
                if _NO_HEADS not in first_line(error):
                    raise
                self._takes_heads = False
            # Else the answer has shown that it tells other things than those to other requests.
            if self._takes_heads:
                return found
        return self._begun(store, path)

    def _begun(self, store: Any, path: str) -> Version:
        """What the answer to a request for the object says of it. Its bytes are not waited for."""
        return self._version(obstore.get(store, path).meta)

    def _version(self, meta: ObjectMeta, method: str = "GET") -> Version:
        return self._told_by(
            Version(meta["e_tag"], meta["version"], meta["last_modified"].timestamp(), meta["size"]), method
        )

    def _told_by(self, found: Version, method: str) -> Version:
        # An entity tag may be that of the content, so that it comes back with it. Several web servers for one address
        # may have different times.
        if self._is_http:
            if found.e_tag is not None or found.number is not None:
                found = found._replace(modified=None)
            # Some tell a tag or a date by one method only: what the other tells never is the same version.
            self._told[method] = _kinds(found)
            self._takes_heads = self._takes_heads and len(set(self._told.values())) == 1
        return found

    def get_each(
        self, wanted: Sequence[tuple[str, int, int, Version]], at_once: int
    ) -> builtins.list[memoryview | None] | None:
        return self._own.get_each(wanted, self._gently(at_once))

    def get_objects(
        self, paths: Sequence[str], at_once: int, spans: Sequence[Span] | None = None
    ) -> builtins.list[Arrived | None] | None:
        return self._own.get_objects(paths, self._gently(at_once), spans)

    def gives_parts(self) -> bool:
        return self._takes_ranges

    def _gently(self, at_once: int) -> int:
        """Web servers are not made for as many connections of one client as object stores are."""
        return min(at_once, _MOST_OF_WEB_SERVERS) if self._is_http else at_once

    def version_of(self, arrived: Arrived) -> Version:
        return self._told_by(self._own.version_of(arrived), "GET")

    def _arrived(self, path: str, start: int, stop: int | None) -> Arrived | None:
        """What came over a connection of our own. The end of an object is asked for only where servers know how."""
        understood = self._takes_ranges and (start >= 0 or self._takes_suffixes) and (start <= 0 or stop is not None)
        if not understood or self._store_for(path) is not self._store:
            return None
        return self._own.get_part(path, max(start, -_BEYOND_ALL), stop and min(stop, _BEYOND_ALL))

    def _patiently(self, ask: Callable[[], T | None]) -> T | None:
        """What comes over connections of our own: asked for again where nobody else does, as obstore would."""
        for attempt in range(_REQUESTS):
            if (found := ask()) is not None or not (threads_are_gone() and self._own.possible):
                return found
            time.sleep(0.1 * 2**attempt)
        return None

    def get_together(
        self, path: str, ranges: Sequence[tuple[int, int]], version: Version
    ) -> builtins.list[memoryview] | None:
        if threads_are_gone():
            return None
        with_threads(path)
        starts = [start for start, _ in ranges[:-1]]
        stops = [stop for _, stop in ranges[:-1]]
        try:
            # One call for all, which runs without Python; but it knows no conditions.
            parts = obstore.get_ranges(self._store_for(path), path, starts=starts, ends=stops, coalesce=0)
        except (exceptions.BaseError, OSError):
            return None
        found = [memoryview(cast("Any", part)) for part in parts]
        if any(len(part) != stop - start for part, (start, stop) in zip(found, ranges, strict=False)):
            return None
        last = self.get(path, *ranges[-1], version)
        if last is None:
            return None
        return [*found, last.data]

    def _empty(self, path: str, version: Version | None) -> Found | None:
        found = self.head(path)
        return None if found is None else Found(_NOTHING, _same(found, version, path))

    def _is_beyond(self, path: str, start: int, error: Exception) -> bool:
        """Whether a range was refused because there is nothing in it."""
        text = first_line(error)
        if not any(words in text for words in _BEYOND):
            return False
        found = self.head(path)
        return found is not None and (found.size == 0 or start >= found.size)

    def _knows_less(self, start: int, error: Exception) -> bool:
        """Whether the server does not know such ranges, which is remembered."""
        if not isinstance(error, exceptions.NotSupportedError):
            return False
        if start < 0 and "suffix" in first_line(error).lower():
            self._takes_suffixes = False
        else:
            self._takes_ranges = False
        return True

    def head(self, path: str) -> Version | None:
        found = self._patiently(lambda: self.heads([path], 1) or None)
        if found is not None:
            return found[path]
        begin(path)
        try:
            return self._either_way(path, lambda store: self._head(store, path))
        except FileNotFoundError:
            return None
        except (exceptions.BaseError, TimeoutError) as error:
            raise failure(error, path) from None

    def heads(self, paths: Sequence[str], at_once: int) -> dict[str, Version | None]:
        asked = [path for path in paths if self._store_for(path) is self._store] if self._takes_heads else []
        found = {}
        for path, arrived in self._own.get_heads(asked, self._gently(at_once)).items():
            version = None if arrived is None else self._told_by(self._own.version_of(arrived), "HEAD")
            if self._takes_heads:  # else the answer has shown that it tells other things than those to other requests
                found[path] = version
        return found

    # --- writing

    def put(self, path: str, parts: Sequence[Buffer], condition: Version | Anything | None) -> None:
        if threads_are_gone() and self._put_alone(path, parts, condition):
            return
        begin(path)
        views = [view.cast("B") for part in parts if (view := memoryview(part)).nbytes]
        size = sum(len(view) for view in views)
        mode: Any = "overwrite"
        if condition is None:
            mode = "create"
        elif isinstance(condition, Version):
            known = {"e_tag": condition.e_tag, "version": condition.number}
            mode = {name: value for name, value in known.items() if value is not None}
            if not mode:
                raise UnsupportedError("the server does not tell versions apart: no safe change", key=path)
        whole: bytes | None = None
        if mode != "overwrite" or size < _MULTIPART_FROM:
            whole = parts[0] if len(parts) == 1 and isinstance(parts[0], bytes) else b"".join(views)
        for attempt in range(_REQUESTS):
            try:
                if whole is None:
                    part = max(_PART_BYTES, size // _MOST_PARTS)
                    obstore.put(self._writing, path, _cut(views, part), use_multipart=True, chunk_size=part)
                else:
                    obstore.put(self._writing, path, whole, mode=mode, use_multipart=False)
            except (exceptions.BaseError, TimeoutError) as error:
                refused = mode != "overwrite" and _is_conflict(error)
                # Where the answer got lost, obstore does not repeat a write.
                if not refused and not _is_passing(error):
                    raise self._put_failure(error, path, condition) from None
                if refused and self.head(path) != condition:
                    raise ChangedError("the object has changed", key=path) from None
                if attempt == _REQUESTS - 1:
                    # Nobody was quicker, so beginning again with what is there would change nothing.
                    raise _refusal(error, path) if refused else failure(error, path) from None
                time.sleep(0.1 * 2**attempt)
                if mode != "overwrite" and self._has_arrived(path, whole, condition):
                    return
            except FileNotFoundError as error:
                raise self._put_failure(error, path, condition) from None
            else:
                return

    def _put_alone(self, path: str, parts: Sequence[Buffer], condition: Version | Anything | None) -> bool:
        """`put` over a connection of our own alone: whether it is stored."""
        for attempt in range(_REQUESTS):
            stored = self.put_each([(path, parts, condition)], 1)
            if stored is None or stored[0]:
                return stored is not None
            if not isinstance(condition, Anything):
                found = self.head(path)
                # The server may refuse although nobody was quicker, and its answer may have been lost.
                held = found == condition or are_same(found, condition)
                if not held and self._has_arrived(path, b"".join(parts), condition):
                    return True
            time.sleep(0.1 * 2**attempt)
        return False

    def put_each(
        self, wanted: Sequence[tuple[str, Sequence[Buffer], Version | Anything | None]], at_once: int
    ) -> builtins.list[Version | bool | None] | None:
        return self._own.put_each(wanted, at_once)

    def put_after_all(self, path: str, parts: Sequence[Buffer], condition: Version | Anything | None) -> None:
        if isinstance(condition, Anything) or not self._has_arrived(path, b"".join(parts), condition):
            self.put(path, parts, condition)

    def _has_arrived(self, path: str, whole: bytes | None, condition: Version | Anything | None) -> bool:
        """Whether what was stored under a condition, but not confirmed, is there."""
        found = self.head(path)
        if found == condition:
            return False
        there = None if found is None or whole is None or found.size != len(whole) else self.get(path, 0, None, found)
        if there is None or bytes(there.data) != whole:
            raise ChangedError("the object has changed", key=path)
        return True

    def _put_failure(self, error: BaseException, path: str, condition: Version | Anything | None) -> Exception:
        if isinstance(error, FileNotFoundError):
            if isinstance(condition, Version):
                return ChangedError("the object is gone", key=path)
            return NotFoundError(f"the place to store it does not exist: {first_line(error)}", key=path)
        return failure(error, path)

    def delete(self, paths: Iterable[str]) -> None:
        names = list(paths)
        with_threads(names[0])
        try:
            obstore.delete(self._writing, names if len(names) != 1 else names[0])
        except FileNotFoundError:
            # Somebody else was quicker with one of them; what that means for the others is not said.
            if len(names) > 1:
                for name in names:
                    self.delete([name])
        except (exceptions.BaseError, TimeoutError) as error:
            raise failure(error, names[0]) from None

    # --- listing


def _rebuild(make: Maker, is_http: bool, plain: bool) -> ObstoreClient:
    return ObstoreClient(make, is_http=is_http, plain=plain)


def _same(found: Version, wanted: Version | None, path: str) -> Version:
    if wanted is not None and found != wanted:
        raise ChangedError("the object has changed", key=path)
    return found


def _check_encoding(result: GetResult, path: str) -> None:
    """Refuse bytes that only whoever reads this header can tell from those of the object."""
    encoding = str(result.attributes.get("Content-Encoding", "")).strip().lower()
    # Names that end so are those of files which are unpacked.
    if encoding in _NEVER_UNPACKED and not path.endswith(".br"):
        raise UnsupportedError(f"zvcore does not unpack objects with Content-Encoding: {encoding}", key=path)


def _kinds(version: Version) -> tuple[bool, ...]:
    """By what this version is told from others. obstore says 1970 where no date is told."""
    return version.e_tag is not None, version.number is not None, bool(version.modified)


def _cut(views: Sequence[memoryview], size: int) -> Iterator[bytes]:
    """The same bytes in pieces of at most this size, each copied: what they come from may go before they are sent."""
    for view in views:
        for start in range(0, len(view), size):
            yield bytes(view[start : start + size])


def _is_conflict(error: Exception) -> bool:
    """Whether a write was refused because of its condition, or, S3's 409, because of another one at the same moment."""
    return isinstance(error, exceptions.PreconditionError | exceptions.AlreadyExistsError) or (
        _TWO_AT_ONCE in first_line(error)
    )


def _refusal(error: BaseException, path: str) -> StoreError:
    return StoreError(f"the server refuses to store this under a condition that holds: {first_line(error)}", key=path)


def _is_passing(error: Exception) -> bool:
    """Whether the same request may go well another time: not what the server has considered and refused, nor what
    obstore has repeated in vain.
    """
    text = first_line(error)
    refused = any(words in text for words in ("Server returned", " retries", _UNPACKED))
    return isinstance(error, TimeoutError) or (type(error) is exceptions.GenericError and not refused)
