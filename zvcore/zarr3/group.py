"""A Zarr v3 group: a mapping of the arrays and groups in it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, overload

from zvcore import documents
from zvcore.documents.above import groups_to
from zvcore.documents.inside import members_in, opened_in
from zvcore.errors import ConflictError, NotFoundError
from zvcore.format import get_format
from zvcore.group import Group, member_path, new_member_path
from zvcore.zarr3.array import Zarr3Array, array_of
from zvcore.zarr3.attributes import Attributes
from zvcore.zarr3.composing import group_document
from zvcore.zarr3.creating import begin_node, create_array
from zvcore.zarr3.metadata import (
    DOCUMENT,
    ArrayMetadata,
    GroupMetadata,
    parse_document,
    read_document,
    read_version,
)
from zvcore.zarr3.telling import DescribedAbove, forget_below

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from typing_extensions import Unpack

    from zvcore.stores import Store
    from zvcore.stores.base import Stamp
    from zvcore.typed import DTypeOf, Scalar
    from zvcore.zarr3.options import ArrayOptions
    from zvcore.zarr3.told_members import ToldMembers

__all__ = ["Zarr3Group"]


class Zarr3Group(Group):
    """Members by name or path: `group["a/b"]`. Consolidated metadata are used when they are there, where it is read
    only and looking at each member is a request over a network.
    """

    format = "zarr3"

    def __init__(
        self,
        store: Store,
        metadata: GroupMetadata,
        *,
        read_only: bool = False,
        through: Sequence[Store] = (),
        stamp: Stamp | None = None,
        **options: Any,
    ) -> None:
        self.store = store
        self.metadata = metadata
        self.read_only = read_only or store.read_only
        self._through = tuple(through)
        self._attrs = Attributes(
            DescribedAbove(store, metadata.document, read_only=self.read_only, through=self._through, stamp=stamp)
        )
        self._options = options

    @property
    def attrs(self) -> Attributes:
        """The user's attributes. What is set in their place would be written nowhere."""
        return self._attrs

    @property
    def _consolidated(self) -> ToldMembers | None:
        return self.metadata.consolidated if self.read_only and self.store.remote else None

    def __getitem__(self, path: str) -> Any:
        name = member_path(path)
        if not name:
            return self
        consolidated, stamp = self._consolidated, None
        if consolidated is not None:
            if name not in consolidated:
                raise NotFoundError("no such member", key=f"{self.store.root}/{name}")
            metadata = parse_document(consolidated[name], f"{name}/zarr.json")
        else:
            try:
                metadata, stamp = read_version(self.store, name)
            except NotFoundError:
                raise NotFoundError("no such member", key=f"{self.store.root}/{name}") from None
        store = self.store.child(name)
        options = {"read_only": self.read_only, "through": self._through_to(name), **self._options}
        if isinstance(metadata, ArrayMetadata):
            array = array_of(store, metadata, stamp=stamp, **options)
            array.is_member(self.store, name)
            return array
        if consolidated is not None:
            metadata = metadata.within(consolidated, name)
        return Zarr3Group(store, metadata, stamp=stamp, **options)

    def _through_to(self, path: str) -> tuple[Store, ...]:
        return (*self._through, *groups_to(self.store, path))

    def __contains__(self, path: object) -> bool:
        if not isinstance(path, str):
            return False
        if self._consolidated is not None:
            return path.strip("/") in self._consolidated
        return read_document(self.store, path.strip("/")) is not None

    def __iter__(self) -> Iterator[str]:
        if self._consolidated is not None:
            return iter(self._consolidated.names())
        return self._iterating(partial(members_in, self.store, DOCUMENT))

    def _pairs(self) -> Iterator[tuple[str, Any]]:
        if self._consolidated is not None or not self.store.remote:
            return super()._pairs()
        return opened_in(self.store, self.__getitem__, DOCUMENT)

    def __delitem__(self, path: str) -> None:
        super().__delitem__(path)
        forget_below(self.store.child(path.strip("/")), self._through_to(path))

    def create_group(self, path: str, attrs: Mapping[str, Any] | None = None, overwrite: bool = False) -> Zarr3Group:
        """A new group, and those above it that are missing."""
        self._check_writable()
        path = new_member_path(path, (DOCUMENT,))
        self._make_groups_above(path)
        return create_group(self.store.child(path), attrs, overwrite, through=self._through_to(path), **self._options)

    def _make_groups_above(self, path: str) -> None:
        names = path.split("/")
        for depth in range(1, len(names)):
            above = "/".join(names[:depth])
            found = read_document(self.store, above)
            if found is None:
                try:
                    create_group(self.store.child(above), through=self._through_to(above))
                except ConflictError:
                    # Another was quicker, whose group does as well.
                    found = read_document(self.store, above)
                    if found is None:
                        raise
            if found is not None and found.get("node_type") == "array":
                raise ConflictError("an array cannot have members", key=f"{self.store.root}/{above}")

    @overload
    def create_dataset(
        self, path: str, *, dtype: DTypeOf[Scalar], **options: Unpack[ArrayOptions]
    ) -> Zarr3Array[Scalar]: ...
    @overload
    def create_dataset(self, path: str, *, dtype: Any, **options: Unpack[ArrayOptions]) -> Zarr3Array[Any]: ...
    def create_dataset(self, path: str, **options: Any) -> Zarr3Array[Any]:
        """A new array in this group; the arguments are those of `zvcore.create`."""
        get_format(self.format).check_creation(options)
        self._check_writable()
        path = new_member_path(path, (DOCUMENT,))
        self._make_groups_above(path)
        return create_array(self.store.child(path), through=self._through_to(path), **options)

    create_array = create_dataset


def create_group(
    store: Store,
    attrs: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    *,
    through: Sequence[Store] = (),
    **options: Any,
) -> Zarr3Group:
    document = group_document(Attributes.checked(attrs or {}))
    begin_node(store, documents.encode(document), overwrite, through)
    metadata = parse_document(document, DOCUMENT)
    assert isinstance(metadata, GroupMetadata)
    return Zarr3Group(store, metadata, through=through, **options)
