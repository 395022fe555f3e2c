"""N5 in conversions: groups of datasets, images as n5-viewer or COSEM describe them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore import codecs
from zvcore.engine import Keys, Sources
from zvcore.engine.fetching import fetch_sound
from zvcore.errors import CorruptDataError, UnsupportedError, ZvcoreError
from zvcore.exchange.exchange import Exchange, distinct, slow_first
from zvcore.exchange.writer import ImageWriter
from zvcore.images.axes import all_named, known, plain, short_unit, size_of
from zvcore.images.cosem import transform
from zvcore.images.ome import ATTRIBUTE, Words, attributes_of, members_of, read_words
from zvcore.n5.attributes import GroupAttributes
from zvcore.n5.blocks import fills_a_box
from zvcore.n5.creating import create_dataset, create_group
from zvcore.n5.documents import ATTRIBUTES
from zvcore.n5.metadata import RESERVED, is_dataset
from zvcore.n5.multiscale import Level, Multiscale
from zvcore.stores.base import UnlistedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zvcore.array import Array
    from zvcore.codecs.base import Codec
    from zvcore.converting.view import View
    from zvcore.exchange.target import Place, Target
    from zvcore.images import Axes, Described
    from zvcore.n5.group import N5Group
    from zvcore.stores import Store

__all__ = ["N5Exchange"]

# Of how many blocks of a dataset the headers are looked at before a conversion begins.
BLOCKS_LOOKED_AT = 4096


class N5Exchange(Exchange):
    holds = "group"
    # Not lz4: of its framings, each is read by few programs.
    common_codecs = ("gzip", "zstd", "blosc", "bzip2", "xz")
    default_codec = "zstd"
    has_attributes = True
    names_all_axes = True
    reserved = RESERVED
    reserved_in_groups = GroupAttributes.reserved
    placing = frozenset({
        "axes", "units", "resolution", "offset", "transform", "pixelResolution", "downsamplingFactors", "scales",
        "multiscales", "coordinateArrays", "multiScale", ATTRIBUTE,
    })  # fmt: skip
    documents = frozenset({ATTRIBUTES})
    ome_version = "0.5"

    def codecs_of(self, array: Array) -> list[Codec]:
        return [codec for codec in super().codecs_of(array) if codec.name != "crc32c"]

    def kept_attributes(
        self, attrs: Mapping[str, Any], foreign: bool, *, of_group: bool = False
    ) -> tuple[dict[str, Any], dict[str, str]]:
        kept, lost = super().kept_attributes(attrs, foreign, of_group=of_group)
        if of_group and is_dataset(kept):
            together = [name for name in kept if name in RESERVED]
            lost.update(
                dict.fromkeys(together, "has no place in N5: with the others it would make a dataset of a group")
            )
            kept = {name: value for name, value in kept.items() if name not in RESERVED}
        return kept, lost

    def words(self, attrs: Mapping[str, Any]) -> Words:
        # Before version 0.5 the words had names that conventions of N5 have too.
        return read_words(attrs, flat=False)

    def check_source(self, array: Array) -> None:
        """Blocks say themselves what they hold: some thousands are looked at, of remote stores one."""
        super().check_source(array)
        store = array.layout.store
        blocks = array.layout.stored_objects() or ()
        try:
            keys = [block.key for block in itertools.islice(blocks, 1 if store.remote else BLOCKS_LOOKED_AT)]
        except UnlistedError:
            keys = [array.layout.chunk_name((0,) * array.ndim)]
        for key in _in_other_modes(store, keys):
            head = store.get(key, 0, 16 + 4 * array.ndim)
            try:
                odd = head is not None and not fills_a_box(head, array.ndim)
            except CorruptDataError:
                continue  # told when it is read
            if odd:
                what = "blocks of a variable number of items are no chunks of an array: use read_block and write_block"
                raise UnsupportedError(what, key=f"{store.root}/{key}")

    def axes_for(
        self, array: Array, kept: Sequence[int], shape: Sequence[int], channel: int | None
    ) -> tuple[tuple[int | None, ...], str]:
        return tuple(reversed(slow_first(array, kept))), "F"

    def array_options(self, view: View, target: Target, place: Place) -> dict[str, Any]:
        options = super().array_options(view, target, place)
        if view.array.dtype.kind in "TUO" and view.dtype is None:
            raise UnsupportedError(
                "N5 has blocks of strings and objects, and no arrays of them: zvcore.create and write_block make these",
                key=view.array.store.root,
            )
        if view.array.dtype.kind == "b" and view.dtype is None:
            raise UnsupportedError("N5 has no booleans; convert with dtype='uint8'", key=view.array.store.root)
        return options

    def notes(self, options: Mapping[str, Any], of_files: bool) -> list[str]:
        """The document of N5 has a list of dimensions, which may be empty; some programs do not think so."""
        if len(options["shape"]) > 0:
            return []
        return ["an array without axes: z5py does not read it; as an array of one item, of one axis, everybody does"]

    def own_codecs(self, view: View, own: list[Codec]) -> dict[str, Any]:
        return {"codec": list(own)}

    def spells(self, codec: Codec) -> bool:
        try:
            spelled = codec.to_n5()
            return "framing" not in spelled and codecs.from_n5(spelled).decodes_alike(codec)
        except ZvcoreError:
            return False

    def placing_attributes(self, axes: Axes) -> dict[str, Any]:
        if not known(axes):
            # Without any, the first three are x, y and z.
            names = [axis.name for axis in axes]
            told = all(names) and names != ["x", "y", "z"][: len(names)]
            return {"axes": names} if told else {}
        said: dict[str, Any] = {"resolution": [size_of(axis) for axis in axes]}
        said["units"] = ["" if axis.unit is None else short_unit(axis.unit) for axis in axes]
        if all(axis.name for axis in axes):
            said["axes"] = [axis.name for axis in axes]
        if any(axis.offset for axis in axes):
            said["transform"] = transform(axes[::-1], short=True)
        return said

    def level_names(self, wanted: Sequence[str | None]) -> list[str]:
        good = all(one is not None and one.rpartition("/")[2].startswith("s") for one in wanted)
        return distinct(wanted if good else [None] * len(wanted), "s")

    def writer(self, store: Store, found: bool) -> ImageWriter:
        return N5Writer(self.format, store, found)


def _in_other_modes(store: Store, keys: list[str]) -> list[str]:
    """Those of these blocks that do not say in their first two bytes that they are in the default mode; all where that
    cannot be asked of many at once, or of one that is gone by now.
    """
    if store.local_root is None:
        return keys
    first, length = np.zeros(len(keys), np.uint64), np.full(len(keys), 2, np.uint64)
    try:
        modes, _ = fetch_sound(store, Sources(Keys.of(keys), None, first, length))
    except OSError:
        return keys
    return [key for key, mode in zip(keys, modes, strict=True) if mode is None or bytes(mode) != b"\0\0"]


class N5Writer(ImageWriter):
    """Groups, datasets in them, and images in the conventions of N5."""

    def folder(self, path: str, attrs: Mapping[str, Any]) -> None:
        create_group(self.child(path), dict(attrs), member=bool(path))

    def create(self, path: str, options: Mapping[str, Any], attrs: Mapping[str, Any]) -> Array:
        if path and not self.store.exists("attributes.json"):
            self.folder("", {})
        self.format.check_creation(options)
        return create_dataset(self.child(path), attrs=dict(attrs), member=bool(path), **options)

    def image(self, path: str, image: Described) -> None:
        """As n5-viewer reads it, and where that cannot say all of it, as COSEM and CellMap do.

        What neither has a place for stands in the attribute `ome`, in the words of OME-Zarr.
        """
        group: N5Group = self.format.open(self.child(path), "r+")
        called = [str(axis.name) for axis in all_named(image.axes[0][::-1])][::-1]
        described = []
        for one, axes in zip(image.names, image.axes, strict=True):
            sizes = [1.0 if axis.scale is None else axis.scale for axis in axes]
            base = [1.0 if axis.scale is None else axis.scale for axis in image.axes[0]]
            described.append(
                Level(
                    one,
                    tuple(plain(a / b) for a, b in zip(sizes, base, strict=True)),
                    tuple(plain(n) for n in sizes),
                    tuple(plain(axis.offset, size_of(axis)) for axis in axes),
                    tuple(short_unit(axis.unit) for axis in axes),
                    tuple(axis.name or known for axis, known in zip(axes, called, strict=True)),
                )
            )
        try:
            group.write_multiscale(Multiscale(tuple(described), "n5-viewer"), "n5-viewer")
        except UnsupportedError:
            _write_cosem(group, described, image.name)
        beyond = members_of(image, None, places=False)
        if beyond:
            group.attrs.update(attributes_of(beyond, "0.5"))


def _write_cosem(group: N5Group, levels: Sequence[Level], name: str | None) -> None:
    entries = []
    for level in levels:
        place = {
            "axes": list(level.axes[::-1]), "scale": list(level.resolution[::-1]),
            "translate": list(level.offset[::-1]), "units": list(level.units[::-1]),
        }  # fmt: skip
        group[level.path].attrs.update({"transform": place})
        entries.append({"path": level.path, "transform": place})
    group.attrs.update({"multiscales": [{"name": name or "", "datasets": entries}]})
