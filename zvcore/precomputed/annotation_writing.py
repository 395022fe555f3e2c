"""Writing annotations: columns, or batches of them, into all indexes, in bounded memory."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore import kernels
from zvcore.documents import as_json
from zvcore.errors import ConflictError, CorruptDataError, MetadataError, UnsupportedError
from zvcore.precomputed.annotation_info import AnnotationInfo, Index
from zvcore.precomputed.annotation_levels import (
    Frame,
    Level,
    members_of,
    name_of,
    numbers_of,
    plan_levels,
    ranks,
)
from zvcore.precomputed.annotation_lists import IndexWriter
from zvcore.precomputed.annotation_schema import Schema
from zvcore.precomputed.annotation_source import batches_of, sliced
from zvcore.precomputed.annotation_spool import BLOCK, Spool
from zvcore.precomputed.kinds import ANNOTATIONS
from zvcore.precomputed.metadata import INFO, info_bytes, read_info
from zvcore.precomputed.replacing import put_own_info, refuse_another_kind
from zvcore.precomputed.sharded_store import as_spec
from zvcore.precomputed.sharding_spec import ShardingSpec, grid_bits
from zvcore.report import Report
from zvcore.stores import LocalStore, Store, open_store
from zvcore.stores.sole import sole_writer

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from zvcore.precomputed.annotation_records import Records
    from zvcore.precomputed.annotation_spool import Block

__all__ = ["what_is_there", "write_annotations"]

U64 = npt.NDArray[np.uint64]
F64 = npt.NDArray[np.float64]

_DEFAULT_MEMORY = 96 << 20
_DEFAULT_LIMIT = 5000
# With more annotations than that, files of their own are no longer a good idea.
_FILES_UP_TO = 1000
# Of how many of its smallest hashes the number of different ids is guessed.
_SAMPLE = 1024
# Smaller extents are not widened to whole numbers.
_LARGE_EXTENT = 16


def write_annotations(
    path: str | os.PathLike[str] | Store,
    kind: str,
    columns: Any,
    *,
    dimensions: Mapping[str, tuple[float, str]],
    ids: Any = None,
    properties: Mapping[str, Any] | None = None,
    relationships: Mapping[str, Any] | Iterable[str] = (),
    lower_bound: Sequence[float] | None = None,
    upper_bound: Sequence[float] | None = None,
    sharding: ShardingSpec | Mapping[str, Any] | str | None = "advise",
    limit: int = _DEFAULT_LIMIT,
    seed: int = 0,
    memory: int = _DEFAULT_MEMORY,
    threads: int | None = None,
    scratch: str | os.PathLike[str] | None = None,
    progress: bool | Callable[[int], Any] = False,
    attrs: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> Report:
    """Write annotations with their indexes: by id, by relationship, and by place on as many levels as it takes.

    kind           point, line, axis_aligned_bounding_box, ellipsoid or polyline
    columns        positions by their names ("point"; "point_a" and "point_b"; "center" and "radii"; "points", a list of
                   points for each polyline), and any other columns: "id", properties, relationships. A mapping, a
                   structured array, a table of pandas, pyarrow or polars, or an iterable of these, as many as there
                   are. Coordinates may have columns of their own: "x", "y", "z"; "x_a", "x_b", ...; "x_radius", ...
    dimensions     {"x": (4e-9, "m"), ...}: the unit of coordinates, in their order
    ids            of the annotations, from 0 on unless they are given
    properties     {name: values}, {name: (values, {"type": "uint8", "enum_labels": [...], ...})}, or for columns that
                   are there {name: {"type": ...}}; types that are not declared follow from the values
    relationships  {name: for each annotation a list of segments}, or names of columns
    sharding       "advise": shards if there are many; None: a file for each value; a specification for the indexes by
                   id and by relationship
    limit          how many annotations a cell of the spatial index holds; those that do not fit lie on finer levels
    seed           of the choice of annotations for each level; the bytes written depend on nothing else
    memory         what exceeds it goes through temporary files, in the folder `scratch`
    progress       True, or a function that is called with the number of annotations taken so far

    The report counts annotations and levels, and names what the format cannot hold.
    """
    if isinstance(limit, bool) or not isinstance(limit, Integral) or limit < 1:
        raise ValueError(f"limit is a number of annotations in a cell, at least 1, not {limit!r}")
    store = open_store(path, "w")
    what_is_there(store, overwrite)  # refused before anything is taken in
    report = Report()
    whole, batches = batches_of(_with(columns, ids, properties or {}, relationships))
    first = whole if whole is not None else next(batches, {})
    declared = {name: _declaration(value) for name, value in (properties or {}).items()}
    units = _units(dimensions)
    schema = Schema(kind, list(units), first, declared, relationships, report)
    if isinstance(store, LocalStore):
        store.make_folder()
        scratch = store.root if scratch is None else scratch
    folder = None if scratch is None else str(scratch)
    with Spool(memory // 8, folder) as spool:
        rest = batches if whole is not None or not first else chain([first], batches)
        facts = _take(spool, schema, rest, progress)
        bounds = _bounds(facts, lower_bound, upper_bound, len(units))
        frame = Frame.of(schema.form, list(units.values()), *bounds, seed)
        levels = plan_levels(frame, _Again(spool), int(limit), facts.count)
        info = _describe(schema, units, frame, levels, facts, sharding)
        document = {**dict(attrs or {}), **info.to_json()}
        # What the document cannot say is refused while all that is to be replaced is still there.
        info_bytes(document)
        manner = {"memory": memory // 2, "scratch": folder, "threads": threads}
        with sole_writer(store):
            for name in what_is_there(store, overwrite):
                store.delete_prefix(name) if name != INFO else store.delete(name)
            _write_indexes(store, info, frame, levels, spool, manner)
            put_own_info(store, document, None)
    schema.tell_losses()
    report.count("annotations", facts.count)
    report.count("levels", len(levels))
    return report


def _units(dimensions: Any) -> dict[str, tuple[float, str]]:
    """{name: (scale, unit)}, of at least one dimension: coordinates have as many."""
    try:
        units = {str(name): (float(scale), str(unit)) for name, (scale, unit) in dict(dimensions).items()}
    except (TypeError, ValueError):
        units = {}
    if not units or not all(0 < scale < float("inf") for scale, _ in units.values()):
        raise ValueError(
            "dimensions are {name: (scale, unit)}, at least one, with positive numbers as scales: "
            f"not {repr(dimensions)[:99]}"
        )
    return units


def what_is_there(store: Store, overwrite: bool) -> list[str]:
    """What lies here and is to be replaced; an error unless that is wanted."""
    found: dict[str, bool] = {}
    if store.exists(INFO):
        if not overwrite:
            raise ConflictError("there is an info already; overwrite=True replaces it", key=f"{store.root}/{INFO}")
        found[INFO] = True
        # What is broken is replaced as far as it is known.
        with contextlib.suppress(CorruptDataError, MetadataError, UnsupportedError):
            info = read_info(store)
            refuse_another_kind(info, (ANNOTATIONS,), f"{store.root}/{INFO}")
            found |= {index.folder: True for index in AnnotationInfo.from_json(info, INFO).indexes}
    folders = [name for name in store.list_dir()[0] if re.fullmatch("by_id|rel_.*|spatial[0-9]+", name)]
    if folders and not overwrite:
        raise ConflictError(
            "there are annotations already, of a set that was not finished; overwrite=True replaces them",
            key=f"{store.root}/{folders[0]}",
        )
    return [*found, *(name for name in folders if name not in found)]


# --- what is given


def _with(columns: Any, ids: Any, properties: Mapping[str, Any], relationships: Any) -> Any:
    """The columns with those that were given apart from them."""
    extra: dict[str, Any] = {} if ids is None else {"id": np.asarray(ids)}
    extra |= {name: values for name, value in properties.items() if (values := _values_of(value)) is not None}
    if isinstance(relationships, Mapping):
        extra |= relationships
    if not extra:
        return columns
    whole, _ = batches_of(columns)
    if whole is None:
        raise TypeError("batches hold all columns themselves: ids, properties and relationships")
    return {**whole, **extra}


def _values_of(value: Any) -> Any:
    if isinstance(value, Mapping):
        return None
    return value[0] if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], Mapping) else value


def _declaration(value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    return value[1] if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], Mapping) else {}


# --- taking it all in


@dataclass
class _Facts:
    """What is known once all annotations have been seen."""

    count: int = 0
    nbytes: int = 0
    max_id: int = 0
    low: F64 | None = None
    high: F64 | None = None
    pairs: list[int] = field(default_factory=list)
    # The smallest hashes of the segments of each relationship.
    sampled: list[U64] = field(default_factory=list)

    def segments(self, number: int) -> int:
        """About how many different segments a relationship has."""
        sample = self.sampled[number]
        if len(sample) < _SAMPLE:
            return len(sample)
        return max(1, round((_SAMPLE - 1) / (float(sample[-1]) + 1) * 2.0**64))


class _Again:
    """The blocks of a spool, as often as they are asked for."""

    def __init__(self, spool: Spool) -> None:
        self.spool = spool

    def __iter__(self) -> Iterator[Block]:
        return self.spool.blocks()


def _take(
    spool: Spool, schema: Schema, batches: Iterable[dict[str, Any]], progress: bool | Callable[[int], Any]
) -> _Facts:
    none = np.empty(0, np.uint64)
    facts = _Facts(pairs=[0] * len(schema.relationships), sampled=[none] * len(schema.relationships))
    for batch in batches:
        for part in sliced(batch, BLOCK):
            block, low, high = schema.block(part)
            if not len(block):
                continue
            spool.add(block)
            facts.count += len(block)
            facts.nbytes += len(block.records.data)
            facts.max_id = max(facts.max_id, int(block.ids.max()))
            lowest, highest = low.min(axis=0), high.max(axis=0)
            facts.low = lowest if facts.low is None else np.minimum(facts.low, lowest)
            facts.high = highest if facts.high is None else np.maximum(facts.high, highest)
            for number, related in enumerate(block.related):
                facts.pairs[number] += len(related.values)
                hashes = kernels.murmurhash3_x86_128(np.unique(related.values))
                facts.sampled[number] = np.unique(np.concatenate([facts.sampled[number], hashes]))[:_SAMPLE]
            _tell(progress, facts.count)
    return facts


def _tell(progress: bool | Callable[[int], Any], count: int) -> None:
    if callable(progress):
        progress(count)
    elif progress:
        import sys

        print(f"\r{count} annotations", end="", file=sys.stderr, flush=True)


def _bounds(facts: _Facts, lower: Sequence[float] | None, upper: Sequence[float] | None, rank: int) -> tuple[F64, F64]:
    """Where all annotations lie. No side is flat: Neuroglancer has no cells of size 0."""
    low = np.zeros(rank) if facts.low is None else facts.low
    high = np.zeros(rank) if facts.high is None else facts.high
    extent = high - low
    large = extent >= _LARGE_EXTENT
    flat = max(float(extent[extent > 0].min(initial=np.inf)), 0.0)
    # The upper bound lies beyond everything, by the letter.
    room = np.where(large, np.floor(high) + 1 - high, np.where(extent > 0, extent * 2.0**-20, min(flat, 1.0)))
    bounds = []
    for given, found, name in ((lower, np.where(large, np.floor(low), low), "lower"), (upper, high + room, "upper")):
        if given is None:
            bounds.append(found)
            continue
        asked = np.array(given, np.float64)
        if asked.shape != (rank,) or not np.isfinite(asked).all():
            raise ValueError(f"{name}_bound has {rank} finite coordinates, not {given!r}")
        if facts.count and ((asked > low).any() if name == "lower" else (asked < high).any()):
            raise ValueError(
                f"annotations from {low.tolist()} to {high.tolist()} lie outside of {name}_bound {given!r}"
            )
        bounds.append(asked)
    # Adding little to much may add nothing.
    low, high = bounds[0], np.maximum(bounds[1], np.nextafter(bounds[0], np.inf, dtype=np.float64))
    if upper is not None and (bounds[1] <= bounds[0]).any():
        raise ValueError(f"upper_bound {bounds[1].tolist()} does not lie above lower_bound {bounds[0].tolist()}")
    return low, high


# --- describing it


def _describe(
    schema: Schema, dimensions: dict[str, tuple[float, str]], frame: Frame, levels: Sequence[Level], facts: _Facts,
    sharding: Any,
) -> AnnotationInfo:  # fmt: skip
    asked = None if sharding is None or sharding == "advise" else as_spec(sharding)
    sharded = asked is not None or (sharding == "advise" and facts.count > _FILES_UP_TO)
    record = facts.nbytes / max(facts.count, 1) + 8

    def spec(count: int, nbytes: float, **more: Any) -> ShardingSpec | None:
        return ShardingSpec.advise(count=count, bytes=int(nbytes), **more) if sharded else None

    size = facts.nbytes + sum(4 * facts.count + 8 * pairs for pairs in facts.pairs)
    by_id = asked or spec(facts.count, size, max_id=facts.max_id, data_encoding="raw")
    relationships: list[Index] = []
    for number, name in enumerate(schema.relationships):
        segments = facts.segments(number)
        chosen = asked or spec(segments, facts.pairs[number] * record + 8 * segments)
        key = _folder(name, [one.folder for one in relationships])
        relationships.append(Index(f"relationship {name!r}", key, chosen, name))
    spatial = []
    for number, level in enumerate(levels):
        cells = max(1, min(int(np.prod(np.array(level.grid, np.float64))), level.taken))
        most = (1 << sum(grid_bits(level.grid))) - 1
        chosen = spec(cells, level.taken * record, max_id=most, hash="identity")
        size_of = tuple(frame.cell_size(level.bits).tolist())
        spatial.append(
            Index(f"spatial level {number}", f"spatial{number}", chosen, "", False, level.grid, size_of, level.limit)
        )
    info = AnnotationInfo(
        schema.type, dimensions, tuple(frame.lower.tolist()), tuple(frame.upper.tolist()), tuple(schema.properties),
        Index("by_id", "by_id", by_id, single=True), tuple(relationships), tuple(spatial),
    )  # fmt: skip
    # What is written is what readers would take.
    AnnotationInfo.from_json(as_json(info.to_json(), "the members of info", INFO, nan=False), INFO)
    return info


def _folder(name: str, others: Sequence[str]) -> str:
    found = f"rel_{re.sub('[^A-Za-z0-9_.-]+', '_', name)}"
    while found in others:
        found += "_"
    return found


# --- writing it


def _write_indexes(
    store: Store, info: AnnotationInfo, frame: Frame, levels: Sequence[Level], spool: Spool, manner: Mapping[str, Any]
) -> None:
    form = frame.form

    def singles() -> Iterator[tuple[U64, Records]]:
        for block in spool.blocks():
            yield block.ids, form.encode_annotations(block.records, block.related)

    IndexWriter(store, info.by_id, **manner).write_values(singles())
    for number, index in enumerate(info.relationships):
        IndexWriter(store, index, **manner).write_lists(_by_segment(spool, number))
    for level, index in zip(levels, info.levels, strict=True):
        writer = IndexWriter(store, index, name=_Names(level.bits), **manner)
        writer.write_lists(
            _by_cell(spool, frame, level, index.sharding is not None),
            lambda ids: ranks(ids, frame.seed),
        )


def _by_segment(spool: Spool, number: int) -> Iterator[tuple[U64, U64, Records]]:
    for block in spool.blocks():
        related = block.related[number]
        for first in range(0, len(related.values), BLOCK):
            last = min(len(related.values), first + BLOCK)
            rows = np.searchsorted(related.offsets, np.arange(first, last), "right") - 1
            yield related.values[first:last], block.ids[rows], block.records.take(rows)


def _by_cell(spool: Spool, frame: Frame, level: Level, sharded: bool) -> Iterator[tuple[U64, U64, Records]]:
    for block in spool.blocks():
        for rows, cells in members_of(frame, block, level):
            keys = kernels.compressed_morton(cells, level.grid) if sharded else numbers_of(cells, level.bits)
            yield keys, block.ids[rows], block.records.take(rows)


class _Names:
    """The names of the files of a level's cells."""

    def __init__(self, bits: Sequence[int]) -> None:
        self.bits = bits

    def __call__(self, number: int) -> str:
        return name_of(number, self.bits)
