"""From what users write, a path or a URL, to a store."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from typing import TypeAlias
from urllib.parse import unquote

from zvcore.errors import NotFoundError, UnsupportedError
from zvcore.stores.base import Store
from zvcore.stores.local import LocalStore
from zvcore.stores.memory import MemoryStore

__all__ = ["Opener", "open_store", "register_scheme"]

Opener: TypeAlias = Callable[[str, str], Store]

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+)://(.*)", re.DOTALL)

_openers: dict[str, Opener] = {}
_registering = threading.Lock()


def register_scheme(scheme: str, opener: Opener) -> None:
    """Let `opener(url, mode)` make the stores of URLs that begin with `scheme://`."""
    with _registering:
        _openers[scheme.lower()] = opener


def open_store(path: str | os.PathLike[str] | Store, mode: str = "r") -> Store:
    """The store at a path or URL: a folder, `file://`, `memory://name`, or what was registered for the scheme.

    Mode "r" reads, "r+" changes what is there, "w" may begin a new store. With the first two, something must be there.
    """
    if mode not in ("r", "r+", "w"):
        raise ValueError(f'mode is "r", "r+" or "w", not {mode!r}')
    if isinstance(path, Store):
        return path
    text = os.fsdecode(path)
    url = _URL.fullmatch(text)
    if url is None:
        return _open_folder(text, mode)
    scheme = url[1].lower()
    opener = _openers.get(scheme)
    if opener is None:
        text = f"nothing that is installed opens {scheme}:// addresses: {text}"
        raise UnsupportedError(f'{text}. Object stores need the extra: pip install "zvcore[remote]"')
    return opener(text, mode)


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
