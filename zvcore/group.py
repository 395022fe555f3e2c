"""What the groups of all formats have in common."""

from __future__ import annotations

import threading
import weakref
from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import TYPE_CHECKING, Any

from zvcore.errors import InvalidKeyError, NotFoundError, ReadOnlyError, ZvcoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from zvcore.format import Node
    from zvcore.stores import Store

__all__ = ["Group", "member_path", "new_member_path", "refuse_names_of_documents"]


def member_path(path: str) -> str:
    """A path without the slashes around it. `...` and numbers, which arrays take, are refused in words."""
    if not isinstance(path, str):
        raise TypeError(f"a path is a str, not {type(path).__name__}")
    return path.strip("/")


def new_member_path(path: str, documents: Container[str]) -> str:
    """The path of what is to be made in a group: without a name, that would be the group with all that is in it.

    documents  how the format calls its own objects, whose places members cannot take
    """
    name = member_path(path)
    if not name:
        raise ValueError("what is made in a group needs a name")
    refuse_names_of_documents(name, documents)
    return name


def refuse_names_of_documents(path: str, documents: Container[str]) -> None:
    """On disks, a folder would stand where a document has to be."""
    for name in path.split("/"):
        if name in documents:
            raise InvalidKeyError(f"a member cannot be called {name!r}, as the format calls a document", key=path)


class _Names(Iterator[str]):
    """The names of a group's members, which are looked for when the first one is wanted, or how many they are.

    `list(group)` asks that of the group when it has begun to iterate. It would be a second look.
    """

    def __init__(self, group: Group, look: Callable[[], Iterator[str]]) -> None:
        self.group = group
        self._look = look
        self._found: Iterator[str] | None = None

    def __next__(self) -> str:
        if self._found is None:
            self._found = self._look()
        return next(self._found)

    def count(self) -> int | None:
        """How many there are now; None if the first one was wanted before."""
        if self._found is not None:
            return None
        names = [*self._look()]
        self._found = iter(names)
        return len(names)


# What each thread has begun to iterate over last.
_begun = threading.local()


class _Keys(KeysView[str]):
    """The names of the members of a group."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        self._group = group

    def __iter__(self) -> Iterator[str]:
        return iter(self._group)


class _Members(ValuesView[Any]):
    """The members of a group."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        self._group = group

    def __iter__(self) -> Iterator[Any]:
        return (member for _, member in self._group._pairs())


class _Named(ItemsView[str, Any]):
    """The same with their names."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        self._group = group

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return self._group._pairs()


class Group(Mapping[str, Any]):
    """A mapping of arrays and groups, by name or path. A format adds how members are found, and how they are made."""

    kind = "group"
    format: str
    path = ""
    store: Store
    read_only: bool

    # As arrays are: a mapping would be equal to another by its members, which are opened anew each time.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __len__(self) -> int:
        names: _Names | None = getattr(_begun, "names", lambda: None)()
        count = names.count() if names is not None and names.group is self else None
        return sum(1 for _ in self) if count is None else count

    def _iterating(self, look: Callable[[], Iterator[str]]) -> Iterator[str]:
        """What `__iter__` gives where to look for names means to wait."""
        names = _Names(self, look)
        _begun.names = weakref.ref(names)
        return names

    def keys(self) -> KeysView[str]:
        return _Keys(self)

    def values(self) -> ValuesView[Any]:
        return _Members(self)

    def items(self) -> ItemsView[str, Any]:
        return _Named(self)

    def _pairs(self) -> Iterator[tuple[str, Any]]:
        """(name, member) of all of them. Formats in which each member is asked for by itself ask for several at once,
        where that means to wait for a network.
        """
        return ((name, self[name]) for name in self)

    def children(self) -> Mapping[str, Node]:
        """The members, by name."""
        return self

    def __repr__(self) -> str:
        return f"<zvcore group {self.format} in {self.store.root}>"

    def _repr_html_(self) -> str:
        from zvcore import html

        # By their names: a group may have very many members, and opening one may fail.
        title, rows = f"zvcore group, {self.format}", {"where": self.store.root}
        try:
            return html.listing(title, rows, self)
        except ZvcoreError as error:  # as of web servers that list nothing
            return html.table(title, {**rows, "members": error})

    def __delitem__(self, path: str) -> None:
        """Remove a member with everything below it."""
        self._check_writable()
        name = member_path(path)
        if not name:
            raise ValueError("a group cannot remove itself")
        if name not in self:
            raise NotFoundError("no such member", key=f"{self.store.root}/{name}")
        self.store.delete_prefix(name)

    def _check_writable(self) -> None:
        if self.read_only:
            raise ReadOnlyError(
                "the group was opened for reading; open it with mode='r+' to write", key=self.store.root
            )
