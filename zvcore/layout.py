"""What a format tells the engine about one array: where each chunk's bytes live, and how they become values.

A format is its metadata plus a subclass of `Layout`. Everything else (selections, threads, codecs, clipping, byte
order, partial chunks) is the engine's and `Array`'s work and is the same for all formats.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol
from weakref import WeakMethod

import numpy as np

from zvcore.boxes import count_of
from zvcore.cached import cached_property
from zvcore.codecs.unfit import check_of_values
from zvcore.engine.form import Form
from zvcore.engine.prepared import Prepared
from zvcore.engine.sources import ABSENT, Sources
from zvcore.errors import ConflictError, CorruptDataError, OutOfMemoryError, ZvcoreError
from zvcore.kernels.blocks import holds_only
from zvcore.stores.durability import durability_code

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy.typing as npt

    from zvcore.codecs.base import Codec
    from zvcore.codecs.chain import CodecChain
    from zvcore.documents.known import Shared
    from zvcore.engine.known_ranges import KnownRanges
    from zvcore.engine.selection import Selection
    from zvcore.engine.single import OpenShards, Proof
    from zvcore.placement import Placement
    from zvcore.stores import Store

__all__ = ["ABSENT", "ChunkForm", "Layout", "Sources", "StoredObject", "ValueCodec"]


@dataclass(frozen=True)
class ChunkForm:
    """How the decoded bytes of a chunk lie.

    shape     of a whole chunk, in the array's axes
    dtype     of the array, in native byte order
    swapped   whether stored values have the other byte order
    axes      the array's axes from slowest to fastest as the bytes lie: (0, 1, 2) is C order, (2, 1, 0) Fortran order
    edge      chunks that reach over the array's end are stored whole ("full"), cut at the end ("cropped"), or say
              themselves how large they are ("framed")
    padded    whether framed chunks at the end are written whole
    trailing  whether bytes behind the values of a framed chunk that nothing encodes are ignored
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    swapped: bool = False
    axes: tuple[int, ...] = ()
    edge: Literal["full", "cropped", "framed"] = "full"
    padded: bool = False
    trailing: bool = False


class ValueCodec(Protocol):
    """Turns one chunk's bytes into an array and back where a `ChunkForm` cannot say how: strings, pictures, filters.

    It runs in Python; the bytes codecs of the layout's chain (it has one only) have been undone before `decode` and
    follow `encode`.
    """

    def decode(self, data: memoryview, shape: tuple[int, ...]) -> npt.NDArray[Any]: ...

    def encode(self, values: npt.NDArray[Any]) -> bytes: ...


class StoredObject(NamedTuple):
    """A chunk or a shard that the store lists, inside the array's shape or outside of it.

    place  where it stands in the grid of objects; None for shards that are no boxes
    """

    key: str
    place: tuple[int, ...] | None


class Layout(ABC):
    """One array as a format stores it. Grid positions are int64[n, ndim] arrays throughout."""

    store: Store
    shape: tuple[int, ...]
    form: ChunkForm
    fill_value: Any
    shard_shape: tuple[int, ...] | None = None
    # A capsule of C functions that read and write a chunk's own header (`zvcore/include/zv_framing.h`).
    framing: object | None = None
    # Whether all chunks are of one size. Where they are not, only parts of the array have this: see `Array.parts`.
    regular: bool = True
    # Whether chunks that hold nothing but the fill value are stored all the same.
    store_empty: bool = False
    # What layouts of the same document share.
    shared: Shared | None = None
    # How many shards may tell at once which chunks they have.
    shards_at_once: int = 32

    if TYPE_CHECKING:
        # Attributes, which formats may also make when somebody asks for them: properties, to type checkers.

        @property
        def chains(self) -> tuple[CodecChain, ...]: ...
        @property
        def value_codec(self) -> ValueCodec | None: ...
        @property
        def open_shards(self) -> OpenShards | None: ...
        @property
        def proof(self) -> Proof | None: ...
    else:
        value_codec = None
        # For layouts with shards in local stores: those that single chunks were read from lately, and what shows that
        # what is known of shards is of the array.
        open_shards = None
        proof = None

    @property
    @abstractmethod
    def placement(self) -> Placement:
        """How the chunks lie in objects, and are put there."""

    def read_at_once(self, selection: Selection, out: npt.NDArray[Any]) -> bool:
        """Read the selected items, if they lie together and are so few that all else would take longer: False, where
        that is not so, or something is wrong that is told when they are read as others are.
        """
        return False

    @property
    def first_filter(self) -> Codec | None:
        """The filter that gets the items of chunks as they are assigned."""
        return None

    @cached_property
    def refuse_unfit(self) -> Callable[[npt.NDArray[Any]], None] | None:
        """What raises UnfitValueError for values that the first filter would store as others; None: it stores all."""
        first = self.first_filter
        return None if first is None else check_of_values(first, self.form.dtype)

    @property
    def sharded(self) -> bool:
        """Whether one object holds several chunks."""
        return not self.placement.alone

    @property
    def scattered(self) -> bool:
        """Whether the chunks of one object make no box."""
        return self.sharded and self.shard_shape is None

    @property
    def chunk_nbytes(self) -> int:
        return math.prod(self.form.shape) * self.form.dtype.itemsize

    @cached_property
    def prepared(self) -> Prepared:
        """What all requests have in common, as the engine's threads need it."""
        form = self._form_for_threads() if self.value_codec is None else None
        # By a weak reference: what is prepared is kept by the layout, and both shall go when nobody needs them.
        name = WeakMethod(self.chunk_name)

        def name_of(position: tuple[int, ...]) -> str | None:
            chunk_name = name()
            return None if chunk_name is None else chunk_name(position)

        return Prepared(form, self.chains, self.store.local_root, durability_code(self.store.durability), name_of)

    @cached_property
    def known_ranges(self) -> KnownRanges | None:
        """Where chunks lie that were read before, where they may lie in one file of this machine; None: they do not."""
        if not self.store.in_one_file or self.value_codec is not None:
            return None
        from zvcore.engine.known_ranges import KnownRanges

        return KnownRanges(count_of(self.shape, self.form.shape))

    def _form_for_threads(self) -> Form:
        if self.shared is None:
            return Form(self.form, self.shape, self.fill_value, self.framing)
        # The fill value is the document's.
        decides = (self.form, self.shape, self.framing)
        found: Form | None = self.shared.get(decides)
        if found is None:
            found = self.shared[decides] = Form(self.form, self.shape, self.fill_value, self.framing)
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("prepared", "known_ranges")}

    def block_shape(self, position: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of one chunk as it is stored when we write it."""
        if self.form.edge == "full" or self.form.padded:
            return self.form.shape
        return self.visible_shape(position)

    def visible_shape(self, position: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the part of a chunk that lies inside the array."""
        return tuple(
            min(extent, bound - place * extent)
            for extent, bound, place in zip(self.form.shape, self.shape, position, strict=True)
        )

    def unframed(self, data: memoryview, position: tuple[int, ...]) -> tuple[tuple[int, ...], memoryview] | None:
        """(a stored chunk's shape, its encoded values without the format's header); None for blocks of another kind."""
        shape = self.visible_shape(position) if self.form.edge == "cropped" else self.form.shape
        return shape, data

    def framed(self, payload: memoryview, position: tuple[int, ...]) -> memoryview | bytes:
        """What is stored for a chunk whose values, in its `block_shape`, were encoded to this."""
        return payload

    @contextmanager
    def memory_for(self, position: tuple[int, ...]) -> Iterator[None]:
        """Within this, memory is taken for one chunk: that there is none says which."""
        try:
            yield
        except MemoryError as error:
            if isinstance(error, ZvcoreError):
                raise
            what, key = "not enough memory for a chunk", self.chunk_name(position)
            raise OutOfMemoryError(what, key=key, chunk=position) from error

    def decode_values(self, data: memoryview, position: tuple[int, ...]) -> npt.NDArray[Any]:
        """What the value codec makes of a chunk's bytes, checked; errors say which chunk."""
        assert self.value_codec is not None
        shape = self.block_shape(position)
        try:
            with self.memory_for(position):
                values = self.value_codec.decode(data, shape)
        except ZvcoreError as error:
            raise error.located(key=self.chunk_name(position), chunk=position)
        if values.shape != shape:
            raise CorruptDataError(
                "the chunk has another shape",
                key=self.chunk_name(position),
                chunk=position,
                expected=shape,
                found=values.shape,
            )
        return values

    def is_empty(self, values: npt.NDArray[Any]) -> bool:
        """Whether values are nothing but the fill value, bit for bit where there are bits."""
        if values.dtype.hasobject or values.dtype.kind == "T":
            return bool((values == self.fill_value).all())
        fill = np.array(self.fill_value, values.dtype)
        if values.flags.c_contiguous or values.flags.f_contiguous:
            return holds_only(values, fill)
        return all(holds_only(np.ascontiguousarray(part), fill) for part in values)

    @property
    def chains_of_new(self) -> range:
        """Which of the chains encode chunks that are not there yet."""
        return range(len(self.chains))

    def chain_column(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8] | None:
        """Which of the chains encodes each chunk; None: the first."""
        return None

    @abstractmethod
    def locate(self, positions: npt.NDArray[np.int64]) -> Sources:
        """Where the bytes of these chunks are now. A shard's index is read here, through the store's index cache."""

    def prove(self, look: Callable[[], None]) -> None:
        """By a look at the array's document, which raises if that is no longer the array's: all that is known of its
        shards until then is proven, or void.
        """
        proof = self.proof
        if proof is None:
            look()
            return
        noted = proof.latest()
        try:
            look()
        except ConflictError:
            proof.fail()
            raise
        proof.reach(noted)

    def recall(self, positions: npt.NDArray[np.int64]) -> Sources | None:
        """Where the bytes of these chunks were when that was last asked, if that is known of all and whoever reads them
        finds out whether it is still so.
        """
        return None

    def fetch_first(self, positions: npt.NDArray[np.int64]) -> Sources | None:
        """A single chunk with its bytes, of layouts that would have to ask in order to `locate` it, and may as well ask
        for those; None: it is to be located.
        """
        return None

    def stored_objects(self) -> Iterator[StoredObject] | None:
        """Every chunk or shard of the array that is in the store, as it lists them; None where formats do not tell."""
        return None

    def begins_of(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Where the objects at these places of their grid begin in the array."""
        return places * np.array(self.shard_shape or self.form.shape, np.int64)

    def stored_chunks_in(self, stored: StoredObject) -> npt.NDArray[np.int64]:
        """The grid positions of the chunks that a shard has; those outside of the array too."""
        raise NotImplementedError

    def stored_chunks_in_each(self, stored: Iterable[StoredObject]) -> Iterator[npt.NDArray[np.int64]]:
        """`stored_chunks_in` for each of these shards. Where that means to wait, several are looked at at once."""
        waiting = iter(stored)
        while some := [*itertools.islice(waiting, self.shards_at_once if self.store.parts_ahead() else 1)]:
            yield from self.store.each(self.stored_chunks_in, some)

    def open_shard(self, positions: npt.NDArray[np.int64]) -> object | None:
        """Note the shard that holds this one chunk in `open_shards`. It stays there at least as long as the answer."""
        return None

    @abstractmethod
    def chunk_name(self, position: tuple[int, ...]) -> str:
        """What errors call the object that holds this chunk: its key in the store."""
