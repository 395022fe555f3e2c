"""Codecs of zvcore in the registries of zarr-python and numcodecs, so that one class serves all three.

An author names the class that each of them wants in an entry point, and needs none of them to be installed:

    [project.entry-points."zarr.codecs"]
    runs = "zvcore_runs:Runs.for_zarr_python"

A program that must read data of a codec whose author has not done so calls `offer("runs")`.
"""

from __future__ import annotations

from importlib import import_module, util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zvcore.codecs.base import Codec

__all__ = ["OfferedTo", "offer"]


class OfferedTo:
    """An attribute of codec classes: the class for another library, made when it is first asked for."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __get__(self, codec: Codec | None, cls: type[Codec]) -> type[Any]:
        made: type[Any] = import_module(self._module).class_of(cls)
        return made


def offer(*names: str) -> list[str]:
    """Register these codecs, by default all that are installed, with zarr-python and numcodecs in this process.

    Names that those libraries have a codec for are left alone. Returns the names, as the formats spell them, that
    were added.
    """
    from zvcore.codecs import registry

    classes = [registry.named(name) for name in names] or list(registry.usable().values())
    added = []
    for module in ("zvcore.codecs.offered_to_zarr_python", "zvcore.codecs.offered_to_numcodecs"):
        library = module.rpartition("_to_")[2].replace("zarr_python", "zarr")
        if util.find_spec(library) is not None:
            added += [name for cls in classes if (name := import_module(module).register(cls)) is not None]
    return list(dict.fromkeys(added))
