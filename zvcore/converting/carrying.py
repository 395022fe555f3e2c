"""What is said of arrays, images and groups besides their values: it goes along, or the draft names it as lost."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.casting import in_words
from zvcore.converting.companions import Companion, counted
from zvcore.converting.drafts import DraftArray, DraftFolder
from zvcore.format import formats, get_format
from zvcore.images import Described, is_labels
from zvcore.images.axes import known, long_unit
from zvcore.images.image import KINDS
from zvcore.images.ome import attributes_of, with_version

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zvcore.array import Array
    from zvcore.converting.drafts import Draft
    from zvcore.converting.sources import Beside, Folder, Leaf, Pyramid
    from zvcore.exchange import Exchange
    from zvcore.images import Axes, Level

__all__ = ["Carrying"]

# By which files of volumes say where voxels lie, and what was made of these.
_OF_WHOLE = frozenset({"affine"})


class Carrying:
    """What goes along from one source to what a draft makes.

    moved     whether only a part of the source is converted, so that what says where voxels lie does not hold
    of_files  whether what is made are files
    """

    def __init__(
        self, draft: Draft, source: str, moved: bool, consolidating: bool = False, of_files: bool = False
    ) -> None:
        self.draft = draft
        self.source: Exchange = get_format(source).exchange()
        self.target: Exchange = draft.format.exchange()
        self.moved = moved
        self.consolidating = consolidating
        self.of_files = of_files

    @property
    def within_format(self) -> bool:
        return self.source.format is self.target.format

    def array(self, leaf: Leaf | Level, exact: bool) -> dict[str, Any]:
        """The attributes of what becomes of an array; `exact`: it is shown as it is, with the same axes."""
        attrs = leaf.array.attrs
        self._other_members(leaf.path, attrs)
        if exact and self.within_format and not self.moved:
            return self._kept(leaf.path, self.source.user_attributes(attrs), foreign=False)
        return self._kept(leaf.path, self._rest(leaf.path, attrs, leaf.taken, leaf.untold))

    def level(self, folder: str, level: Level) -> dict[str, Any]:
        """The attributes of what becomes of a level: where it lies is said again."""
        attrs = level.array.attrs
        path = "/".join(filter(None, (folder, level.path)))
        self._other_members(path, attrs)
        return self._kept(path, self._rest(path, attrs, level.taken, level.untold))

    def folder(self, folder: Folder) -> dict[str, Any]:
        """The attributes of what becomes of a group."""
        self._other_members(folder.path, folder.attrs)
        if self.within_format:
            own = self.source.user_attributes(folder.attrs)
            kept = self._kept(folder.path, own, foreign=False, of_group=True)
            return kept if self.target.ome_version is None else with_version(kept, self.target.ome_version)
        words = self.source.words(folder.attrs)
        own = self._rest(folder.path, folder.attrs, words.taken, folder.untold)
        kept = self._kept(folder.path, own, of_group=True)
        if self.target.ome_version is not None:
            return {**kept, **attributes_of(words.members, self.target.ome_version)}
        for word in words.members:
            self.draft.lose(folder.path, f"{word} of OME-Zarr has no place in {self.draft.format.title}")
        return kept

    def folder_around(self, folder: Folder) -> None:
        """A group around or in an image, where there are no groups: what is said of it is lost."""
        self._other_members(folder.path, folder.attrs)
        for name in self.source.user_attributes(folder.attrs):
            self.draft.lose(folder.path, f"the attribute {name!r} of a group has no place in {self.draft.format.title}")
        for what in folder.untold:
            self.draft.lose(folder.path, f"{what} is not known, and is not carried")

    def image(self, node: Pyramid, names: Sequence[str], axes: Sequence[Axes], method: str | None) -> Described:
        """What becomes of an image, with the attributes of its group."""
        self._other_members(node.path, node.attrs)
        attrs = self._kept(node.path, self._rest(node.path, node.attrs, node.taken, node.untold), of_group=True)
        rest, words = dict(node.rest), dict(node.words)
        metadata = rest.get("metadata")
        if isinstance(metadata, dict) and metadata.get("type") in KINDS:
            # It stands for the kind, which is carried as such.
            rest["metadata"] = {name: value for name, value in metadata.items() if name != "type"}
            if not rest["metadata"]:
                del rest["metadata"]
        if "multiscales" in words and not (self.within_format and [*names] == [one.path for one in node.levels]):
            self._lose_other_images(node.path, words.pop("multiscales"))
        like_labels = is_labels(node.levels[0].array.dtype)
        image = Described(names, axes, node.name, method, node.kind, words, rest, attrs, like_labels)
        # Neither what its folder is called, nor how levels will be made, is anything that the source says.
        said = None if node.name == _folder_name(node) else node.name
        told = replace(image, name=said, method=node.method)
        attrs.update(self._links(node.path, node.attrs))
        for what in self.target.image_losses(told):
            self.draft.lose(node.path, what)
        return image

    def fill_value(self, path: str, found: Any, made: Any) -> None:
        """Name what missing chunks stand for, where that is not what they will."""
        here = made if self.target.keeps_fill and made is not None else 0
        if isinstance(found, np.void):
            # numpy does not say of records whether there is anything in them.
            lost = any(found.tobytes()) and not _same_value(found, here)
        else:
            lost = bool(np.any(found)) and not (_same_value(found, here) and _same_nan(found, here))
        if lost:
            title = self.draft.format.title
            self.draft.lose(
                path, f"the fill value {in_words(found)}: what is missing reads as {here} in {title}, so it is stored"
            )

    def units(self, path: str, axes: Axes) -> None:
        """Name the units of axes of an array where nothing is known of its places: then they are not said."""
        for axis in () if known(axes) else axes:
            if long_unit(axis.unit) is not None:
                self.draft.lose(path, f"the unit {axis.unit!r} of the axis {axis.name!r}, of which no size is known")

    def names(self, path: str, axes: Axes) -> None:
        """Name the axes whose names are lost because others have none."""
        if not self.target.names_all_axes or all(axis.name for axis in axes):
            return
        why = f"{self.draft.format.title} has names for all axes or for none"
        for axis in axes:
            if axis.name:
                self.draft.lose(path, f"the name of the axis {axis.name!r}: {why}")

    def beside(self, nodes: Sequence[Beside]) -> None:
        """What lies beside the arrays goes along within a format, once it is known what will be made there."""
        made = _folders_made(self.draft)
        for node in nodes:
            for name in node.folders:
                self._companion(node, name, True, made)
            for name in node.objects:
                self._companion(node, name, False, made)

    def notes(self, path: str, options: Mapping[str, Any], around: str | None = None) -> None:
        """Name what to know of an array that is made with these options, and what is lost by them.

        `around`: the image that it is a level of, of which the same is noted once.
        """
        for what in self.target.option_losses(options):
            self.draft.lose(path, what)
        for what in self.target.notes(options, self.of_files):
            self.draft.note(path if around is None else around, what)

    def codecs(self, path: str, array: Array, options: Mapping[str, Any]) -> None:
        """Name what documents say of the codecs that are not the ones of what is made, and that is no parameter."""
        filters, codecs = self.source.filters_of(array), self.source.codecs_of(array)
        if self.within_format:
            given = options.get("codec")
            made = given if isinstance(given, list | tuple) else [given]
            codecs = [codec for codec in codecs if codec not in made]
            filters = [] if options.get("filters") else filters
        for codec in (*filters, *codecs):
            for member in codec.unknown_members:
                self.draft.lose(path, f"the member {member!r} of the codec {codec.name!r} is not carried")

    def no_fill_value(self, path: str, array: Array, made: Any) -> None:
        """Name that what is missing gets a value, where it has none."""
        if self.source.has_no_fill(array) and not self.target.keeps_no_fill:
            told = repr(str(made)) if isinstance(made, str) else made
            title = self.draft.format.title
            self.draft.lose(path, f"the fill value null: what is missing has no value, and reads as {told} in {title}")

    def masked_fill_value(self, path: str, array: Array, options: Mapping[str, Any]) -> None:
        """Tell that the fill value stands for what is missing, where it is a value like others at the source."""
        said = self.source.masks_fill(array) or array.attrs.get("_FillValue") is not None
        if not said and self.target.masks_made(options):
            title = self.draft.format.title
            self.draft.note(
                path, f"values of {options['fill_value']}, the fill value, are missing to xarray in {title}"
            )

    # --- parts

    def _companion(self, node: Beside, name: str, folder: bool, made: set[str]) -> None:
        path = "/".join(filter(None, (node.path, name)))
        title = self.draft.format.title
        where = f"{path}/" if folder else path
        if not self.within_format or self.target.holds == "array":
            self.draft.lose(where, f"lies beside the arrays, and has no place in {title}")
        elif self.moved:
            self.draft.lose(where, "lies beside the whole, of which only a part is converted")
        elif not folder and _is_document(name):
            self.draft.lose(where, "is a document of another format, and is not carried")
        elif path in made:
            self.draft.lose(where, "lies where something else will be made, and is not carried")
        else:
            objects = counted(node.store, name) if folder else 1
            if objects != 0:
                self.draft.companions.append(Companion(path, node.store, name, folder, objects))

    def _links(self, path: str, attrs: Mapping[str, Any]) -> dict[str, Any]:
        """The attributes that name folders which go along."""
        kept = {}
        for name, folder in self.source.links(attrs).items():
            if not self.within_format:
                self.draft.lose(path, f"{self.draft.format.title} has no place for the {name} that it names")
            elif self.moved:
                self.draft.lose(path, f"the {name} that it names are of the whole, of which only a part is converted")
            elif folder is None:
                self.draft.lose(path, f"the {name} that it names ({attrs[name]}) lie outside, and are not carried")
            else:
                kept[name] = attrs[name]
        return kept

    def _rest(
        self, path: str, attrs: Mapping[str, Any], taken: frozenset[str], untold: Sequence[str] = ()
    ) -> dict[str, Any]:
        """The attributes that say nothing of where voxels lie; what was not understood of the others is lost."""
        for member in untold:
            self.draft.lose(path, f"{member} is not known, and is not carried")
        return {name: value for name, value in self.source.user_attributes(attrs).items() if name not in taken}

    def _kept(
        self, path: str, attrs: Mapping[str, Any], foreign: bool | None = None, *, of_group: bool = False
    ) -> dict[str, Any]:
        """Those that have a place in the destination."""
        foreign = (self.moved or not self.within_format) if foreign is None else foreign
        kept, lost = self.target.kept_attributes(attrs, foreign, of_group=of_group)
        if self.moved:
            for name in _OF_WHOLE & kept.keys():
                del kept[name]
                lost[name] = "says where the voxels of the whole lie, of which only a part is converted"
        for name, why in sorted(lost.items()):
            self.draft.lose(path, f"the attribute {name!r} {why}")
        return kept

    def _other_members(self, path: str, attrs: Mapping[str, Any]) -> None:
        for name in self.source.other_members(attrs):
            if self.consolidating and name == self.source.consolidated_member:
                continue  # it is made of what the destination has
            self.draft.lose(path, f"the member {name!r} of its document is not carried")

    def _lose_other_images(self, path: str, entries: Sequence[Any]) -> None:
        for number, _ in enumerate(entries, 1):
            self.draft.lose(
                path, f"multiscales[{number}]: one image of a group is converted as such, and this is another"
            )


def _folders_made(draft: Draft) -> set[str]:
    """All folders in which something will be made."""
    exchange = draft.format.exchange()
    places: list[str] = []
    for entry in draft.entries:
        levels = [] if isinstance(entry, DraftFolder) else [entry] if isinstance(entry, DraftArray) else entry.levels
        places.extend(exchange.place_of(level.path, level.options) for level in levels)
        places.append(entry.path)
    found = set()
    for place in places:
        while place and place not in found:
            found.add(place)
            place = place.rpartition("/")[0]
    return found


def _is_document(name: str) -> bool:
    """Whether formats look for an object of this name."""
    return name.startswith(".z") or any(name in one.marks for one in formats().values())


def _same_value(found: Any, here: Any) -> bool:
    """Whether two fill values are the same, as NaN and NaN are, and NaT and NaT, in fields of records too."""
    if isinstance(found, np.void) and found.dtype.names is not None:
        names = found.dtype.names
        return isinstance(here, np.void) and here.dtype.names == names and all(
            _same_value(found[name], here[name]) for name in names
        )  # fmt: skip
    if isinstance(found, np.void):
        # numpy refuses to compare raw bytes with anything else.
        return isinstance(here, np.void) and found.tobytes() == here.tobytes()
    return bool(np.all((found == here) | ((found != found) & (here != here))))


def _same_nan(found: Any, here: Any) -> bool:
    """Whether two floats that are both NaN have the same bits."""
    dtype = getattr(found, "dtype", None)
    if dtype is None or dtype.kind != "f" or not np.isnan(found) or np.asarray(here).dtype.kind != "f":
        return True
    return bool(np.asarray(here, dtype).tobytes() == found.tobytes())


def _folder_name(node: Pyramid) -> str:
    """What the folder of an image is called: a name that is the same says nothing else."""
    finest = node.levels[0]
    root = finest.array.store.root.rstrip("/")
    return root.removesuffix(f"/{finest.path}" if finest.path else "").rpartition("/")[2]
