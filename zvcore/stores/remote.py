"""Objects behind a network: S3, Google Cloud Storage, Azure, HTTP, and whatever fsspec knows."""

from __future__ import annotations

import posixpath
import threading
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from zvcore.errors import ZvcoreError, without_credentials
from zvcore.stores.again import BEING_REPLACED, again, changed
from zvcore.stores.base import Facts, Snapshot, Stamp, Store, check_span, not_passing_over, prefix_path
from zvcore.stores.clients import ChangedError, Found, Version, are_same, check_length, facts_of
from zvcore.stores.files import encode_key
from zvcore.stores.object_names import keys_below, tell_names
from zvcore.stores.one_place import LookedAt, Place
from zvcore.stores.ranges import coalesce
from zvcore.stores.request_threads import side_by_side
from zvcore.stores.writing import ANYTHING, as_parts

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from typing_extensions import Buffer

    from zvcore.stores.base import Refused, Span
    from zvcore.stores.clients import Arrived, Client
    from zvcore.stores.writing import Anything

__all__ = ["RemoteStore"]

T = TypeVar("T")
R = TypeVar("R")

# Another request costs about as much as so many bytes that nobody wants.
_GAP = 64 * 1024
# One connection gives only so much a second, so large ranges are fetched in parts.
_LARGEST_SPAN = 8 << 20
_HULL = 1 << 20
# Objects of no more bytes are put in one request, whatever the client does with larger ones.
_SMALL = 1 << 20
_TOGETHER_FROM = 4
# What answers as fast as this has sent a few megabytes before threads have shared them out among each other.
_AT_ONCE = 0.0007
# How many parts of a large read are under way while one is decoded.
_PARTS_NEAR, _PARTS_FAR = 3, 4
_OBJECTS_AHEAD = 128
# For what is told of as many objects a list is asked for, and for how many objects more than these at most.
_FACTS_LISTED_FROM = 32
_OTHERS_LISTED = 1000
# How many of the folders around a store are known as such.
_MOST_ABOVE = 8

_NOTHING = memoryview(b"")


class _Span(NamedTuple):
    request: int
    path: str
    key: str
    start: int
    stop: int
    version: Version


class RemoteStore(Store):
    """Objects whose paths begin with `prefix` in the place that `client` speaks to; `root` is their address.

    Writers that change an object at the same time notice each other by conditions that the server checks. Objects that
    were replaced while they are read are noticed by their entity tags.
    """

    remote = True

    def __init__(self, client: Client, root: str, prefix: str = "", *, place: Hashable = None, read_only: bool) -> None:
        self._shared = Place(client, root if place is None else place)
        self._client = client
        self.creates = client.atomic
        self._prefix = f"{prefix.rstrip('/')}/" if prefix.strip("/") else ""
        self._address = root.rstrip("/")
        self.root = without_credentials(self._address)
        self.read_only = read_only

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (self._client, self._address, self._prefix, self._shared.place, self.read_only))

    def _path(self, key: str) -> str:
        encode_key(key)
        return self._prefix + key

    def each(self, function: Callable[[T], R], items: Sequence[T]) -> builtins.list[R]:
        # What a thread knows, its helpers do not.
        at_once = 1 if self._shared.knows_all() else self._shared.helpers()
        return side_by_side(function, items, at_once)

    def parts_ahead(self) -> int:
        return _PARTS_NEAR if self._shared.is_near() else _PARTS_FAR

    def small_parts_pay(self) -> bool:
        return self._shared.seconds is None or self._shared.seconds > _AT_ONCE

    # --- reading

    def _fetch(
        self, path: str, key: str, start: int, stop: int | None, stamp: Stamp | None, named: bool = False
    ) -> Found | None:
        if self._shared.looking and (near := self._shared.looking.get(threading.get_ident())) is not None:
            found, elsewhere = near.part(path, start, stop, named=named or stamp is not None)
            told = elsewhere if found is None else found.version
            if stamp is not None and told is not None and told != stamp:
                raise changed(key, stamp)
            if elsewhere is None:
                return found
            stamp = elsewhere
        begun = time.perf_counter()
        try:
            found = self._client.get(path, start, stop, cast("Version | None", stamp))
        except ChangedError:
            self._shared.forget_told(path)
            raise changed(key, stamp or "") from None
        self._shared.took(time.perf_counter() - begun)
        if found is None and stamp is not None:
            raise changed(key, stamp)
        return found

    def get(
        self, key: str, start: int = 0, length: int | None = None, *, stamp: Stamp | None = None
    ) -> bytes | memoryview | None:
        check_span(start, length)
        found = self._fetch(self._path(key), key, start, None if length is None else start + length, stamp)
        return None if found is None else found.data

    async def aget(self, key: str, start: int = 0, length: int | None = None) -> bytes | memoryview | None:
        check_span(start, length)
        return await self._client.aget(self._path(key), start, None if length is None else start + length)

    async def aput(self, key: str, data: bytes) -> None:
        self._check_write(key)
        await self._client.aput(self._path(key), data)

    async def aput_data(self, key: str, data: bytes) -> None:
        await self.aput(key, data)

    def snapshot(
        self, key: str, start: int = 0, length: int | None = None, *, stamp: Stamp | None = None
    ) -> Snapshot | None:
        check_span(start, length)
        found = self._fetch(self._path(key), key, start, None if length is None else start + length, stamp, True)
        if found is None:
            return None
        self._shared.note(self._path(key), found.version)
        return Snapshot(found.data, found.version.size, found.version)

    def version(self, key: str) -> tuple[bytes | memoryview, Stamp | None] | None:
        found = self._fetch(self._path(key), key, 0, None, None)
        if found is None:
            return None
        told = self._client.unique_tags and (found.version.e_tag or found.version.number)
        return found.data, found.version if told else None

    def get_many(self, keys: Iterable[str]) -> Iterator[bytes | memoryview | None]:
        names = list(keys)
        for first in range(0, len(names), _OBJECTS_AHEAD):
            yield from self._get_some(names[first : first + _OBJECTS_AHEAD])

    def _get_some(self, keys: builtins.list[str]) -> builtins.list[bytes | memoryview | None]:
        arrived = self._arrived(keys, self._client.get_data)
        result: builtins.list[bytes | memoryview | None] = [None if one is None else one.data for one in arrived]
        others = [place for place, one in enumerate(arrived) if one is None]
        for place, data in zip(others, self.each(self.get, [keys[place] for place in others]), strict=True):
            result[place] = data
        return result

    def gives_parts(self) -> bool:
        return self._client.gives_parts()

    def snapshots(self, keys: Sequence[str], spans: Sequence[Span] | None = None) -> builtins.list[Snapshot | None]:
        arrived = self._arrived(keys, partial(self._client.get_objects, spans=spans))
        result: builtins.list[Snapshot | None] = [None] * len(keys)
        for place, one in enumerate(arrived):
            if one is not None and one.data is not None:
                version = self._client.version_of(one)
                self._shared.note(self._path(keys[place]), version)
                result[place] = Snapshot(one.data, version.size, version)
        others = [place for place, one in enumerate(arrived) if one is None]
        left = [keys[place] for place in others], None if spans is None else [spans[place] for place in others]
        for place, found in zip(others, super().snapshots(*left), strict=True):
            result[place] = found
        return result

    def _arrived(self, keys: Sequence[str], get: Callable[..., Any]) -> Sequence[Arrived | None]:
        """What came of these objects by one call."""
        if self._shared.looking and threading.get_ident() in self._shared.looking:
            return [None] * len(keys)
        paths = [self._path(key) for key in keys]
        return get(paths, self._shared.small_requests(1)) or [None] * len(keys)

    def get_ranges(
        self, key: str, ranges: Sequence[tuple[int, int]], *, stamp: Stamp | None = None
    ) -> builtins.list[memoryview] | None:
        if stamp is not None and len(ranges) == 1:
            # The commonest request of all.
            (offset, length), version = ranges[0], cast("Version", stamp)
            if offset >= 0 and 0 < length <= _LARGEST_SPAN and offset + length <= version.size:
                return self._read_parts([_Span(0, self._path(key), key, offset, offset + length, version)])
        return self.get_ranges_many([(key, ranges, stamp)])[0]

    def get_ranges_many(
        self, requests: Sequence[tuple[str, Sequence[tuple[int, int]], Stamp | None]]
    ) -> builtins.list[builtins.list[memoryview] | None]:
        # Of these, whatever version is there is meant: the next one will do as well.
        unversioned = {key for key, _, stamp in requests if stamp is None}
        found: builtins.list[builtins.list[memoryview] | None] = []
        for attempt in again(self.root, BEING_REPLACED):
            with attempt:
                found = self._get_ranges_many(requests)
            if attempt.error is not None and attempt.error.key not in unversioned:
                raise attempt.error
        return found

    def _get_ranges_many(
        self, requests: Sequence[tuple[str, Sequence[tuple[int, int]], Stamp | None]]
    ) -> builtins.list[builtins.list[memoryview] | None]:
        results: builtins.list[builtins.list[memoryview] | None] = []
        spans: builtins.list[_Span] = []
        members: builtins.list[builtins.list[int]] = []
        for number, (key, ranges, stamp) in enumerate(requests):
            path = self._path(key)
            if stamp is None and ranges:
                first = min(offset for offset, _ in ranges)
                hull = max(offset + length for offset, length in ranges) - first
                if first >= 0 and hull <= _HULL:
                    # Without a version to ask for, one request is what surely gives one version.
                    results.append(self._ranges_at_once(path, key, ranges, first, hull))
                    continue
            version = self._head(key) if stamp is None else cast("Version", stamp)
            if version is None:
                results.append(None)
                continue
            for start, stop, inside in coalesce(key, ranges, version.size, _GAP, _LARGEST_SPAN):
                spans.append(_Span(number, path, key, start, stop, version))
                members.append(inside)
            results.append([_NOTHING] * len(ranges))
        for span, inside, data in zip(spans, members, self._read_spans(spans), strict=True):
            result = results[span.request]
            assert result is not None
            ranges = requests[span.request][1]
            for index in inside:
                offset, length = ranges[index]
                result[index] = data[offset - span.start : offset - span.start + length]
        return results

    def _ranges_at_once(
        self, path: str, key: str, ranges: Sequence[tuple[int, int]], first: int, hull: int
    ) -> builtins.list[memoryview] | None:
        found = self._fetch(path, key, first, first + hull, None)
        if found is None:
            return None
        coalesce(key, ranges, found.version.size, _GAP, _LARGEST_SPAN)  # are they within the object?
        check_length(found.data, key, first, hull)
        return [found.data[offset - first : offset - first + length] for offset, length in ranges]

    def _read_spans(self, spans: builtins.list[_Span]) -> builtins.list[memoryview]:
        if all(0 < span.stop - span.start <= _LARGEST_SPAN for span in spans):
            return self._read_parts(spans)
        parts: builtins.list[_Span] = []
        counts = []
        for span in spans:
            before = len(parts)
            for start in range(span.start, span.stop, _LARGEST_SPAN):
                parts.append(span._replace(start=start, stop=min(start + _LARGEST_SPAN, span.stop)))
            counts.append(len(parts) - before)
        fetched = iter(self._read_parts(parts))
        result = []
        for count in counts:
            if count == 0:
                result.append(_NOTHING)
            elif count == 1:
                result.append(next(fetched))
            else:
                result.append(memoryview(b"".join([next(fetched) for _ in range(count)])))
        return result

    def _read_parts(self, parts: builtins.list[_Span]) -> builtins.list[memoryview]:
        if not parts:
            return []
        longest = max(part.stop - part.start for part in parts)
        wanted = [(part.path, part.start, part.stop, part.version) for part in parts]
        result = self._client.get_each(wanted, self._shared.small_requests(longest)) or self._read_together(parts)
        others = [place for place, data in enumerate(result) if data is None]
        for place, data in zip(others, self.each(self._read_span, [parts[place] for place in others]), strict=True):
            result[place] = data
        return cast("builtins.list[memoryview]", result)

    def _read_together(self, parts: builtins.list[_Span]) -> builtins.list[memoryview | None]:
        """What one call for several ranges gives, where that is quicker than several at once."""
        result: builtins.list[memoryview | None] = [None] * len(parts)
        if not self._shared.is_near():
            return result
        groups: dict[tuple[str, Version], builtins.list[int]] = {}
        for place, part in enumerate(parts):
            groups.setdefault((part.path, part.version), []).append(place)
        for (path, version), places in groups.items():
            if len(places) < _TOGETHER_FROM or not self._shared.is_settled(path, version):
                continue
            ranges = [(parts[place].start, parts[place].stop) for place in places]
            try:
                found = self._client.get_together(path, ranges, version)
            except ChangedError:
                raise changed(parts[places[0]].key, version) from None
            for place, data in zip(places, found or (), strict=False):
                result[place] = data
        return result

    def _read_span(self, span: _Span) -> memoryview:
        found = self._fetch(span.path, span.key, span.start, span.stop, span.version)
        if found is None:
            raise changed(span.key, span.version)
        check_length(found.data, span.key, span.start, span.stop - span.start)
        return found.data

    def size(self, key: str) -> int | None:
        version = self._head(key, named=False)
        return None if version is None else version.size

    def sizes(self, keys: Iterable[str]) -> builtins.list[int | None]:
        return [None if told is None else told.size for told in self.facts(keys)]

    def facts_by(self, stamp: Stamp) -> Facts | None:
        return facts_of(stamp) if isinstance(stamp, Version) else None

    def facts(self, keys: Iterable[str]) -> builtins.list[Facts | None]:
        names = list(keys)
        found: dict[str, Version | None] = {**(self._listed(names) or {})}
        # What a list does not have may be there nevertheless.
        found.update(self._heads([name for name in names if name not in found]))
        return [facts_of(found[name]) for name in names]

    def facts_listed(self, keys: Iterable[str]) -> dict[str, Facts] | None:
        found = self._listed([*keys])
        if found is None:
            return None
        return {key: told for key, version in found.items() if (told := facts_of(version)) is not None}

    def _listed(self, keys: Sequence[str]) -> dict[str, Version] | None:
        """As many of these objects as a list tells of that is not much longer than they are many.

        None where there is no such list, or where they are too few for one.
        """
        if len(keys) < _FACTS_LISTED_FROM:
            return None
        paths = {self._path(key): key for key in keys}
        first, last = min(paths), max(paths)
        folder = f"{posixpath.commonpath([posixpath.dirname(first), posixpath.dirname(last)])}/".lstrip("/")
        try:
            # After a shorter name, so that the first of them is in the list.
            found = self._client.listed_after(first[:-1], folder, last, 2 * len(paths) + _OTHERS_LISTED)
        except ZvcoreError:
            return None  # who may not list may read
        return None if found is None else {paths[path]: version for path, version in found.items() if path in paths}

    def stamp(self, key: str) -> Stamp | None:
        return self._head(key)

    def stamps(self, keys: Sequence[str]) -> builtins.list[Stamp | None]:
        found = self._heads(keys)
        return [found[key] for key in keys]

    def telling(self, stamps: Mapping[str, Stamp | None]) -> AbstractContextManager[None]:
        versions = cast("Mapping[str, Version | None]", stamps)
        return self._shared.telling({self._path(key): version for key, version in versions.items()})

    def same(self, one: Stamp, other: Stamp) -> bool:
        return one == other or (self._client.unique_tags and are_same(one, other))

    def md5(self, key: str) -> str | None:
        told = facts_of(self._head(key))
        return None if told is None else told.md5

    def _heads(self, keys: Sequence[str]) -> dict[str, Version | None]:
        found: dict[str, Version | None] = {}
        if len(keys) > 1 and not (self._shared.looking and threading.get_ident() in self._shared.looking):
            paths = {self._path(key): key for key in keys}
            answered = self._client.heads([*paths], self._shared.small_requests(1))
            found = {paths[path]: version for path, version in answered.items()}
        others = [key for key in keys if key not in found]
        return {**found, **dict(zip(others, self.each(self._head, others), strict=True))}

    def _head(self, key: str, named: bool = True) -> Version | None:
        path = self._path(key)
        if self._shared.looking and (near := self._shared.looking.get(threading.get_ident())) is not None:
            return near.version(path, named=named)
        if path in (told := self._shared.told()):
            return told[path]
        begun = time.perf_counter()
        version = self._client.head(path)
        self._shared.took(time.perf_counter() - begun)
        return version

    def list(self, prefix: str = "") -> Iterator[str]:
        return self.list_readable(not_passing_over, prefix)

    def list_readable(self, refused: Refused, prefix: str = "") -> Iterator[str]:
        found = self._client.list(self._folder(prefix))
        keys = keys_below(found, self._prefix)
        if len(keys) < len(found):
            tell_names(found, self._prefix, refused)
        return iter(sorted(keys))

    def list_told(self, refused: Refused) -> Iterator[tuple[str, Facts | None]]:
        found = self._client.listed(self._prefix)
        keys = keys_below(found, self._prefix)
        if len(keys) < len(found):
            tell_names(found, self._prefix, refused)
        return ((key, facts_of(found.get(self._prefix + key))) for key in sorted(keys))

    def list_dir(self, prefix: str = "") -> tuple[builtins.list[str], builtins.list[str]]:
        folder = self._folder(prefix)
        folders, objects = self._client.list_dir(folder)
        return sorted(keys_below(folders, folder)), sorted(keys_below(objects, folder))

    def is_empty(self) -> bool:
        """Whether nothing lies here, by one page of a list."""
        return self._client.is_empty(self._prefix)

    def some_objects(self, prefix: str, most: int) -> builtins.list[str]:
        folder = self._folder(prefix)
        return keys_below(self._client.some(folder, most), folder)

    def _folder(self, prefix: str) -> str:
        prefix = prefix_path(prefix)
        return f"{self._prefix}{prefix}/" if prefix else self._prefix

    # --- several documents at once

    @contextmanager
    def looking_at(
        self, keys: Sequence[str], otherwise: Sequence[str] = (), around: Sequence[str] = ()
    ) -> Iterator[None]:
        if self._shared.is_looking():
            yield
            return
        beside = [folder._path(key) for folder in (self, *self.above()) for key in around]
        near = LookedAt(self._shared, beside, self.largest)
        if keys and not near.fetch([self._path(key) for key in keys]):
            near.fetch([self._path(key) for key in otherwise])
        with near.used():
            yield

    def knowing(self, objects: Mapping[str, tuple[memoryview, Stamp]]) -> AbstractContextManager[None]:
        """Within this, this thread's questions about objects here are answered by these, which are all that there are
        but for what it stores itself meanwhile.
        """
        found = {self._path(key): Found(data, cast("Version", stamp)) for key, (data, stamp) in objects.items()}
        return LookedAt(self._shared, (), self.largest, all_below=self._prefix, known=found).used()

    def look_at_file(self, key: str, around: Sequence[str]) -> LookedAt | None:
        if self._shared.is_looking():
            return None
        path = self._path(key)
        near = LookedAt(self._shared, [self._path(one) for one in around], self.largest, path)
        near.fetch([path])
        return near

    # --- writing

    def put(self, key: str, data: Buffer | Sequence[Buffer]) -> None:
        self._put(key, data, ANYTHING)

    def put_if_unchanged(self, key: str, data: Buffer | Sequence[Buffer], stamp: Stamp | None) -> None:
        self._put(key, data, cast("Version | None", stamp))

    def _put(self, key: str, data: Buffer | Sequence[Buffer], condition: Version | Anything | None) -> None:
        parts = as_parts(data)
        if sum(memoryview(part).nbytes for part in parts) <= _SMALL:
            if self.put_stamped([(key, parts, condition)])[0]:
                return
            raise changed(key, cast("Stamp | None", condition))
        self._refuse_if_read_only(key)
        self._shared.stored([self._path(key)])
        try:
            self._client.put(self._path(key), parts, condition)
        except ChangedError:
            raise changed(key, cast("Stamp | None", condition)) from None

    def put_each(
        self, wanted: Sequence[tuple[str, Buffer | Sequence[Buffer], Stamp | Anything | None]]
    ) -> builtins.list[bool]:
        return [bool(stored) for stored in self.put_stamped(wanted)]

    def put_stamped(
        self, wanted: Sequence[tuple[str, Buffer | Sequence[Buffer], Stamp | Anything | None]]
    ) -> builtins.list[Stamp | bool]:
        for key, _, _ in wanted:
            self._refuse_if_read_only(key)
        given = [(self._path(key), as_parts(data), cast("Version | Anything | None", of)) for key, data, of in wanted]
        self._shared.stored([path for path, _, _ in given])
        longest = max((sum(memoryview(part).nbytes for part in parts) for _, parts, _ in given), default=0)
        done = self._client.put_each(given, self._shared.small_requests(longest)) if wanted else []
        if done is None:
            done = [False] * len(given)

        def put(place: int) -> bool:
            path, parts, condition = given[place]
            try:
                if done[place] is None:
                    self._client.put_after_all(path, parts, condition)
                else:  # the server may refuse although the condition holds, which is for the client to say
                    self._client.put(path, parts, condition)
            except ChangedError:
                return False
            return True

        others = [place for place, stored in enumerate(done) if not stored]
        again = dict(zip(others, self.each(put, others), strict=True))
        return [again.get(place, stored) for place, stored in enumerate(done)]

    def delete(self, key: str) -> bool:
        self._refuse_if_read_only(key)
        path = self._path(key)
        existed = self._client.head(path) is not None
        if existed:
            self._delete([path])
        return existed

    def delete_all(self, keys: Iterable[str]) -> None:
        names = [*keys]
        for key in names:
            self._refuse_if_read_only(key)
        self._delete([self._path(key) for key in names])

    def delete_prefix(self, prefix: str) -> int:
        self._refuse_if_read_only(prefix)
        paths = self._client.list(self._folder(prefix))
        self._delete(paths)
        return len(paths)

    def _delete(self, paths: Sequence[str]) -> None:
        self._shared.stored(paths)
        most = self._client.deletes_at_once
        self.each(self._client.delete, [paths[first : first + most] for first in range(0, len(paths), most)])

    # What cannot be done refuses bad keys all the same, as the other stores do.

    def append(self, key: str, parts: Buffer | Sequence[Buffer], at: int, *, ending: bool = False) -> None:
        self._check_write(key)
        super().append(key, parts, at)

    def patch(self, key: str, offset: int, data: Buffer | Sequence[Buffer], *, crash_safe: bool = False) -> None:
        self._check_write(key)
        super().patch(key, offset, data, crash_safe=crash_safe)

    def lock(self, key: str, timeout: float | None = None) -> AbstractContextManager[None]:
        self._check_write(key)
        return super().lock(key, timeout)

    def _check_write(self, key: str) -> None:
        self._refuse_if_read_only(key)
        encode_key(key)

    # --- the store itself

    @property
    def address(self) -> str:
        return self._address

    def object_id(self, key: str) -> Hashable:
        return (self._shared.place, self._path(key))

    def child(self, prefix: str) -> RemoteStore:
        prefix = prefix_path(prefix)
        return self._view(self._folder(prefix), f"{self._address}/{prefix}" if prefix else self._address)

    def above(self) -> Iterator[RemoteStore]:
        """The nearest ones: to ask in each takes a request."""
        folders = self._prefix.rstrip("/").split("/") if self._prefix else []
        root = self._address.rstrip("/")
        for depth in range(1, min(len(folders), _MOST_ABOVE) + 1):
            kept = "".join(f"{folder}/" for folder in folders[:-depth])
            yield self._view(kept, root.rsplit("/", depth)[0])

    def _view(self, prefix: str, root: str) -> RemoteStore:
        view = object.__new__(RemoteStore)
        view._shared = self._shared
        view._client = self._client
        view.creates = self.creates
        view._prefix = prefix
        view.read_only = self.read_only
        view.largest = self.largest
        view._address = root
        view.root = without_credentials(root)
        return view


def _rebuild(client: Client, root: str, prefix: str, place: Hashable, read_only: bool) -> RemoteStore:
    return RemoteStore(client, root, prefix, place=place, read_only=read_only)
