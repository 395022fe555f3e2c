"""One fast engine for chunked and sharded arrays: Neuroglancer precomputed, Zarr v2 and v3, N5 and Zarr Vectors.

Names are imported when they are first used, so that `import zvcore` costs next to nothing.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from zvcore._version import __version__ as __version__

# Every public name stands twice: here for type checkers and editors ...
if TYPE_CHECKING:
    from zvcore import codecs as codecs
    from zvcore import errors as errors
    from zvcore import kernels as kernels
    from zvcore import n5 as n5
    from zvcore import precomputed as precomputed
    from zvcore import stores as stores
    from zvcore import zarr2 as zarr2
    from zvcore import zarr3 as zarr3
    from zvcore import zvf as zvf
    from zvcore.array import Array as Array
    from zvcore.care.manifest import make_manifest as make_manifest
    from zvcore.care.mirroring import copy as copy
    from zvcore.care.mirroring import sync as sync
    from zvcore.care.verbs import compact as compact
    from zvcore.care.verbs import inspect as inspect
    from zvcore.care.verbs import repair as repair
    from zvcore.care.verbs import verify as verify
    from zvcore.converting.convert import convert as convert
    from zvcore.converting.convert import plan as plan
    from zvcore.converting.downsample import downsample as downsample
    from zvcore.converting.in_place import migrate as migrate
    from zvcore.converting.references import references as references
    from zvcore.converting.references import write_references as write_references
    from zvcore.forging.fronts import mesh as mesh
    from zvcore.forging.fronts import skeletonize as skeletonize
    from zvcore.format import formats as formats
    from zvcore.fronts import create as create
    from zvcore.fronts import open as open
    from zvcore.versions import get_include as get_include
    from zvcore.versions import show_versions as show_versions

# ... and here for Python, with the module that has it ("zvcore": it is a module itself). A test compares the two.
_ORIGINS = {
    "Array": "zvcore.array",
    "codecs": "zvcore",
    "compact": "zvcore.care.verbs",
    "convert": "zvcore.converting.convert",
    "copy": "zvcore.care.mirroring",
    "create": "zvcore.fronts",
    "downsample": "zvcore.converting.downsample",
    "errors": "zvcore",
    "formats": "zvcore.format",
    "get_include": "zvcore.versions",
    "inspect": "zvcore.care.verbs",
    "kernels": "zvcore",
    "make_manifest": "zvcore.care.manifest",
    "mesh": "zvcore.forging.fronts",
    "migrate": "zvcore.converting.in_place",
    "n5": "zvcore",
    "open": "zvcore.fronts",
    "plan": "zvcore.converting.convert",
    "precomputed": "zvcore",
    "references": "zvcore.converting.references",
    "repair": "zvcore.care.verbs",
    "show_versions": "zvcore.versions",
    "skeletonize": "zvcore.forging.fronts",
    "stores": "zvcore",
    "sync": "zvcore.care.mirroring",
    "verify": "zvcore.care.verbs",
    "write_references": "zvcore.converting.references",
    "zarr2": "zvcore",
    "zarr3": "zvcore",
    "zvf": "zvcore",
}

__all__ = ["__version__", *_ORIGINS]


def __getattr__(name: str) -> Any:
    origin = _ORIGINS.get(name)
    if origin is None:
        raise AttributeError(f"module 'zvcore' has no attribute {name!r}")
    if origin == "zvcore":
        return importlib.import_module(f"zvcore.{name}")
    value = getattr(importlib.import_module(origin), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """The type of `zvcore` itself.

    Importing a submodule binds it as an attribute of its package. Where a public function has the name of its module
    (`zvcore.convert.convert`), that would hide the function behind the module, depending on who imported what first.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and _ORIGINS.get(name, "zvcore") != "zvcore":
            return
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
