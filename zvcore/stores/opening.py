"""From what users write, a path or a URL, to a store."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias
from urllib.parse import unquote

from zvcore.errors import NotFoundError, UnsupportedError
from zvcore.stores.base import Store
from zvcore.stores.local import LocalStore
from zvcore.stores.memory import MemoryStore

__all__ = ["Opener", "open_store", "register_scheme"]

Opener: TypeAlias = Callable[[str, str], Store]

# fsspec chains addresses by two colons: zip://inside::s3://bucket/data.zip, simplecache::https://host/data
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+)(://|::(?=.*://))", re.DOTALL)

_openers: dict[str, Opener] = {}
_registering = threading.Lock()


def register_scheme(scheme: str, opener: Opener) -> None:
    """Let `opener(url, mode)` make the stores of URLs that begin with `scheme://`."""
    with _registering:
        _openers[scheme.lower()] = opener


def remote_only(
    path: str | os.PathLike[str] | Store, storage_options: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """The options for a path that leads to an object store, None for others: for work between two stores."""
    if isinstance(path, Store):
        return storage_options if path.remote else None
    url = _URL.match(os.fsdecode(path))
    return storage_options if url is not None and (url[2] == "::" or url[1].lower() not in _openers) else None


def open_store(
    path: str | os.PathLike[str] | Store, mode: str = "r", storage_options: Mapping[str, Any] | None = None
) -> Store:
    """The store at a path or URL: a folder, `file://`, `memory://name`, an object store, or what was registered.

    Mode "r" reads, "r+" changes what is there, "w" may begin a new store. With the first two, something must be there;
    object stores are not asked whether that is so. `storage_options` are for object stores: credentials, endpoint,
    region, by the names that obstore gives them.
    """
    if mode not in ("r", "r+", "w"):
        raise ValueError(f'mode is "r", "r+" or "w", not {mode!r}')
    if isinstance(path, Store):
        store = path
    else:
        text = os.fsdecode(path)
        url = _URL.match(text)
        scheme = "" if url is None else url[1].lower()
        if url is not None and (url[2] == "::" or scheme not in _openers):
            from zvcore.stores.addresses import open_remote

            return open_remote(text, scheme, mode, storage_options)
        store = _open_folder(text, mode) if url is None else _openers[scheme](text, mode)
    if storage_options and not store.remote:
        raise ValueError(f"storage_options are for object stores; {store.root} is none")
    return store


def _open_folder(path: str, mode: str) -> Store:
    store = LocalStore(path, read_only=mode == "r")
    if os.path.isdir(store.root):
        return store
    if os.path.exists(store.root):
        raise UnsupportedError(f"{store.root} is a file; a store is a folder")
    if mode != "w":
        raise NotFoundError(f"there is nothing at {store.root}")
    return store


def _open_file_url(url: str, mode: str) -> Store:
    host, slash, path = url.partition("://")[2].partition("/")
    if host not in ("", "localhost") or not slash:
        raise UnsupportedError(f"{url} names another host or no absolute path; a folder here is file:///folder")
    return _open_folder("/" + unquote(path), mode)


def _open_memory_url(url: str, mode: str) -> Store:
    name, _, prefix = url.partition("://")[2].partition("/")
    if not name:
        raise ValueError(f"{url} names no memory: write memory://name")
    if mode != "w" and not MemoryStore.is_known(name):
        raise NotFoundError(f"there is nothing at {url}")
    return MemoryStore(name, read_only=mode == "r").child(prefix)


register_scheme("file", _open_file_url)
register_scheme("memory", _open_memory_url)
