"""What can be wrong with a mesh: numbers of its manifest, its order in the octree, fragments that cannot be decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zvcore import kernels
from zvcore.errors import CorruptDataError
from zvcore.precomputed.draco import decode_fragment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zvcore.precomputed.manifests import Manifest

__all__ = ["check_fragments", "check_numbers", "oddities"]

# Morton codes of more do not fit into 64 bits; no mesh has as many cells.
_MOST_CELLS = 1 << 21


def check_numbers(manifest: Manifest) -> None:
    """Raise CorruptDataError where the numbers of a manifest lead to no place."""
    shape = manifest.chunk_shape
    if not (np.isfinite(shape).all() and (shape > 0).all()):
        raise CorruptDataError("the cells of the mesh have no size", expected="three positive numbers", found=shape)
    places = [manifest.grid_origin, *(level.vertex_offset for level in manifest.levels)]
    if not all(np.isfinite(place).all() for place in places):
        raise CorruptDataError("the place of the mesh is not finite", found=places)
    scales = [level.scale for level in manifest.levels]
    if not all(np.isfinite(scale) and scale >= 0 for scale in scales):
        raise CorruptDataError("the scale of a level is no positive number", found=scales)


def oddities(manifest: Manifest) -> Iterator[str]:
    """What other programs show wrongly: levels and fragments in another order, and fragments that lack those above."""
    scales = [level.scale for level in manifest.levels if level.scale]
    if sorted(scales) != scales:
        yield f"the scales of the levels decrease: {scales}"
    above = None
    for number, level in reversed([*enumerate(manifest.levels)]):
        places = level.positions.astype(np.int64)
        if places.size and int(places.max()) >= _MOST_CELLS:
            yield f"level {number} has a fragment at {int(places.max())}, where Neuroglancer finds none"
            return
        codes = kernels.compressed_morton(places, (_MOST_CELLS,) * 3)
        if (codes[1:] <= codes[:-1]).any():
            yield f"the fragments of level {number} are not in Z order"
        if above is not None and not np.isin(codes >> np.uint64(3), above).all():
            yield f"fragments of level {number} have none above them in level {number + 1}"
        above = codes


def check_fragments(manifest: Manifest, lod: int, data: bytes, bits: int) -> None:
    """Decode the fragments of a level, which lie one after the other; CorruptDataError for the first broken one."""
    at = 0
    for number, size in enumerate(manifest.levels[lod].sizes.tolist()):
        try:
            decode_fragment(data[at : at + size], bits)
        except CorruptDataError as error:
            error.message = f"level {lod}, fragment {number}: {error.message}"
            raise
        at += size
