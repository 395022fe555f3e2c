"""What the destination of a conversion is like: chunks, shards and codecs, asked for or as the source has them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import zvcore.codecs
from zvcore.converting.steps import grow
from zvcore.errors import MetadataError, UnsupportedError, ZvcoreError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zvcore.array import Array
    from zvcore.codecs.base import Codec
    from zvcore.converting.view import View

__all__ = ["Wishes", "creation_options", "smaller_sharding"]

# Zarr shards when nobody says how large they shall be: about what Neuroglancer's are.
_SHARD_BYTES = 256 << 20
_DEFAULT_CODEC = "zstd"
# What every reader of a format knows; other codecs are only taken over when they are asked for.
_COMMON = {
    "zarr3": ("gzip", "zstd", "blosc"),
    "n5": ("gzip", "zstd", "blosc", "bzip2", "xz", "lz4"),
    "precomputed": ("gzip", "raw"),
}


@dataclass
class Wishes:
    """What the caller of a conversion asks of the destination; None: as the source has it."""

    format: str
    chunks: tuple[int, ...] | None = None
    shards: tuple[int, ...] | bool | None = None
    codec: Any = None
    sharding: Any = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def effort(self) -> bool:
        """Whether the parameters of the codec were asked for, and not only its name."""
        return self.codec is not None and not isinstance(self.codec, str)


def creation_options(view: View, wishes: Wishes) -> dict[str, Any]:
    """The arguments of `zvcore.create` for what a view becomes, apart from attributes."""
    source = view.array
    format = wishes.format
    chunks = _chunks(view, wishes)
    options: dict[str, Any] = {"shape": view.shape, "dtype": view.value_dtype, "chunks": chunks}
    if format == "zarr3":
        options["fill_value"] = _fill(view)
    elif format == "precomputed":
        options.update(_encoding(view, wishes))
    options.update(_codec_options(view, wishes, options))
    options.update(_shard_options(view, wishes, chunks))
    specified = wishes.sharding not in (None, "advise")
    if format == "precomputed" and wishes.codec is None and (specified or not options.keys() & {"shards", "sharding"}):
        # Only what lies in shards is compressed once more, and a specification says itself how.
        options.pop("codec", None)
    options.update(wishes.options)
    if format == "n5" and source.dtype.kind == "b" and view.dtype is None:
        raise UnsupportedError("N5 has no booleans; convert with dtype='uint8'", key=source.layout.store.root)
    return options


def _chunks(view: View, wishes: Wishes) -> tuple[int, ...]:
    shape = view.shape
    if wishes.chunks is not None:
        given = tuple(int(n) for n in wishes.chunks)
        if wishes.format == "precomputed" and len(given) == 3:
            given = (*given, shape[3])
        if len(given) != len(shape) or any(n < 1 for n in given):
            raise MetadataError(
                "chunks has a positive length for each axis of the destination",
                expected=f"{len(shape)} axes of {shape}", found=given,
            )  # fmt: skip
        return given
    chunks = [1 if axis is None else view.array.chunks[axis] for axis in view.axes]
    if wishes.format == "precomputed":
        chunks[3] = shape[3]
    return tuple(max(1, n) for n in chunks)


def _fill(view: View) -> Any:
    fill = view.array.fill_value
    if view.dtype is None or view.dtype == view.array.dtype:
        return fill
    try:
        cast = view.dtype.type(fill)
        return cast if cast == fill else view.dtype.type(0)
    except (OverflowError, ValueError, TypeError):
        return view.dtype.type(0)


def _codec_options(view: View, wishes: Wishes, options: Mapping[str, Any]) -> dict[str, Any]:
    source = view.array
    own = _codecs_of(source)
    if wishes.codec is not None:
        asked = wishes.codec
        if isinstance(asked, str):
            # Named without parameters: the source's own, if it has such a codec, so that its chunks can stay.
            same = [codec for codec in own if codec.name == asked]
            if len(same) == 1 and len(own) == 1 and view.dtype is None and _spelled(same[0], wishes.format):
                asked = same[0]
        elif isinstance(asked, list | tuple) and not asked:
            asked = "raw"
        return {"codec": asked}
    if wishes.format == "precomputed":
        if source.format == "precomputed" and source.codec is not None:
            return {"codec": source.codec}
        return {}
    if source.format == wishes.format:
        if source.format != "zarr3":
            return {"codec": list(own)}
        return {"codec": list(own), **_pipeline_options(view)}
    if len(own) == 1 and own[0].name in _COMMON[wishes.format] and _spelled(own[0], wishes.format):
        return {"codec": own[0]}
    return {"codec": _DEFAULT_CODEC}


def _codecs_of(source: Array) -> list[Codec]:
    """The byte codecs of a source that compress; for chunk encodings of precomputed volumes, what follows them."""
    if source.format == "precomputed":
        codec = source.codec
        return [] if codec is None or codec.identity else [codec]
    return (
        [codec for codec in source.layout.chains[0].codecs if not codec.identity and codec.name != "crc32c"]
        if (source.format != "zarr3")
        else [codec for codec in source.layout.chains[0].codecs if not codec.identity]
    )


def _spelled(codec: Codec, format: str) -> bool:
    """Whether a format can name this codec so that others decode the same."""
    try:
        if format == "zarr3":
            spelled = codec.to_zarr3()
            name, read = spelled["name"], zvcore.codecs.from_zarr3(spelled)
            return name == codec.name and read.decodes_alike(codec)
        if format == "n5":
            return "framing" not in codec.to_n5() and zvcore.codecs.from_n5(codec.to_n5()).decodes_alike(codec)
        return zvcore.codecs.from_neuroglancer(codec.to_neuroglancer()).decodes_alike(codec)
    except ZvcoreError:
        return False


def _pipeline_options(view: View) -> dict[str, Any]:
    """From Zarr to Zarr: the order of axes in chunks, filters and byte order stay."""
    pipeline: Any = getattr(view.array.layout, "innermost", None) or view.array.layout.pipeline  # type: ignore[attr-defined]
    options: dict[str, Any] = {}
    kept = [axis for axis in view.axes if axis is not None]
    axes = [kept.index(axis) for axis in view.array.layout.form.axes if axis in kept]
    filters: list[Any] = []
    if axes != sorted(axes):
        filters.append({"name": "transpose", "configuration": {"order": axes}})
    if view.dtype is None:
        filters.extend(pipeline.filters)
        if pipeline.endian is not None:
            options["endian"] = pipeline.endian
    if filters:
        options["filters"] = filters
    return options


def _encoding(view: View, wishes: Wishes) -> dict[str, Any]:
    """The chunk encoding of a volume: that of the source if it is a volume too."""
    source = view.array
    if "encoding" in wishes.options or source.format != "precomputed" or view.dtype is not None:
        return {}
    return {"encoding": source.encoding}  # type: ignore[attr-defined]


def _shard_options(view: View, wishes: Wishes, chunks: tuple[int, ...]) -> dict[str, Any]:
    format = wishes.format
    if wishes.sharding is not None:
        if wishes.shards not in (None, False):
            raise TypeError("sharding= and shards= both say how shards are made; give one of them")
        if format == "precomputed":
            return {"sharding": wishes.sharding}
        if format == "zarr3" and wishes.sharding == "advise":
            return {"shards": advised_shards(view.shape, chunks, view.value_dtype.itemsize)}
        raise UnsupportedError(f"sharding={wishes.sharding!r} is not for {format}")
    if wishes.shards is False:
        return {}
    if wishes.shards not in (None, True):
        given = tuple(int(n) for n in wishes.shards)  # type: ignore[union-attr]
        if format == "n5":
            raise UnsupportedError("N5 has no shards")
        return {"shards": given}
    if wishes.shards is True:
        return (
            {"sharding": "advise"}
            if format == "precomputed"
            else {"shards": advised_shards(view.shape, chunks, view.value_dtype.itemsize)}
        )
    if format == "n5" or not view.array.layout.sharded:
        return {}
    own = view.array.shards
    if own is None:
        return (
            {"sharding": "advise"}
            if format == "precomputed"
            else {"shards": advised_shards(view.shape, chunks, view.value_dtype.itemsize)}
        )
    box = [1 if axis is None else own[axis] for axis in view.axes]
    shards = tuple(-(-max(a, b) // b) * b for a, b in zip(box, chunks, strict=True))
    if format == "zarr3":
        return {"shards": shards}
    same_grid = view.shape == view.array.shape and chunks == view.array.chunks
    if view.array.format == "precomputed" and view.axes == tuple(range(4)) and same_grid:
        return {"sharding": view.array.sharding}  # type: ignore[attr-defined]
    return {"sharding": "advise"}


def advised_shards(shape: Sequence[int], chunks: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Shards of at most about 256 MiB of values, and no larger than the array needs."""
    return grow(chunks, shape, itemsize, max(_SHARD_BYTES, math.prod(chunks) * itemsize))


def smaller_sharding(options: dict[str, Any]) -> dict[str, Any]:
    """Bits that suit the size of a coarser scale, in place of those of the finest."""
    if options.get("sharding") not in (None, "advise"):
        options = {**options, "sharding": "advise"}
    if options.get("shards") is not None:
        chunks = options["chunks"]
        grid = [-(-n // c) for n, c in zip(options["shape"], chunks, strict=True)]
        wanted = [
            min(s, 2 ** (g - 1).bit_length() * c) for s, g, c in zip(options["shards"], grid, chunks, strict=False)
        ]
        options = {**options, "shards": tuple(wanted)}
    return options
