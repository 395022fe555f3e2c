"""A Zarr v2 group: a mapping of the arrays and groups in it."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, overload

from zvcore.cached import cached_property
from zvcore.documents.above import groups_to
from zvcore.documents.inside import members_in, opened_in
from zvcore.errors import ConflictError, MetadataError, NotFoundError
from zvcore.format import get_format
from zvcore.group import Group, member_path, new_member_path
from zvcore.zarr2.array import Zarr2Array, warn_if_misplaced
from zvcore.zarr2.attributes import Attributes, AttributesFile
from zvcore.zarr2.consolidated import Told, forget_below, read_consolidated, warn_of_damage
from zvcore.zarr2.creating import begin_node, create_array
from zvcore.zarr2.metadata import (
    ATTRIBUTES,
    CONSOLIDATED,
    DOCUMENT,
    DOCUMENTS,
    GROUP,
    ArrayMetadata,
    GroupMetadata,
    document_key,
    parse_array,
    parse_group,
    read_version,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from typing_extensions import Unpack

    from zvcore.stores import Store
    from zvcore.stores.base import Stamp
    from zvcore.typed import DTypeOf, Scalar
    from zvcore.zarr2.options import ArrayOptions

__all__ = ["Zarr2Group", "create_group"]


class Zarr2Group(Group):
    """Members by name or path: `group["a/b"]`.

    What .zmetadata tells of the members is used where looking at each of them means a request over a network, and the
    group is opened to read only; it may be out of date. Where it is damaged, they are looked at all the same.

    through  the stores of the groups that it was opened through, which may tell of its documents
    told     the documents of all that is in it, where such a group has told them
    """

    format = "zarr2"

    def __init__(
        self,
        store: Store,
        metadata: GroupMetadata,
        *,
        read_only: bool = False,
        through: Sequence[Store] = (),
        told: Told | None = None,
        **options: Any,
    ) -> None:
        self.store = store
        self.metadata = metadata
        self.read_only = read_only or store.read_only
        self._through = tuple(through)
        self._told_above = told
        self._options = options
        attributes = None if told is None else told.get(ATTRIBUTES, {})
        document = AttributesFile(store, attributes, read_only=self.read_only, through=through)
        self._attrs = Attributes(document, foreign=metadata.foreign)

    @property
    def attrs(self) -> Attributes:
        """The user's attributes. What is set in their place would be written nowhere."""
        return self._attrs

    @cached_property
    def _told(self) -> Told | None:
        """What is told of all documents, by their keys."""
        if self._told_above is not None:
            return self._told_above
        if not (self.read_only and self.store.remote):
            return None
        try:
            return read_consolidated(self.store)
        except MetadataError as error:
            warn_of_damage(self.store, error)
            return None

    # --- members

    def __getitem__(self, path: str) -> Any:
        name = member_path(path)
        if not name:
            return self
        # Far away, the copies of the documents and the member's own are asked for at once, the first time.
        first = "_told" not in vars(self) and self._told_above is None and self.read_only
        with self.store.looking_at([CONSOLIDATED, f"{name}/{DOCUMENT}"]) if first else nullcontext():
            metadata, stamp = self._version(name)
        if metadata is None:
            raise NotFoundError("no such member", key=f"{self.store.root}/{name}")
        store = self.store.child(name)
        told = self._told
        options = {"read_only": self.read_only, "through": self._through_to(name), **self._options}
        if isinstance(metadata, ArrayMetadata):
            attributes = None if told is None else told.get(f"{name}/{ATTRIBUTES}", {})
            warn_if_misplaced(store, metadata)
            array = Zarr2Array(store, metadata, told=attributes, stamp=stamp, **options)
            array.is_member(self.store, name)
            return array
        within = None
        if told is not None:
            within = {key.removeprefix(f"{name}/"): one for key, one in told.items() if key.startswith(f"{name}/")}
        return Zarr2Group(store, metadata, told=within, **options)

    def _through_to(self, path: str) -> tuple[Store, ...]:
        return (*self._through, *groups_to(self.store, path))

    def _metadata(self, name: str) -> ArrayMetadata | GroupMetadata | None:
        return self._version(name)[0]

    def _version(self, name: str) -> tuple[ArrayMetadata | GroupMetadata | None, Stamp | None]:
        """What the documents of a member say, and of which version they are, if they were asked themselves."""
        if self._told is not None:
            try:
                return _told_metadata(self._told, name), None
            except MetadataError as error:
                warn_of_damage(self.store, error)
        try:
            return read_version(self.store, name)
        except NotFoundError:
            return None, None

    def __contains__(self, path: object) -> bool:
        if not isinstance(path, str):
            return False
        name = path.strip("/")
        return not name or any(self._is_there(f"{name}/{mark}") for mark in (DOCUMENT, GROUP))

    def _is_there(self, key: str) -> bool:
        return self.store.exists(key) if self._told is None else key in self._told

    def __iter__(self) -> Iterator[str]:
        if self._told is None:
            return self._iterating(partial(members_in, self.store, DOCUMENT, GROUP))
        split = (key.split("/") for key in self._told)
        return iter(sorted({parts[0] for parts in split if len(parts) == 2 and parts[1] in (DOCUMENT, GROUP)}))

    def _pairs(self) -> Iterator[tuple[str, Any]]:
        if self._told is not None or not self.store.remote:
            return super()._pairs()
        return opened_in(self.store, self.__getitem__, DOCUMENT, GROUP)

    # --- changing

    def __delitem__(self, path: str) -> None:
        super().__delitem__(path)
        forget_below(self.store.child(path.strip("/")), self._through_to(path))

    def create_group(self, path: str, attrs: Mapping[str, Any] | None = None, overwrite: bool = False) -> Zarr2Group:
        """A new group, and those above it that are missing."""
        self._check_writable()
        path = new_member_path(path, DOCUMENTS)
        self._make_groups_above(path)
        through = self._through_to(path)
        return create_group(self.store.child(path), attrs, overwrite, through=through, **self._options)

    def _make_groups_above(self, path: str) -> None:
        names = path.split("/")
        for depth in range(1, len(names)):
            above = "/".join(names[:depth])
            found = self._metadata(above)
            if found is None:
                try:
                    create_group(self.store.child(above), through=self._through_to(above))
                except ConflictError:
                    # Another was quicker, whose group does as well.
                    found = self._metadata(above)
                    if found is None:
                        raise
            if isinstance(found, ArrayMetadata):
                raise ConflictError("an array cannot have members", key=f"{self.store.root}/{above}")

    @overload
    def create_dataset(
        self, path: str, *, dtype: DTypeOf[Scalar], **options: Unpack[ArrayOptions]
    ) -> Zarr2Array[Scalar]: ...
    @overload
    def create_dataset(self, path: str, *, dtype: Any, **options: Unpack[ArrayOptions]) -> Zarr2Array[Any]: ...
    def create_dataset(self, path: str, **options: Any) -> Zarr2Array[Any]:
        """A new array in this group; the arguments are those of `zvcore.create`."""
        get_format(self.format).check_creation(options)
        self._check_writable()
        path = new_member_path(path, DOCUMENTS)
        self._make_groups_above(path)
        return create_array(self.store.child(path), through=self._through_to(path), **options)

    create_array = create_dataset


def _told_metadata(told: Told, name: str) -> ArrayMetadata | GroupMetadata | None:
    array, group = document_key(DOCUMENT, name), document_key(GROUP, name)
    if array in told:
        return parse_array(told[array], array)
    return parse_group(told[group], group) if group in told else None


def create_group(
    store: Store,
    attrs: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    *,
    through: Sequence[Store] = (),
    **options: Any,
) -> Zarr2Group:
    """Make a group at the root of the store."""
    user = Attributes.checked(attrs or {})
    document = {"zarr_format": 2}
    begin_node(store, GROUP, document, user, overwrite, through)
    return Zarr2Group(store, parse_group(document, GROUP), through=through, **options)
