"""File systems of fsspec that are another word for an address: what they say of it is all that there is to say, so that
zvcore opens it itself, over connections of its own. Of none of them the library is imported.
"""

from __future__ import annotations

import importlib.util
import os
import re
from typing import TYPE_CHECKING, Any
from urllib.request import getproxies

from zvcore.stores.object_names import keys_below

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["address_of"]

# What changes neither what is asked nor of whom.
_HARMLESS = {
    "asynchronous", "batch_size", "block_size", "cache_options", "cache_regions", "cache_type", "default_block_size",
    "default_cache_type", "default_fill_cache", "listings_expiry_time", "loop", "max_concurrency", "max_paths",
    "same_scheme", "simple_links", "size_policy", "skip_instance_cache", "use_listings_cache",
}  # fmt: skip
_OF_S3 = {"anon", "client_kwargs", "endpoint_url", "key", "secret", "token", "use_ssl"}
_OF_CLIENT = {"endpoint_url", "region_name"}
# Addresses that are spelled in requests as they are written.
_PLAIN_ADDRESS = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+(/[A-Za-z0-9._~/-]*)?")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]+")
_KEYS = {"access_key_id": "AWS_ACCESS_KEY_ID", "secret_access_key": "AWS_SECRET_ACCESS_KEY"}

Known = tuple[str, dict[str, Any]]


def address_of(filesystem: Any, path: str) -> Known | None:
    """(the address of a folder of a file system, storage options for it); None where only the file system knows how to
    ask.
    """
    kind = type(filesystem)
    opener = _KINDS.get((kind.__module__, kind.__name__))
    if opener is None or filesystem.storage_args or importlib.util.find_spec("obstore") is None:
        return None
    said = {name: value for name, value in filesystem.storage_options.items() if name not in _HARMLESS}
    return opener(said, path)


def _web(said: Mapping[str, Any], path: str) -> Known | None:
    # Of proxies that the environment names, fsspec's clients know nothing.
    if any(said.values()) or not _PLAIN_ADDRESS.fullmatch(path) or getproxies().keys() - {"no"}:
        return None
    return (path, {}) if _is_key("/".join(path.split("/")[3:])) else None


def _s3(said: Mapping[str, Any], path: str) -> Known | None:
    client = said.get("client_kwargs") or {}
    others = [value for name, value in said.items() if name not in _OF_S3]
    bucket, _, inside = path.partition("/")
    if any(others) or client.keys() - _OF_CLIENT or not _BUCKET.fullmatch(bucket) or not _is_key(inside):
        return None
    endpoint = said.get("endpoint_url") or client.get("endpoint_url")
    region = client.get("region_name") or os.environ.get("AWS_DEFAULT_REGION")
    identity = _identity(said)
    # Only botocore finds out in which region of Amazon's a bucket is.
    by_botocore = not endpoint and (not region or said.get("use_ssl") is False or _has_endpoint())
    if identity is None or by_botocore:
        return None
    where = {"endpoint": endpoint, "allow_http": endpoint.startswith("http://")} if endpoint else {}
    return f"s3://{path}", {**where, **({"region": region} if region else {}), **identity}


def _is_key(path: str) -> bool:
    """Whether zvcore calls a folder as the file system does."""
    return not path or keys_below([path], "") == [path]


def _identity(said: Mapping[str, Any]) -> dict[str, Any] | None:
    """As whom s3fs asks; None: that is found out elsewhere."""
    if said.get("anon"):
        return {"skip_signature": True}
    if said.get("key") and said.get("secret"):
        found = {"access_key_id": said["key"], "secret_access_key": said["secret"]}
        return {**found, "session_token": said["token"]} if said.get("token") else found
    if said.get("key") or said.get("secret") or said.get("token") or os.environ.get("AWS_PROFILE"):
        return None
    kept = {option: value for option, name in _KEYS.items() if (value := os.environ.get(name))}
    token = os.environ.get("AWS_SESSION_TOKEN")
    return ({**kept, "session_token": token} if token else kept) if len(kept) == len(_KEYS) else None


def _has_endpoint() -> bool:
    return any(name.startswith("AWS_") and "ENDPOINT" in name for name in os.environ)


_KINDS: dict[tuple[str, str], Callable[[Mapping[str, Any], str], Known | None]] = {
    ("fsspec.implementations.http", "HTTPFileSystem"): _web,
    ("s3fs.core", "S3FileSystem"): _s3,
}
