"""Opening stores from what users write, a path or a URL.

The function that opens the URLs of a scheme is found by entry points of the group `zvcore.stores`, whose names are the
schemes; "fsspec" opens what no other claims, and "zip" what leads to an archive. `opener(url, mode, options)` gets the
URL as the user wrote it and the `storage_options` as a dict of its own, and refuses those that it does not know, see
`check_options`.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

from zvcore.errors import NotFoundError, UnsupportedError, without_credentials
from zvcore.plugins import Plugins
from zvcore.stores.base import Store
from zvcore.stores.local import LocalStore
from zvcore.stores.memory import MemoryStore
from zvcore.stores.presence import mode_of

if TYPE_CHECKING:
    from zvcore.stores.single_file import SingleFileStore

__all__ = ["Opener", "check_options", "open_store", "register_scheme", "shared_options", "usual_options"]

Opener: TypeAlias = Callable[[str, str, dict[str, Any]], Store]
# Or what another library has for one of these.
Path: TypeAlias = str | os.PathLike[str] | Store | Any
Options: TypeAlias = Mapping[str, Any] | None

# fsspec chains addresses by two colons: zip://inside::s3://bucket/data.zip, simplecache::https://host/data
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+)(://|::(?=.*://))", re.DOTALL)
# A host that is an address of IPv6 has two colons, too: http://[::1]:8000/data
_IPV6_HOST = re.compile(r"://(?:[^/]*@)?\[[^\]/]*\]")
_OTHERS = "fsspec"
_ZIP = "zip"
_WITHOUT_HOST = (_ZIP, "tar", "libarchive", "dir")
# x.zip, x.zip/inside, and with the words of URL pipelines x.zip|zip:inside
ARCHIVE_ENDINGS = (".zip", ".ozx")
_ARCHIVE = re.compile(r"(.*?[^/]\.(?:zip|ozx))(?:\|zip:/*|/|$)(.*)", re.IGNORECASE | re.DOTALL)

_usual_options: dict[str, Any] = {}

schemes: Plugins[Opener] = Plugins("zvcore.stores", "store", "zvcore.stores.register_scheme(scheme, opener)")


def register_scheme(scheme: str, opener: Opener) -> None:
    """Let `opener(url, mode, options)` make the stores of URLs that begin with `scheme://`, whatever is installed."""
    schemes.register(scheme.lower(), opener)


def open_store(path: Path, mode: str = "r", storage_options: Options = None) -> Store:
    """The store at a path or URL: a folder, `file://`, `memory://name`, an object store, or what a plugin opens; or
    what another library has opened: a store of zarr-python or Icechunk, obstore's or fsspec's.

    Mode "r" reads, "r+" changes what is there, "w" may begin a new store. With the first two, something must be there;
    object stores are not asked whether that is so. `storage_options` are for what opens the URL: for object stores
    credentials, endpoint, region, by the names that obstore gives them.
    """
    if mode not in ("r", "r+", "w"):
        raise ValueError(f'mode is "r", "r+" or "w", not {mode!r}')
    options = dict(storage_options or {})
    if isinstance(path, Store):
        if options:
            raise ValueError(f"storage_options are for opening a store; {path.root} is already open")
        return path
    if not isinstance(path, str | os.PathLike):
        return _opened_elsewhere(path, mode, options)
    text = os.fsdecode(path)
    if _usual_options and not options and takes_options(text):
        options = dict(_usual_options)
    return _opener_of(text)(text, mode, options)


def _opened_elsewhere(given: Any, mode: str, options: dict[str, Any]) -> Store:
    """The store over an object of another library."""
    from zvcore.stores.objects import store_of

    store = store_of(given, mode)
    if store is None:
        raise TypeError(f"a path, an address or a store, not {type(given).__module__}.{type(given).__name__}")
    if options:
        raise ValueError(f"storage_options are for opening a store; {store.root} is already open")
    return store


@contextmanager
def usual_options(options: Mapping[str, Any]) -> Iterator[None]:
    """Within this, everything that this process opens gets these `storage_options` if it takes options and is given
    none: those that a command was given for all its paths.
    """
    global _usual_options
    before = _usual_options
    _usual_options = dict(options)
    try:
        yield
    finally:
        _usual_options = before


def is_chained(address: str) -> bool:
    """Whether this is several addresses, which fsspec takes apart. Of a path, two colons are part of a name."""
    return "://" in address and "::" in _IPV6_HOST.sub("://", address)


def archive_in(address: str) -> tuple[str, str] | None:
    """(a zip archive, the folder in it) where an address leads into one; what is a folder of such a name is none."""
    lowered = address.lower()
    if ".zip" not in lowered and ".ozx" not in lowered:  # quicker than to take apart what is long
        return None
    found = _ARCHIVE.fullmatch(address)
    # fsspec takes chained addresses apart by its own rules.
    if found is None or is_chained(address) or ("://" not in address and os.path.isdir(found[1])):
        return None
    return found[1], found[2].strip("/")


def above_in_chain(path: str) -> tuple[str, str] | None:
    """(the address of the folder, the name in it) of what a chain of addresses leads to; None for other paths.

    The first one in it that has a path says where that is: zip://folder/name::s3://bucket/data.zip
    """
    if not is_chained(path) or _URL.match(path) is None:
        return None
    links = path.split("::")
    place = next(place for place, link in enumerate(links) if "://" in link)
    scheme, _, way = links[place].partition("://")
    above, slash, name = way.rpartition("/")
    links[place] = f"{scheme}://{above or slash}"
    # Of others, what stands first names a host or a bucket.
    return "::".join(links), name if above or slash or scheme.lower() in _WITHOUT_HOST else ""


def open_beside(path: str, mode: str = "r", storage_options: Options = None) -> SingleFileStore | None:
    """The store over one file, through that of the folder around it; None where a path names no file in a folder."""
    url = _URL.match(path)
    above, slash, name = path.rpartition("/")
    chained = above_in_chain(path)
    if chained is not None:
        above, name = chained
    elif url is not None:
        rooted = above.partition("://")[2] or above.lower().startswith("file:///")
        if not rooted:
            return None
        if url[1].lower() in ("file", "http", "https"):
            name = unquote(name)
    kind = _kind_of(path) if url is None else 0
    if not name or stat.S_ISDIR(kind):
        return None
    from zvcore.stores.single_file import SingleFileStore

    if stat.S_ISREG(kind) and mode == "r" and not storage_options and archive_in(above) is None:
        # In a folder, then, for which nobody need look.
        return SingleFileStore(LocalStore(above or slash or ".", read_only=True), name)
    try:
        return SingleFileStore(open_store(above or slash or ".", mode, storage_options), name)
    except NotFoundError:
        return None


def _kind_of(path: str) -> int:
    """Of what kind that is to which a path leads (`st_mode`); 0 where nobody knows."""
    try:
        return os.stat(path).st_mode
    except (OSError, ValueError):
        return 0


def open_matching(path: str, mode: str = "r", storage_options: Options = None) -> Store | None:
    """The store over the objects of a folder that a pattern names: `folder/*.tif`; None where a path is no pattern, or
    something is called so.
    """
    above, slash, name = path.rpartition("/")
    url = _URL.match(path)
    # In an address, these other signs have meanings of their own.
    wild = "*" in name if url is not None else any(sign in name for sign in "*?[")
    if not wild or mode != "r" or (url is None and os.path.lexists(path)):
        return None
    from zvcore.stores.matching import MatchingStore

    return MatchingStore(open_store(above or slash or ".", mode, storage_options), name)


def shared_options(storage_options: Options, *paths: object) -> list[Options]:
    """Which of several paths the options are for: those whose opener takes some, of which there must be one."""
    meant = [isinstance(path, str | os.PathLike) and takes_options(path) for path in paths]
    if storage_options and not any(meant):
        raise ValueError("storage_options are for object stores; neither path leads to one")
    return [storage_options if one else None for one in meant]


def takes_options(path: str | os.PathLike[str]) -> bool:
    text = os.fsdecode(path)
    archive = archive_in(text)
    return _opener_of(text if archive is None else archive[0].rpartition("/")[0] + "/") not in _TAKING_NONE


def check_options(url: str, options: Iterable[str], known: Iterable[str] = ()) -> None:
    """Refuse options that an opener does not know."""
    names, url = sorted(known), without_credentials(url)
    unknown = ", ".join(repr(name) for name in options if name not in names)
    if unknown and names:
        raise ValueError(f"{url} takes the storage_options {', '.join(names)}, not {unknown}")
    if unknown:
        raise ValueError(f"storage_options are for object stores; {url} is none")


def _opener_of(text: str) -> Opener:
    archives = schemes.find(_ZIP) if archive_in(text) is not None else None
    if archives is not None:
        return archives
    url = _URL.match(text)
    if url is None:
        return open_folder
    scheme = url[1].lower()
    named = url[2] == "://" and scheme != _ZIP
    found = schemes.find(scheme if named else _OTHERS) or schemes.find(_OTHERS)
    if found is None:
        raise UnsupportedError(
            f"nothing that is installed opens {scheme}:// addresses, not even zvcore itself: pip install [-e] zvcore",
            key=text,
        )
    return found


def open_folder(path: str, mode: str, options: dict[str, Any]) -> Store:
    """A folder by its path."""
    check_options(path, options)
    store = LocalStore(path, read_only=mode == "r")
    found = mode_of(store.root)
    if found is None and mode != "w":
        raise NotFoundError("there is nothing here", key=store.root)
    if found is not None and not stat.S_ISDIR(found):
        raise UnsupportedError(f"{store.root} is a file; a store is a folder")
    return store


def open_file_url(url: str, mode: str, options: dict[str, Any]) -> Store:
    """file:///folder"""
    host, slash, path = url.partition("://")[2].partition("/")
    if host not in ("", "localhost") or not slash:
        raise UnsupportedError(f"{url} names another host or no absolute path; a folder here is file:///folder")
    return open_folder("/" + unquote(path), mode, options)


def open_memory_url(url: str, mode: str, options: dict[str, Any]) -> Store:
    """memory://name/folder"""
    check_options(url, options)
    name, _, prefix = url.partition("://")[2].partition("/")
    if not name:
        raise ValueError(f"{url} names no memory: write memory://name")
    if mode != "w" and not MemoryStore.is_known(name):
        raise NotFoundError("there is nothing here", key=url)
    return MemoryStore(name, read_only=mode == "r").child(prefix)


# Where they are one of two paths, options are meant for the other.
_TAKING_NONE = (open_folder, open_file_url, open_memory_url)
