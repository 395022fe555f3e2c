"""Where meshes and skeletons go: into a volume, which then names them, or to a place of their own."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from zvcore import opening
from zvcore.borrowed.wrapping import as_array
from zvcore.format import Node
from zvcore.precomputed.group import Volume
from zvcore.precomputed.metadata import INFO, resolve_key
from zvcore.stores import Store, open_store
from zvcore.stores.opening import shared_options

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Destination", "source_and_destination"]

Path = str | os.PathLike[str] | Store


@dataclass(frozen=True)
class Destination:
    """A folder.

    volume  the volume that it lies in, where that names no folder of this kind yet; None: none has to name it
    member  the member of the volume's document that will, and
    folder  what it will say
    """

    store: Store
    volume: Store | None = None
    member: str = ""
    folder: str = ""

    def durable(self, fsync: bool | None, durability: str | None) -> Destination:
        """The same folder, written in this way."""
        return replace(self, store=self.store.durable(fsync, durability))

    def name_it(self) -> None:
        """Have the volume name the folder."""
        if self.volume is not None:
            Volume(self.volume, "r+").attrs[self.member] = self.folder


def source_and_destination(
    src: Path | Any, dst: Path | None, member: str, storage_options: Mapping[str, Any] | None
) -> tuple[Any, Destination]:
    """(the source, opened, the folder to write). Without `dst` it is the one that the volume names, or is to name."""
    from_there, to_there = shared_options(storage_options, src, dst)
    source = src
    if isinstance(src, str | os.PathLike | Store):
        source = opening.open(src, storage_options=from_there)
    elif not isinstance(src, Node):
        source = as_array(src)
    volume = source if isinstance(source, Volume) else None
    if dst is not None:
        return source, _given(open_store(dst, "w", to_there), volume, member, from_there)
    if volume is None:
        raise ValueError("only a volume has a folder for what is made of it: say where it is to lie")
    named = volume.info.get(member)
    folder = resolve_key(member if named is None else named, INFO)
    around = _writable(volume, from_there)
    return source, Destination(around.child(folder), around if named is None else None, member, folder)


def _given(store: Store, volume: Volume | None, member: str, options: Mapping[str, Any] | None) -> Destination:
    """A folder that was asked for: one within the volume becomes the one that it names, if it names none."""
    if volume is None or volume.info.get(member) is not None:
        return Destination(store)
    above, here = volume.store.root.rstrip("/") + "/", store.root.rstrip("/")
    if not here.startswith(above):
        return Destination(store)
    return Destination(store, _writable(volume, options), member, here.removeprefix(above))


def _writable(volume: Volume, options: Mapping[str, Any] | None) -> Store:
    return open_store(volume.store.address, "r+", options) if volume.store.read_only else volume.store
