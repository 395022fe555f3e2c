"""Packages whose public names are imported when they are first used."""

from __future__ import annotations

import importlib
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["lazy_names", "needed_by"]

# What installs the packages that only some names need.
_INSTALLED_BY = {
    "dask": "zvcore[dask]",
    "numcodecs": "zvcore[numcodecs]",
    "zarr": "zvcore[zarr]",
    "zarr_vectors": "zarr-vectors",
}


@contextmanager
def needed_by(what: str) -> Iterator[None]:
    """Where packages are imported that need not be installed: an error says what installs the one that is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _INSTALLED_BY:
            raise
        advice = f'{what} needs {package}: pip install "{_INSTALLED_BY[package]}"'
        raise ModuleNotFoundError(advice, name=error.name) from error


def lazy_names(package: str, origins: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package, for {a module in it: "the names that it has"}.

    This way the small module that detects a format does not import the whole format.
    """
    modules = {name: f"{package}.{module}" for module, names in origins.items() for name in names.split()}

    def get(name: str) -> Any:
        origin = modules.get(name)
        if origin is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with needed_by(f"{package}.{name}"):
            value = getattr(importlib.import_module(origin), name)
        setattr(sys.modules[package], name, value)
        return value

    def known() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return get, known
