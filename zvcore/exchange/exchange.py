"""The questions that conversions ask of a format, with answers for one that stores single arrays in C order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

from zvcore.documents.values import DEEPEST, depth_of, has_nan
from zvcore.errors import UnsupportedError
from zvcore.exchange.stored import read_mask_value
from zvcore.exchange.target import chunk_shape
from zvcore.exchange.writer import ImageWriter
from zvcore.images.levels import spatial_axes
from zvcore.images.ome import Words, read_words, type_by_name
from zvcore.stores.copying import is_backup

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from zvcore.array import Array
    from zvcore.codecs.base import Codec
    from zvcore.converting.view import View
    from zvcore.exchange.target import Place, Target
    from zvcore.format import Format
    from zvcore.images import Axes, Described
    from zvcore.stores import Store

__all__ = ["Exchange"]

_KINDS = {"image": "an image", "segmentation": "a segmentation"}
# How many levels of a document there may be around an attribute, consolidated metadata among them.
_ROOM = 5


class Exchange:
    """What of a source goes along, and what arrays are like in a destination; all but `writer` is asked of both before
    anything is written. What a source holds and a destination does not keep is a loss that the report names.

    holds           what a dataset is: "array" (one), "image" (one, with its levels) or "group" (of groups and arrays)
    common_codecs   what every reader of the format knows: taken over from other formats without being asked for
    default_codec   in place of codecs that are not; None: what the format's `create` takes by itself
    has_attributes  whether arrays, and groups, have attributes of their users
    reserved        names of attributes that the format keeps for itself; reserved_in_groups: where groups have others
    placing         names of attributes by which conventions say where voxels lie: they are written by the destination
    consolidated_member  by which a group tells of all that lies in it: of its document, or a document; None: it cannot
    names_levels    whether levels have names that other formats may give them
    nan             whether attributes may hold NaN and the infinities
    understood      members of its documents that say how values are stored, or that hold attributes; None: what says
                    neither is an attribute
    documents       names of the objects in a group's folder that are its documents; none: what else lies there is not
                    asked
    names_all_axes  whether axes have names all together, or none has one
    keeps_fill      whether what is missing in an array may stand for another value than 0
    keeps_no_fill   whether what is missing in an array may stand for no value at all
    keeps_kind      whether it says itself that an image is a segmentation
    ome_version     the version of OME-Zarr in whose words groups describe images, among their attributes; None: they
                    have none of its words
    axes_by_place   whether axes have their meaning by their place, however chunks lie in memory: among such formats
                    their order stays
    """

    holds: ClassVar[str] = "array"
    common_codecs: ClassVar[tuple[str, ...]] = ()
    default_codec: ClassVar[str | None] = None
    has_attributes: ClassVar[bool] = False
    reserved: ClassVar[frozenset[str]] = frozenset()
    reserved_in_groups: ClassVar[frozenset[str] | None] = None
    placing: ClassVar[frozenset[str]] = frozenset()
    names_levels: ClassVar[bool] = True
    consolidated_member: ClassVar[str | None] = None
    nan: ClassVar[bool] = True
    understood: ClassVar[frozenset[str] | None] = None
    documents: ClassVar[frozenset[str]] = frozenset()
    names_all_axes: ClassVar[bool] = False
    keeps_fill: ClassVar[bool] = False
    keeps_no_fill: ClassVar[bool] = False
    keeps_kind: ClassVar[bool] = False
    ome_version: ClassVar[str | None] = None
    axes_by_place: ClassVar[bool] = False

    def __init__(self, format: Format) -> None:
        self.format = format

    # --- as a source

    def codecs_of(self, array: Array) -> list[Codec]:
        """The codecs of bytes by which chunks are compressed."""
        chains = array.layout.chains
        return [codec for codec in chains[0].codecs if not (codec.identity or codec.of_items)] if chains else []

    def chunks_of(self, array: Array) -> tuple[int, ...]:
        """The shape of chunks that an array made of this one has where no other is asked for."""
        return array.chunks

    def filters_of(self, array: Array) -> list[Codec]:
        """The codecs in front of those that arrays go through: they see items, and not bytes."""
        return []

    def separator_of(self, array: Array) -> str | None:
        """What stands between the numbers by which an array's chunks are called; None for chunks with other names."""
        return None

    def has_no_fill(self, array: Array) -> bool:
        """Whether what is missing in an array has no value, so that everybody may read another one."""
        return False

    def masks_fill(self, array: Array) -> bool:
        """Whether readers that know missing values take the fill value for one."""
        return False

    def mask_value(self, array: Array) -> Any:
        """What the attribute `_FillValue` of an array says, as a value."""
        return read_mask_value(array.attrs["_FillValue"], array.dtype)

    def masks_made(self, options: Mapping[str, Any]) -> bool:
        """Whether that holds of an array that is made with these options."""
        return False

    def check_source(self, array: Array) -> None:
        """UnsupportedError where an array has something else than items that can be converted."""
        array.check_items()

    def is_consolidated(self, node: Any) -> bool:
        """Whether a group tells of all that lies in it."""
        return False

    def spare_axes(self, array: Array) -> Collection[int]:
        """Axes of length 1 that are there because the format has them; other formats leave them out."""
        return ()

    def user_attributes(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        """The attributes that are the user's, among those that a node shows."""
        return dict(attrs.items())

    def other_members(self, attrs: Mapping[str, Any]) -> list[str]:
        """Members of the document in which these attributes stand that say neither how values are stored nor are
        attributes.
        """
        if self.understood is None:
            return []
        return sorted(getattr(attrs, "document", {}).keys() - self.understood)

    def links(self, attrs: Mapping[str, Any]) -> dict[str, str | None]:
        """Attributes that name folders beside the arrays, and these; None for one that is not within the data set."""
        return {}

    def beside(self, group: Any, members: Iterable[str]) -> tuple[list[str], list[str]]:
        """(folders, objects) in the folder of a group that are neither its members nor its documents.

        Where a server lists nothing, nothing is known of them.
        """
        if not self.documents:
            return [], []
        try:
            folders, objects = group.store.list_dir()
        except UnsupportedError:
            return [], []
        own = {self.folder_of(group, name).partition("/")[0] for name in members}
        return (
            [name for name in folders if name not in own and not is_ours(name)],
            [name for name in objects if name not in self.documents and not is_ours(name)],
        )

    def folder_of(self, group: Any, member: str) -> str:
        """In which folder of a group a member lies."""
        return member

    def words(self, attrs: Mapping[str, Any]) -> Words:
        """What the attributes of a group say in OME-Zarr's words."""
        return Words() if self.ome_version is None else read_words(attrs)

    def is_lossy(self, array: Array) -> bool:
        """Whether an array's encoding keeps only what the eye sees, so that there is nothing to compare."""
        return False

    # --- as a destination

    def axes_for(
        self, array: Array, kept: Sequence[int], shape: Sequence[int], channel: int | None
    ) -> tuple[tuple[int | None, ...], str]:
        """(for each axis of the destination, which axis of a source it is, memory order).

        kept      the source's axes that stay, in its own order
        shape     how long each of the source's axes is, and
        channel   which is that of channels, where that is known
        None is an axis of length 1 that the source has not. Memory order stays, so that chunks can be copied.
        """
        return tuple(slow_first(array, kept)), "C"

    def array_options(self, view: View, target: Target, place: Place) -> dict[str, Any]:
        """The arguments of the format's `create` for what a view becomes, apart from attributes."""
        chunks = chunk_shape(view, target.chunks)
        return {
            "shape": place.shape or view.shape, "dtype": view.value_dtype, "chunks": chunks,
            **self.codec_option(view, target), **self.shard_option(view, target, chunks), **target.options,
        }  # fmt: skip

    def codec_option(self, view: View, target: Target) -> dict[str, Any]:
        """What was asked for; else the source's own codecs, where readers of this format know them."""
        own = view.source.codecs_of(view.array)
        if target.codec is not None:
            asked = target.codec
            if isinstance(asked, str):
                # Named without parameters: the source's own, if it has such a codec, so that its chunks can stay.
                same = [codec for codec in own if codec.name == asked]
                if len(same) == 1 and len(own) == 1 and view.dtype is None and self.spells(same[0]):
                    asked = same[0]
            elif isinstance(asked, list | tuple) and not asked:
                asked = "raw"
            return {"codec": asked}
        if view.source.format is self.format:
            return self.own_codecs(view, own)
        if len(own) == 1 and own[0].name in self.common_codecs and self.spells(own[0]):
            return {"codec": own[0]}
        return {} if self.default_codec is None else {"codec": self.default_codec}

    def own_codecs(self, view: View, own: list[Codec]) -> dict[str, Any]:
        """Those of a source of the same format."""
        return {"codec": own[0] if len(own) == 1 else list(own)} if own else {"codec": "raw"}

    def spells(self, codec: Codec) -> bool:
        """Whether the format can name this codec so that others decode the same."""
        return codec.name in self.common_codecs

    def shard_option(self, view: View, target: Target, chunks: tuple[int, ...]) -> dict[str, Any]:
        """How chunks are gathered in objects, as was asked for or as the source has it."""
        target.check_sharding()
        if target.sharding is not None:
            raise UnsupportedError(f"sharding={target.sharding!r} is not for {self.format.name}")
        if target.shards not in (None, False):
            raise UnsupportedError(f"{self.format.title} has no shards")
        return {}

    def kept_attributes(
        self, attrs: Mapping[str, Any], foreign: bool, *, of_group: bool = False
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """(attributes that have a place here, for each of the others why it has none).

        `foreign`: what they say of the places of voxels, if anything, does not hold here.
        `of_group`: they are a group's.
        """
        reserved = self.reserved_in_groups if of_group else None
        reserved = self.reserved if reserved is None else reserved
        kept, lost = {}, {}
        for name, value in attrs.items():
            why = self._unsayable(name, value, foreign, reserved)
            if why is None:
                kept[name] = value
            else:
                lost[name] = why
        return kept, lost

    def _unsayable(self, name: str, value: Any, foreign: bool, reserved: frozenset[str]) -> str | None:
        """Why there is no such attribute here."""
        title = self.format.title
        if not self.has_attributes or name in reserved:
            return f"has no place in {title}"
        if foreign and name in self.placing:
            return f"says in {title} where voxels lie, and is not taken over"
        if not self.nan and has_nan(value):
            return f"holds NaN or an infinity, which {title} has not"
        return None if depth_of(value) <= DEEPEST - _ROOM else "is nested too deep"

    def placing_attributes(self, axes: Axes) -> dict[str, Any]:
        """The attributes by which an array says itself where its voxels lie."""
        return {}

    def placing_options(self, axes: Axes) -> dict[str, Any]:
        """The options of the format's `create` by which an array says what its axes are called and where voxels lie."""
        return {}

    def spatial_axes(self, axes: Axes, order: str) -> tuple[int, ...]:
        """Which axes of an array here become coarser from level to level."""
        return spatial_axes(axes, fastest_first=order == "F")

    def given_factors(self, given: Sequence[int], rank: int) -> tuple[int, ...]:
        """How much coarser each level is along each axis, as the user says it."""
        if len(given) != rank or any(n < 1 for n in given):
            raise ValueError(f"factors has a number of at least 1 for each of {rank} axes, not {tuple(given)}")
        if math.prod(given) == 1:
            raise ValueError("factors of 1 make no coarser level")
        return tuple(given)

    def level_names(self, wanted: Sequence[str | None]) -> list[str]:
        """What the levels of an image are called; `wanted` are their names in the source, where they have some."""
        return distinct(wanted, "")

    def option_losses(self, options: Mapping[str, Any]) -> list[str]:
        """What an array made with these options will not hold of any values."""
        return []

    def notes(self, options: Mapping[str, Any], of_files: bool) -> list[str]:
        """What to know of an array that is made with these options of `create`: which programs cannot read it.

        `of_files`: it is made in a place of files, not of other objects.
        """
        return []

    def image_losses(self, image: Described) -> list[str]:
        """What of an image cannot be said here, in words: where its levels lie, what it is called, its channels..."""
        if self.ome_version is not None:
            return []
        title = self.format.title
        lost = [] if image.name is None else [f"the name {image.name!r} has no place in {title}"]
        if image.method is not None:
            lost.append(f"how its levels were made ({image.method!r}) has no place in {title}")
        if image.kind is not None and not self.keeps_kind:
            lost.append(
                f"that it is {'an image' if image.kind == 'image' else 'a segmentation'} has no place in {title}"
            )
        told = [name for name in image.words if name != "image-label"]
        label = image.words.get("image-label", {})
        told += [f"image-label.{name}" for name in label] if isinstance(label, dict) else ["image-label"]
        told += [f"multiscales[0].{name}" for name in image.rest]
        lost += [f"{name} of OME-Zarr has no place in {title}" for name in told]
        for axis in image.axes[0]:
            if axis.type is not None and axis.type != type_by_name(axis.name):
                lost.append(f"the type {axis.type!r} of the axis {axis.name!r} has no place in {title}")
        return lost

    def place_of(self, path: str, options: Mapping[str, Any]) -> str:
        """The folder in which an array will lie that is made with these options."""
        return path

    def writer(self, store: Store, found: bool) -> ImageWriter:
        """What makes the arrays; `found`: an earlier run has begun to."""
        return ImageWriter(self.format, store, found)


def slow_first(array: Array, kept: Sequence[int]) -> list[int]:
    """Axes of an array, from the slowest to the fastest."""
    return [*(reversed(kept) if array.order == "F" else kept)]


def distinct(wanted: Sequence[str | None], prefix: str) -> list[str]:
    """Names of levels: as wanted, else numbers, which begin where no name is taken."""
    names: list[str] = []
    for i, one in enumerate(wanted):
        if one is None:
            one = f"{prefix}{i}"
            if names and names[-1].startswith("s") and names[-1][1:].isdigit():
                one = f"s{int(names[-1][1:]) + 1}"
            while one in names or one in wanted:
                one += "_"
        names.append(one)
    return names


def is_ours(name: str) -> bool:
    """Whether an object or folder is one of those by which we work, and nobody's data."""
    return name.startswith(".zvcore") or (name.startswith(".") and name.endswith(".zvlock")) or is_backup(name)
