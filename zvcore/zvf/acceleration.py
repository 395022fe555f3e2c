"""Puts zvcore's functions into an installed `zarr-vectors`, and gives it its own back."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

from zvcore import acceleration
from zvcore.lazy import needed_by

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

__all__ = ["Acceleration", "accelerate"]

ENCODERS = (
    "encode_object_manifest_blocks", "decode_object_manifest_blocks", "encode_object_manifests_many",
    "decode_object_manifests_many", "encode_object_manifests_csr", "decode_object_manifests_csr", "encode_fragments",
)  # fmt: skip
SHARDING = ("is_sharded", "shard_store", "unshard_store", "reshard", "get_shard_info")


class Acceleration(acceleration.Acceleration):
    """Functions of zarr-vectors that zvcore's have taken the place of."""

    def __init__(self) -> None:
        self._changed: list[tuple[ModuleType, str, Any]] = []

    @property
    def replaced(self) -> list[str]:
        """The functions that have been replaced by zvcore's."""
        return sorted({f"{original.__module__}.{original.__name__}" for _, _, original in self._changed})

    def replace(self, original: Any, new: Any) -> None:
        """Put `new` wherever a module of zarr-vectors holds `original`."""
        for name, module in list(sys.modules.items()):
            if name != "zarr_vectors" and not name.startswith("zarr_vectors."):
                continue
            for attribute, value in list(vars(module).items()):
                if value is original:
                    self._changed.append((module, attribute, original))
                    setattr(module, attribute, new)

    def restore(self) -> None:
        while self._changed:
            module, attribute, original = self._changed.pop()
            setattr(module, attribute, original)


def accelerate() -> Acceleration:
    """Swap zvcore's encoders, decoders and sharding functions into the installed `zarr-vectors`.

    Modules that are imported later take them from there. ImportError where zarr-vectors is not installed.
    """
    compat = importlib.import_module("zvcore.zvf.compat")
    with needed_by("accelerate"):
        theirs = importlib.import_module("zarr_vectors.encoding.fragments")
    sharding = importlib.import_module("zarr_vectors.sharding.io")
    # Modules that hold these functions by name have to be loaded to be changed.
    for name in ("zarr_vectors.core.arrays", "zarr_vectors.building", "zarr_vectors.sharding"):
        importlib.import_module(name)
    handle = Acceleration()
    for name in ENCODERS:
        original = getattr(theirs, name, None)
        if original is not None:
            handle.replace(original, getattr(compat, name))
    handle.replace(theirs.decode_fragments, _decoder(compat.decode_fragments, theirs.ChunkFragmentIndex))
    for name in SHARDING:
        original = getattr(sharding, name)
        handle.replace(original, _for_paths(original, getattr(compat, name)))
    return handle


def _decoder(decode: Callable[[Any], Any], index_class: Any) -> Callable[[Any], Any]:
    """A decoder whose result is an object of the reference's own class."""

    def decode_fragments(raw: Any) -> Any:
        return index_class(**decode(raw).columns())

    return decode_fragments


def _for_paths(original: Callable[..., Any], new: Callable[..., Any]) -> Callable[..., Any]:
    """Zvcore's function for stores in local folders, the reference's own for all others."""

    @functools.wraps(new)
    def chosen(store_path: Any, *args: Any, **kwargs: Any) -> Any:
        path = store_path
        if not isinstance(path, (str, os.PathLike)):
            path = getattr(store_path, "url", None)
            if not isinstance(path, str) or not path.startswith("file://"):
                return original(store_path, *args, **kwargs)
        elif "://" in os.fspath(path) and not os.fspath(path).startswith("file://"):
            return original(store_path, *args, **kwargs)
        return new(path, *args, **kwargs)

    return chosen
