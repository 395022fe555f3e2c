"""At what addresses requests over connections of our own are made: signed by obstore, or as the objects are called."""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

import obstore
from obstore import exceptions

from zvcore.stores.obstore_calls import threads_are_gone, with_threads
from zvcore.stores.range_requests import Address, address_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

__all__ = ["Addresses", "PlainAddresses", "SignedAddresses"]

Method = Literal["GET", "HEAD", "PUT"]

_SIGNED_FOR = timedelta(minutes=10)
_MOST_SIGNED = 4096
# Who signs by asking a service, as a machine of Google's without a key does, takes longer, and would for each object.
_SLOW_TO_SIGN = 0.03
# What stands in the path of an address as it is, besides letters, digits and what nobody changes.
_AS_IT_IS = "/:,=@+!$&'()*;~"
# Paths in which nothing needs to be looked at more closely, as most are.
_PLAIN = re.compile(r"[A-Za-z0-9_./-]*")


class Addresses(ABC):
    """is_slow  whether to find the last ones took so long that others had better not be asked for"""

    is_slow = False

    @abstractmethod
    def of(self, method: Method, paths: Collection[str]) -> dict[str, Address] | None:
        """Those of these objects; None where there are none, now or ever."""


class SignedAddresses(Addresses):
    """Of objects in one of obstore's stores, which signs them for a while.

    `alone`: what it signs with is told, or told by a function, and nobody is asked for it over a network: then it signs
    without its threads, also in the child of a fork.
    """

    def __init__(self, store: Any, alone: bool = False) -> None:
        self.store = store
        self._alone = alone
        # The first signature may wait for credentials, whoever signs.
        self._has_signed = False
        # Method -> path -> its signed address, and until when that is used.
        self._signed: dict[Method, dict[str, tuple[Address, float]]] = {"GET": {}, "HEAD": {}, "PUT": {}}

    def of(self, method: Method, paths: Collection[str]) -> dict[str, Address] | None:
        self.is_slow = False
        now = time.monotonic()
        signed = self._signed[method]
        known = {path: one[0] for path in paths if (one := signed.get(path)) is not None and one[1] > now}
        missing = [path for path in paths if path not in known]
        if not missing:
            return known
        if len(signed) + len(missing) > _MOST_SIGNED:
            signed.clear()
        urls = self._sign(method, missing)
        if urls is None:
            return None
        self.is_slow = self._has_signed and time.monotonic() - now > _SLOW_TO_SIGN
        self._has_signed = True
        for path, url in zip(missing, urls, strict=True):
            known[path] = address_of(url, method)
            signed[path] = (known[path], now + _SIGNED_FOR.total_seconds() / 2)
        return known

    def _sign(self, method: Method, paths: Sequence[str]) -> Sequence[str] | None:
        if not (self._alone and threads_are_gone()):
            with_threads(paths[0])
        try:
            return obstore.sign(self.store, method, paths, _SIGNED_FOR)
        except (exceptions.BaseError, OSError, ValueError, NotImplementedError):
            return None  # nothing to sign with, or no way to


class PlainAddresses(Addresses):
    """Of objects on a web server, below `root`. `headers` are sent with each request."""

    def __init__(self, root: str, headers: Mapping[str, str]) -> None:
        place, request = address_of(f"{root}/")
        line, _, others = request.partition(b"\r\n")
        _, path, version = line.split(b" ")
        more = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._place = place
        self._path = path
        self._behind = b" " + version + b"\r\n" + others + more.encode("latin-1")

    def of(self, method: Method, paths: Collection[str]) -> dict[str, Address] | None:
        begin = method.encode() + b" " + self._path
        return {path: Address(self._place, begin + _quoted(path) + self._behind) for path in paths}


def _quoted(path: str) -> bytes:
    return (path if _PLAIN.fullmatch(path) else quote(path, safe=_AS_IT_IS)).encode()
