"""What precomputed data there is: scales, skeletons, meshes, their sizes on disk, and the map of a shard."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from zvcore.errors import NotFoundError, ZvcoreError
from zvcore.precomputed.layout import ShardedLayout, layout_of
from zvcore.precomputed.meshes import MESHES_TYPE, Meshes
from zvcore.precomputed.metadata import INFO, VolumeInfo, read_info
from zvcore.precomputed.shard_check import Judge, examine, parts
from zvcore.precomputed.skeletons import SKELETONS_TYPE, Skeletons
from zvcore.precomputed.verification import folders_of, judges
from zvcore.report import Report

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zvcore.stores import Store

__all__ = ["inspect"]


def inspect(store: Store, *, only: str | None = None, shards: bool = True) -> dict[str, Any]:
    """What lies at the root of a store; with `only`, what one scale (by its folder) or one file is."""
    info = read_info(store)
    if only is not None:
        return _inspect_part(store, info, only)
    kind = info.get("@type")
    if kind in (SKELETONS_TYPE, MESHES_TYPE):
        return _inspect_objects(store, info)
    volume = VolumeInfo.from_json(info)
    scales = []
    for number in range(len(info["scales"])):
        try:
            scales.append(_inspect_scale(store, volume, number))
        except ZvcoreError as error:
            scales.append({"format": "precomputed", "kind": "broken", "error": str(error)})
    answer: dict[str, Any] = {
        "format": "precomputed",
        "kind": "volume",
        "type": volume.type,
        "dtype": volume.dtype.name,
        "channels": volume.channels,
        "attributes": {name: value for name, value in info.items() if name != "scales"},
        "scales": scales,
        "members": {},
    }
    for folder in folders_of(info, Report()):
        if store.exists(f"{folder}/{INFO}"):
            try:
                answer["members"][folder] = inspect(store.child(folder))
            except ZvcoreError as error:
                answer["members"][folder] = {"format": "precomputed", "kind": "broken", "error": str(error)}
    return answer


def _inspect_scale(store: Store, volume: VolumeInfo, number: int) -> dict[str, Any]:
    scale = volume.scale(number)
    layout = layout_of(store, scale, volume.dtype, volume.channels)
    objects, size = _sizes(store, scale.folder)
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
        "nbytes": nbytes,
        "objects": objects,
        "stored_bytes": size,
        "ratio": nbytes / size if size else None,
    }


def _sizes(store: Store, folder: str) -> tuple[int, int]:
    count = size = 0
    prefix = f"{folder}/" if folder else ""
    for name in store.list_dir(folder)[1]:
        if name != INFO:
            count += 1
            size += store.size(prefix + name) or 0
    return count, size


def _inspect_objects(store: Store, info: Mapping[str, Any]) -> dict[str, Any]:
    skeletons = info.get("@type") == SKELETONS_TYPE
    found: Skeletons | Meshes = Skeletons(store) if skeletons else Meshes(store)
    objects, size = _sizes(store, "")
    return {
        "format": "precomputed",
        "kind": "skeletons" if skeletons else "meshes",
        "attributes": dict(info),
        "sharding": None if found.sharding is None else found.sharding.to_json(),
        "values": len(found.ids()),
        "objects": objects,
        "stored_bytes": size,
    }


def _inspect_part(store: Store, info: Mapping[str, Any], only: str) -> dict[str, Any]:
    if isinstance(info.get("scales"), list):
        volume = VolumeInfo.from_json(info)
        for number in range(len(info["scales"])):
            try:
                if volume.scale(number).folder == only:
                    return _inspect_scale(store, volume, number)
            except ZvcoreError:
                continue
    size = store.size(only)
    if size is None:
        raise NotFoundError("no scale and no file has this name", key=only)
    for judge in judges(store, info, None, Report()):
        if isinstance(judge, Judge) and only.startswith(judge.reader.prefix):
            shard = judge.reader.spec.shard_number(only.removeprefix(judge.reader.prefix))
            if shard is not None:
                return _inspect_shard(judge, shard, only, size)
    return {"format": "precomputed", "kind": "chunk", "key": only, "size": size}


def _inspect_shard(judge: Judge, shard: int, key: str, size: int) -> dict[str, Any]:
    found = examine(judge.reader, shard, judge, fast=True)
    pieces = parts(found)
    answer: dict[str, Any] = {"format": "precomputed", "kind": "shard", "key": key, "position": shard, "size": size}
    if isinstance(getattr(judge, "layout", None), ShardedLayout):
        layout = judge.layout  # type: ignore[attr-defined]
        answer.update(shape=layout.shard_shape, dtype=layout.form.dtype.name)
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
