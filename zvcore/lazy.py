"""Packages whose public names are imported when they are first used."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["lazy_names"]


def lazy_names(package: str, origins: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package, for {a module in it: "the names that it has"}.

    This way the small module that detects a format does not import the whole format.
    """
    modules = {name: f"{package}.{module}" for module, names in origins.items() for name in names.split()}

    def get(name: str) -> Any:
        origin = modules.get(name)
        if origin is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(origin), name)
        setattr(sys.modules[package], name, value)
        return value

    def known() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return get, known
