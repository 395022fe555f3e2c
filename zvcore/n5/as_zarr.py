"""An N5 container through zarr-python 3: a store that shows each dataset as a Zarr v3 array, each folder as a group.

Axes are reversed, as zarr 2's N5Store had them: a dataset of dimensions (x, y, z) is an array of shape (z, y, x) in C
order, which is the order in which its blocks lie. Blocks are decoded and encoded here, with the compressions of N5;
what zarr-python sees of them are plain little-endian bytes. An array that zarr-python makes keeps the codecs it was
made with for as long as this store object lives, and their compression becomes N5's.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import default_buffer_prototype

import zvcore.codecs
from zvcore.codecs import CodecChain
from zvcore.documents import parse
from zvcore.errors import CorruptDataError, MetadataError, UnsupportedError
from zvcore.n5.array import N5Array
from zvcore.n5.creating import create_dataset, create_group
from zvcore.n5.documents import change_document, read_document
from zvcore.n5.group import N5Group
from zvcore.n5.metadata import NUMERIC, RESERVED, is_dataset
from zvcore.n5.zarr_metadata import dimension_names, group_document, user_attributes, zarr_array
from zvcore.stores import open_store

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Iterable

    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype

    from zvcore.stores import Store as Objects

__all__ = ["ZarrStore"]

ZARR = "zarr.json"
_PLAIN: list[Any] = [{"name": "bytes", "configuration": {"endian": "little"}}]
_KEYS = {"name": "default", "configuration": {"separator": "/"}}


@dataclass(frozen=True)
class _Form:
    """How zarr-python encodes the chunks of one array, and names them."""

    codecs: tuple[Any, ...]
    keys: dict[str, Any]

    @property
    def axes(self) -> list[int] | None:
        for one in self.codecs:
            if _name(one) == "transpose":
                return list(one["configuration"]["order"])
        return None

    @property
    def byteorder(self) -> Literal["<", ">"]:
        for one in self.codecs:
            if _name(one) == "bytes" and isinstance(one, dict):
                return ">" if one.get("configuration", {}).get("endian") == "big" else "<"
        return "<"

    @property
    def compressors(self) -> list[Any]:
        return [one for one in self.codecs if _name(one) not in ("transpose", "bytes")]

    def decode(self, data: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        for one in reversed([zvcore.codecs.from_zarr3(one) for one in self.compressors]):
            data = one.decode(data)
        axes = self.axes or list(range(len(shape)))
        values = np.frombuffer(data, dtype.newbyteorder(self.byteorder))
        if values.size != int(np.prod(shape)):
            raise CorruptDataError("the chunk has another size", expected=int(np.prod(shape)), found=values.size)
        values = values.reshape([shape[axis] for axis in axes]).transpose(np.argsort(axes))
        return values.astype(dtype, copy=False)

    def encode(self, values: np.ndarray[Any, Any]) -> bytes:
        turned = values if self.axes is None else values.transpose(self.axes)
        data = np.ascontiguousarray(turned, values.dtype.newbyteorder(self.byteorder)).tobytes()
        for one in self.compressors:
            data = zvcore.codecs.from_zarr3(one).for_dtype(values.dtype).encode(data)
        return data


def _name(codec: Any) -> Any:
    return codec if isinstance(codec, str) else codec.get("name")


class ZarrStore(Store):
    """`zarr.open(ZarrStore(path))`: an N5 container, group or dataset as zarr-python sees it.

    New arrays may have a compressor that N5 has too (gzip, zstd, blosc, or numcodecs' bz2, lzma, lz4) or none. Their
    fill value is 0, their chunk grid regular, their data type one of N5's ten. `dimension_names` become the attribute
    `axes`, in N5's order.
    """

    supports_writes: bool = True
    supports_deletes: bool = True
    supports_listing: bool = True

    def __init__(self, path: str | os.PathLike[str] | Objects, *, read_only: bool = False) -> None:
        super().__init__(read_only=read_only)
        self._objects = open_store(path, "r" if read_only else "w")
        self._forms: dict[str, _Form] = {}
        self._arrays: dict[str, N5Array] = {}

    @property
    def supports_consolidated_metadata(self) -> bool:
        return False

    def with_read_only(self, read_only: bool = False) -> ZarrStore:
        other = type(self).__new__(type(self))
        Store.__init__(other, read_only=read_only)
        other._objects = self._objects
        other._forms = self._forms
        other._arrays = self._arrays
        return other

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ZarrStore) and other._objects.root == self._objects.root

    def __hash__(self) -> int:
        return hash(self._objects.root)

    def __repr__(self) -> str:
        return f"ZarrStore({self._objects.root!r})"

    __str__ = __repr__

    def __reduce__(self) -> tuple[Any, ...]:
        return (_reopened, (self._objects, self.read_only, self._forms))

    # --- what a key means

    def _array(self, prefix: str) -> N5Array | None:
        """The dataset at a path, reversed."""
        found = self._arrays.get(prefix)
        if found is None:
            document = read_document(self._objects, prefix)
            if document is None or not is_dataset(document):
                return None
            store = self._objects.child(prefix) if prefix else self._objects
            found = N5Array(store, document, order="C", write_empty_blocks=True)
            self._arrays[prefix] = found
        return found

    def _split(self, key: str) -> tuple[str, N5Array, tuple[int, ...]] | None:
        """(path of the array, the array, position of the chunk), if the key is that of a chunk."""
        names = key.split("/")
        for depth in range(len(names)):
            prefix = "/".join(names[:depth])
            array = self._array(prefix)
            if array is not None:
                position = _position(names[depth:], array.ndim)
                if position is None or any(i >= n for i, n in zip(position, array.grid, strict=True)):
                    return None
                return prefix, array, position
        return None

    def _form(self, prefix: str) -> _Form:
        return self._forms.get(prefix) or _Form(tuple(_PLAIN), _KEYS)

    # --- reading

    def _read(self, key: str) -> bytes | None:
        prefix, _, last = key.rpartition("/")
        if last == ZARR:
            document = self._document(prefix)
            return None if document is None else json.dumps(document).encode()
        place = self._split(key)
        if place is None:
            return None
        path, array, position = place
        block = array.read_block(position)
        if block is None:
            return None
        if not isinstance(block, np.ndarray):
            raise UnsupportedError("a block that is not in default mode cannot be a chunk of numbers", key=key)
        whole = block
        if block.shape != array.chunks:
            whole = np.zeros(array.chunks, array.dtype)
            whole[tuple(slice(n) for n in block.shape)] = block
        return self._form(path).encode(whole)

    def _document(self, prefix: str) -> dict[str, Any] | None:
        # Read again, since others may have changed it.
        self._arrays.pop(prefix, None)
        array = self._array(prefix)
        if array is not None:
            # Strings and objects are nothing that zarr-python could show.
            return self._array_document(prefix, array) if array.metadata.numeric else None
        group = N5Group(self._objects, read_document(self._objects), read_only=True)
        document = group._document(prefix) if prefix else group.get_attribute("/")
        if not prefix and not document and not self._objects.exists("attributes.json"):
            folders, _ = self._objects.list_dir()
            if not folders:
                return None
        return None if document is None else group_document(document)

    def _array_document(self, prefix: str, array: N5Array) -> dict[str, Any]:
        form = self._form(prefix)
        document = array.get_attribute("/")
        plain = array.dtype.itemsize == 1 and prefix not in self._forms
        names = dimension_names(document, array.ndim)
        return zarr_array(
            array.shape,
            array.chunks,
            array.data_type,
            form.keys,
            [{"name": "bytes"}] if plain else form.codecs,
            None if names is None else names[::-1],
            user_attributes(document),
        )

    # --- writing

    def _write(self, key: str, data: bytes) -> None:
        prefix, _, last = key.rpartition("/")
        if last == ZARR:
            self._write_document(prefix, parse(data, key))
            return
        place = self._split(key)
        if place is None:
            raise UnsupportedError("an N5 container holds groups and blocks only", key=key)
        path, array, position = place
        values = self._form(path).decode(data, array.chunks, array.dtype)
        visible = array._layout.visible_shape(position)
        array.write_block(position, values[tuple(slice(n) for n in visible)])

    def _write_document(self, prefix: str, document: dict[str, Any]) -> None:
        store = self._objects.child(prefix) if prefix else self._objects
        attributes = document.get("attributes") or {}
        taken = sorted(RESERVED & attributes.keys())
        if taken:
            raise MetadataError(f"{', '.join(map(repr, taken))} belong to N5 and cannot be attributes", key=prefix)
        root = self._objects.exists("attributes.json")
        if not root and prefix:
            create_group(self._objects)
        if document.get("node_type") == "group":
            if is_dataset(read_document(store)):
                raise UnsupportedError("an array cannot become a group", key=prefix)
            if not store.exists("attributes.json"):
                create_group(store, member=bool(prefix))
        else:
            self._write_array(prefix, store, document)
            names = document.get("dimension_names")
            if names and all(isinstance(name, str) for name in names):
                attributes = {**attributes, "axes": list(names)[::-1]}

        def change(present: dict[str, Any]) -> dict[str, Any]:
            return {**{name: value for name, value in present.items() if name in RESERVED}, **attributes}

        change_document(store, change)
        self._arrays.pop(prefix, None)

    def _write_array(self, prefix: str, store: Objects, document: dict[str, Any]) -> None:
        shape, chunks, form, codec = _understood(document, f"{prefix}/{ZARR}")
        array = self._array(prefix)
        if array is not None:
            same = (array.chunks, array.data_type) == (chunks, document["data_type"])
            if not same or form.codecs not in (self._form(prefix).codecs, ({"name": "bytes"},)):
                raise UnsupportedError("chunks, data type and codecs of an array cannot be changed", key=prefix)
            if array.shape != shape:
                array.resize(shape, keep_blocks=True)
            return
        create_dataset(
            store, shape=shape, dtype=document["data_type"], chunks=chunks, codec=codec, order="C", member=bool(prefix)
        )
        self._forms[prefix] = form

    def _remove(self, key: str) -> None:
        prefix, _, last = key.rpartition("/")
        if last == ZARR:
            self._objects.delete(f"{prefix}/attributes.json" if prefix else "attributes.json")
            self._forms.pop(prefix, None)
            self._arrays.pop(prefix, None)
            return
        place = self._split(key)
        if place is not None:
            place[1].delete_block(place[2])

    def _remove_folder(self, prefix: str) -> None:
        prefix = prefix.rstrip("/")
        for known in (self._forms, self._arrays):
            for path in list(known):
                if path == prefix or not prefix or path.startswith(prefix + "/"):
                    known.pop(path)
        self._objects.delete_prefix(prefix)

    # --- listing

    def _keys(self, prefix: str) -> list[str]:
        """All keys that begin with a prefix, which need not be a folder's name."""
        found: list[str] = []
        if self._document("") is not None:
            self._keys_below("", found)
        return [key for key in found if key.startswith(prefix)]

    def _keys_below(self, prefix: str, found: list[str]) -> None:
        array = self._array(prefix)
        if array is not None and not array.metadata.numeric:
            return
        found.append(f"{prefix}/{ZARR}" if prefix else ZARR)
        start = f"{prefix}/" if prefix else ""
        if array is None:
            for name in self._objects.list_dir(prefix)[0]:
                self._keys_below(f"{start}{name}", found)
            return
        keys = self._form(prefix).keys
        found += [start + _chunk_key(keys, position) for position in array.blocks()]

    def _names(self, prefix: str) -> list[str]:
        prefix = prefix.rstrip("/")
        names = [ZARR] if self._document(prefix) is not None else []
        start = f"{prefix}/" if prefix else ""
        if names and self._array(prefix) is None:
            members = [(name, self._array(start + name)) for name in self._objects.list_dir(prefix)[0]]
            return [*names, *(name for name, array in members if array is None or array.metadata.numeric)]
        below = {key[len(start) :].split("/")[0] for key in self._keys(start)}
        return sorted({*names, *below})

    # --- zarr-python's interface

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        await self._ensure_open()
        data = await asyncio.to_thread(self._read, key)
        if data is None:
            return None
        made = prototype or default_buffer_prototype()
        return made.buffer.from_bytes(data[_slice(byte_range, len(data))])

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        return list(await asyncio.gather(*[self.get(key, prototype, one) for key, one in key_ranges]))

    async def exists(self, key: str) -> bool:
        await self._ensure_open()
        return await asyncio.to_thread(self._exists, key)

    def _exists(self, key: str) -> bool:
        prefix, _, last = key.rpartition("/")
        if last == ZARR:
            return self._document(prefix) is not None
        place = self._split(key)
        return place is not None and place[1].block_exists(place[2])

    async def set(self, key: str, value: Buffer) -> None:
        self._check_writable()
        await self._ensure_open()
        await asyncio.to_thread(self._write, key, value.to_bytes())

    async def delete(self, key: str) -> None:
        self._check_writable()
        await self._ensure_open()
        await asyncio.to_thread(self._remove, key)

    async def delete_dir(self, prefix: str) -> None:
        self._check_writable()
        await self._ensure_open()
        await asyncio.to_thread(self._remove_folder, prefix)

    async def clear(self) -> None:
        await self.delete_dir("")

    async def list(self) -> AsyncIterator[str]:
        async for key in self.list_prefix(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        await self._ensure_open()
        for key in await asyncio.to_thread(self._keys, prefix):
            yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        await self._ensure_open()
        for name in await asyncio.to_thread(self._names, prefix):
            yield name


def _reopened(objects: Objects, read_only: bool, forms: dict[str, _Form]) -> ZarrStore:
    store = ZarrStore(objects, read_only=read_only)
    store._forms.update(forms)
    return store


def _slice(byte_range: ByteRequest | None, size: int) -> slice:
    if byte_range is None:
        return slice(None)
    if isinstance(byte_range, RangeByteRequest):
        return slice(byte_range.start, byte_range.end)
    if isinstance(byte_range, OffsetByteRequest):
        return slice(byte_range.offset, None)
    if isinstance(byte_range, SuffixByteRequest):
        return slice(max(0, size - byte_range.suffix), None)
    raise TypeError(f"not a byte range: {byte_range!r}")


def _position(names: list[str], ndim: int) -> tuple[int, ...] | None:
    """The position that a chunk's key names, in either of Zarr's encodings."""
    parts = [part for name in names for part in name.split(".")]
    if parts and parts[0] == "c":
        parts = parts[1:]
    elif ndim == 0 and parts == ["0"]:
        parts = []
    if len(parts) != ndim or not all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts):
        return None
    return tuple(map(int, parts))


def _chunk_key(keys: dict[str, Any], position: tuple[int, ...]) -> str:
    default = keys.get("name") == "default"
    separator = keys.get("configuration", {}).get("separator", "/" if default else ".")
    numbers = [str(i) for i in position]
    if default:
        return str(separator.join(["c", *numbers]))
    return str(separator.join(numbers)) or "0"


def _understood(
    document: dict[str, Any], where: str
) -> tuple[tuple[int, ...], tuple[int, ...], _Form, dict[str, Any] | Any]:
    """(shape, chunk shape, form, N5's compression) of a zarr.json that zarr-python wants to write."""

    def refuse(what: str, found: Any) -> UnsupportedError:
        return UnsupportedError(f"N5 cannot hold this array: {what}", key=where, found=repr(found))

    if document.get("data_type") not in NUMERIC:
        raise refuse("its data type is none of N5's", document.get("data_type"))
    if document.get("fill_value") not in (0, None):
        raise refuse("what is not stored is 0 in N5", document.get("fill_value"))
    grid = document.get("chunk_grid", {})
    if grid.get("name") != "regular":
        raise refuse("its chunk grid is not regular", grid)
    codecs = tuple(document.get("codecs", ()))
    names = [_name(one) for one in codecs]
    if names.count("bytes") != 1 or names.index("bytes") != names.count("transpose") or len(codecs) > 3:
        raise refuse("N5 has one compression and nothing else", names)
    form = _Form(codecs, document.get("chunk_key_encoding", _KEYS))
    if len(form.compressors) > 1:
        raise refuse("N5 has one compression and nothing else", names)
    dtype = NUMERIC[document["data_type"]]
    codec: Any = None
    if form.compressors:
        made = zvcore.codecs.from_zarr3(form.compressors[0], where=where).for_dtype(dtype)
        if made.name == "lz4":
            # Other programs' lz4 has a different framing; N5's is Java's.
            made = zvcore.codecs.get("lz4", block_size=65536)
        made.to_n5()
        codec = zvcore.codecs.get(made.name, **made.config())
    CodecChain([] if codec is None else [codec])
    chunks = grid.get("configuration", {}).get("chunk_shape")
    return tuple(document["shape"]), tuple(chunks), form, codec
