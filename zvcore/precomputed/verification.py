"""Whether precomputed data is what it should be: every file, minishard, id and value, with a report of what is not."""

from __future__ import annotations

import math
import re
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore import kernels
from zvcore.engine import Keys, fetch
from zvcore.errors import CorruptDataError, NotFoundError, UnsupportedError, ZvcoreError
from zvcore.layout import Sources
from zvcore.precomputed.layout import ShardedLayout, UnshardedLayout, layout_of
from zvcore.precomputed.meshes import MESHES_TYPE, Manifest, Meshes
from zvcore.precomputed.metadata import INFO, VolumeInfo, read_info, resolve_key
from zvcore.precomputed.shard_check import Examination, Judge, examine
from zvcore.precomputed.shard_reader import ShardReader, steadily
from zvcore.precomputed.sharded_store import as_spec
from zvcore.precomputed.skeletons import SKELETONS_TYPE, Skeleton, Skeletons
from zvcore.report import Problem, Report
from zvcore.stores import open_store
from zvcore.stores.copying import is_backup
from zvcore.stores.key_selection import within

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from zvcore.codecs import CodecChain
    from zvcore.precomputed.entries import U64
    from zvcore.precomputed.layout import ScaleLayout
    from zvcore.precomputed.shard_reader import ShardFile
    from zvcore.precomputed.sharding_spec import ShardingSpec
    from zvcore.stores import Store

__all__ = [
    "ChunkJudge",
    "ManifestJudge",
    "SkeletonJudge",
    "examinations",
    "folders_of",
    "judges",
    "shard_numbers",
    "verify",
    "verify_chunk_files",
    "verify_objects",
]

_FILES_AT_ONCE = 256


def verify(
    path: str | os.PathLike[str] | Store,
    *,
    spec: ShardingSpec | Mapping[str, Any] | str | None = None,
    only: Sequence[str] | None = None,
    fast: bool = False,
    threads: int | None = None,
    watch: Callable[[int], Any] | None = None,
) -> Report:
    """Look at all of a volume with its skeletons and meshes, a folder of these, or, with `spec`, a bare sharded store.

    With `fast`, values are not decoded: shards are checked by their indices only. With `only`, nothing but these
    objects (or what lies in these folders) is looked at; without any, the documents. `watch` is told how many more
    objects have been looked at.
    """
    store = open_store(path, "r")
    report = Report(watch=watch)
    if spec is not None:
        reader = ShardReader(store, as_spec(spec))
        _verify_shards(reader, Judge(reader, threads), report, fast, only)
        return report
    try:
        info = read_info(store)
        found = [*judges(store, info, threads, report)]
    except ZvcoreError as error:
        report.problems.append(Problem.of(error, INFO))
        return report
    for judge in found:
        if isinstance(judge, Judge):
            meant = None if only is None else within(only, judge.reader.prefix.rstrip("/"))
            if meant is None or meant:
                _verify_shards(judge.reader, judge, report, fast, meant)
        elif isinstance(judge, UnshardedLayout):
            meant = None if only is None else within(only, judge.scale.folder)
            if meant is None or meant:
                verify_chunk_files(judge, report, fast, threads, meant)
        elif only is None:
            verify_objects(judge, report)
        else:
            for key in only:
                _verify_object(judge, key, report)
    for folder in folders_of(info, report):
        meant = None if only is None else within(only, folder)
        if meant is None or meant:
            _verify_folder(store, folder, None if meant and "" in meant else meant, fast, threads, report)
    return report


def folders_of(info: Mapping[str, Any], report: Report) -> list[str]:
    """The folders of skeletons and meshes that a volume's `info` names."""
    found = []
    for name in ("skeletons", "mesh"):
        folder = info.get(name)
        if folder is not None and isinstance(info.get("scales"), list):
            try:
                found.append(resolve_key(folder, INFO))
            except UnsupportedError:
                continue  # they lie at another address
            except ZvcoreError as error:
                report.problems.append(Problem.of(error, INFO))
    return found


def _verify_folder(
    store: Store, folder: str, only: Sequence[str] | None, fast: bool, threads: int | None, report: Report
) -> None:
    if not store.exists(f"{folder}/{INFO}"):
        # Meshes of old have no document of their own.
        if next(store.list(folder), None) is None:
            report.add(INFO, f"info names the folder {folder!r}, where nothing is", fatal=False)
        return
    below = store.child(folder)
    try:
        kind = read_info(below).get("@type")
    except ZvcoreError as error:
        report.problems.append(Problem.of(error, INFO).below(folder))
        return
    if kind in (SKELETONS_TYPE, MESHES_TYPE):
        report.extend(verify(below, only=only, fast=fast, threads=threads, watch=report.watch), folder)


def judges(
    store: Store, info: Mapping[str, Any], threads: int | None, report: Report
) -> Iterator[Judge | UnshardedLayout | Skeletons | Meshes]:
    """What there is to look at: a judge for each folder of shards, else what stands for the files."""
    kind = info.get("@type")
    if kind in (SKELETONS_TYPE, MESHES_TYPE) and isinstance(info.get("scales"), list):
        report.add(INFO, f"the document has scales, but its @type is {kind!r}, so no reader finds them")
    if kind == SKELETONS_TYPE:
        skeletons = Skeletons(store)
        yield skeletons if skeletons.sharding is None else SkeletonJudge(skeletons, threads)
    elif kind == MESHES_TYPE:
        meshes = Meshes(store)
        yield meshes if meshes.sharding is None else ManifestJudge(meshes, threads)
    else:
        volume = VolumeInfo.from_json(info)
        for number in range(len(info["scales"])):
            try:
                layout = layout_of(store, volume.scale(number), volume.dtype, volume.channels)
            except ZvcoreError as error:
                report.problems.append(Problem.of(error, "info"))
                continue
            report.count("scales")
            if isinstance(layout, ShardedLayout):
                yield ChunkJudge(layout, threads)
            elif isinstance(layout, UnshardedLayout):
                yield layout


class ChunkJudge(Judge):
    """Chunks of a volume: of the grid, and decoded to the bytes of their shape."""

    def __init__(self, layout: ShardedLayout, threads: int | None = None) -> None:
        super().__init__(layout.reader, threads)
        self.layout = layout

    def chains(self) -> tuple[CodecChain, ...]:
        return self.layout.chains

    def unwanted(self, ids: U64) -> npt.NDArray[np.bool_]:
        return ~kernels.compressed_morton_valid(ids, self.layout.grid)

    def columns(self, ids: U64) -> tuple[npt.NDArray[np.uint8] | None, U64]:
        return chunk_columns(self.layout, kernels.compressed_morton_inverse(ids, self.layout.grid))


def chunk_columns(layout: ScaleLayout, positions: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.uint8] | None, U64]:
    """Which chain decodes the chunks at these places, and to how many bytes."""
    chunk, size = np.array(layout.scale.chunk, np.int64), np.array(layout.scale.size, np.int64)
    shapes = np.minimum(chunk, size - positions[:, :3] * chunk)
    nbytes = shapes.prod(1) * layout.shape[3] * layout.form.dtype.itemsize
    return layout.chain_column(positions), nbytes.astype(np.uint64)


class SkeletonJudge(Judge):
    """Skeletons: decoded with the attributes that `info` declares."""

    looks = True

    def __init__(self, skeletons: Skeletons, threads: int | None = None) -> None:
        assert skeletons.sharding is not None
        super().__init__(ShardReader(skeletons.store, skeletons.sharding), threads)
        self.skeletons = skeletons

    def look(self, id: int, value: memoryview, file: ShardFile, start: int) -> None:
        Skeleton.from_bytes(value, self.skeletons.vertex_attributes)


class ManifestJudge(Judge):
    """Mesh manifests: decoded, and with as many bytes before them as their fragments take."""

    looks = True

    def __init__(self, meshes: Meshes, threads: int | None = None) -> None:
        assert meshes.sharding is not None
        super().__init__(ShardReader(meshes.store, meshes.sharding), threads)

    def look(self, id: int, value: memoryview, file: ShardFile, start: int) -> None:
        wanted = Manifest.from_bytes(value).fragment_bytes
        if wanted > start - file.base:
            raise CorruptDataError(
                "the fragments that the manifest speaks of are not before it", expected=f"{wanted} bytes",
                found=start - file.base,
            )  # fmt: skip


def examinations(
    reader: ShardReader, judge: Judge, fast: bool = False, shards: Sequence[int] | None = None
) -> Iterator[Examination]:
    """Each shard file in turn, or those that are named."""
    for shard in reader.shards() if shards is None else shards:
        yield steadily(partial(examine, reader, shard, judge, fast=fast), reader.key(shard))


def _verify_shards(
    reader: ShardReader, judge: Judge, report: Report, fast: bool, only: Sequence[str] | None = None
) -> None:
    """Every shard, or those of these names; "" stands for all."""
    everything = only is None or "" in only
    names = reader.store.list_dir(reader.prefix.rstrip("/"))[1] if everything else list(only or ())
    shards = None if everything else shard_numbers(reader, names)
    stored = 0
    for found in examinations(reader, judge, fast, shards):
        stored += len(found.ids)
        report.extend(found.report)
        report.looked_at()
    if isinstance(judge, ChunkJudge) and only is None:
        report.count("chunks not stored", max(0, math.prod(judge.layout.grid) - stored))
    for name in names:
        if name.endswith(".shard") and reader.spec.shard_number(name) is None:
            report.add(f"{reader.prefix}{name}", "the name is that of no shard of this specification")


def shard_numbers(reader: ShardReader, names: Sequence[str]) -> list[int]:
    """The shards that files of these names are."""
    return sorted({number for name in names if (number := reader.spec.shard_number(name)) is not None})


_CHUNK_NAME = re.compile(r"-?\d+--?\d+_-?\d+--?\d+_-?\d+--?\d+(?:\.gz)?")


def verify_chunk_files(
    layout: UnshardedLayout, report: Report, fast: bool, threads: int | None, only: Sequence[str] | None = None
) -> None:
    """Every file of a scale without shards: named after a chunk, and decoded to the bytes of its shape.

    With `only`, those of these names; "" stands for all.
    """
    scale = layout.scale
    keys, places = [], []
    everything = only is None or "" in only
    for name in layout.store.list_dir(scale.folder)[1] if everything else list(only or ()):
        key = f"{scale.folder}/{name}"
        if is_backup(name):
            continue
        position = layout.place_of(name)
        if position is None:
            if name.endswith(".gz") or _CHUNK_NAME.fullmatch(name):
                report.add(key, "the name is that of no chunk of the grid")
            else:
                report.add(key, "not the name of a chunk", fatal=False)
            continue
        keys.append(key)
        places.append(position)
    report.count("files", len(keys))
    if only is None:
        report.count("chunks not stored", math.prod(layout.grid) - len({*places}))
    if fast:
        _check_sizes(layout, keys, places, report)
        return
    for first in range(0, len(keys), _FILES_AT_ONCE):
        part, at = keys[first : first + _FILES_AT_ONCE], np.array(places[first : first + _FILES_AT_ONCE], np.int64)
        report.looked_at(len(part))
        try:
            _decode_files(layout, part, at, threads)
        except ZvcoreError:
            for row, key in enumerate(part):
                try:
                    _decode_files(layout, [key], at[row : row + 1], threads)
                except ZvcoreError as error:
                    error.located(offset=0, length=layout.store.size(key))
                    report.problems.append(Problem.of(error, key, tuple(at[row].tolist())))


def _check_sizes(
    layout: UnshardedLayout, keys: list[str], places: list[tuple[int, int, int, int]], report: Report
) -> None:
    """The sizes of files that nothing compresses are known."""
    chains = [len(chain.codecs) for chain in layout.chains]
    for first in range(0, len(keys), _FILES_AT_ONCE):
        part, at = keys[first : first + _FILES_AT_ONCE], np.array(places[first : first + _FILES_AT_ONCE], np.int64)
        zipped = np.array([key.endswith(".gz") for key in part])
        column = layout.chains_with(at, zipped if zipped.any() else None)
        _, nbytes = chunk_columns(layout, at)
        report.looked_at(len(part))
        for row, key in enumerate(part):
            size = layout.store.size(key)
            if chains[0 if column is None else int(column[row])] == 0 and size is not None and size != nbytes[row]:
                report.add(
                    key, "the file has the wrong size", chunk=tuple(at[row].tolist()), offset=0, length=size,
                    expected=f"{nbytes[row]} bytes", found=size,
                )  # fmt: skip


def _decode_files(
    layout: UnshardedLayout, keys: list[str], positions: npt.NDArray[np.int64], threads: int | None
) -> None:
    zipped = np.array([key.endswith(".gz") for key in keys])
    _, nbytes = chunk_columns(layout, positions)
    sources = Sources(Keys.of(keys), chain=layout.chains_with(positions, zipped if zipped.any() else None))
    values = fetch(layout.store, sources, layout.chains, count=len(keys), expected=nbytes, threads=threads)
    for row, key in enumerate(keys):
        if values[row] is None:
            raise NotFoundError("the file was removed meanwhile", key=key)


def verify_objects(objects: Skeletons | Meshes, report: Report) -> None:
    """Skeletons or meshes in files of their own."""
    for id in objects.ids().tolist():
        _verify_one(objects, id, report)


def _verify_object(objects: Skeletons | Meshes, key: str, report: Report) -> None:
    """The skeleton or mesh that a file holds."""
    name = key.removesuffix(".index")
    if name.isdecimal() and int(name) in objects:
        _verify_one(objects, int(name), report)
    else:
        report.add(key, "not the name of an object", fatal=False)


def _verify_one(objects: Skeletons | Meshes, id: int, report: Report) -> None:
    report.count("values")
    report.looked_at()
    try:
        found = objects[id]
        if not isinstance(found, Skeleton):
            for level in range(len(found.manifest.levels)):
                found.fragments(level)
    except ZvcoreError as error:
        report.problems.append(Problem.of(error, str(id), chunk=id))
