"""Arrays and groups that are only read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NoReturn, SupportsIndex

from zvcore.array import Array
from zvcore.cached import cached_property
from zvcore.documents.values import as_json
from zvcore.errors import MetadataError, NotFoundError, ReadOnlyError, UnsupportedError
from zvcore.format import get_format
from zvcore.group import Group, member_path
from zvcore.images import Axis, Image, Level
from zvcore.typed import Item

if TYPE_CHECKING:
    from zvcore.format import Node
    from zvcore.images import Axes
    from zvcore.layout import Layout
    from zvcore.stores import Store

__all__ = ["BorrowedArray", "BorrowedGroup", "Facts", "reopened", "reopened_blocks"]


# How many groups of one stay open.
_GROUPS_KEPT = 16
_ONLY_READ = "what lies here is only read: convert it, and write to the copy"


class Facts(MutableMapping[str, Any]):
    """Attributes that nobody changes, as JSON has them. Those that JSON cannot say are `untold`.

    That they cannot be changed is said as it is of attributes that are opened for reading.
    """

    def __init__(self, given: Mapping[str, Any] | None = None) -> None:
        self._given = dict(given or {})

    @cached_property
    def _told(self) -> tuple[dict[str, Any], tuple[str, ...]]:
        """(what JSON can say, the names of the others): of arrays of which only values are wanted nobody asks."""
        values: dict[str, Any] = {}
        untold = []
        for name, value in self._given.items():
            try:
                values[str(name)] = as_json(value, "attributes")
            except MetadataError:
                untold.append(str(name))
        return values, tuple(untold)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_told_facts, self._told)

    @property
    def _values(self) -> dict[str, Any]:
        return self._told[0]

    @property
    def untold(self) -> tuple[str, ...]:
        return self._told[1]

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __setitem__(self, name: str, value: Any) -> NoReturn:
        raise ReadOnlyError(f"attributes: {_ONLY_READ}")

    def __delitem__(self, name: str) -> NoReturn:
        raise ReadOnlyError(f"attributes: {_ONLY_READ}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(self._values)


def _told_facts(values: dict[str, Any], untold: tuple[str, ...]) -> Facts:
    """Facts of another process, as JSON has them."""
    found = Facts()
    found.__dict__["_told"] = values, untold
    return found


class BorrowedArray(Array[Item]):
    """An array that another library holds, or that lies in a file of another format.

    axes   what is known of its axes, and
    whole  the shape of chunks that copies of it have: its own, where it has some
    store  where it lies; an array in a file is pickled as that place
    order  of the memory of what is read, where chunks lie otherwise
    image  where its file describes an image, and not only an array: by which `convention`, its `name`, its `words`
    untold what else is known of it that no array here can say, in words
    values_mean  how they are shown, in words, if they are neither brightness nor colours: others are not their like
    """

    values_mean = ""

    def __init__(
        self,
        layout: Layout,
        *,
        format: str,
        store: Store | None = None,
        attrs: Mapping[str, Any] | None = None,
        axes: Axes | None = None,
        whole: Sequence[int] | None = None,
        order: Literal["C", "F"] | None = None,
        image: Mapping[str, Any] | None = None,
        untold: Sequence[str] = (),
    ) -> None:
        self._facts = attrs if isinstance(attrs, Facts) else Facts(attrs)
        super().__init__(layout, format=format, attrs=self._facts, read_only=True)
        self._place = layout.store if store is None else store
        self.axes: Axes = axes or (Axis(),) * len(layout.shape)
        self.whole = tuple(layout.form.shape if whole is None else whole)
        self._image = image or {}
        self._untold = tuple(untold)
        if order is not None:
            self.order = order

    def __reduce__(self) -> tuple[Any, ...]:
        if self._place.file is not None:
            return (reopened, (self.format, self._place))
        return (_rebuilt, (self._layout, self.format, self._place, self._attrs, self.axes, self.whole))

    @property
    def store(self) -> Store:
        return self._place

    def like_it(self, layout: Layout, store: Store) -> BorrowedArray[Item]:
        """An array that lies elsewhere, of which all is said that is said of this one."""
        found: BorrowedArray[Item] = BorrowedArray(
            layout, format=self.format, store=store, attrs=self._facts, axes=self.axes, whole=self.whole,
            order=self.order, image=self._image, untold=self._untold,
        )  # fmt: skip
        found.values_mean = self.values_mean
        return found

    def _check_writable(self) -> None:
        raise ReadOnlyError(_ONLY_READ, key=self.store.root)

    def read_image(self) -> Image:
        untold = (*(f"the attribute {name!r}" for name in self._facts.untold), *self._untold)
        return Image("", [Level("", self, self.axes, untold=untold)], **self._image)

    def __repr__(self) -> str:
        return (
            f"<zvcore.Array {self.format} shape={self.shape} dtype={self.dtype} chunks={self.chunks} "
            f"of {self.store.root}>"
        )


def _rebuilt(
    layout: Layout, format: str, store: Store, attrs: Facts, axes: Axes, whole: tuple[int, ...]
) -> BorrowedArray:
    return BorrowedArray(layout, format=format, store=store, attrs=attrs, axes=axes, whole=whole)


def reopened(format: str, store: Store) -> Any:
    """What lies in a file, opened in another process."""
    return get_format(format).open(store)


def reopened_blocks(format: str, store: Store) -> Any:
    """The blocks of an array in a file, opened in another process."""
    return reopened(format, store).layout.blocks


class BorrowedGroup(Group):
    """What a file holds by names, opened when it is looked up: arrays, or groups of them.

    image  what it shows, where its members are the levels of one image
    untold what else it holds that no group here can say, in words
    """

    read_only = True

    def __init__(
        self,
        format: str,
        store: Store,
        members: Mapping[str, Callable[[], Node]],
        attrs: Mapping[str, Any] | None = None,
        image: Callable[[BorrowedGroup], Image] | None = None,
        untold: Sequence[str] = (),
    ) -> None:
        self.format = format
        self.store = store
        self.attrs = attrs if isinstance(attrs, Facts) else Facts(attrs)
        self._untold = tuple(untold)
        self._members = members
        self._groups: dict[str, BorrowedGroup] = {}
        self._image = image
        if image is not None:
            self.kind = "image"

    @property
    def untold(self) -> tuple[str, ...]:
        return (*(f"the attribute {name!r}" for name in self.attrs.untold), *self._untold)

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        # What looks the members up may hold open files.
        place = self.store
        return super().__reduce_ex__(protocol) if place.file is None else (reopened, (self.format, place))

    def __getitem__(self, path: str) -> Any:
        name, _, rest = member_path(path).partition("/")
        found: Any = self._groups.get(name)
        if found is None:
            found = self._opened(name, path)
        return found[rest] if rest else found

    def _opened(self, name: str, path: str) -> Any:
        make = self._members.get(name)
        if make is None:
            raise NotFoundError("there is no such member", key=f"{self.store.root}:/{path.strip('/')}")
        found: Any = make()
        if isinstance(found, BorrowedGroup):
            # Its members were listed, which takes long where they are many: `file["group"]["a"]` does it each time.
            self._groups[name] = found
            if len(self._groups) > _GROUPS_KEPT:
                self._groups.pop(next(iter(self._groups)), None)
        return found

    def _check_writable(self) -> None:
        raise ReadOnlyError(_ONLY_READ, key=self.store.root)

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, path: object) -> bool:
        try:
            self[str(path)]
        except (KeyError, TypeError, IndexError):
            return False
        except UnsupportedError:
            # It is there, and only cannot be read.
            return True
        return True

    def read_image(self) -> Image | None:
        if self._image is None:
            return None
        found = self._image(self)
        return replace(found, untold=(*found.untold, *self.untold))
