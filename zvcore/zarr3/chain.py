"""The codecs of an array, sorted into what the engine needs: axes, byte order, shards, and chains of bytes codecs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

import zvcore.codecs
from zvcore.cached import cached_property
from zvcore.codecs import CodecChain
from zvcore.codecs.filters import plainly_filtered
from zvcore.codecs.unfit import check_of_values
from zvcore.documents import shown
from zvcore.documents.members import Anything, Integer, Items, Member, Place, Table, named
from zvcore.errors import CodecNotFoundError, UnsupportedError
from zvcore.zarr3.shard_index import ENDIAN, INDEX, ShardIndexForm

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zvcore.codecs import Codec
    from zvcore.zarr3.dtypes import DataType
    from zvcore.zarr3.shard_levels import ShardLevel

__all__ = ["SHARDING", "Pipeline", "Sharding", "order_of", "parse_codecs"]


# The configuration of `sharding_indexed`.
SHARDING = Table(
    Member("chunk_shape", Items(Integer(1))),
    Member("codecs", Items(Anything("a codec", "codecs"), least=1)),
    *INDEX.members,
)


@dataclass(frozen=True)
class Sharding:
    """One level of shards: what a chunk of the level above is cut into. Shapes are in that level's own axes."""

    chunk_shape: tuple[int, ...]
    index: ShardIndexForm
    inner: Pipeline


@dataclass(frozen=True)
class Pipeline:
    """The codecs of one level, from an array of `shape` to bytes.

    axes        axis i of the encoded array is axis axes[i] of the one that comes in
    filters     array-to-array codecs after the transposition
    endian      byte order of the items; None where they have none
    serializer  the array-to-bytes codec as metadata have it, where it is one that only Python can run
    sharding    set when this level's array-to-bytes codec is `sharding_indexed`
    compressors the bytes-to-bytes codecs as metadata have them
    unnamed     codecs of bytes in front of them, for which metadata have no words
    """

    shape: tuple[int, ...]
    data_type: DataType
    axes: tuple[int, ...]
    filters: tuple[Mapping[str, Any], ...] = ()
    endian: str | None = None
    serializer: Mapping[str, Any] | None = None
    sharding: Sharding | None = None
    compressors: tuple[Any, ...] = ()
    unnamed: tuple[Codec, ...] = ()
    where: str = field(default="", compare=False)

    @cached_property
    def chain(self) -> CodecChain:
        """The bytes-to-bytes codecs, made when they are first needed: opening an array needs none of them."""
        named = [zvcore.codecs.from_zarr3(one, where=self.where) for one in self.compressors]
        return CodecChain([*self.unnamed, *named])

    @cached_property
    def _filters_as_bytes(self) -> tuple[Codec, ...] | None:
        """The filters as codecs of bytes; None where only Python can run one of them."""
        if not self.filters:
            return ()
        if self.serializer is not None or any(named(one, Place(self.where))[0] == "transpose" for one in self.filters):
            return None
        made: list[Any] = [zvcore.codecs.from_zarr3(one, where=self.where) for one in self.filters]
        dtype = self.data_type.dtype
        if self.data_type.kind != "fixed" or self.swapped or not np.little_endian:
            return None
        if plainly_filtered(made, dtype) is None:
            return None
        found: list[Codec] = []
        for one in made:
            as_bytes = one.as_bytes(dtype)
            # Only values that are assigned are looked at elsewhere.
            if as_bytes is None or (found and check_of_values(one, dtype) is not None):
                return None
            found.append(as_bytes)
            dtype = one.encoded_form(dtype, (1,))[0]
        return tuple(found)

    @property
    def first_filter(self) -> Codec | None:
        """The first filter that is not `transpose`, which only moves items."""
        moved = [one for one in self.filters if named(one, Place(self.where))[0] != "transpose"]
        return zvcore.codecs.from_zarr3(moved[0], where=self.where) if moved else None

    @property
    def filtered_in_python(self) -> bool:
        """Whether there are filters, or a serializer, that only Python can run."""
        return self.serializer is not None or self._filters_as_bytes is None

    @cached_property
    def levels(self) -> tuple[list[ShardLevel], tuple[int, ...], tuple[int, ...]]:
        """What `levels_of` says of the shards."""
        from zvcore.zarr3.shard_levels import levels_of

        return levels_of(self)

    @cached_property
    def chunk_chain(self) -> CodecChain:
        """All codecs of bytes of a chunk, with the filters that can be done to bytes."""
        filters = self._filters_as_bytes
        return CodecChain((*filters, *self.chain.codecs)) if filters else self.chain

    @property
    def swapped(self) -> bool:
        native = "little" if np.little_endian else "big"
        return self.endian is not None and self.endian != native

    @property
    def innermost(self) -> Pipeline:
        return self if self.sharding is None else self.sharding.inner.innermost

    def __getstate__(self) -> dict[str, Any]:
        made = ("chain", "chunk_chain", "levels", "_filters_as_bytes")
        return {name: value for name, value in vars(self).items() if name not in made}


def parse_codecs(codecs: Any, shape: tuple[int, ...], data_type: DataType, place: Place, depth: int = 0) -> Pipeline:
    """Sort the `codecs` of an array whose chunks (or inner chunks) have this shape. `place` is where they stand."""
    if not isinstance(codecs, list) or not codecs:
        raise place.wrong("a list of codecs that is not empty", codecs)
    if depth > 8:
        raise _unsupported(place, "shards nested more than eight deep")
    axes = tuple(range(len(shape)))
    filters: list[Mapping[str, Any]] = []
    number = 0
    while number < len(codecs):
        here = place.item(number)
        name, configuration, at = named(codecs[number], here)
        if name == "transpose" and filters:
            filters.append(codecs[number])
        elif name == "transpose":
            axes = tuple(axes[i] for i in order_of(configuration.get("order"), len(shape), at.member("order")))
        elif _is_filter(name, codecs[number], here):
            filters.append(codecs[number])
        else:
            break
        number += 1
    else:
        raise place.error("there is no array-to-bytes codec")
    inner_shape = tuple(shape[axis] for axis in axes)
    parts: dict[str, Any] = {}
    if name in ("bytes", "endian"):
        parts["endian"] = _endian(configuration, data_type, bool(filters), at.member("endian"))
    elif name == "sharding_indexed":
        if filters:
            raise _unsupported(here, "shards behind a filter that only Python can run")
        parts["sharding"] = _sharding(configuration, inner_shape, data_type, at, depth)
    elif name in ("vlen-utf8", "vlen-bytes"):
        if data_type.kind != ("text" if name == "vlen-utf8" else "bytes"):
            raise here.error(f"{name} cannot hold this data type", found=shown(data_type.json))
    else:
        # A codec that no plugin provides may be a filter: the error names it.
        codec = zvcore.codecs.from_zarr3(codecs[number], where=place.key)
        if not getattr(codec, "makes_bytes_of_numbers", False) or data_type.kind != "fixed":
            raise _unsupported(here, f"array-to-bytes codec {name!r}")
        parts["serializer"] = codecs[number]
    if data_type.kind != "fixed" and name in ("bytes", "endian"):
        raise here.error("the bytes codec cannot hold items of any length", found=shown(data_type.json))
    compressors = tuple(codecs[number + 1 :])
    for behind, one in enumerate(compressors, number + 1):
        other, _, _ = named(one, place.item(behind))
        if other in ("bytes", "endian", "sharding_indexed", "vlen-utf8", "vlen-bytes", "transpose"):
            raise place.item(behind).error(f"{other} cannot stand behind {name}")
    return Pipeline(shape, data_type, axes, tuple(filters), compressors=compressors, where=place.key or "", **parts)


def _unsupported(place: Place, what: str) -> UnsupportedError:
    return UnsupportedError(what, key=place.key, member=place.path)


def order_of(order: Any, ndim: int, place: Place) -> tuple[int, ...]:
    if order == "C":
        return tuple(range(ndim))
    if order == "F":
        return tuple(reversed(range(ndim)))
    if not isinstance(order, list) or sorted(map(str, order)) != sorted(map(str, range(ndim))):
        raise place.wrong(f"a permutation of the {ndim} axes", order)
    return tuple(int(i) for i in order)


def _endian(configuration: Mapping[str, Any], data_type: DataType, filtered: bool, place: Place) -> str | None:
    endian = configuration.get("endian")
    if endian is None:
        # Of what filters make, items need not have several bytes.
        if data_type.has_order and not data_type.fields and not filtered:
            raise place.wrong("'little' or 'big' for items of several bytes", endian)
        # Records of older documents do not say it.
        return "little" if data_type.has_order or filtered else None
    found: str = ENDIAN.load(endian, place)
    # Filters may make larger items of small ones.
    return found if data_type.has_order or filtered else None


def _sharding(
    configuration: Mapping[str, Any], shape: tuple[int, ...], data_type: DataType, place: Place, depth: int
) -> Sharding:
    found = SHARDING.load(configuration, place)
    chunk_shape = found["chunk_shape"]
    at = place.member("chunk_shape")
    if len(chunk_shape) != len(shape):
        raise at.error("another rank than the shard", expected=len(shape), found=shown(chunk_shape))
    if any(outer % inner for outer, inner in zip(shape, chunk_shape, strict=True)):
        raise at.error("the inner chunks must divide the shard", expected=shape, found=chunk_shape)
    counts = tuple(outer // inner for outer, inner in zip(shape, chunk_shape, strict=True))
    index = ShardIndexForm.from_json(configuration, counts, place)
    inner = parse_codecs(list(found["codecs"]), chunk_shape, data_type, place.member("codecs"), depth + 1)
    return Sharding(chunk_shape, index, inner)


def _is_filter(name: str, codec: Any, place: Place) -> bool:
    """Whether a codec that is none of the known array-to-bytes ones turns arrays into arrays."""
    if name in ("bytes", "endian", "sharding_indexed", "vlen-utf8", "vlen-bytes"):
        return False
    try:
        return zvcore.codecs.from_zarr3(codec, where=place.key).kind == "array"
    except CodecNotFoundError:
        return False
