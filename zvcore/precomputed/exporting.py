"""One mesh or skeleton as a file of other programs, for the command line."""

from __future__ import annotations

import itertools
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from zvcore.errors import NotFoundError, UnsupportedError, ZvcoreError
from zvcore.precomputed.beside import related_segments
from zvcore.precomputed.group import Volume
from zvcore.precomputed.kinds import LEGACY_MESHES, MESHES, SKELETONS, VOLUME, kind_of
from zvcore.precomputed.legacy_meshes import LegacyMeshes
from zvcore.precomputed.meshes import Meshes
from zvcore.precomputed.metadata import INFO, read_info
from zvcore.precomputed.skeletons import Skeletons
from zvcore.precomputed.surface_files import SURFACE_SUFFIXES, encode_surface
from zvcore.precomputed.swc import encode_swc

if TYPE_CHECKING:
    from collections.abc import Callable

    from zvcore.stores import Store

__all__ = ["first_segments", "object_file"]

_SWC = ".swc"
_OBJECTS: dict[str, Callable[[Store], Meshes | LegacyMeshes | Skeletons]] = {
    MESHES: Meshes, LEGACY_MESHES: LegacyMeshes, SKELETONS: Skeletons,
}  # fmt: skip


def object_file(store: Store, inside: str | None, id: int, suffix: str, lod: int) -> tuple[bytes, list[str]] | None:
    """The mesh or skeleton of a segment in a folder, or of a volume, as a file of this kind, and what it cannot say.

    None if the folder holds neither, or if the ending is that of no such file: then the stored bytes are meant. What
    is not in shards has no other bytes than its file's.
    """
    found: Meshes | LegacyMeshes | Skeletons
    kind = kind_of(read_info(store), INFO)
    if kind == VOLUME and suffix == _SWC:
        found = Volume(store).skeletons()
    elif kind == VOLUME and suffix in SURFACE_SUFFIXES:
        named = Volume(store).info.get("mesh")
        found = Volume(store).meshes() if inside in (None, named) else LegacyMeshes(store.child(inside or ""))
    elif kind == MESHES:
        found = Meshes(store)
    elif kind == LEGACY_MESHES:
        found = LegacyMeshes(store)
    elif kind == SKELETONS:
        found = Skeletons(store)
    else:
        return None
    if isinstance(found, (Meshes, LegacyMeshes)):
        return _mesh(found, id, suffix, lod)
    return _skeleton(found, id, suffix)


def _skeleton(skeletons: Skeletons, id: int, suffix: str) -> tuple[bytes, list[str]] | None:
    if suffix == _SWC:
        if id not in skeletons:
            raise _absent(skeletons, id)
        # In micrometers, as most programs take SWC.
        return encode_swc(skeletons.in_nanometers(id))
    if skeletons.sharding is not None:
        return None
    data = skeletons.stored(id)
    if data is None:
        raise _absent(skeletons, id)
    return data, []


def _absent(found: Meshes | LegacyMeshes | Skeletons, id: int) -> NotFoundError:
    """No error about the place: there is something, but no such segment."""
    what = "skeleton" if isinstance(found, Skeletons) else "mesh"
    return NotFoundError(f"there is no {what} of segment {id} in {found.store.root}")


def first_segments(store: Store, count: int) -> list[str]:
    """The ids of the first segments of a volume, or of a folder, that have a mesh or a skeleton, or annotations.

    Where there are meshes and skeletons, of both in turns: few may have a skeleton, and they need not be the first.
    """
    kind = kind_of(read_info(store), INFO)
    opened: list[Callable[[], Meshes | LegacyMeshes | Skeletons]] = []
    if kind == VOLUME:
        volume = Volume(store)
        named = (("mesh", volume.meshes), ("skeletons", volume.skeletons))
        opened = [open_them for name, open_them in named if volume.info.get(name)]
    elif kind in _OBJECTS:
        opened = [partial(_OBJECTS[kind], store)]
    found: list[list[int]] = []
    for open_them in opened:
        # What is broken or lies elsewhere is told where it is looked at.
        with suppress(ZvcoreError):
            found.append(open_them().first_ids(count).tolist())
    turns = (id for some in itertools.zip_longest(*found) for id in some if id is not None)
    chosen = list(itertools.islice(dict.fromkeys(turns), count))
    if chosen:
        return [str(id) for id in chosen]
    return [str(id) for id in related_segments(store, count)] if kind == VOLUME else []


def _mesh(meshes: Meshes | LegacyMeshes, id: int, suffix: str, lod: int) -> tuple[bytes, list[str]] | None:
    if suffix in SURFACE_SUFFIXES:
        mesh = meshes.get(id, lod=lod)
        if mesh is None:
            raise _absent(meshes, id)
        return encode_surface(mesh, suffix), []
    if isinstance(meshes, Meshes) and meshes.sharding is not None:
        return None
    raise UnsupportedError(
        "a mesh becomes a file by its name", key=meshes.store.root, expected=", ".join(SURFACE_SUFFIXES),
        found=suffix or "no ending",
    )  # fmt: skip
