"""Access without credentials: requests are not signed, as suits public buckets, and only where that is refused is this
machine asked for a role of its own.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from zvcore.errors import AccessRefusedError, StoreError, ZvcoreError
from zvcore.stores.clients import Arrived, Client, Found, Version
from zvcore.stores.obstore_client import ObstoreClient

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Iterable, Sequence

    from typing_extensions import Buffer

    from zvcore.stores.base import Span
    from zvcore.stores.obstore_stores import ObstoreMaker
    from zvcore.stores.writing import Anything

__all__ = ["UnsignedFirst"]

T = TypeVar("T")

# A machine that has a role answers at once.
_BRIEFLY: dict[str, Any] = {"retry_config": {"max_retries": 0}}


class UnsignedFirst(Client):
    """Asks without a signature and, where that is refused, with the machine's role, if it has one."""

    def __init__(self, make: ObstoreMaker, *, plain: bool) -> None:
        """`plain`: as `ObstoreClient` has it."""
        self._make = make
        self._plain = plain
        self._unsigned = self._client = ObstoreClient(make.unsigned(), plain=plain)
        self._looking = threading.Lock()
        self._has_looked = False

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (self._make, self._plain))

    def _ask(self, request: Callable[[ObstoreClient], T]) -> T:
        asked = self._client
        try:
            return request(asked)
        except AccessRefusedError as refused:
            with self._looking:
                if not self._has_looked:
                    return self._first_with_role(request, refused)
            if self._client is asked:
                if asked is self._unsigned:
                    raise _without_credentials(refused) from None
                raise
        return request(self._client)

    def _first_with_role(self, request: Callable[[ObstoreClient], T], refused: AccessRefusedError) -> T:
        """Make the request with the machine's role, which shows whether there is one."""
        with_role = ObstoreClient(self._make, plain=self._plain)
        self._has_looked = True
        try:
            answer = request(ObstoreClient(replace(self._make, options={**self._make.options, **_BRIEFLY})))
        except AccessRefusedError:
            self._client = with_role  # there is a role, which may not do this
            raise
        except StoreError:
            raise _without_credentials(refused) from None
        except ZvcoreError:
            self._client = with_role
            raise
        self._client = with_role
        return answer

    def get(self, path: str, start: int, stop: int | None, version: Version | None) -> Found | None:
        return self._ask(lambda client: client.get(path, start, stop, version))

    def get_each(
        self, wanted: Sequence[tuple[str, int, int, Version]], at_once: int
    ) -> builtins.list[memoryview | None] | None:
        return self._client.get_each(wanted, at_once)

    def get_objects(
        self, paths: Sequence[str], at_once: int, spans: Sequence[Span] | None = None
    ) -> builtins.list[Arrived | None] | None:
        return self._client.get_objects(paths, at_once, spans)

    def gives_parts(self) -> bool:
        return self._client.gives_parts()

    def version_of(self, arrived: Arrived) -> Version:
        return self._client.version_of(arrived)

    def get_together(
        self, path: str, ranges: Sequence[tuple[int, int]], version: Version
    ) -> builtins.list[memoryview] | None:
        return self._client.get_together(path, ranges, version)

    def head(self, path: str) -> Version | None:
        return self._ask(lambda client: client.head(path))

    def put(self, path: str, parts: Sequence[Buffer], condition: Version | Anything | None) -> None:
        self._ask(lambda client: client.put(path, parts, condition))

    def put_each(
        self, wanted: Sequence[tuple[str, Sequence[Buffer], Version | Anything | None]], at_once: int
    ) -> builtins.list[Version | bool | None] | None:
        return self._client.put_each(wanted, at_once)

    def put_after_all(self, path: str, parts: Sequence[Buffer], condition: Version | Anything | None) -> None:
        self._client.put_after_all(path, parts, condition)

    def delete(self, paths: Iterable[str]) -> None:
        names = [*paths]
        self._ask(lambda client: client.delete(names))

    def list(self, folder: str) -> builtins.list[str]:
        return self._ask(lambda client: client.list(folder))

    def listed(self, folder: str) -> dict[str, Version | None]:
        return self._ask(lambda client: client.listed(folder))

    def list_dir(self, folder: str) -> tuple[builtins.list[str], builtins.list[str]]:
        return self._ask(lambda client: client.list_dir(folder))

    def is_empty(self, folder: str) -> bool:
        return self._ask(lambda client: client.is_empty(folder))

    def some(self, folder: str, most: int) -> builtins.list[str]:
        return self._ask(lambda client: client.some(folder, most))

    def listed_after(self, path: str, folder: str, last: str, most: int) -> dict[str, Version] | None:
        return self._ask(lambda client: client.listed_after(path, folder, last, most))


def _rebuild(make: ObstoreMaker, plain: bool) -> UnsignedFirst:
    return UnsignedFirst(make, plain=plain)


def _without_credentials(refused: AccessRefusedError) -> AccessRefusedError:
    refused.add_note("nothing here has credentials for it: no storage_options, no environment, no files of the service")
    return refused
