"""Stores over what obstore and fsspec have opened for somebody else, with their credentials and connections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zvcore.errors import UnsupportedError
from zvcore.stores.known_file_systems import address_of
from zvcore.stores.local import LocalStore
from zvcore.stores.remote import RemoteStore

if TYPE_CHECKING:
    from zvcore.stores.base import Store
    from zvcore.stores.own_requests import OwnRequests

__all__ = ["SIGNING", "of_fsspec", "of_known_address", "of_obstore", "of_references"]


# What obstore calls its stores of services that take signed addresses.
SIGNING = ("S3Store", "GCSStore", "AzureStore")


@dataclass(frozen=True)
class _Given:
    """What makes the store that is there already."""

    store: Any

    def __call__(self, writing: bool, *, packed: bool = False, **options: Any) -> Any:
        return self.store

    def own_requests(self) -> OwnRequests:
        from zvcore.stores.obstore_stores import has_keys
        from zvcore.stores.own_requests import OwnRequests
        from zvcore.stores.request_addresses import SignedAddresses

        alone = self.store.credential_provider is None and has_keys(type(self.store).__name__, self.store.config)
        return OwnRequests(self.store, SignedAddresses(self.store, alone=alone))

    @property
    def plain(self) -> bool:
        """Whether an address that the store signs is all that a request needs."""
        from zvcore.stores.addresses import is_plain
        from zvcore.stores.obstore_stores import skips_signature

        kind = type(self.store).__name__
        if kind not in SIGNING or skips_signature(self.store.config):
            return False
        connection = self.store.client_options or {}
        return "default_headers" not in connection and is_plain(kind, self.store.config, connection)


def of_obstore(given: Any, read_only: bool) -> Store:
    """A store of obstore; a folder of this machine is one of zvcore's own, which knows locks."""
    kind = type(given).__name__
    if kind == "LocalStore":
        return LocalStore(given.prefix or "/", read_only=read_only)
    from zvcore.stores.obstore_client import ObstoreClient

    is_http = kind == "HTTPStore"
    if is_http and not read_only:
        raise UnsupportedError("web servers are only read", key=_name("obstore", given))
    root = _name("obstore", given)
    found = _Given(given)
    client = ObstoreClient(found, is_http=is_http, plain=found.plain)
    return RemoteStore(client, root, place=root, read_only=read_only)


def of_fsspec(filesystem: Any, path: str, read_only: bool) -> Store:
    """A folder of a file system of fsspec, or all of it."""
    from fsspec.implementations.dirfs import DirFileSystem
    from fsspec.implementations.local import LocalFileSystem

    from zvcore.stores.reference_client import client_of

    if isinstance(filesystem, DirFileSystem):
        inner = "/".join(part for part in (str(filesystem.path).rstrip("/"), path.strip("/")) if part)
        return of_fsspec(filesystem.fs, inner, read_only)
    # What zarr-python makes of a file system that knows no loop of events.
    filesystem = getattr(filesystem, "sync_fs", filesystem)
    found = of_known_address(filesystem, path, read_only)
    if found is not None:
        return found
    if getattr(filesystem, "asynchronous", False):
        # Its calls are for a loop of events, and the same file system has others for everybody else.
        kept = {**filesystem.storage_options, "asynchronous": False}
        filesystem = type(filesystem)(*filesystem.storage_args, **kept)
    if isinstance(filesystem, LocalFileSystem):
        return LocalStore(path or "/", read_only=read_only)
    plain = str(filesystem._strip_protocol(path)).rstrip("/")
    root = f"{_name('fsspec', filesystem)}/{plain.strip('/')}".rstrip("/")
    return RemoteStore(client_of(filesystem), root, plain, place=("fsspec", filesystem), read_only=read_only)


def of_known_address(filesystem: Any, path: str, read_only: bool) -> Store | None:
    """The same folder over connections of our own, with the conditions that fsspec does not know; None where only the
    file system knows how to ask for it.
    """
    known = address_of(filesystem, path.rstrip("/"))
    if known is None:
        return None
    from zvcore.stores.addresses import open_object_store
    from zvcore.stores.obstore_calls import threads_are_gone

    if threads_are_gone():
        return None  # file systems are made again in the child of a fork, and can all that they could
    address, options = known
    if address.startswith("http") and not read_only:
        return None
    return open_object_store(address, "r" if read_only else "r+", options)


def of_references(filesystem: Any, path: str) -> Store | None:
    """What a file system of references refers to; None for other file systems."""
    kind = type(filesystem)
    if (kind.__module__, kind.__name__) != ("fsspec.implementations.reference", "ReferenceFileSystem"):
        return None
    from zvcore.stores.reference_client import ReferenceClient

    client, root = ReferenceClient(filesystem), _name("fsspec", filesystem)
    return RemoteStore(client, root, path.strip("/"), place=("fsspec", filesystem), read_only=True)


def _name(library: str, given: Any) -> str:
    """What messages call it: nothing else has this name as long as it is there."""
    return f"<{library} {type(given).__name__} {id(given):x}>"
