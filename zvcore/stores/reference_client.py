"""fsspec's references: objects that are parts of other files, as kerchunk and VirtualiZarr have them.

The parts are asked for where they lie, many at once; what leads to where only fsspec can look goes its way.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from typing import TYPE_CHECKING, Any, NamedTuple

from fsspec.core import split_protocol
from fsspec.implementations.reference import ReferenceFileSystem

from zvcore.errors import CorruptDataError, InvalidKeyError, MetadataError, StoreError, UnsupportedError
from zvcore.stores.clients import Arrived, ChangedError, Found, Version, within
from zvcore.stores.files import encode_key
from zvcore.stores.fsspec_client import FsspecClient
from zvcore.stores.fsspec_together import AsyncFsspecClient
from zvcore.stores.ranges import coalesce

if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterator, Sequence

    from zvcore.stores.base import Snapshot, Span, Store

__all__ = ["ReferenceClient", "client_of"]

# Another request costs about as much as so many bytes that nobody wants, and one connection gives so much a second.
_GAP = 64 << 10
_LARGEST = 8 << 20
_MOST_OPEN = 256
_INLINE = b"base64:"
_ANY_SIZE = 1 << 62


class _Part(NamedTuple):
    """Bytes of a file: `length` None for all of it, or from `start` on. `path` is what they are called here."""

    path: str
    store: Store
    key: str
    start: int
    length: int | None


def client_of(filesystem: Any) -> FsspecClient:
    """The client for a file system of fsspec."""
    if type(filesystem) is ReferenceFileSystem:
        return ReferenceClient(filesystem)
    return AsyncFsspecClient(filesystem) if filesystem.async_impl else FsspecClient(filesystem)


class ReferenceClient(FsspecClient):
    """Reads what a file system of references refers to."""

    answers_itself = True

    def __init__(self, filesystem: Any) -> None:
        super().__init__(filesystem)
        # (scheme, bucket or server) -> the store of the files there.
        self._stores: dict[tuple[str | None, str], Store] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return (ReferenceClient, (self._filesystem,))

    # --- where objects are

    def _found(self, path: str) -> bytes | _Part | None:
        """The bytes of an object that stand in the references, or where they lie; None if there is no such object."""
        try:
            part = self._filesystem.references[path]
        except KeyError:
            return None
        except Exception as error:
            raise MetadataError(f"the references cannot be read: {error}", key=path) from error
        if hasattr(part, "to_bytes"):
            part = part.to_bytes()
        if isinstance(part, str):
            part = part.encode()
        if isinstance(part, bytes):
            return _inline(part, path)
        return self._part(part, path)

    def _part(self, part: Any, path: str) -> _Part:
        url, start, length = _checked(part, path)
        url = self._filesystem.target if url is None else url
        if not isinstance(url, str):
            raise MetadataError("a reference names no file", key=path, found=repr(url))
        scheme, _ = split_protocol(url)
        files = self._filesystem.fss
        target = files.get(scheme if scheme in files else None)
        try:
            root, key = _root_and_key(str(target._strip_protocol(url)))
            encode_key(key)
        except (InvalidKeyError, AttributeError, TypeError, ValueError):
            raise UnsupportedError("a reference leads to where only fsspec can look", key=path, found=url) from None
        return _Part(path, self._store_at(target, scheme, root), key, start, length)

    def _store_at(self, target: Any, scheme: str | None, root: str) -> Store:
        found = self._stores.get((scheme, root))
        if found is None:
            from zvcore.stores.given_stores import of_fsspec

            if len(self._stores) >= _MOST_OPEN:
                self._stores.clear()
            found = self._stores[scheme, root] = of_fsspec(target, root, True)
        return found

    # --- reading

    def get_objects(
        self, paths: Sequence[str], at_once: int, spans: Sequence[Span] | None = None
    ) -> builtins.list[Arrived | None]:
        result: builtins.list[Arrived | None] = [None] * len(paths)
        files: builtins.list[tuple[int, _Part]] = []
        parts: builtins.list[tuple[int, _Part]] = []
        for place, path in enumerate(paths):
            first, length = (0, None) if spans is None else spans[place]
            try:
                found = self._found(path)
            except UnsupportedError:
                continue  # the file system knows how
            if found is None:
                result[place] = Arrived(b"", None, 0)
            elif isinstance(found, bytes):
                result[place] = Arrived(b"", _within(memoryview(found), first, length), len(found))
            elif found.length is None:
                files.append((place, found._replace(start=first, length=length)))
            else:
                start, stop = _bounds(found.length, first, length)
                result[place] = Arrived(b"", memoryview(b""), found.length)
                if stop > start:
                    parts.append((place, found._replace(start=found.start + start, length=stop - start)))
        for request, one in _answered([*_alone(files), *_together(parts)]):
            for place, part in request.parts:
                told = result[place]
                if told is None:
                    result[place] = Arrived(b"", memoryview(one.data), one.size)
                else:
                    result[place] = told._replace(data=_cut(memoryview(one.data), request, part))
        return result

    def gives_parts(self) -> bool:
        return True

    def version_of(self, arrived: Arrived) -> Version:
        return Version(None, None, None, arrived.size)

    def get_each(
        self, wanted: Sequence[tuple[str, int, int, Version]], at_once: int
    ) -> builtins.list[memoryview | None]:
        paths = [path for path, _, _, _ in wanted]
        found = self.get_objects(paths, at_once, [(start, stop - start) for _, start, stop, _ in wanted])
        alike = zip(wanted, found, strict=True)
        return [None if one is None or one.size != version.size else one.data for (_, _, _, version), one in alike]

    def get(self, path: str, start: int, stop: int | None, version: Version | None) -> Found | None:
        span = (start, None if stop is None else max(0, stop - start))
        (found,) = self.get_objects([path], 1, [span])
        if found is None:
            return super().get(path, start, stop, version)
        if found.data is None:
            return None
        told = self.version_of(found)
        if version is not None and version != told:
            raise ChangedError("the object has changed", key=path)
        return Found(found.data, told)

    def head(self, path: str) -> Version | None:
        try:
            found = self._found(path)
        except UnsupportedError:
            return super().head(path)
        if isinstance(found, _Part):
            size = found.store.size(found.key) if found.length is None else found.length
            if size is None:
                raise _missing(found)
            return Version(None, None, None, size)
        return None if found is None else Version(None, None, None, len(found))


def _inline(part: bytes, path: str) -> bytes:
    if not part.startswith(_INLINE):
        return part
    try:
        return b64decode(part[len(_INLINE) :])
    except (Base64Error, ValueError) as error:
        raise MetadataError(f"a reference holds no base64: {error}", key=path) from error


def _checked(part: Any, path: str) -> tuple[Any, int, int | None]:
    """(address, where the bytes begin, how many they are) of a reference."""
    if isinstance(part, list | tuple) and len(part) == 1:
        return part[0], 0, None
    if isinstance(part, list | tuple) and len(part) == 3:
        url, start, length = part
        try:
            begin, count = int(start), int(length)
        except (TypeError, ValueError, OverflowError):
            begin, count = -1, -1
        if 0 <= begin < _ANY_SIZE and 0 <= count < _ANY_SIZE:
            return url, begin, count
    expected = "bytes, [address], or [address, offset, length]"
    raise MetadataError("this is no reference", key=path, expected=expected, found=repr(part)[:200])


def _bounds(size: int, first: int, length: int | None) -> tuple[int, int]:
    return within(size, first, None if length is None else first + length)


def _within(data: memoryview, first: int, length: int | None) -> memoryview:
    start, stop = _bounds(len(data), first, length)
    return data[start:stop]


def _missing(part: _Part) -> StoreError:
    return StoreError(f"the file that it lies in is not there: {part.store.root}/{part.key}", key=part.path)


class _Request(NamedTuple):
    """So many bytes of a file from `start` on (None: all), in which these parts lie, by their numbers."""

    store: Store
    key: str
    start: int
    length: int | None
    parts: builtins.list[tuple[int, _Part]]


def _alone(files: Sequence[tuple[int, _Part]]) -> Iterator[_Request]:
    """What to ask for of whole files, whose sizes are not known."""
    for number, part in files:
        yield _Request(part.store, part.key, part.start, part.length, [(number, part)])


def _together(wanted: Sequence[tuple[int, _Part]]) -> Iterator[_Request]:
    """What to ask for of parts: neighbours in a file at once."""
    files: dict[tuple[int, str], builtins.list[tuple[int, _Part]]] = {}
    for number, part in wanted:
        files.setdefault((id(part.store), part.key), []).append((number, part))
    for parts in files.values():
        _, first = parts[0]
        ranges = [(part.start, part.length or 0) for _, part in parts]
        for start, stop, inside in coalesce(first.path, ranges, 2 * _ANY_SIZE, _GAP, _LARGEST):
            yield _Request(first.store, first.key, start, stop - start, [parts[one] for one in inside])


def _answered(requests: Sequence[_Request]) -> Iterator[tuple[_Request, Snapshot]]:
    by_store: dict[int, builtins.list[_Request]] = {}
    for request in requests:
        by_store.setdefault(id(request.store), []).append(request)
    for asked in by_store.values():
        spans = [(one.start, one.length) for one in asked]
        for request, found in zip(asked, asked[0].store.snapshots([one.key for one in asked], spans), strict=True):
            if found is None:
                raise _missing(request.parts[0][1])
            yield request, found


def _cut(data: memoryview, request: _Request, part: _Part) -> memoryview:
    """A part of what came."""
    at = part.start - request.start
    found = data[at : at + (part.length or 0)]
    if len(found) != part.length:
        raise CorruptDataError(
            f"the file ends before what is referred to: {part.store.root}/{part.key}", key=part.path,
            offset=part.start, expected=part.length, found=len(found),
        )  # fmt: skip
    return found


def _root_and_key(path: str) -> tuple[str, str]:
    """(a server, a bucket, or all of this machine's files; what the file is called there)."""
    if "://" in path:
        scheme, _, rest = path.partition("://")
        host, _, key = rest.partition("/")
        return f"{scheme}://{host}", key
    if path.startswith("/"):
        return "/", path.lstrip("/")
    root, _, key = path.partition("/")
    return (root, key) if key else ("", root)
