"""obstore's stores. To make one takes as long as many requests, as it reads the certificates that this machine trusts,
and its connections are its own: so whoever asks for the same one gets it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import obstore
from obstore import exceptions

from zvcore.stores.aws import ProfileCredentials
from zvcore.stores.own_requests import OwnRequests
from zvcore.stores.request_addresses import Addresses, PlainAddresses, SignedAddresses
from zvcore.stores.variables import all_variables

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

__all__ = ["GOOGLE_FILE", "GOOGLE_OPTIONS", "GOOGLE_VARIABLES", "ObstoreMaker", "has_keys", "skips_signature"]

# Objects that are stored with an encoding come as they are. Of large ones Google says the size by HTTP/2 only.
_AS_STORED = {"Accept-Encoding": "gzip"}
_PACKED = {"http1_only": False}
# A server that fails all the time is given up after about ten seconds of waiting.
_RETRIES: dict[str, Any] = {
    "max_retries": 7,
    "backoff": {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=4), "base": 2},
    "retry_timeout": timedelta(seconds=120),
}
_READ_TIMEOUT = timedelta(seconds=60)
_WRITE_TIMEOUT = timedelta(minutes=30)
_MOST_KEPT = 32
# Options of unsigned requests that change no address.
_NOTHING_SPECIAL = {"skip_signature", "client_options"}
_NOT_TO_SIGN = ("skip_signature", "access_key_id", "secret_access_key", "session_token", "credential_provider")
_ANYBODY = {"access_key_id": "x", "secret_access_key": "x", "skip_signature": False}

# With what services are signed to that need nothing else.
_SIGNED_WITH = {"S3Store": {"access_key_id", "secret_access_key"}, "AzureStore": {"account_name", "account_key"}}
_KEYS_OF_AWS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")

# Where credentials for Google come from, which obstore reads when a store is made: options, variables, and a file.
GOOGLE_OPTIONS = ("service_account", "service_account_path", "service_account_key", "application_credentials")
GOOGLE_VARIABLES = (*(f"GOOGLE_{name.upper()}" for name in GOOGLE_OPTIONS), "SERVICE_ACCOUNT")
GOOGLE_FILE = ".config/gcloud/application_default_credentials.json"


@dataclass(frozen=True)
class ObstoreMaker:
    """Makes one of obstore's stores, here or in the process that this was sent to."""

    kind: str
    root: str
    options: dict[str, Any] = field(default_factory=dict, repr=False)

    def __call__(self, writing: bool, *, packed: bool = False, **more: Any) -> Any:
        recipe = self._recipe(writing, packed, more)
        return recipe.make() if recipe.parts is None else _shared(recipe)

    def unsigned(self) -> ObstoreMaker:
        """Makes stores that do not sign."""
        return ObstoreMaker(self.kind, self.root, {**self.options, "skip_signature": True})

    def own_requests(self) -> OwnRequests:
        """Requests for which the address of an object is enough: a signed one, or that on a web server."""
        recipe = self._recipe(False, False, {})
        return _own_requests(recipe) if recipe.parts is None else _shared_requests(recipe)

    def _recipe(self, writing: bool, packed: bool, more: dict[str, Any]) -> _Recipe:
        options = {**self.options, **more}
        # obstore looks into the environment, too.
        files = _files(options) if self.kind == "GCSStore" else ()
        parts = (self.kind, self.root, _frozen(options), writing, packed, all_variables(), files)
        return _Recipe(
            parts,
            lambda: _make(self.kind, self.root, options, writing, packed),
            lambda store: _addresses_of(self.kind, self.root, options, store),
        )


def _make(kind: str, root: str, options: dict[str, Any], writing: bool, packed: bool) -> Any:
    import obstore.store

    settings = {**options}
    connection = {"timeout": _WRITE_TIMEOUT if writing else _READ_TIMEOUT, **settings.pop("client_options", {})}
    if packed:
        connection = {**_PACKED, **connection}
        connection["default_headers"] = {**_AS_STORED, **connection.get("default_headers", {})}
    extra: dict[str, Any] = {"retry_config": settings.pop("retry_config", _RETRIES)}
    if "credential_provider" in settings:
        extra["credential_provider"] = settings.pop("credential_provider")
    made = getattr(obstore.store, kind)
    if kind == "HTTPStore":
        return made.from_url(root, client_options=connection, **extra)
    return made(root, config=settings, client_options=connection, **extra)


class _Recipe:
    """How a store is made. Those with equal parts make equal stores; None: they cannot be compared."""

    __slots__ = ("addresses", "hash", "make", "parts")

    def __init__(self, parts: Hashable, make: Callable[[], Any], addresses: Callable[[Any], Addresses | None]) -> None:
        self.make = make
        self.addresses = addresses
        try:
            self.hash = hash(parts)
            self.parts: Hashable = parts
        except TypeError:  # something of the caller's
            self.hash, self.parts = 0, None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Recipe) and self.parts == other.parts

    def __hash__(self) -> int:
        return self.hash


@lru_cache(maxsize=_MOST_KEPT)
def _shared(recipe: _Recipe) -> Any:
    return recipe.make()


@lru_cache(maxsize=_MOST_KEPT)
def _shared_requests(recipe: _Recipe) -> OwnRequests:
    return _own_requests(recipe)


def _own_requests(recipe: _Recipe) -> OwnRequests:
    store = recipe.make() if recipe.parts is None else _shared(recipe)
    return OwnRequests(store, recipe.addresses(store))


def _addresses_of(kind: str, root: str, options: Mapping[str, Any], store: Any) -> Addresses | None:
    """Where objects are asked for; None where only obstore knows."""
    headers = options.get("client_options", {}).get("default_headers") or {}
    if kind == "HTTPStore":
        # How names in other letters are spelled in requests, obstore knows.
        return PlainAddresses(root, headers) if root.isascii() else None
    if not skips_signature(options):
        return SignedAddresses(store, alone=_signs_alone(kind, options))
    address = _bucket_address(kind, root, options)
    return None if address is None else PlainAddresses(address, headers)


def _signs_alone(kind: str, options: Mapping[str, Any]) -> bool:
    """Whether a store that is made now knows with what it signs, or has it from a function of ours."""
    if kind == "S3Store" and isinstance(options.get("credential_provider"), ProfileCredentials):
        return True
    return has_keys(kind, options) or (kind == "S3Store" and all(map(os.environ.get, _KEYS_OF_AWS)))


def has_keys(kind: str, options: Mapping[str, Any]) -> bool:
    """Whether these options are all that signatures need."""
    told = {name.lower().removeprefix("aws_").removeprefix("azure_") for name, value in options.items() if value}
    return kind in _SIGNED_WITH and told >= _SIGNED_WITH[kind] and "credential_provider" not in told


def skips_signature(options: Mapping[str, Any]) -> bool:
    told = [value for name, value in options.items() if name.lower().endswith("skip_signature")]
    return any(str(value).lower() not in ("false", "0", "") for value in told)


def _bucket_address(kind: str, root: str, options: Mapping[str, Any]) -> str | None:
    """Where the objects of a bucket are that may be read without a signature."""
    if kind == "GCSStore":
        return f"https://storage.googleapis.com/{root}" if options.keys() <= _NOTHING_SPECIAL else None
    if kind != "S3Store":
        return None
    # Addresses that are signed, with whatever it be, tell how those without a signature begin.
    signing = {name: value for name, value in options.items() if not name.lower().endswith(_NOT_TO_SIGN)}
    store = _make(kind, root, {**signing, **_ANYBODY}, False, False)
    try:
        address = urlsplit(obstore.sign(store, "GET", "x", _READ_TIMEOUT))
    except (exceptions.BaseError, OSError, ValueError):
        return None
    return f"{address.scheme}://{address.netloc}{address.path.removesuffix('/x')}"


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return tuple(sorted((name, _frozen(one)) for name, one in value.items()))
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value


def _files(options: Mapping[str, Any]) -> tuple[Any, ...]:
    """Which versions of the files with credentials a store for Google would read."""
    told = [value for name, value in options.items() if name.lower().removeprefix("google_") in GOOGLE_OPTIONS]
    told += map(os.environ.get, GOOGLE_VARIABLES)
    return tuple(map(_version, (*filter(None, told), Path.home() / GOOGLE_FILE)))


def _version(path: Any) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError, TypeError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
