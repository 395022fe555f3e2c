"""Zarr v3 nodes as Zarr Vectors uses them: groups with attributes, and arrays of byte strings or numbers.

Every array is read the same way, sharded or not: grid positions of inner chunks become ranges of objects (`locate`),
and the engine fetches and decodes them together.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore import codecs
from zvcore.codecs.chain import CodecChain
from zvcore.engine import ABSENT, Buffers, Keys, Sources, StaleSourcesError, fetch, index_cache
from zvcore.errors import ConflictError, CorruptDataError, MetadataError, NotFoundError, UnsupportedError, ZvcoreError
from zvcore.kernels import vlen
from zvcore.zarr3.shard_index import ShardIndexForm

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from zvcore.stores import Snapshot, Stamp, Store

__all__ = ["ArrayNode", "Node", "child_nodes", "document_bytes", "join", "read_node", "require_array"]

Ints = npt.NDArray[np.int64]

_ATTEMPTS = 20
# Of a store that may not take much memory, so many chunks are decoded at a time.
_AT_ONCE = 8

ROW_TYPES = ("variable_length_bytes", "bytes", "binary")
NUMBER_TYPES = (
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    "bool", "float16", "float32", "float64",
)  # fmt: skip
MAX_NDIM = 32


def join(*parts: str) -> str:
    return "/".join(part for part in parts if part)


def _nested_names(folder: bytes, above: str, depth: int) -> Iterator[str]:
    """The paths of what lies `depth` folders deep, without asking of each what it is: there may be a million."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    if depth == 1:
        yield from [above + name.decode("utf-8", "replace") for name in names]
        return
    for name in names:
        if name.isdigit():
            yield from _nested_names(folder + b"/" + name, f"{above}{name.decode()}/", depth - 1)


_NUMBER = r"(?:0|-?[1-9][0-9]{0,17})"


def sorted_numbers(names: Sequence[str], separator: str, count: int) -> Ints:
    """int64[n, count] in numeric order from names like "3.-1.2"; those that are none are left out."""
    pattern = rf"{_NUMBER}(?:{re.escape(separator)}{_NUMBER}){{{count - 1}}}"
    text = "\n".join(names)
    if not re.fullmatch(rf"(?:{pattern}\n)*{pattern}", text):
        text = "\n".join(name for name in names if re.fullmatch(pattern, name))
    numbers = np.array(text.replace(separator, " ").split(), np.int64).reshape(-1, count)
    if len(numbers) > 1 and not in_order(numbers):
        numbers = numbers[np.lexsort(numbers.T[::-1])]
    return numbers


def in_order(numbers: Ints) -> bool:
    """Whether rows do not decrease, compared column by column."""
    before, after = numbers[:-1], numbers[1:]
    decided = np.zeros(len(before), bool)
    for column in range(numbers.shape[1]):
        if (~decided & (after[:, column] < before[:, column])).any():
            return False
        decided |= after[:, column] > before[:, column]
    return True


def document_bytes(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, indent=2).encode()


@dataclass
class Node:
    """A group or an array: its zarr.json."""

    store: Store
    path: str
    document: dict[str, Any]

    @property
    def attrs(self) -> dict[str, Any]:
        attributes: dict[str, Any] = self.document.get("attributes") or {}
        return attributes

    @property
    def is_array(self) -> bool:
        return self.document.get("node_type") == "array"

    @property
    def key(self) -> str:
        return join(self.path, "zarr.json")

    def child(self, name: str) -> Node | None:
        return read_node(self.store, join(self.path, name))


def read_node(store: Store, path: str) -> Node | None:
    """The node at a path, None if there is none."""
    key = join(path, "zarr.json")
    raw = store.get(key)
    if raw is None:
        return None
    try:
        document = json.loads(bytes(raw))
    except (ValueError, RecursionError) as error:
        raise MetadataError(f"not JSON: {error}", key=key) from None
    if not isinstance(document, dict) or document.get("node_type") not in ("group", "array"):
        raise MetadataError("not the metadata of a Zarr v3 group or array", key=key)
    if document.get("zarr_format") != 3:
        raise UnsupportedError(f"zarr_format {document.get('zarr_format')!r}", key=key)
    if not isinstance(document.get("attributes", {}), dict):
        raise MetadataError("attributes must be an object", key=key)
    kind = ArrayNode if document["node_type"] == "array" else Node
    return kind(store, path, document)


def require_array(store: Store, path: str) -> ArrayNode:
    node = read_node(store, path)
    if not isinstance(node, ArrayNode):
        raise NotFoundError("there is no such array", key=path)
    return node


def child_nodes(store: Store, path: str) -> Iterator[Node]:
    """The nodes right below a group, in order of name."""
    for name in store.list_dir(path)[0]:
        node = read_node(store, join(path, name))
        if node is not None:
            yield node


@dataclass(frozen=True)
class ShardIndex:
    """(offsets, lengths) of a shard's chunks in C order, and the version of the shard for which they hold."""

    offsets: npt.NDArray[np.uint64]
    lengths: npt.NDArray[np.uint64]
    stamp: Stamp


class ArrayNode(Node):
    """An array of byte strings (`is_rows`) or of numbers (`dtype`), in chunks, perhaps packed into shards."""

    def _bad(self, text: str, found: Any = None) -> MetadataError:
        return MetadataError(text, key=self.key, found=None if found is None else repr(found)[:200])

    @cached_property
    def shape(self) -> tuple[int, ...]:
        shape = self.document.get("shape")
        if not isinstance(shape, list) or len(shape) > MAX_NDIM or not all(_is_count(n) for n in shape):
            raise self._bad("shape must be a list of sizes", shape)
        return tuple(shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @cached_property
    def outer_chunk(self) -> tuple[int, ...]:
        """The shape of what one object holds: a chunk, or a shard."""
        grid = self.document.get("chunk_grid")
        if not isinstance(grid, dict) or grid.get("name") != "regular":
            raise UnsupportedError("only regular chunk grids can be read", key=self.key)
        configuration = grid.get("configuration")
        return self._chunk_shape(configuration.get("chunk_shape") if isinstance(configuration, dict) else None)

    def _chunk_shape(self, shape: Any) -> tuple[int, ...]:
        if not isinstance(shape, list) or len(shape) != self.ndim or not all(_is_count(n) and n > 0 for n in shape):
            raise self._bad(f"chunk_shape must be a list of {self.ndim} sizes", shape)
        return tuple(shape)

    @cached_property
    def _codecs(self) -> list[dict[str, Any]]:
        """The codecs of a whole object."""
        return self._codec_list(self.document.get("codecs"))

    def _codec_list(self, given: Any) -> list[dict[str, Any]]:
        if not isinstance(given, list) or not given:
            raise self._bad("codecs must be a list", given)
        found = [{"name": codec} if isinstance(codec, str) else codec for codec in given]
        for codec in found:
            if not isinstance(codec, dict) or not isinstance(codec.get("name"), str):
                raise self._bad("a codec is an object with a name", codec)
            if not isinstance(codec.get("configuration", {}), dict):
                raise self._bad("a codec's configuration is an object", codec)
        return found

    @property
    def sharded(self) -> bool:
        return bool(self._codecs[0]["name"] == "sharding_indexed")

    @cached_property
    def _sharding(self) -> dict[str, Any]:
        if len(self._codecs) != 1:
            raise UnsupportedError("shards that are encoded once more as a whole", key=self.key)
        configuration: dict[str, Any] = self._codecs[0].get("configuration", {})
        return configuration

    @cached_property
    def chunk(self) -> tuple[int, ...]:
        """The shape of what is encoded by itself: a chunk, or an inner chunk of a shard."""
        if not self.sharded:
            return self.outer_chunk
        chunk = self._chunk_shape(self._sharding.get("chunk_shape"))
        if any(outer % inner for outer, inner in zip(self.outer_chunk, chunk, strict=True)):
            raise self._bad(f"shards of {self.outer_chunk} do not hold whole chunks of {chunk}")
        return chunk

    @cached_property
    def per_shard(self) -> tuple[int, ...]:
        """How many inner chunks a shard has along each axis."""
        return tuple(outer // inner for outer, inner in zip(self.outer_chunk, self.chunk, strict=True))

    @cached_property
    def index_form(self) -> ShardIndexForm:
        return ShardIndexForm.from_json(self._sharding, self.per_shard, self.key)

    @property
    def inner_codecs(self) -> list[dict[str, Any]]:
        """The codecs of a chunk, as the metadata lists them."""
        return self._codec_list(self._sharding.get("codecs")) if self.sharded else self._codecs

    @cached_property
    def chain(self) -> CodecChain:
        """The codecs from bytes to bytes of a chunk."""
        return CodecChain([codecs.from_zarr3(codec, where=self.key) for codec in self.inner_codecs[1:]])

    @property
    def is_rows(self) -> bool:
        return bool(self.inner_codecs[0]["name"] == "vlen-bytes" and self.document.get("data_type") in ROW_TYPES)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The type of the numbers, in the byte order in which they are stored."""
        name = self.document.get("data_type")
        serializer = self.inner_codecs[0]
        if name not in NUMBER_TYPES or serializer["name"] != "bytes":
            raise UnsupportedError(f"data type {name!r} through codec {serializer['name']!r}", key=self.key)
        endian = serializer.get("configuration", {}).get("endian", "little")
        if endian not in ("little", "big"):
            raise self._bad('endian is "little" or "big"', endian)
        dtype: np.dtype[Any] = np.dtype(name).newbyteorder("<" if endian == "little" else ">")
        return dtype

    @cached_property
    def fill_value(self) -> Any:
        return _fill_value(self.document.get("fill_value"), self.dtype, self)

    @cached_property
    def _key_parts(self) -> tuple[str, str]:
        """(what the keys of the objects begin with, what separates the numbers that follow)."""
        encoding = self.document.get("chunk_key_encoding") or {}
        name = encoding.get("name") if isinstance(encoding, dict) else encoding
        configuration = encoding.get("configuration") if isinstance(encoding, dict) else None
        usual = {"default": "/", "v2": "."}.get(str(name))
        separator = configuration.get("separator", usual) if isinstance(configuration, dict) else usual
        if name not in ("default", "v2") or separator not in ("/", "."):
            raise UnsupportedError(f"chunk_key_encoding {encoding!r}", key=self.key)
        folder = self.path + "/" if self.path else ""
        if name == "v2":
            return folder + ("" if self.ndim else "0"), separator
        return folder + ("c" + separator if self.ndim else "c"), separator

    def object_key(self, position: tuple[int, ...]) -> str:
        prefix, separator = self._key_parts
        return prefix + separator.join(map(str, position))

    def stored_objects(self) -> Ints:
        """The positions of the objects that exist, int64[n, ndim] in numeric order, as the store lists them."""
        prefix, separator = self._key_parts
        if self.store.local_root is not None and separator == "/" and prefix.endswith("c/"):
            folder = os.path.join(self.store.local_root, os.fsencode(prefix)).rstrip(b"/")
            return sorted_numbers(list(_nested_names(folder, "", self.ndim)), separator, self.ndim)
        names = [key[len(prefix) :] for key in self.store.list(prefix.rpartition("/")[0]) if key.startswith(prefix)]
        if not self.ndim:
            return np.zeros((names.count(""), 0), np.int64)
        return sorted_numbers(names, separator, self.ndim)

    # --- where chunks are

    @property
    def grid(self) -> tuple[int, ...]:
        """How many chunks along each axis."""
        return tuple(-(-size // chunk) for size, chunk in zip(self.shape, self.chunk, strict=True))

    @property
    def outer_grid(self) -> tuple[int, ...]:
        """How many objects along each axis."""
        return tuple(-(-size // chunk) for size, chunk in zip(self.shape, self.outer_chunk, strict=True))

    def shard_index(self, position: tuple[int, ...], unchecked: bool = False) -> ShardIndex | None:
        """Where the chunks of one shard lie, None if there is no such shard.

        With `unchecked`, a remote shard is not asked whether it has changed: who reads its chunks learns that.
        """
        key = self.object_key(position)
        form = self.index_form

        def load(found: Snapshot) -> tuple[ShardIndex, int]:
            offsets, lengths = form.parse(found.data, found.size, key)
            return ShardIndex(offsets, lengths, found.stamp), offsets.nbytes + lengths.nbytes

        return index_cache().get_part(self.store, key, form.span, load, part=("shard index", form), unchecked=unchecked)

    def locate(self, positions: Ints) -> Sources:
        """Where the chunks at these grid positions, int64[n, ndim], are stored."""
        prefix, separator = self._key_parts
        if not self.sharded:
            return Sources(Keys.format(positions, [prefix, *[separator] * (self.ndim - 1), ""]))
        per = np.array(self.per_shard, np.int64)
        outer = positions // per
        inner = np.ravel_multi_index(tuple((positions - outer * per).T), self.per_shard)
        flat = np.ravel_multi_index(tuple(outer.T), self.outer_grid)
        shards, which = np.unique(flat, return_inverse=True)
        offset = np.zeros(len(positions), np.uint64)
        length = np.full(len(positions), ABSENT, np.uint64)
        places = np.stack(np.unravel_index(shards, self.outer_grid), -1).tolist()
        order = np.argsort(which, kind="stable")
        bounds = np.searchsorted(which[order], np.arange(len(shards) + 1))
        stamps: list[Stamp | None] = []
        indexes = self.store.each(lambda place: self.shard_index(place, unchecked=True), [*map(tuple, places)])
        for index, begin, end in zip(indexes, bounds[:-1], bounds[1:], strict=True):
            stamps.append(None if index is None else index.stamp)
            if index is not None:
                mine = order[begin:end]
                offset[mine] = index.offsets[inner[mine]]
                length[mine] = index.lengths[inner[mine]]
        keys = Keys.of([self.object_key(tuple(place)) for place in places])
        return Sources(keys, which.astype(np.int32), offset, length, stamps=stamps)

    # --- what they hold

    def read_chunks(self, positions: Ints) -> tuple[npt.NDArray[np.uint8], Ints, npt.NDArray[np.bool_]]:
        """Decoded chunks: (all bytes, int64[n + 1] where each begins, which are not stored)."""
        if not len(positions):
            return np.zeros(0, np.uint8), np.zeros(1, np.int64), np.zeros(0, bool)
        for attempt in range(_ATTEMPTS):
            try:
                buffers = self._fetched(positions)
            except StaleSourcesError:
                # A shard was replaced between its index and its chunks.
                if attempt == _ATTEMPTS - 1:
                    raise ConflictError("shards change faster than they can be read", key=self.path) from None
                continue
            break
        pool, begins = buffers.joined()
        return pool, begins, buffers.sizes == ABSENT

    def _fetched(self, positions: Ints) -> Buffers:
        most = self.store.largest
        if most is None:
            return fetch(self.store, self.locate(positions), self.chain, count=len(positions))
        parts = []
        left = most
        for at in range(0, len(positions), _AT_ONCE):
            some = positions[at : at + _AT_ONCE]
            ceiling = min(most // _AT_ONCE, codecs.max_decoded_size)
            parts.append(fetch(self.store, self.locate(some), self.chain, count=len(some), max_size=ceiling))
            left -= parts[-1].nbytes
            if left < 0:
                raise UnsupportedError(
                    "more than may be decoded at once", key=self.key, expected=f"at most {most} bytes"
                )
        return Buffers.chain(parts)

    def read_rows(self, stop: int | None = None) -> tuple[npt.NDArray[np.uint8], Ints, Ints]:
        """All byte strings of a one-dimensional array: (bytes, starts, lengths). Absent chunks give empty ones."""
        if not self.is_rows or self.ndim != 1:
            raise UnsupportedError("not a one-dimensional array of byte strings", key=self.key)
        rows = self.shape[0] if stop is None else min(stop, self.shape[0])
        count = -(-rows // self.chunk[0])
        self._refuse_hollow(rows, count)
        positions = np.arange(count, dtype=np.int64).reshape(-1, 1)
        pool, begins, absent = self.read_chunks(positions)
        # A shape is only a number in a file: as many rows as there are bytes to show for it, 4 of each row at least.
        self._refuse_unbacked(rows, 2 * len(pool))
        starts = np.zeros(rows, np.int64)
        lengths = np.zeros(rows, np.int64)
        for chunk in np.flatnonzero(~absent).tolist():
            first = chunk * self.chunk[0]
            taken = min(self.chunk[0], rows - first)
            at, sizes = self._split(pool[begins[chunk] : begins[chunk + 1]], chunk, taken)
            starts[first : first + taken] = at[:taken] + begins[chunk]
            lengths[first : first + taken] = sizes[:taken]
        return pool, starts, lengths

    def _split(self, data: npt.NDArray[np.uint8], chunk: int, wanted: int) -> tuple[Ints, Ints]:
        try:
            at, sizes = vlen.split_rows(data.data)
        except ZvcoreError as error:
            raise error.located(key=self.object_key((chunk,)) if not self.sharded else self.path, chunk=chunk) from None
        if len(at) < wanted or len(at) > self.chunk[0]:
            raise CorruptDataError(
                "a chunk with another number of rows", key=self.path, chunk=chunk, expected=self.chunk[0], found=len(at)
            )
        return at, sizes

    def row_chunk(self, chunk: int) -> tuple[npt.NDArray[np.uint8], Ints, Ints]:
        """One chunk of a one-dimensional array of byte strings: (bytes, starts, lengths)."""
        taken = min(self.chunk[0], self.shape[0] - chunk * self.chunk[0])
        pool, _, absent = self.read_chunks(np.array([[chunk]], np.int64))
        if absent[0]:
            self._refuse_unbacked(taken, 0)
            return pool, np.zeros(taken, np.int64), np.zeros(taken, np.int64)
        at, sizes = self._split(pool, chunk, taken)
        return pool, at[:taken], sizes[:taken]

    def read_numbers(self, stop: int | None = None) -> npt.NDArray[Any]:
        """All numbers, in native byte order; of the first axis only `stop` rows."""
        shape = self.shape if stop is None else (min(stop, self.shape[0]), *self.shape[1:])
        grid = [-(-size // chunk) for size, chunk in zip(shape, self.chunk, strict=True)]
        self._refuse_hollow(prod(shape), prod(grid))
        positions = np.indices(grid, np.int64).reshape(self.ndim, prod(grid)).T
        pool, begins, absent = self.read_chunks(positions)
        size = prod(self.chunk) * self.dtype.itemsize
        stored = np.flatnonzero(~absent).tolist()
        for number in stored:
            if begins[number + 1] - begins[number] != size:
                raise CorruptDataError(
                    "a chunk of the wrong size", key=self.path, chunk=tuple(positions[number].tolist()),
                    expected=size, found=int(begins[number + 1] - begins[number]),
                )  # fmt: skip
        self._refuse_unbacked(prod(shape), len(stored) * prod(self.chunk))
        out = np.full(shape, self.fill_value, self.dtype.newbyteorder("="))
        for number in stored:
            data = pool[begins[number] : begins[number + 1]]
            values = data.view(self.dtype).reshape(self.chunk)
            begin = positions[number] * np.array(self.chunk, np.int64)
            to = tuple(slice(b, min(b + c, n)) for b, c, n in zip(begin.tolist(), self.chunk, shape, strict=True))
            out[to] = values[tuple(slice(0, part.stop - part.start) for part in to)]
        return out

    def _refuse_hollow(self, wanted: int, chunks: int) -> None:
        """The same before a position is made for each of very many chunks: by what the store lists."""
        if chunks <= 2**16:
            return
        objects = self.stored_objects()
        there = len(objects)
        if self.sharded:
            # A shard's index has 16 bytes for each of its chunks.
            sizes = [self.store.size(self.object_key(tuple(position))) or 0 for position in objects.tolist()]
            there = sum(min(size // 16, prod(self.per_shard)) for size in sizes)
        self._refuse_unbacked(wanted, (there - chunks) * prod(self.chunk) + wanted)

    def _refuse_unbacked(self, wanted: int, backed: int) -> None:
        """Absent chunks may read as fill values, but not so many that a number in a file takes all memory."""
        if wanted > max(backed, 0) + 2**24:
            raise CorruptDataError(
                "an array of which almost nothing is stored", key=self.path, expected=f"{wanted} items", found=backed
            )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62


def _fill_value(value: Any, dtype: np.dtype[Any], node: ArrayNode) -> Any:
    try:
        if dtype.kind == "f" and isinstance(value, str):
            if value.startswith("0x"):
                raw = int(value, 16).to_bytes(dtype.itemsize, "little")
                return np.frombuffer(raw, dtype.newbyteorder("<"))[0]
            return np.dtype(dtype).type({"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}[value])
        if isinstance(value, (list, dict)):
            raise TypeError
        return np.array(0 if value is None else value, dtype.newbyteorder("="))[()]
    except (ValueError, TypeError, KeyError, OverflowError):
        raise MetadataError("fill_value does not fit the data type", key=node.key, found=repr(value)) from None
