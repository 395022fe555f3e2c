"""The libraries that make meshes and skeletons of voxels: extras, each with an error that names what is missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from zvcore.errors import UnsupportedError

__all__ = ["library"]


def library(name: str, extra: str) -> Any:
    """A library, imported; an UnsupportedError that names it and the extra that brings it if it is missing."""
    try:
        return import_module(name)
    except ImportError as error:
        raise UnsupportedError(f"this needs {name}: pip install zvcore[{extra}]", found=str(error)) from error
