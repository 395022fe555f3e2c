"""The one Array: indexing, reading and writing, the same for all formats."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Generic, Literal, cast, overload

import numpy as np
import numpy.typing as npt

from zvcore import transfer
from zvcore.as_dask import as_dask
from zvcore.boxes import box_of, count_of, given_lengths, grid_position, integers, slices, whole_number
from zvcore.cached import cached_property
from zvcore.casting import as_dtype, as_values
from zvcore.documents.standing import standing_of
from zvcore.engine import thread_count
from zvcore.engine.buffers import Buffers
from zvcore.engine.selection import MOST_AXES, Selection
from zvcore.engine.work import Work
from zvcore.errors import CorruptDataError, MetadataError, ReadOnlyError, UnsupportedError
from zvcore.indexers import OrthogonalIndex, PointIndex
from zvcore.typed import Item
from zvcore.wording import human_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence

    import dask.array

    from zvcore.codecs.base import Codec
    from zvcore.documents import Document
    from zvcore.format import Node
    from zvcore.images.coordinates import Coordinates
    from zvcore.layout import Layout
    from zvcore.stores import Store
    from zvcore.typed import Out, Place, Progress, Region
from zvcore.transfer.shard_writer import ShardWriter

__all__ = ["Array"]

# Members of documents that may change while an array stays what it is.
_CHANGING = frozenset(("attributes", "consolidated_metadata", "shape"))


class Array(Generic[Item]):
    """A chunked array in a store, indexed like a numpy array.

    `a[...]` reads and assigns with numpy's basic indexing; `a.oindex[...]` takes lists of coordinates per axis and
    `a.vindex[...]` single points. Axes are in the order in which the format declares them. An Array may be used from
    many threads at once, and pickled: it is then reopened from its store.

    To type checkers, `Array[np.uint16]` is an array of such items, and plain `Array` one of any.
    """

    member: tuple[Store, str] | None = None
    uniform = True  # all of its chunks are of one size

    def __init__(
        self,
        layout: Layout,
        *,
        format: str,
        attrs: MutableMapping[str, Any] | Mapping[str, Any] | None = None,
        codec: Codec | tuple[Codec, ...] | None = None,
        document: Document | None = None,
        read_only: bool = False,
        threads: int | None = None,
    ) -> None:
        if len(layout.shape) > MOST_AXES:
            what = f"arrays of more than {MOST_AXES} dimensions are not supported"
            raise UnsupportedError(what, key=layout.store.root, found=len(layout.shape))
        self._layout = layout
        self._document = document
        self._format = format
        # Those of arrays that are only read cannot be changed either.
        self._attrs = cast("MutableMapping[str, Any]", {} if attrs is None else attrs)
        self._codec = codec
        self._read_only = read_only or layout.store.read_only
        self._threads = thread_count(threads)
        self.stands()

    # --- what it is

    @property
    def kind(self) -> str:
        """ "array", as every `zvcore.format.Node` says what it is."""
        return "array"

    @property
    def store(self) -> Store:
        return self._layout.store

    @property
    def path(self) -> str:
        """Where the array lies in its store; "" is the store's root."""
        return ""

    def children(self) -> Mapping[str, Node]:
        """Nothing lies in an array."""
        return {}

    @property
    def layout(self) -> Layout:
        """How the format stores this array."""
        return self._layout

    @property
    def shape(self) -> tuple[int, ...]:
        return self._layout.shape

    @property
    def dtype(self) -> np.dtype[Item]:
        return self._layout.form.dtype

    @property
    def chunks(self) -> tuple[int, ...]:
        """The shape of a chunk: the smallest part that is read and decoded."""
        return self._layout.form.shape

    @property
    def shards(self) -> tuple[int, ...] | None:
        """The shape of what one object holds, if that is several chunks in the shape of a box."""
        return self._layout.shard_shape

    @property
    def fill_value(self) -> Any:
        return self._layout.fill_value

    @property
    def format(self) -> str:
        return self._format

    @property
    def codec(self) -> Codec | tuple[Codec, ...] | None:
        """The codec of the chunks, or a tuple of them in the order of encoding."""
        return self._codec

    @property
    def codecs(self) -> tuple[Codec, ...]:
        """The codecs of the chunks in the order of encoding: what `codec` says, always as a tuple."""
        codec = self.codec
        return codec if isinstance(codec, tuple) else () if codec is None else (codec,)

    @property
    def attrs(self) -> MutableMapping[str, Any]:
        return self._attrs

    @property
    def read_only(self) -> bool:
        return self._read_only

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=object))

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def grid(self) -> tuple[int, ...]:
        """How many chunks there are along each axis."""
        return count_of(self.shape, self.chunks)

    @cached_property
    def order(self) -> Literal["C", "F"]:
        """The memory order of results: "F" where chunks lie in Fortran order, so that memory lies as stored."""
        axes = self._layout.form.axes
        return "F" if len(axes) > 1 and axes == tuple(reversed(range(len(axes)))) else "C"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d array")
        return self.shape[0]

    def __repr__(self) -> str:
        shards = "" if self.shards is None else f" shards={self.shards}"
        return (
            f"<zvcore.Array {self.format} shape={self.shape} dtype={self.dtype} chunks={self.chunks}{shards} "
            f"in {self._layout.store.root}>"
        )

    @property
    def info(self) -> dict[str, Any]:
        """What it is, in a few words each; nothing is read from the store."""
        return {
            "format": self.format,
            "where": self._layout.store.root,
            "shape": self.shape,
            "dtype": str(self.dtype),
            "chunks": self.chunks,
            "shards": self.shards,
            "codec": ", ".join(map(repr, self.codecs)) or "none",
            "fill value": self.fill_value,
            "size": human_size(self.nbytes),
            "read only": self.read_only,
        }

    def _repr_html_(self) -> str:
        from zvcore import html

        return html.table("zvcore.Array", self.info)

    # --- reading

    @overload
    def __getitem__(self, key: Place) -> Any: ...
    @overload
    def __getitem__(self, key: Region) -> npt.NDArray[Item]: ...
    def __getitem__(self, key: Any) -> Any:
        return self._read(Selection.basic(key, self.shape), None, self._work)

    @overload
    def read(
        self,
        region: Place,
        out: None = None,
        threads: int | None = None,
        progress: Progress | None = None,
        memory: int | None = None,
    ) -> Any: ...
    @overload
    def read(
        self,
        region: Region = ...,
        out: None = None,
        threads: int | None = None,
        progress: Progress | None = None,
        memory: int | None = None,
    ) -> npt.NDArray[Item]: ...
    @overload
    def read(
        self,
        region: Region = ...,
        out: Out = ...,
        threads: int | None = None,
        progress: Progress | None = None,
        memory: int | None = None,
    ) -> Out: ...
    def read(
        self,
        region: Any = ...,
        out: Any = None,
        threads: int | None = None,
        progress: Progress | None = None,
        memory: int | None = None,
    ) -> Any:
        """What stands inside the brackets of `a[...]`, read into `out` if that is given.

        `out` is any writable array (or buffer) of the result's shape and the array's dtype, with any strides.
        `progress(done, total)` is called in this thread now and then, with numbers of chunks. `memory` is how many
        bytes may be held besides the result, at least one chunk: stored bytes fetched ahead, chunks being decoded.
        """
        return self._read(Selection.basic(region, self.shape), out, self._work_with(threads, progress, memory))

    def read_regions(self, regions: Iterable[Region], threads: int | None = None) -> list[npt.NDArray[Item]]:
        """`[a[region] for region in regions]`, read together: a chunk that several of them touch is fetched and decoded
        once. For patches, tiles and cut-outs.
        """
        from zvcore.together import read_regions

        return read_regions(self, regions, self._work_with(threads))

    def _work_with(self, threads: int | None, progress: Progress | None = None, memory: int | None = None) -> Work:
        if threads is None and progress is None and memory is None:
            return self._work
        most = None if memory is None else whole_number(memory, "memory")
        return Work(self._threads if threads is None else thread_count(threads), progress, most, self.standing.watched)

    @property
    def oindex(self) -> OrthogonalIndex[Item]:
        """Selects along each axis on its own: by integers, slices, lists of integers, masks."""
        return OrthogonalIndex(self)

    @property
    def vindex(self) -> PointIndex[Item]:
        """Selects single items: by one array of coordinates per axis, or by a mask of the array's shape."""
        return PointIndex(self)

    @property
    def at(self) -> Coordinates[Item]:
        """The array in the coordinates of what it shows: `a.at[x0:x1, y]` in voxels, which may be negative, and
        `a.at["1030:1040nm", ...]` in units. See `zvcore.images.coordinates.Coordinates`.
        """
        from zvcore.format import get_format
        from zvcore.images.coordinates import Coordinates, spans_of

        return Coordinates(self, spans_of(self.shape, *get_format(self.format).places(self)))

    def is_member(self, store: Store, name: str) -> None:
        """Note the store of the group, and the name in it, by which this array was opened."""
        self.member = (store, name)

    @overload
    def __array__(self, dtype: None = None, copy: bool | None = None) -> npt.NDArray[Item]: ...
    @overload
    def __array__(self, dtype: npt.DTypeLike, copy: bool | None = None) -> npt.NDArray[Any]: ...
    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("an array in a store cannot become a numpy array without a copy")
        values = np.asarray(self[...])
        return values if dtype is None or dtype == values.dtype else as_dtype(values, np.dtype(dtype))

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        return transfer.slices_of(self)

    def __contains__(self, item: object) -> bool:
        raise TypeError("`in` searches no arrays, which may take hours: (array[...] == item).any() reads all of it")

    def __bool__(self) -> bool:
        return bool(self.shape[0]) if self.shape else bool(self[()])

    def _read(self, selection: Selection, out: npt.NDArray[Any] | None, work: Work) -> Any:
        shape = selection.result_shape
        if out is None:
            result = transfer.empty(shape, self.dtype, "F" if self.order == "F" and not selection.is_points else "C")
            self._read_into([result], [selection], work)
            return result[()] if selection.is_item else result
        target = transfer.target(out, shape, self.dtype)
        if not target.dtype.isnative or (selection.is_points and not target.flags.c_contiguous):
            values = np.empty(shape, self.dtype)
            self._read_into([values], [selection], work)
            target[...] = values
        else:
            self._read_into([target], [selection], work)
        return out

    def _read_into(self, results: list[npt.NDArray[Any]], selections: Sequence[Selection], work: Work) -> None:
        try:
            if len(results) == 1:
                known = transfer.read(self._layout, selections[0], results[0], work)
            else:
                known = transfer.read_regions(self._layout, selections, results, work)
        except CorruptDataError:
            self._check_read(*results)  # that it is no longer the array that was opened explains what is odd in it
            raise
        if not known:
            self._check_read(*results)

    def _check_read(self, *found: npt.NDArray[Any]) -> None:
        """Raise where the array is no longer the one that was opened, so that what was read may be none of its own."""
        self._layout.prove(lambda: self.standing.check_read(self, found))

    def read_listed(self, key: tuple[Any, ...], threads: int | None = None) -> npt.NDArray[Item]:
        """`read`, for pictures: of very many chunks, only those are looked for that the store lists."""
        found = np.empty(Selection.basic(key, self.shape).result_shape, self.dtype)
        parts = [*self.parts(key, found)]
        if not all(np.shares_memory(part, found) for _, _, part in parts):
            return cast("npt.NDArray[Item]", self.read(key, threads=threads))
        for layout, selection, part in parts:
            transfer.read_listed(layout, selection, part, self._work_with(threads, None))
        return found

    def parts(
        self, key: tuple[Any, ...], values: npt.NDArray[Any]
    ) -> Iterator[tuple[Layout, Selection, npt.NDArray[Any]]]:
        """The parts of what integers and slices select that have chunks of one size.

        (a layout of a part, what of it is selected, where in `values`, which has the shape of the whole, that is)
        """
        yield self._layout, Selection.basic(key, self.shape), values

    # --- writing

    def __setitem__(self, key: Any, value: Any) -> None:
        self._write(Selection.basic(key, self.shape), value, self._work)

    def write(self, region: Any, value: Any, threads: int | None = None, progress: Progress | None = None) -> None:
        """Assign to what stands inside the brackets of `a[...]`."""
        self._write(Selection.basic(region, self.shape), value, self._work_with(threads, progress))

    def write_regions(self, regions: Iterable[Region], values: Iterable[Any], threads: int | None = None) -> None:
        """`a[region] = value` for each, in order; a chunk that several of them touch is read and replaced once."""
        from zvcore.together import write_regions

        write_regions(self, regions, values, self._work_with(threads))

    @overload
    async def aread(self, region: Place, out: None = None) -> Any: ...
    @overload
    async def aread(self, region: Region = ..., out: None = None) -> npt.NDArray[Item]: ...
    @overload
    async def aread(self, region: Region = ..., out: Out = ...) -> Out: ...
    async def aread(self, region: Any = ..., out: Any = None) -> Any:
        """`read` for programs with an event loop, which is not blocked.

        What is asked for in one turn of the loop, as by `asyncio.gather`, is read as `read_regions` reads it.
        """
        from zvcore.together import read_soon

        return await read_soon(self, region, out)

    async def awrite(self, region: Any, value: Any) -> None:
        """`write` for programs with an event loop. A call that is cancelled may still take effect.

        What is assigned in one turn of the loop is written as `write_regions` writes it.
        """
        from zvcore.together import write_soon

        await write_soon(self, region, value)

    def _write(self, selection: Selection, value: Any, work: Work) -> None:
        self._check_current()
        transfer.write(self._layout, selection, self._as_values(value, selection.result_shape), work)

    def check_items(self) -> None:
        """UnsupportedError where a format keeps something else than items that can be indexed."""

    def _check_writable(self) -> None:
        if self._read_only:
            what = "the array was opened for reading; open it with mode='r+' to write"
            raise ReadOnlyError(what, key=self._layout.store.root)

    def _check_current(self) -> None:
        """Raise where what is written would take the place of something else than it is meant for."""
        self._check_writable()
        self.standing.check_written(self)

    def _as_values(self, value: Any, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        """`value` with numpy's casting and broadcasting, without a copy where none is needed."""
        return as_values(value, self.dtype, shape)

    # --- single chunks

    def _position(self, position: Any) -> tuple[int, ...]:
        return grid_position(position, self.grid)

    def _rows(self, position: tuple[int, ...]) -> npt.NDArray[np.int64]:
        return np.array([position], np.int64).reshape(1, self.ndim)

    def _block_region(self, position: tuple[int, ...]) -> tuple[slice, ...]:
        return slices(box_of(position, self.chunks, self.shape))

    def block_exists(self, position: Any) -> bool:
        """Whether the chunk at this grid position is stored. Those that are not read as the fill value."""
        return self.read_encoded(position) is not None

    def read_block(self, position: Any) -> npt.NDArray[Item] | None:
        """The values of one chunk, cut at the array's end, or None if it is not stored."""
        place = self._position(position)
        return self[self._block_region(place)] if self.block_exists(place) else None

    def read_blocks(self, positions: Any, threads: int | None = None) -> list[npt.NDArray[Item] | None]:
        """`read_block` for many chunks, which are fetched and decoded together.

        For chunks here and there: what lies together is read faster as a region.
        """
        found = transfer.read_blocks(self._layout, self._positions(positions), self._work_with(threads))
        self._check_read()
        return found

    def _positions(self, positions: Any) -> npt.NDArray[np.int64]:
        """Many grid positions, all of them checked."""
        given = positions if isinstance(positions, np.ndarray) else [*positions]
        try:
            rows = np.asarray(given)
        except ValueError:  # they are not of one length
            rows = np.empty(0)
        fits = rows.dtype.kind in "iu" and rows.ndim == 2 and rows.shape[1] == self.ndim
        if fits and ((rows >= 0) & (rows < np.array(self.grid))).all():
            return rows.astype(np.int64)
        places = [self._position(position) for position in given]
        return np.array(places, np.int64).reshape(len(places), self.ndim)

    def write_block(self, position: Any, values: Any) -> None:
        """Replace one chunk; `values` has its shape, cut at the array's end."""
        place = self._position(position)
        shape = self._layout.visible_shape(place)
        if np.shape(values) != shape:
            raise ValueError(f"the chunk at {place} has shape {shape}, the values {np.shape(values)}")
        self[self._block_region(place)] = values

    def sizes_of(self, positions: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """(how many bytes are stored of the chunks at these grid positions, how many bytes of values each shows).

        ABSENT, as the size of what is not stored.
        """
        extents, bounds = np.array(self.chunks, object), np.array(self.shape, object)
        inside = np.minimum(extents, bounds - positions * extents).prod(1)
        return transfer.stored_sizes(self._layout, positions), (inside * self.dtype.itemsize).astype(np.uint64)

    def delete_block(self, position: Any) -> bool:
        """Remove one chunk, so that it reads as the fill value. False if it was not stored."""
        place = self._position(position)
        self._check_current()
        existed = self.block_exists(place)
        if existed:
            transfer.put(self._layout, self._rows(place), Buffers(1))
        return existed

    def read_encoded(self, position: Any) -> bytes | None:
        """The bytes of one chunk as they are stored, or None."""
        data = transfer.read_encoded(self._layout, self._rows(self._position(position)))[0]
        self._check_read()
        return None if data is None else bytes(data)

    def write_encoded(self, position: Any, data: Any) -> None:
        """Store the bytes of one chunk as they are, without looking into them."""
        place = self._position(position)
        self._check_current()
        transfer.put(self._layout, self._rows(place), Buffers.of([data]))

    # --- the whole

    def resize(self, shape: Sequence[int]) -> None:
        """Give the array another shape. What then lies outside is removed and does not come back when it grows again.

        First the document is written, then what lies outside is removed: whenever this is cut off, the array has one
        shape or the other with everything that lies in it. What is left outside (`verify` tells of it) goes when
        `resize` is called once more with the shape that the array has.
        """
        shrunk = self._reshape(shape)
        if shrunk:
            self._clear_outside(shrunk)

    def refresh(self) -> None:
        """Read the document again: shape and attributes as others have left them."""
        if self._document is not None:
            with self._document.turn.held():
                self._adopt(self._document.latest())

    def _reshape(self, shape: Sequence[int]) -> list[int]:
        """Write the document that gives this shape, and be what it says: the axes that are shorter than before.

        All of them where the shape is the one that it had.
        """
        self._check_writable()
        new = integers(given_lengths(shape, "shape"), f"a shape has whole numbers, not {shape!r}")
        if len(new) != self.ndim:
            raise MetadataError("an array keeps its number of dimensions", expected=self.ndim, found=new)
        if any(n < 0 for n in new):
            raise MetadataError("an array has no negative length", found=new)
        before = self.shape

        def change(content: dict[str, Any]) -> dict[str, Any]:
            nonlocal before
            before = self._laid_out(content).shape
            changed = self._resized(content, new)
            self._laid_out(changed)  # what no reader would take is not written
            return changed

        if self._document is None:
            raise self._fixed()
        with self._document.turn.held():
            self._adopt(self._document.change(change))
        return [axis for axis, (n, old) in enumerate(zip(new, before, strict=True)) if n < old or new == before]

    def _adopt(self, content: dict[str, Any]) -> None:
        """Be what the document says now; the caller has the document's turn."""
        assert self._document is not None
        self._layout = self._laid_out(content)
        self._document.content = content
        self.stands()

    def stands(self) -> None:
        """Take the document that is there now for the one that this array is described by."""
        self.standing = standing_of(self, None if type(self)._laid_out is Array._laid_out else self._document)
        self._work = Work(self._threads, watched=self.standing.watched)

    def _clear_outside(self, shrunk: list[int]) -> None:
        """Remove what lies behind the end of these axes."""
        transfer.remove_outside(self._layout)

    # What formats whose arrays can have another shape say.

    def _laid_out(self, content: dict[str, Any]) -> Layout:
        """The layout that a document gives, with this array's options."""
        raise self._fixed()

    def _described(self, content: dict[str, Any]) -> Any:
        """What a document says besides the array's shape and attributes, in whatever way."""
        return {name: value for name, value in content.items() if name not in _CHANGING}

    def _resized(self, content: dict[str, Any], shape: tuple[int, ...]) -> dict[str, Any]:
        """The document with another shape."""
        return {**content, "shape": list(shape)}

    def _fixed(self) -> UnsupportedError:
        return UnsupportedError(f"the shape of a {self.format} array is fixed", key=self._layout.store.root)

    # --- others

    def __dask_tokenize__(self) -> object:
        """Another each time: under one name, Dask would give what it has read before, whatever was written since."""
        return uuid.uuid4().hex

    def shard_writer(self, memory: int = 1 << 30) -> ShardWriter:
        """Gathers slices or single chunks in at most `memory` bytes and writes each shard once: see `ShardWriter`."""
        return ShardWriter(self, memory)

    def to_dask(self, chunks: Any = None) -> dask.array.Array:
        """A dask array over this one, cut along its shards (or chunks): each task reads or writes whole objects."""
        return as_dask(self, chunks)
