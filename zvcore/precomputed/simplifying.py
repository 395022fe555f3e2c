"""Coarser levels of a surface, with fewer triangles, by the library fast-simplification."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.errors import UnsupportedError
from zvcore.precomputed.surfaces import Surface

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["simplified"]

# A level twice as coarse has a quarter of the triangles.
_FACTOR = 4
_FEWEST = 16


def _library() -> Callable[..., Any]:
    try:
        from fast_simplification import simplify
    except ImportError as error:
        raise UnsupportedError(
            "coarser levels are made by fast-simplification: pip install zvcore[simplify]; or give the levels"
        ) from error
    found: Callable[..., Any] = simplify
    return found


def simplified(surface: Surface, lods: int) -> list[Surface]:
    """The surface and up to `lods` - 1 coarser ones, each with a quarter of the triangles; small ones have fewer."""
    levels = [surface]
    while len(levels) < lods:
        before = levels[-1]
        if len(before.faces) < _FACTOR * _FEWEST:
            break
        vertices, faces = _library()(
            before.vertices, before.faces.astype(np.int32), target_count=len(before.faces) // _FACTOR
        )
        if not 0 < len(faces) < len(before.faces):
            break
        levels.append(Surface(np.asarray(vertices, np.float32), np.asarray(faces, np.uint32)))
    return levels
