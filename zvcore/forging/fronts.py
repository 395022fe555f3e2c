"""`zvcore.mesh` and `zvcore.skeletonize`."""

from __future__ import annotations

import hashlib
import time
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.forging.destination import Path, source_and_destination
from zvcore.forging.forge import Forge, Manner
from zvcore.forging.grid import Grid
from zvcore.forging.labels import labels_of
from zvcore.forging.mesh_craft import MeshCraft
from zvcore.forging.report import ForgingReport
from zvcore.forging.skeleton_craft import TEASAR, SkeletonCraft
from zvcore.precomputed.ids import as_ids
from zvcore.precomputed.sharded_store import as_spec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy.typing as npt

    from zvcore.forging.craft import Craft
    from zvcore.forging.destination import Destination
    from zvcore.forging.labels import Labels
    from zvcore.precomputed.sharding_spec import ShardingSpec

__all__ = ["mesh", "skeletonize"]

DEFAULT_MEMORY = 4 << 30
KINDS = ("multires", "legacy")


def mesh(
    src: Path | Any,
    dst: Path | None = None,
    *,
    kind: str = "multires",
    lods: int = 3,
    simplify: int = 100,
    max_error: float | None = None,
    vertex_quantization_bits: int = 16,
    ids: Iterable[int] | None = None,
    dust: int = 0,
    level: int = 0,
    image: str | None = None,
    voxel_size: str | Sequence[float] | None = None,
    box: Sequence[int] = (256, 256, 256),
    sharding: ShardingSpec | Mapping[str, Any] | str = "advise",
    memory: int = DEFAULT_MEMORY,
    overwrite: bool = False,
    resume: bool = True,
    dry_run: bool = False,
    progress: bool | Callable[[int, int], Any] = False,
    threads: int | None = None,
    client: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    fsync: bool | None = None,
    durability: str | None = None,
) -> ForgingReport:
    """Make a mesh of each segment of the segmentation at `src`: an array or multiscale set of any format, or of memory.

    Needs zvcore[mesh]: zmesh finds the surfaces, in boxes that overlap by one voxel, and simplifies them within each
    box. The pieces of a segment meet exactly where boxes do, so that each mesh is closed; where a segment touches the
    border of the volume, it is closed there. The vertices are in nanometers.

    dst         the folder to write; None: that which the volume at `src` names as its `mesh`, or "mesh" in it, which it
                then names
    kind        "multires": multi-resolution meshes in shards; "legacy": one fragment each, in files of their own
    lods        how many levels of detail, each with a quarter of the triangles; small meshes have fewer
    simplify    how many times fewer triangles zmesh aims at; 1: all are kept
    max_error   how far simplification may move the surface, in nanometers; None: the longest side of a voxel
    ids         the segments to take; None: all but 0
    dust        segments of fewer voxels are left out
    level       of a multiscale set: 0 is the finest
    image       the path of one segmentation among several
    voxel_size  as in `zvcore.convert`, where the source does not say it
    box         how many voxels along x, y and z are worked on at once
    sharding    a specification, its JSON, or "advise"
    memory      about how many bytes the boxes may take that are worked on at once; one box is the least
    overwrite   replace the meshes that are there
    resume      resume what was interrupted, if it is the same
    dry_run     only tell what would be done
    progress    True for a bar, or a function that is called with (done, total) parts of each of the two steps
    threads     how many boxes are worked on at once, each in a process of its own
    client      a dask.distributed Client, to work on a cluster
    storage_options, fsync, durability   as in `zvcore.convert`
    """
    if kind not in KINDS:
        raise ValueError(f"there are meshes of the kinds {' and '.join(map(repr, KINDS))}, not {kind!r}")
    if lods < 1 or simplify < 0 or dust < 0:
        raise ValueError(f"lods is at least 1, simplify and dust at least 0, not {lods}, {simplify} and {dust}")
    if max_error is not None and not max_error >= 0:
        raise ValueError(f"max_error is a length in nanometers, not {max_error}")
    if vertex_quantization_bits not in (10, 16):
        raise ValueError(f"vertex_quantization_bits is 10 or 16, not {vertex_quantization_bits}")
    legacy = kind == "legacy"
    if legacy and sharding != "advise":
        raise ValueError("legacy meshes are not sharded")
    started = time.monotonic()
    source, destination = source_and_destination(src, dst, MeshCraft.member, storage_options)
    labels = labels_of(source, level, image, voxel_size)
    craft = MeshCraft(
        labels, _grid(labels, box), _chosen(ids), dust, int(simplify),
        max(labels.resolution) if max_error is None else float(max_error), lods, vertex_quantization_bits, legacy,
    )  # fmt: skip
    manner = Manner(int(memory), overwrite, resume, threads, client, progress)
    return _forged(craft, destination.durable(fsync, durability), sharding, manner, dry_run, started)


def skeletonize(
    src: Path | Any,
    dst: Path | None = None,
    *,
    scale: float = 1.5,
    const: float = 300,
    teasar: Mapping[str, Any] | None = None,
    length: float = 0,
    ticks: float = 0,
    ids: Iterable[int] | None = None,
    dust: int = 1000,
    level: int = 0,
    image: str | None = None,
    voxel_size: str | Sequence[float] | None = None,
    box: Sequence[int] = (512, 512, 512),
    sharding: ShardingSpec | Mapping[str, Any] | str = "advise",
    memory: int = DEFAULT_MEMORY,
    overwrite: bool = False,
    resume: bool = True,
    dry_run: bool = False,
    progress: bool | Callable[[int, int], Any] = False,
    threads: int | None = None,
    client: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    fsync: bool | None = None,
    durability: str | None = None,
) -> ForgingReport:
    """Make a skeleton of each segment of the segmentation at `src`, an array or multiscale set of any format.

    Needs zvcore[skeletonize]: kimimaro traces the segments in boxes that share a layer of voxels, in which the paths of
    both sides end at the same place. They are joined, and loops are removed. Vertices are in nanometers, with the
    attributes `radius` (nanometers) and `vertex_types`.

    dst     the folder to write; None: that which the volume at `src` names as its `skeletons`, or "skeletons" in it,
            which it then names
    scale   around a path of this many times its distance from the surface, and so many
    const   nanometers more, no other path is looked for
    teasar  further parameters of kimimaro's, such as {"pdrf_exponent": 4, "soma_detection_threshold": 1100}
    length  connected paths of which all together are shorter than this, in nanometers, are left out
    ticks   branches that are shorter than this, in nanometers, are cut off
    dust    connected parts of a segment, within a box, of fewer voxels are left out

    All others are as in `zvcore.mesh`.
    """
    if dust < 0 or not (length >= 0 and ticks >= 0 and scale >= 0 and const >= 0):
        raise ValueError(
            f"scale, const, length, ticks and dust are at least 0: {scale}, {const}, {length}, {ticks}, {dust}"
        )
    started = time.monotonic()
    source, destination = source_and_destination(src, dst, SkeletonCraft.member, storage_options)
    labels = labels_of(source, level, image, voxel_size)
    parameters = {**TEASAR, **(teasar or {}), "scale": scale, "const": const}
    craft = SkeletonCraft(labels, _grid(labels, box), _chosen(ids), dust, parameters, float(length), float(ticks))
    manner = Manner(int(memory), overwrite, resume, threads, client, progress)
    return _forged(craft, destination.durable(fsync, durability), sharding, manner, dry_run, started)


def _grid(labels: Labels, box: Sequence[int]) -> Grid:
    extent = tuple(int(n) for n in box)
    if len(extent) != 3 or min(extent) < 1:
        raise ValueError(f"box is a number of voxels along x, y and z, not {tuple(box)}")
    x, y, z = (min(n, bound) for n, bound in zip(extent, labels.shape, strict=True))
    return Grid(labels.shape, (x, y, z))


def _chosen(ids: Iterable[int] | None) -> npt.NDArray[np.uint64] | None:
    return None if ids is None else np.unique(as_ids(ids))


def _forged(
    craft: Craft[Any], destination: Destination, sharding: Any, manner: Manner, dry_run: bool, started: float
) -> ForgingReport:
    spec = None if isinstance(sharding, str) and sharding == "advise" else as_spec(sharding)
    forge = Forge(craft, destination, spec, _task(craft, spec), manner)
    if dry_run:
        return ForgingReport(plan=forge.plan())
    report = forge.run()
    report.seconds = time.monotonic() - started
    return report


def _task(craft: Craft[Any], spec: ShardingSpec | None) -> dict[str, Any]:
    """What was asked for, to know it again."""
    labels, array = craft.labels, craft.labels.view.array
    asked = {one.name: getattr(craft, one.name) for one in fields(craft) if one.name not in ("labels", "grid", "ids")}
    ids = None if craft.ids is None else hashlib.blake2b(craft.ids.tobytes(), digest_size=16).hexdigest()
    return {
        "forge": craft.what, "source": [array.store.root, array.path, list(array.shape), str(array.dtype)],
        "place": [list(labels.resolution), list(labels.corner)], "box": list(craft.grid.extent), "ids": ids,
        "asked": {name: repr(value) for name, value in asked.items()},
        "sharding": None if spec is None else spec.to_json(),
    }  # fmt: skip
