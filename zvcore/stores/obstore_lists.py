"""What lies in S3, Google Cloud Storage, Azure and on web servers, as obstore lists it."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import obstore
import obstore.store
from obstore import exceptions

from zvcore.errors import AccessRefusedError, NotFoundError
from zvcore.stores.base import UnlistedError
from zvcore.stores.clients import Client, Version, first_line
from zvcore.stores.obstore_calls import begin, failure
from zvcore.stores.request_threads import side_by_side

if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterable, Sequence

    from obstore import ObjectMeta

__all__ = ["ObstoreLists"]

_LISTED_AT_ONCE = 1000
# Of other services obstore lists everything, and drops what comes before.
_BEGIN_IN_THE_MIDDLE = (obstore.store.S3Store, obstore.store.GCSStore)


class ObstoreLists(Client):
    """The part of a client that lists."""

    _is_http: bool
    # Whether a web server lists what it has, once that has shown.
    _lists: bool | None = None

    @property
    @abstractmethod
    def _listing(self) -> Any:
        """obstore's store, for lists."""

    @abstractmethod
    def _version(self, meta: ObjectMeta, method: str = "GET") -> Version:
        """What an answer to such a request says of an object."""

    def list(self, folder: str) -> builtins.list[str]:
        return [one["path"] for one in self._all_below(folder)]

    def listed(self, folder: str) -> dict[str, Version | None]:
        # A web server may tell other things of an object by its list than by the object.
        told = None if self._is_http else self._version
        return {one["path"]: told and told(one, "LIST") for one in self._all_below(folder)}

    def _all_below(self, folder: str) -> builtins.list[ObjectMeta]:
        begin(folder)
        try:
            stream = obstore.list(self._listing, folder.rstrip("/") or None, chunk_size=_LISTED_AT_ONCE)
            found = self._objects(found for page in stream for found in page)
        except FileNotFoundError:
            return []
        except (exceptions.BaseError, TimeoutError) as error:
            raise self._listing_failure(error, folder) from None
        if not found:
            self._check_that_it_lists(folder)
        return found

    def list_dir(self, folder: str) -> tuple[builtins.list[str], builtins.list[str]]:
        begin(folder)
        try:
            found = obstore.list_with_delimiter(self._listing, folder.rstrip("/") or None)
        except FileNotFoundError:
            return [], []
        except (exceptions.BaseError, TimeoutError) as error:
            raise self._listing_failure(error, folder) from None
        if not found["common_prefixes"] and not found["objects"]:
            self._check_that_it_lists(folder)
        return [*found["common_prefixes"]], [one["path"] for one in self._objects(found["objects"])]

    def is_empty(self, folder: str) -> bool:
        return not self._some_below(folder, 1)

    def _some_below(self, folder: str, most: int) -> Sequence[ObjectMeta]:
        """The first of what lies below a folder."""
        begin(folder)
        try:
            page = next(iter(obstore.list(self._listing, folder.rstrip("/") or None, chunk_size=max(1, most))), [])
        except FileNotFoundError:
            return []
        except (exceptions.BaseError, TimeoutError) as error:
            raise self._listing_failure(error, folder) from None
        if not page:
            self._check_that_it_lists(folder)
        return page

    def some(self, folder: str, most: int) -> builtins.list[str]:
        page = self._some_below(folder, most)
        below = [path for one in page if (path := one["path"]).startswith(folder)]
        found = [path for path in below if "/" not in path[len(folder) :]]
        # Such lists go down into folders, which may fill it.
        return found[:most] if found or len(page) < most else super().some(folder, most)

    def listed_after(self, path: str, folder: str, last: str, most: int) -> dict[str, Version] | None:
        if not isinstance(self._listing, _BEGIN_IN_THE_MIDDLE):
            return None
        begin(folder)
        found: dict[str, Version] = {}
        try:
            pages = obstore.list(
                self._listing, folder.rstrip("/") or None, offset=path, chunk_size=min(most, _LISTED_AT_ONCE)
            )
            for page in pages:
                # What is empty may only mark a folder of this name, see `_objects`.
                found.update((one["path"], self._version(one, "LIST")) for one in page if one["size"])
                if len(found) >= most or page[-1]["path"] >= last:
                    break
        except FileNotFoundError:
            return {}
        except (exceptions.BaseError, TimeoutError) as error:
            raise self._listing_failure(error, folder) from None
        return found

    def _objects(self, listed: Iterable[ObjectMeta]) -> builtins.list[ObjectMeta]:
        """What is listed, without what only marks a folder: an empty object whose name ends with a slash,
        as consoles of services and other libraries make them. obstore lists it under a name without the slash, by which
        nobody can read it.
        """
        found = [*listed]
        empty = [one["path"] for one in found if one["size"] == 0]
        marking = {path for path, marks in zip(empty, side_by_side(self._marks, empty), strict=True) if marks}
        return [one for one in found if one["path"] not in marking] if marking else found

    def _marks(self, path: str) -> bool:
        try:
            return self.head(path) is None
        except AccessRefusedError:
            return False  # whoever wants to read it is told

    def _check_that_it_lists(self, folder: str) -> None:
        """Some web servers say of every folder that it is not there, which obstore takes for empty ones: who lists has
        something in one of those around it.
        """
        around = "" if self._lists is False else folder.rstrip("/")
        while self._is_http and not self._lists:
            if not around:
                self._lists = False
                raise UnlistedError("this web server does not list what it has", key=folder)
            around = around.rpartition("/")[0]
            try:
                found = obstore.list_with_delimiter(self._listing, around or None)
            except (exceptions.BaseError, FileNotFoundError, TimeoutError) as error:
                raise self._listing_failure(error, folder) from None
            self._lists = bool(found["common_prefixes"] or found["objects"]) or None

    def _listing_failure(self, error: Exception, folder: str) -> Exception:
        if self._is_http:
            return UnlistedError("this web server does not list what it has", key=folder)
        if "404 Not Found" in first_line(error):
            return NotFoundError("the bucket or the access key does not exist", key=folder)
        return failure(error, folder)
