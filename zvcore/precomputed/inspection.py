"""Describing precomputed data: scales, meshes, annotations and so on, their sizes on disk, and the map of a shard."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from zvcore.care.describing import sizes_of, totals, unread
from zvcore.errors import NotFoundError, ZvcoreError
from zvcore.precomputed.annotation_set import Annotations
from zvcore.precomputed.judging import ChunkJudge
from zvcore.precomputed.kinds import LEGACY_MESHES, MESHES, SEGMENT_PROPERTIES, SKELETONS, VOLUME, kind_of
from zvcore.precomputed.layout import layout_of
from zvcore.precomputed.legacy_mesh_files import LegacyMeshFiles
from zvcore.precomputed.meshes import Meshes
from zvcore.precomputed.metadata import INFO, VolumeInfo, read_info
from zvcore.precomputed.parts import Shards, folders_of, parts_of
from zvcore.precomputed.segment_properties import check_segment_properties
from zvcore.precomputed.shard_check import examine, shard_map
from zvcore.precomputed.skeletons import Skeletons
from zvcore.report import Report

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zvcore.precomputed.shard_check import Judge
    from zvcore.stores import Store

__all__ = ["inspect"]


def inspect(store: Store, *, only: str | None = None, threads: int | None = None) -> dict[str, Any]:
    """Describe what is at the root of a store, or with `only` one scale (by its folder) or one file."""
    info = read_info(store)
    if only is not None:
        return _inspect_part(store, info, only, threads)
    kind = kind_of(info, INFO)
    if kind == VOLUME:
        return _inspect_volume(store, info, threads)
    return _inspect_objects(store, info, kind, threads)


def _inspect_volume(store: Store, info: Mapping[str, Any], threads: int | None) -> dict[str, Any]:
    volume = VolumeInfo.from_json(info)

    def described(number: int) -> dict[str, Any]:
        try:
            return _inspect_scale(store, volume, number, threads)
        except ZvcoreError as error:
            return unread("precomputed", error)

    answer: dict[str, Any] = {
        "format": "precomputed",
        "kind": VOLUME,
        "type": volume.type,
        "dtype": volume.dtype.name,
        "channels": volume.channels,
        "attributes": {name: value for name, value in info.items() if name != "scales"},
        "scales": store.each(described, range(len(info["scales"]))),
        "members": {},
    }
    for folder, kind in folders_of(info, Report()).items():
        try:
            if store.exists(f"{folder}/{INFO}"):
                answer["members"][folder] = inspect(store.child(folder), threads=threads)
            elif kind == LEGACY_MESHES and next(store.list(folder), None) is not None:
                answer["members"][folder] = _inspect_objects(store.child(folder), {}, kind, threads)
        except ZvcoreError as error:
            answer["members"][folder] = unread("precomputed", error)
    return answer


def _inspect_scale(store: Store, volume: VolumeInfo, number: int, threads: int | None) -> dict[str, Any]:
    scale = volume.scale(number)
    layout = layout_of(store, scale, volume.dtype, volume.channels)
    nbytes = math.prod(layout.shape) * volume.dtype.itemsize
    spec = scale.sharding
    return {
        "format": "precomputed",
        "kind": "array",
        "key": scale.key,
        "shape": layout.shape,
        "dtype": volume.dtype.name,
        "chunks": layout.form.shape,
        "shards": layout.shard_shape,
        "codecs": [scale.encoding.name, *([] if spec is None else [spec.data_encoding])],
        "fill_value": 0,
        "resolution": scale.resolution,
        "voxel_offset": scale.voxel_offset,
        "sharding": None if spec is None else spec.to_json(),
        **sizes_of(nbytes, store, _objects(store, scale.folder), threads),
    }


def _objects(store: Store, folder: str) -> Iterator[str]:
    for key in store.list(folder):
        if key != INFO:
            yield key


def _inspect_objects(store: Store, info: Mapping[str, Any], kind: str, threads: int | None) -> dict[str, Any]:
    found: Skeletons | Meshes | None = None
    if kind in (SKELETONS, MESHES):
        found = Skeletons(store) if kind == SKELETONS else Meshes(store)
    objects, size = totals(store, _objects(store, ""), threads)
    return {
        "format": "precomputed",
        "kind": kind,
        "attributes": dict(info),
        "sharding": None if found is None or found.sharding is None else found.sharding.to_json(),
        "values": _count_others(store, info, kind) if found is None else len(found.ids()),
        "objects": objects,
        "stored_bytes": size,
    }


def _count_others(store: Store, info: Mapping[str, Any], kind: str) -> int:
    """How many items there are of the other kinds."""
    if kind == LEGACY_MESHES:
        return LegacyMeshFiles(store, "").count()
    if kind == SEGMENT_PROPERTIES:
        return check_segment_properties(info, INFO, Report())
    return len(Annotations(store))


def _inspect_part(store: Store, info: Mapping[str, Any], only: str, threads: int | None) -> dict[str, Any]:
    if isinstance(info.get("scales"), list):
        volume = VolumeInfo.from_json(info)
        for number in range(len(info["scales"])):
            try:
                if volume.scale(number).folder == only:
                    return _inspect_scale(store, volume, number, threads)
            except ZvcoreError:
                continue
    size = store.size(only)
    if size is None:
        raise NotFoundError("no scale and no file has this name", key=only)
    for part in parts_of(store, info, None, Report()):
        if isinstance(part, Shards) and only.startswith(part.prefix):
            shard = part.reader.spec.shard_number(only.removeprefix(part.prefix))
            if shard is not None:
                return _inspect_shard(part.judge, shard, only, size)
    return {"format": "precomputed", "kind": "chunk", "key": only, "size": size}


def _inspect_shard(judge: Judge, shard: int, key: str, size: int) -> dict[str, Any]:
    found = examine(judge.reader, shard, judge, fast=True)
    pieces = shard_map(found)
    answer: dict[str, Any] = {"format": "precomputed", "kind": "shard", "key": key, "position": shard, "size": size}
    if isinstance(judge, ChunkJudge):
        answer.update(shape=judge.layout.shard_shape, dtype=judge.layout.form.dtype.name)
    answer.update(
        chunks=len(found.ids),
        minishards=len(found.indices),
        **{
            kind: sum(end - start for start, end, other in pieces if other == kind)
            for kind in ("live", "index", "dead")
        },
    )
    _, expected = judge.columns(found.ids)
    answer["ratio"] = float(expected.sum()) / answer["live"] if expected is not None and answer["live"] else None
    answer["map"] = pieces
    return answer
