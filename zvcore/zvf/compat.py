"""The names, arguments, results and exceptions of the `zarr-vectors` package, over zvcore's own functions.

    from zvcore.zvf.compat import decode_object_manifest_blocks, read_object_vertices, shard_store

Where `zarr-vectors` is installed, the exceptions are subclasses of its own. Functions that take a level take its group
objects as well as those of zvcore.
"""

from __future__ import annotations

import functools
import importlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from zvcore.errors import CorruptDataError, NotFoundError, ZvcoreError
from zvcore.errors import MetadataError as ZvMetadataError
from zvcore.zvf import fragments, manifests, repacking, validation, vector_store, writing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
from zvcore.zvf.cells import open_cells as cells_of

Ints = npt.NDArray[np.int64]
P = ParamSpec("P")
T = TypeVar("T")

_reference: Any
try:
    _reference = importlib.import_module("zarr_vectors.exceptions")
except ImportError:
    _reference = None


def _exception(name: str, *bases: type[Exception]) -> type[ZvcoreError]:
    """An exception of zvcore that is also the one of that name of zarr-vectors, if that is installed."""
    theirs = getattr(_reference, name, None)
    parents = [*bases, *([theirs] if theirs is not None else [])]
    return type(name, tuple(parents), {"__module__": __name__, "__str__": ZvcoreError.__str__})


ZVError = _exception("ZVError", ZvcoreError)
StoreError = _exception("StoreError", ZVError)
ArrayError = _exception("ArrayError", ZVError, ValueError)
MetadataError = _exception("MetadataError", ZVError, ValueError)

__all__ = [
    "ArrayError",
    "MetadataError",
    "StoreError",
    "ZVError",
    "decode_fragments",
    "decode_object_manifest_blocks",
    "decode_object_manifests_csr",
    "decode_object_manifests_many",
    "encode_fragments",
    "encode_object_manifest_blocks",
    "encode_object_manifests_csr",
    "encode_object_manifests_many",
    "expand_manifest_blocks",
    "get_shard_info",
    "is_sharded",
    "read_all_object_manifests",
    "read_all_object_manifests_csr",
    "read_fragment_index",
    "read_object_id_table",
    "read_object_manifest",
    "read_object_manifests",
    "read_object_vertices",
    "read_points",
    "read_polylines",
    "reshard",
    "shard_store",
    "unshard_store",
    "validate",
    "write_points",
    "write_polylines",
]


@contextmanager
def _translated() -> Iterator[None]:
    """Turns errors of zvcore into those that callers of zarr-vectors expect, with the same texts and places."""
    try:
        yield
    except ZvcoreError as error:
        if isinstance(error, ZVError):
            raise
        kind = ArrayError
        if isinstance(error, NotFoundError):
            kind = ArrayError if isinstance(error, manifests.ObjectNotFoundError) else StoreError
        elif isinstance(error, ZvMetadataError):
            kind = MetadataError
        elif not isinstance(error, CorruptDataError):
            kind = StoreError
        where = {name: getattr(error, name) for name in ZvcoreError._fields}
        raise kind(error.message, **where) from error


def _as_reference(function: Callable[P, T]) -> Callable[P, T]:
    """A function whose errors are those of zarr-vectors."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        with _translated():
            return function(*args, **kwargs)

    return wrapped


def _encoding(function: Callable[P, T]) -> Callable[P, T]:
    """A function for which wrong arguments are an ArrayError, as every error is in the reference."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except ZvcoreError:
            raise
        except ValueError as error:
            raise ArrayError(str(error)) from error

    return _as_reference(wrapped)


# --- encoding -------------------------------------------------------------------------------------------------------


@_encoding
def encode_object_manifest_blocks(blocks: Sequence[Any], sid_ndim: int, *, force_explicit: bool = False) -> bytes:
    return manifests.encode_manifest(blocks, sid_ndim, force_explicit)


@_encoding
def encode_object_manifests_many(many: Sequence[Sequence[Any]], sid_ndim: int) -> list[bytes]:
    return manifests.encode_manifests(many, sid_ndim)


@_encoding
def encode_object_manifests_csr(
    chunk_coords: Any, fragment_idx: Any, manifest_offsets: Any = None, *, sid_ndim: int | None = None
) -> npt.NDArray[np.object_]:
    coords = np.asarray(chunk_coords, np.int64)
    pieces = np.asarray(fragment_idx, np.int64)
    if coords.ndim != 2 or (sid_ndim is not None and coords.shape[1] != sid_ndim):
        raise ValueError(f"chunk_coords of shape {coords.shape} have another rank than sid_ndim={sid_ndim}")
    offsets = np.arange(len(pieces) + 1) if manifest_offsets is None else manifest_offsets
    blobs = manifests.encode_manifests(manifests.ManifestTable.from_csr(offsets, coords, pieces))
    result = np.empty(len(blobs), object)
    result[:] = blobs
    return result


@_as_reference
def decode_object_manifest_blocks(raw: Any, sid_ndim: int) -> list[manifests.Block]:
    return manifests.decode_manifest(raw, sid_ndim)


@_as_reference
def decode_object_manifests_many(blobs: Sequence[Any], sid_ndim: int) -> tuple[list[list[manifests.Block]], bool]:
    """(lists, whether every block is a single fragment)"""
    table = manifests.decode_manifests(blobs, sid_ndim)
    if table.absent.any():
        raise CorruptDataError("Manifest blob too short: 0 < 4", chunk=f"manifest {int(np.argmax(table.absent))}")
    return table.to_lists(), table.uniform


@_as_reference
def decode_object_manifests_csr(blobs: Sequence[Any], sid_ndim: int) -> tuple[Ints, Ints, Ints]:
    """(offsets, chunk_coords, fragment_idx); a blob without bytes is an empty manifest."""
    return manifests.decode_manifests(blobs, sid_ndim).to_csr()[:3]


@_as_reference
def expand_manifest_blocks(blocks: Sequence[Any]) -> list[tuple[tuple[int, ...], int]]:
    return manifests.expand_manifest(blocks)


@_encoding
def encode_fragments(pieces: Sequence[Any], *, force_explicit: bool = False) -> bytes:
    return fragments.encode_fragments(pieces, force_explicit)


@_as_reference
def decode_fragments(raw: Any) -> fragments.FragmentIndex:
    return fragments.decode_fragments(raw)


# --- reading --------------------------------------------------------------------------------------------------------


def as_level(level_group: Any) -> vector_store.Level:
    """zvcore's level for a level of zvcore or a level group of zarr-vectors."""
    if isinstance(level_group, vector_store.Level):
        return level_group
    url = getattr(level_group, "url", None)
    if not isinstance(url, str) or "/" not in url:
        raise TypeError(f"a level of a store, not {type(level_group).__name__}")
    path, _, number = url.rstrip("/").rpartition("/")
    if not number.isdecimal():
        raise TypeError(f"{url} is no level of a store")
    return vector_store.open(path).level(int(number))


@_as_reference
def read_fragment_index(level_group: Any, array_name: str, chunk_coords: Sequence[int]) -> fragments.FragmentIndex:
    level = as_level(level_group)
    cells = level.fragments if array_name == "vertex_fragments" else cells_of(
        level.store, f"{level.path}/{array_name}", level.grid_ndim
    )  # fmt: skip
    return fragments.decode_fragments(cells.read_one(tuple(chunk_coords)) or b"")


@_as_reference
def read_object_id_table(level_group: Any) -> Ints:
    return as_level(level_group).object_ids()


@_as_reference
def read_object_manifest(level_group: Any, object_id: int) -> list[tuple[tuple[int, ...], int]]:
    return manifests.expand_manifest(as_level(level_group).manifest(int(object_id)))


@_as_reference
def read_all_object_manifests(level_group: Any) -> list[list[tuple[tuple[int, ...], int]]]:
    """By row, not by id."""
    return as_level(level_group).manifests().to_fragments()


@_as_reference
def read_all_object_manifests_csr(level_group: Any) -> manifests.ManifestCSR:
    return as_level(level_group).manifests().to_csr()


@_as_reference
def read_object_manifests(
    level_group: Any, *, ids: Sequence[int] | None = None
) -> dict[int, list[tuple[tuple[int, ...], int]]]:
    """By id; those that are not there are left out."""
    objects = as_level(level_group).require_objects()
    rows = np.arange(len(objects)) if ids is None else objects.rows(np.asarray(ids, np.int64))
    table = objects.table(rows[rows >= 0])
    return dict(zip(table.object_ids.tolist(), table.to_fragments(), strict=True))


@_as_reference
def read_object_vertices(level_group: Any, object_id: int, dtype: Any = None, ndim: Any = None) -> list[Any]:
    """A list of one array per fragment. `dtype` and `ndim` are what the store says they are, whatever is given."""
    found: list[Any] = as_level(level_group).read_object(int(object_id), per_fragment=True)
    return found


@_as_reference
def read_points(
    path: Any, *, level: int = 0, bbox: Any = None, object_ids: Any = None, attribute_names: Sequence[str] | None = None
) -> dict[str, Any]:
    """Positions, their attributes and, where points belong to objects, the object of each."""
    at = (path if isinstance(path, vector_store.VectorStore) else vector_store.open(path)).level(level)
    names = list(attribute_names or ())
    if object_ids is not None:
        present = at.require_objects().rows(np.asarray(object_ids, np.int64)) >= 0
        found = at.read_objects(np.asarray(object_ids, np.int64)[present], names)
    elif bbox is not None:
        found = at.read_bbox(bbox[0], bbox[1], attributes=names)
    else:
        found = at.read(names)
    result = {
        "positions": found.positions, "vertex_attributes": found.attributes, "vertex_count": len(found.positions)
    }  # fmt: skip
    if found.object_ids is not None:
        result["object_ids"] = np.repeat(found.object_ids, np.diff(found.offsets))
    return result


@_as_reference
def read_polylines(path: Any, *, level: int = 0, object_ids: Any = None, bbox: Any = None) -> dict[str, Any]:
    """Lines as lists of one array each; absent ids and empty manifests are left out."""
    at = (path if isinstance(path, vector_store.VectorStore) else vector_store.open(path)).level(level)
    names = at.attribute_names()
    if object_ids is not None:
        wanted = np.asarray(object_ids, np.int64)
        found = at.read_objects(wanted[at.require_objects().rows(wanted) >= 0], names)
    elif bbox is not None:
        found = at.read_bbox(bbox[0], bbox[1], attributes=names)
    else:
        found = at.read(names)
    rows = np.flatnonzero(np.diff(found.offsets))
    return {
        "polylines": [[found[row]] for row in rows.tolist()],
        "object_ids": [] if found.object_ids is None else found.object_ids[rows].tolist(),
        "vertex_attributes": found.attributes,
        "ndim": at.ndim,
        "polyline_count": len(rows),
        "vertex_count": len(found.positions),
    }


# --- stores ---------------------------------------------------------------------------------------------------------

shard_store = _as_reference(repacking.shard_store)
unshard_store = _as_reference(repacking.unshard_store)
reshard = _as_reference(repacking.reshard)
is_sharded = repacking.is_sharded
get_shard_info = _as_reference(repacking.get_shard_info)
validate = validation.validate
write_points = _encoding(writing.write_points)
write_polylines = _encoding(writing.write_polylines)
