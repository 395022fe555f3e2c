"""What skeletons and meshes share: values by segment id, in shards or in files named after the id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, SupportsIndex, TypeVar

import numpy as np

from zvcore.documents.members import Items, Made, Member, Number, Place, Table
from zvcore.documents.unchanged import Unchanged
from zvcore.errors import CorruptDataError, NotFoundError, ReadOnlyError
from zvcore.precomputed.content_encoding import stored_file, stored_files
from zvcore.precomputed.ids import Ids, as_id, as_ids, is_id
from zvcore.precomputed.metadata import INFO, read_version
from zvcore.precomputed.set_files import delete_files, holds_file
from zvcore.precomputed.set_views import ItemsAhead, ValuesAhead
from zvcore.precomputed.sharded_store import ShardedStore
from zvcore.precomputed.sharding_spec import ShardingSpec

if TYPE_CHECKING:
    from collections.abc import ItemsView, Iterable, Sequence, ValuesView

    import numpy.typing as npt

    from zvcore.format import Node
    from zvcore.stores import Store

__all__ = ["IDENTITY", "SegmentFiles", "SegmentMapping", "SegmentObjects"]

T = TypeVar("T")

IDENTITY = (1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0)


_OBJECTS = Table(
    Member("sharding", Made(ShardingSpec.from_json, ShardingSpec.to_json), default=None, null=True),
    # From stored coordinates to nanometers: three rows of four.
    Member("transform", Items(Number(), 12), default=IDENTITY),
)
# What says how they are stored.
_STAYING = (*_OBJECTS.names, "@type", "vertex_attributes", "vertex_quantization_bits", "lod_scale_multiplier")


class SegmentFiles:
    """One value per id in files: `{id}` and a suffix. CloudVolume's compressed ones (`.gz`) are read too."""

    def __init__(self, store: Store, suffix: str = "") -> None:
        self.store = store
        self.suffix = suffix

    def key(self, id: SupportsIndex) -> str:
        return f"{as_id(id)}{self.suffix}"

    def get(self, id: SupportsIndex) -> bytes | None:
        return stored_file(self.store, self.key(id))

    def get_many(self, ids: Sequence[int]) -> list[bytes | None]:
        return stored_files(self.store, [*map(self.key, ids)])

    def holds(self, id: SupportsIndex) -> bool:
        return holds_file(self.store, self.key(id))

    def delete(self, ids: Iterable[SupportsIndex]) -> None:
        delete_files(self.store, map(self.key, ids))

    def ids(self) -> npt.NDArray[np.uint64]:
        found = set()
        for name in self.store.list_dir()[1]:
            stem = name.removesuffix(".gz")
            if not stem.endswith(self.suffix):
                continue
            number = stem.removesuffix(self.suffix) if self.suffix else stem
            if number.isascii() and number.isdigit() and str(int(number)) == number and int(number) < 2**64:
                found.add(int(number))
        return as_ids(sorted(found))


class SegmentObjects:
    """Encoded values by segment id, as an info document of the given type says that they are stored."""

    def __init__(self, store: Store, mode: str, type: str, suffix: str = "") -> None:
        self.store = store
        self.mode = mode
        self.where = f"{store.root}/info"
        self.info, stamp = read_version(store, type=type)
        self.standing = Unchanged(store, INFO, self.info, stamp, _STAYING)
        found = _OBJECTS.load(self.info, Place(self.where))
        self.transform: npt.NDArray[np.float64] = np.array(found["transform"], np.float64).reshape(3, 4)
        self.sharding: ShardingSpec | None = found["sharding"]
        self.shards = (
            None if self.sharding is None else ShardedStore(store, self.sharding, "r" if mode == "r" else "r+")
        )
        self.files = SegmentFiles(store, suffix)

    def get(self, id: SupportsIndex) -> bytes | None:
        way = self.files if self.shards is None else self.shards
        return self.standing.steady(lambda: way.get(id), lambda data: data is not None)

    def holds(self, id: SupportsIndex) -> bool:
        return self.standing.steady(
            lambda: self.files.holds(id) if self.shards is None else id in self.shards, lambda there: there
        )

    def get_many(self, ids: Ids) -> dict[int, bytes]:
        wanted: list[int] = as_ids(ids).tolist()

        def found() -> dict[int, bytes]:
            if self.shards is not None:
                return self.shards.get_many(wanted)
            pairs = zip(wanted, self.files.get_many(wanted), strict=True)
            return {id: data for id, data in pairs if data is not None}

        return self.standing.steady(found, lambda values: len(values) == len(wanted))

    def ids(self) -> npt.NDArray[np.uint64]:
        return self.standing.steady((self.files if self.shards is None else self.shards).ids, len)

    def first_ids(self, count: int) -> npt.NDArray[np.uint64]:
        """Some ids, found without reading more than the index of one shard."""
        return self.files.ids()[:count] if self.shards is None else self.shards.first_ids(count)

    def delete(self, ids: Ids) -> list[int]:
        """Take values out, and say whose they were."""
        self.check_writable()
        numbers: list[int] = as_ids(ids).tolist()
        if self.shards is not None:
            self.shards.delete(numbers)
        else:
            self.files.delete(numbers)
        return numbers

    def check_writable(self) -> None:
        """Raise where nothing may be changed, or something else would be than is meant."""
        if self.mode == "r":
            raise ReadOnlyError('opened with mode "r"; changes need "r+"', key=self.store.root)
        self.standing.check_writing()


class SegmentMapping(Mapping[int, T]):
    """The skeletons or the meshes of a folder by segment id."""

    what: str  # one of them is called
    format = "precomputed"
    path = ""

    kind: str

    def children(self) -> Mapping[str, Node]:
        """Nothing: ids are no names of folders."""
        return {}

    def __init__(self, objects: SegmentObjects) -> None:
        self._objects = objects
        self.store = objects.store
        self.info = objects.info
        self.transform = objects.transform
        self.sharding = objects.sharding

    def __repr__(self) -> str:
        return f"<zvcore.precomputed.{type(self).__name__} in {self.store.root}>"

    def _parsed(self, id: int, data: bytes) -> T:
        """What the stored bytes of a segment stand for."""
        raise NotImplementedError

    def _value(self, id: int, data: bytes) -> T:
        try:
            return self._parsed(id, data)
        except CorruptDataError as error:
            raise error.located(key=self.store.root, chunk=id)

    def __getitem__(self, id: SupportsIndex) -> T:
        data = self._objects.get(id)
        if data is None:
            raise NotFoundError(f"there is no {self.what} of segment {as_id(id)}", key=self.store.root)
        return self._value(as_id(id), data)

    def stored(self, id: SupportsIndex) -> bytes | None:
        """The bytes of a segment, decoded only as far as they are compressed."""
        return self._objects.get(id)

    def get_many(self, ids: Ids) -> dict[int, T]:
        """The values of these segments; those that are missing are left out."""
        return {id: self._value(id, data) for id, data in self._objects.get_many(ids).items()}

    def ids(self) -> npt.NDArray[np.uint64]:
        return self._objects.ids()

    def first_ids(self, count: int) -> npt.NDArray[np.uint64]:
        """Some of the ids, found without listing all of a large set."""
        return self._objects.first_ids(count)

    def __contains__(self, id: object) -> bool:
        return is_id(id) and self._objects.holds(id)

    def __iter__(self) -> Iterator[int]:
        return iter(self.ids().tolist())

    def __len__(self) -> int:
        return len(self.ids())

    def items(self) -> ItemsView[int, T]:
        return ItemsAhead(self)

    def values(self) -> ValuesView[T]:
        return ValuesAhead(self)
