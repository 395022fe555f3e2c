"""The openers of network addresses: object stores through obstore, and everything else that fsspec supports."""

from __future__ import annotations

import importlib.util
import os
import re
from base64 import b64encode
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, getproxies_environment

from zvcore.errors import InvalidKeyError, NotFoundError, UnsupportedError, without_credentials
from zvcore.stores.aws import with_aws_settings
from zvcore.stores.files import encode_key
from zvcore.stores.obstore_stores import GOOGLE_FILE, GOOGLE_OPTIONS, GOOGLE_VARIABLES, ObstoreMaker
from zvcore.stores.opening import check_options, is_chained
from zvcore.stores.remote import RemoteStore
from zvcore.stores.variables import all_variables

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from zvcore.stores.base import Store

__all__ = ["is_plain", "open_object_store", "open_with_fsspec"]

# Scheme -> which of obstore's stores.
_KINDS = {
    "s3": "S3Store", "s3a": "S3Store", "gs": "GCSStore", "gcs": "GCSStore", "http": "HTTPStore", "https": "HTTPStore",
    "az": "AzureStore", "adl": "AzureStore", "azure": "AzureStore", "abfs": "AzureStore", "abfss": "AzureStore",
}  # fmt: skip
# Options of obstore that belong to the connection, not to the service.
_CONNECTION = {
    "allow_http", "allow_invalid_certificates", "connect_timeout", "default_content_type", "default_headers",
    "http1_only", "http2_only", "http2_keep_alive_interval", "http2_keep_alive_timeout",
    "http2_keep_alive_while_idle", "pool_idle_timeout", "pool_max_idle_per_host", "proxy_url", "proxy_ca_certificate",
    "proxy_excludes", "randomize_addresses", "read_timeout", "root_certificate", "timeout", "user_agent",
}  # fmt: skip
# Those that requests over connections of our own may go without.
_PLAIN = {"allow_http", "connect_timeout", "default_headers", "http1_only", "pool_idle_timeout",
          "pool_max_idle_per_host", "read_timeout", "timeout", "user_agent"}  # fmt: skip
# The same of web servers, where all else that is said of connections has always been obeyed.
_PLAIN_FOR_WEB = {"allow_http", "default_headers", "http1_only"}
_AZURE = ("endpoint", "azure_endpoint", "azure_storage_endpoint")
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
# What s3fs calls the options that obstore has.
_S3FS = {"access_key_id": "key", "secret_access_key": "secret", "session_token": "token", "skip_signature": "anon"}


def open_object_store(url: str, mode: str, options: dict[str, Any]) -> Store:
    """s3://, gs://, az://, http:// and their other names: through obstore, or through fsspec where that is missing."""
    scheme = url.partition("://")[0].lower()
    if is_chained(url):
        return open_with_fsspec(url, mode, options)
    if importlib.util.find_spec("obstore") is not None:
        return _through_obstore(url, scheme, mode, options)
    if not _fsspec_knows(scheme):
        raise UnsupportedError(f'{scheme}:// addresses need obstore: pip install "zvcore[remote]"', key=url)
    return _through_fsspec(url, scheme, mode, _for_s3fs(options) if scheme in ("s3", "s3a") else options)


def open_with_fsspec(url: str, mode: str, options: dict[str, Any]) -> Store:
    """Whatever fsspec is installed for, also several addresses in a chain."""
    scheme = re.split("::|://", url, maxsplit=1)[0].lower()
    if not _fsspec_knows(scheme):
        raise UnsupportedError(
            f"nothing that is installed opens {scheme}:// addresses. Object stores (s3, gs, az, http) need "
            'pip install "zvcore[remote]", other file systems pip install "zvcore[fsspec]"',
            key=url,
        )
    return _through_fsspec(url, scheme, mode, options)


def _through_obstore(url: str, scheme: str, mode: str, options: dict[str, Any]) -> RemoteStore:
    from zvcore.stores.obstore_client import ObstoreClient
    from zvcore.stores.unsigned_first import UnsignedFirst

    kind = _KINDS[scheme]
    parts = urlsplit(url)
    if not parts.netloc:
        raise ValueError(f"{without_credentials(url)} names no {'host' if kind == 'HTTPStore' else 'bucket'}")
    if kind == "HTTPStore":
        if mode != "r":
            raise UnsupportedError("web servers are only read", key=url)
        if parts.query or parts.fragment:
            raise UnsupportedError("an address with ? or # names no folder of objects", key=url)
        root, path = f"{scheme}://{parts.netloc.rpartition('@')[2]}", unquote(parts.path)
        options.setdefault("allow_http", scheme == "http")
    else:
        # Not what urlsplit makes of it: names of objects may hold ? and #.
        place, _, path = url.partition("://")[2].partition("/")
        root = place.partition("@")[0] if scheme in ("abfs", "abfss") else place
        if "@" in place and scheme in ("abfs", "abfss"):
            options.setdefault("account_name", place.partition("@")[2].partition(".")[0])
    prefix = _checked(path.strip("/"), url)
    nobody = False
    if kind == "S3Store":
        options, nobody = with_aws_settings(options)
    elif kind == "GCSStore":
        nobody = _nobody_asks_google(options)
    endpoint = _endpoint(kind, options)
    if _allows_http(kind):
        options.setdefault("allow_http", True)
    if urlsplit(endpoint).scheme == "http" and urlsplit(endpoint).hostname in _LOCAL_HOSTS:
        options.setdefault("allow_http", True)
    connection = dict(options.pop("client_options", {}))
    connection |= {name: options.pop(name) for name in [*options] if name in _CONNECTION}
    if kind == "HTTPStore" and "@" in parts.netloc:
        connection["default_headers"] = {**_named(parts), **dict(connection.get("default_headers") or {})}
    if endpoint.startswith("http://") and not connection.get("allow_http"):
        raise ValueError(
            f"{endpoint} is not encrypted; if this is intended, pass allow_http=True in storage_options "
            "(--storage-option allow_http=true)"
        )
    settings = {name: _as_text(value) for name, value in options.items() if value is not None}
    if kind == "HTTPStore":
        check_options(url, settings, {*_CONNECTION, "retry_config"})
    maker = ObstoreMaker(kind, root, {**settings, "client_options": connection})
    try:
        plain = is_plain(kind, settings, connection)
        is_http = kind == "HTTPStore"
        client = UnsignedFirst(maker, plain=plain) if nobody else ObstoreClient(maker, is_http=is_http, plain=plain)
    except Exception as error:
        text = f"{url} cannot be opened with these storage_options: {error}"
        raise ValueError(without_credentials(text)) from error
    # What one user may see another may not.
    place = f"{scheme}://{parts.netloc}" if kind == "HTTPStore" else root
    return RemoteStore(client, url, prefix, place=(kind, place, endpoint), read_only=mode == "r")


def _named(address: SplitResult) -> dict[str, str]:
    """The header for the user name and password in an address, which obstore leaves out."""
    text = f"{unquote(address.username or '')}:{unquote(address.password or '')}"
    return {"Authorization": f"Basic {b64encode(text.encode()).decode()}"}


def is_plain(kind: str, settings: Mapping[str, Any], connection: Mapping[str, Any]) -> bool:
    """Whether an address is all that a request needs: nothing was said of connections that only obstore knows, there is
    no proxy, and nothing of encryption or payment has to be sent along.
    """
    headers = connection.get("default_headers") or {}
    return (
        connection.keys() <= (_PLAIN_FOR_WEB if kind == "HTTPStore" else _PLAIN)
        and {str(name).lower() for name in headers} <= {"authorization"}
        and all(isinstance(value, str) and value.isascii() and value.isprintable() for value in headers.values())
        and not any(word in name.lower() for name in settings for word in ("sse", "encryption", "request_payer"))
        and not _has_proxy()
    )


def _has_proxy() -> bool:
    if getproxies is getproxies_environment:
        return _environment_has_proxy(all_variables())
    return bool(getproxies().keys() - {"no"})  # the system's settings are asked as well


@lru_cache(maxsize=8)
def _environment_has_proxy(environment: Hashable) -> bool:
    """To look through all variables takes as long as a request to a server nearby."""
    return bool(getproxies_environment().keys() - {"no"})


def _endpoint(kind: str, options: dict[str, Any]) -> str:
    """The address of the service, where one is set that is not the usual one."""
    names = {"S3Store": ("endpoint", "aws_endpoint", "endpoint_url", "aws_endpoint_url"), "AzureStore": _AZURE}
    found = [options.get(name) for name in names.get(kind, ())]
    if kind == "AzureStore":
        found += [os.environ.get(name.upper()) for name in _AZURE if name.startswith("azure_")]
    return str(next(filter(None, found), ""))


def _as_text(value: Any) -> Any:
    """obstore takes no numbers: a key that consists of digits alone may have been taken for one."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _checked(prefix: str, url: str) -> str:
    if prefix:
        try:
            encode_key(prefix)
        except InvalidKeyError as error:
            raise error.located(key=url)
    return prefix


def _nobody_asks_google(options: dict[str, Any]) -> bool:
    """Whether there are no credentials for Google anywhere."""
    given = {option.lower().removeprefix("google_") for option in options}
    return (
        not given & {*GOOGLE_OPTIONS, "skip_signature", "credential_provider", "bearer_token"}
        and not any(map(os.environ.get, (*GOOGLE_VARIABLES, "GOOGLE_SKIP_SIGNATURE")))
        and not (Path.home() / GOOGLE_FILE).exists()
    )


def _allows_http(kind: str) -> bool:
    """Whether the environment allows requests that are not encrypted."""
    service = {"S3Store": "AWS", "GCSStore": "GOOGLE", "AzureStore": "AZURE"}.get(kind)
    return service is not None and os.environ.get(f"{service}_ALLOW_HTTP", "").lower() in ("true", "1")


def _fsspec_knows(scheme: str) -> bool:
    if importlib.util.find_spec("fsspec") is None:
        return False
    import fsspec

    try:
        fsspec.get_filesystem_class(scheme)
    except (ValueError, ImportError):
        return False
    return True


def _for_s3fs(options: dict[str, Any]) -> dict[str, Any]:
    options.pop("allow_http", None)  # it asks nobody
    virtual = str(options.pop("virtual_hosted_style_request", False)).lower() in ("true", "1")
    renamed = {_S3FS.get(name, name): value for name, value in options.items()}
    if virtual:
        renamed["config_kwargs"] = {"s3": {"addressing_style": "virtual"}, **renamed.get("config_kwargs", {})}
    if "endpoint" in renamed:
        renamed["endpoint_url"] = renamed.pop("endpoint")
    if "region" in renamed:
        renamed["client_kwargs"] = {"region_name": renamed.pop("region"), **renamed.get("client_kwargs", {})}
    return renamed


def _through_fsspec(url: str, scheme: str, mode: str, options: dict[str, Any]) -> RemoteStore:
    from zvcore.stores.fsspec_client import filesystem_of
    from zvcore.stores.reference_client import client_of

    if scheme in ("http", "https") and mode != "r":
        raise UnsupportedError("web servers are only read", key=url)
    try:
        filesystem, path = filesystem_of(url, options)
    except FileNotFoundError as error:
        raise NotFoundError(f"there is nothing here: {error}", key=url) from error
    except (ImportError, ValueError, TypeError, OSError) as error:
        raise UnsupportedError(f"fsspec does not open this address: {error}", key=url) from error
    prefix = path.rstrip("/")
    return RemoteStore(client_of(filesystem), url, prefix, place=("fsspec", filesystem), read_only=mode == "r")
