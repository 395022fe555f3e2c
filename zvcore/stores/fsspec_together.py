"""File systems of fsspec that a loop of events asks: many objects at once, without a thread that waits for each."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from fsspec.asyn import sync

from zvcore.stores.clients import Arrived, ChangedError, Version, nameless, within
from zvcore.stores.fsspec_client import NOT_THERE, FsspecClient, part_of, replacing, wants_all
from zvcore.stores.gathering import gathered
from zvcore.stores.writing import Anything, joined

if TYPE_CHECKING:
    import builtins
    from collections.abc import Awaitable, Callable, Sequence

    from typing_extensions import Buffer

    from zvcore.stores.base import Span

__all__ = ["AsyncFsspecClient"]

T = TypeVar("T")


class AsyncFsspecClient(FsspecClient):
    """Asks for the same as `FsspecClient` does, in the same order for each object."""

    def get_data(self, paths: Sequence[str], at_once: int) -> builtins.list[Arrived | None]:
        async def one(filesystem: Any, path: str) -> Arrived:
            try:
                data = await filesystem._cat_file(path)
            except FileNotFoundError:
                return Arrived(None, None, 0)
            return Arrived(nameless(len(data)), memoryview(data), len(data))

        return _without_errors(self._together(one, paths, at_once))

    def get_objects(
        self, paths: Sequence[str], at_once: int, spans: Sequence[Span] | None = None
    ) -> builtins.list[Arrived | None]:
        async def one(filesystem: Any, wanted: tuple[str, Span]) -> Arrived:
            path, (start, length) = wanted
            version = await self._version(filesystem, path)
            if version is None:
                return Arrived(None, None, 0)
            stop = None if length is None else start + length
            first, last = within(version.size, start, stop)
            whole = wants_all(version.size, start, stop)
            data = await _part(filesystem, path, first, stop if whole else last) if last > first else b""
            if not (whole and len(data) == version.size) and await self._version(filesystem, path) != version:
                raise ChangedError("the object has changed", key=path)
            return Arrived(version, part_of(data, version.size, first, last), version.size)

        return _without_errors(self._together(one, [*zip(paths, spans or [(0, None)] * len(paths))], at_once))

    def look_at(
        self, paths: Sequence[str], spans: Sequence[Span] | None = None
    ) -> builtins.list[Arrived | None] | None:
        return self.get_data(paths, len(paths)) if spans is None else self.get_objects(paths, len(paths), spans)

    def version_of(self, arrived: Arrived) -> Version:
        version: Version = arrived.head
        return version

    def get_each(
        self, wanted: Sequence[tuple[str, int, int, Version]], at_once: int
    ) -> builtins.list[memoryview | None]:
        async def one(filesystem: Any, part: tuple[str, int, int, Version]) -> memoryview:
            path, start, stop, version = part
            return part_of(await _part(filesystem, path, start, stop), version.size, start, stop)

        found = _without_errors(self._together(one, wanted, at_once))
        # Whether these were the versions that they should be is known only now.
        now = self.heads([*{path for path, _, _, _ in wanted}], at_once)
        return [
            data if data is not None and now.get(path) == version else None
            for data, (path, _, _, version) in zip(found, wanted, strict=True)
        ]

    def heads(self, paths: Sequence[str], at_once: int) -> dict[str, Version | None]:
        found = self._together(self._version, paths, at_once)
        return {path: one for path, one in zip(paths, found, strict=True) if not isinstance(one, BaseException)}

    async def _version(self, filesystem: Any, path: str) -> Version | None:
        filesystem.invalidate_cache(path.rpartition("/")[0])
        try:
            return self._told(path, await filesystem._info(path))
        except NOT_THERE:
            return None

    def put_each(
        self, wanted: Sequence[tuple[str, Sequence[Buffer], Version | Anything | None]], at_once: int
    ) -> builtins.list[Version | bool | None]:
        async def one(filesystem: Any, given: tuple[str, Sequence[Buffer], Version | Anything | None]) -> bool:
            path, parts, condition = given
            if not isinstance(condition, Anything) and await self._version(filesystem, path) != condition:
                return False
            await filesystem._pipe_file(path, joined(parts))
            return True

        # Of the same object more than once: the first, and the others when that is done.
        first = {path: place for place, (path, _, _) in reversed([*enumerate(wanted)])}
        places = sorted(first.values())
        with replacing([path for path, _, condition in wanted if not isinstance(condition, Anything)]):
            found = _without_errors(self._together(one, [wanted[place] for place in places], at_once))
        stored = dict(zip(places, found, strict=True))
        return [stored.get(place) for place in range(len(wanted))]

    def _together(
        self, function: Callable[[Any, T], Awaitable[Any]], items: Sequence[T], at_once: int
    ) -> builtins.list[Any]:
        """What `function` gives for each item, or what it raises."""

        if not items:
            return []
        with self._using() as filesystem:
            found: builtins.list[Any] = sync(
                filesystem.loop, gathered, partial(function, filesystem), items, at_once, errors=True
            )
            return found


def _without_errors(found: builtins.list[Any]) -> builtins.list[Any]:
    return [None if isinstance(one, BaseException) else one for one in found]


async def _part(filesystem: Any, path: str, first: int, last: int | None) -> bytes:
    data: bytes = await filesystem._cat_file(path, start=first, end=last)
    return data
