"""An N5 group: a mapping of the datasets and groups in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from zvcore.documents.inside import opened_in
from zvcore.errors import ConflictError, NotFoundError
from zvcore.format import get_format
from zvcore.group import Group, refuse_names_of_documents
from zvcore.n5.array import N5Array
from zvcore.n5.attributes import GroupAttributes, WithAttributes
from zvcore.n5.creating import create_dataset, create_group
from zvcore.n5.documents import ATTRIBUTES, AttributesFile, document_key, read_document
from zvcore.n5.metadata import check_version, is_dataset
from zvcore.n5.multiscale import Multiscale, read_multiscale, write_multiscale
from zvcore.n5.paths import group_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from typing_extensions import Unpack

    from zvcore.n5.options import DatasetOptions
    from zvcore.stores import Store
    from zvcore.typed import DTypeOf, Scalar

__all__ = ["N5Group"]


class N5Group(WithAttributes, Group):
    """A folder of an N5 container. Members go by name or path: `group["a/b"]`.

    Every folder is a group, with or without attributes.json, except the folders of blocks in a dataset.
    """

    format = "n5"

    def __init__(
        self, store: Store, document: dict[str, Any] | None, *, read_only: bool = False, **options: Any
    ) -> None:
        check_version(document, f"{store.root}/attributes.json")
        self.store = store
        self.read_only = read_only or store.read_only
        self._attrs = GroupAttributes(AttributesFile(store, document, read_only=self.read_only))
        self._options = options

    @property
    def attrs(self) -> GroupAttributes:
        attrs: GroupAttributes = self._attrs
        return attrs

    @property
    def version(self) -> tuple[int, int, int]:
        """The version that this group declares, (0, 0, 0) if none, as all but a container's root."""
        return check_version(self._attrs.document, f"{self.store.root}/attributes.json")

    # --- members

    def __getitem__(self, path: str) -> Any:
        name = group_path(path)
        if not name:
            return self
        document = self._document(name)
        if document is None:
            raise NotFoundError("no such member", key=f"{self.store.root}/{name}")
        found = self._opened(self.store.child(name), document)
        if isinstance(found, N5Array):
            found.is_member(self.store, name)
        return found

    def _opened(self, store: Store, document: dict[str, Any]) -> Any:
        if is_dataset(document):
            return N5Array(store, document, read_only=self.read_only, **self._options)
        return N5Group(store, document, read_only=self.read_only, **self._options)

    def _document(self, name: str) -> dict[str, Any] | None:
        """The attributes of a member, {} for a folder without; None if there is no such group."""
        found = read_document(self.store, name)
        if found is not None:
            return found
        if self.store.exists(document_key(name)):
            return {}
        folders, objects = self.store.list_dir(name)
        if not folders and not objects and not self._is_empty_folder(name):
            return None
        parts = name.split("/")
        for depth in range(len(parts)):
            # Folders in a dataset hold its blocks.
            if is_dataset(read_document(self.store, "/".join(parts[:depth]))):
                return None
        return {}

    def _is_empty_folder(self, name: str) -> bool:
        above, _, last = name.rpartition("/")
        return last in self.store.list_dir(above)[0]

    def __contains__(self, path: object) -> bool:
        if not isinstance(path, str):
            return False
        name = group_path(path)
        return not name or self._document(name) is not None

    def __iter__(self) -> Iterator[str]:
        if is_dataset(self._attrs.document):
            return iter(())
        return self._iterating(lambda: iter(self.store.list_dir()[0]))

    def _pairs(self) -> Iterator[tuple[str, Any]]:
        if is_dataset(self._attrs.document) or not self.store.remote:
            return super()._pairs()
        return opened_in(self.store, self.__getitem__, ATTRIBUTES)

    def walk(self) -> Iterator[tuple[str, Any]]:
        """(path, group or dataset) for everything below this group, in order. Blocks are not looked at."""
        inside = [("", self._pairs())]
        while inside:
            above, members = inside[-1]
            for name, member in members:
                yield above + name, member
                if isinstance(member, N5Group):
                    inside.append((f"{above}{name}/", member._pairs()))
                    break
            else:
                inside.pop()

    def tree(self) -> str:
        """What lies below this group, one line each, as text."""
        lines = ["/"]
        for path, member in self.walk():
            names = path.split("/")
            text = "  " * len(names) + names[-1]
            if isinstance(member, N5Array):
                text += f" {member.data_type} {member.shape}"
            lines.append(text)
        return "\n".join(lines)

    # --- changing

    def __delitem__(self, path: str) -> None:
        super().__delitem__(group_path(path))

    def create_group(self, path: str, attrs: Mapping[str, Any] | None = None, overwrite: bool = False) -> N5Group:
        """A new group, and those above it that are missing. One that exists is kept and gets the attributes."""
        self._check_writable()
        name = group_path(path)
        if not name:
            raise ValueError("a group needs a name")
        refuse_names_of_documents(name, (ATTRIBUTES,))
        self._check_above(name)
        store = self.store.child(name)
        document = create_group(store, attrs, overwrite, member=True)
        return N5Group(store, document, **self._options)

    @overload
    def create_dataset(
        self, path: str, *, dtype: DTypeOf[Scalar], **options: Unpack[DatasetOptions]
    ) -> N5Array[Scalar]: ...
    @overload
    def create_dataset(self, path: str, *, dtype: Any, **options: Unpack[DatasetOptions]) -> N5Array[Any]: ...
    def create_dataset(self, path: str, **options: Any) -> N5Array[Any]:
        """A new dataset in this group; the arguments are those of `zvcore.create`."""
        get_format(self.format).check_creation(options)
        self._check_writable()
        name = group_path(path)
        if not name:
            raise ValueError("a dataset in a group needs a name")
        refuse_names_of_documents(name, (ATTRIBUTES,))
        self._check_above(name)
        return create_dataset(self.store.child(name), **{**self._options, **options, "member": True})

    create_array = create_dataset

    def _check_above(self, name: str) -> None:
        """Nothing can lie below a dataset: its folders hold blocks."""
        parts = name.split("/")
        for depth in range(len(parts)):
            above = "/".join(parts[:depth])
            if is_dataset(read_document(self.store, above)):
                raise ConflictError("a dataset cannot have members", key=f"{self.store.root}/{above}".rstrip("/"))

    # --- scales

    def multiscale(self) -> Multiscale:
        """The levels of an image pyramid in this group, whichever program's convention describes it."""
        return read_multiscale(self.store, self._attrs.document)

    def write_multiscale(self, multiscale: Multiscale, convention: str = "n5-viewer") -> None:
        """Describe the levels in the attributes, as "n5-viewer" or "neuroglancer" reads them."""
        self._check_writable()
        write_multiscale(self, multiscale, convention)
