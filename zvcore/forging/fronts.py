"""`zvcore.mesh` and `zvcore.skeletonize`."""

from __future__ import annotations

import hashlib
import time
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.errors import without_credentials
from zvcore.forging.destination import source_and_destination
from zvcore.forging.forge import Forge
from zvcore.forging.grid import Grid
from zvcore.forging.labels import labels_of
from zvcore.forging.mesh_craft import MeshCraft
from zvcore.forging.questions import MeshQuestion, SkeletonQuestion
from zvcore.forging.report import ForgingReport
from zvcore.forging.skeleton_craft import TEASAR, SkeletonCraft
from zvcore.precomputed.ids import as_ids
from zvcore.precomputed.sharded_store import as_spec
from zvcore.signatures import asked_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from zvcore.forging.craft import Craft
    from zvcore.forging.destination import Destination
    from zvcore.forging.labels import Labels
    from zvcore.forging.questions import Question
    from zvcore.precomputed.sharding_spec import ShardingSpec

__all__ = ["mesh", "skeletonize"]


@asked_by(MeshQuestion)
def mesh(asked: MeshQuestion) -> ForgingReport:
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
    sharding    a specification, its JSON, "advise", or None for files of their own
    memory      about how many bytes the boxes may take that are worked on at once; one box is the least
    overwrite   replace the meshes that are there
    resume      resume what was interrupted, if it is the same
    dry_run     only tell what would be done
    progress    True for a bar, or a function that is called with (done, total) parts of each of the two steps
    threads     how many boxes are worked on at once, each in a process of its own
    client      a dask.distributed Client, to work on a cluster
    part        (3, 64), or "3/64": work only on this part of the boxes, counted from 1; other processes do the others,
                in any order, and the last one joins the pieces
    finish      join what all parts have made, if the last one has died; names those that are missing
    storage_options, fsync, durability   as in `zvcore.convert`
    """
    source, destination = _places(asked, MeshCraft.member)
    labels = labels_of(source, asked.level, asked.image, asked.voxel_size)
    max_error = max(labels.resolution) if asked.max_error is None else float(asked.max_error)
    craft = MeshCraft(
        labels, _grid(labels, asked.box), _chosen(asked.ids), asked.dust, int(asked.simplify), max_error, asked.lods,
        asked.vertex_quantization_bits, asked.legacy, asked.files,
    )  # fmt: skip
    return _forged(craft, destination, asked)


@asked_by(SkeletonQuestion)
def skeletonize(asked: SkeletonQuestion) -> ForgingReport:
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
    source, destination = _places(asked, SkeletonCraft.member)
    labels = labels_of(source, asked.level, asked.image, asked.voxel_size)
    parameters = {**TEASAR, **(asked.teasar or {}), "scale": asked.scale, "const": asked.const}
    craft = SkeletonCraft(
        labels, _grid(labels, asked.box), _chosen(asked.ids), asked.dust, parameters, float(asked.length),
        float(asked.ticks), asked.files,
    )  # fmt: skip
    return _forged(craft, destination, asked)


def _places(asked: Question, member: str) -> tuple[Any, Destination]:
    """(the source, opened, the folder to write)."""
    source, destination = source_and_destination(asked.src, asked.dst, member, asked.storage_options)
    return source, destination.durable(asked.fsync, asked.durability)


def _grid(labels: Labels, box: Sequence[int]) -> Grid:
    extent = tuple(int(n) for n in box)
    if len(extent) != 3 or min(extent) < 1:
        raise ValueError(f"box is a number of voxels along x, y and z, not {tuple(box)}")
    x, y, z = (min(n, bound) for n, bound in zip(extent, labels.shape, strict=True))
    return Grid(labels.shape, (x, y, z))


def _chosen(ids: Iterable[int] | None) -> npt.NDArray[np.uint64] | None:
    return None if ids is None else np.unique(as_ids(ids))


def _forged(craft: Craft[Any], destination: Destination, asked: Question) -> ForgingReport:
    started = time.monotonic()
    sharding = asked.sharding
    spec = None if sharding is None or sharding == "advise" else as_spec(sharding)
    forge = Forge(craft, destination, spec, _task(craft, spec), asked.manner)
    if asked.dry_run:
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
        "forge": craft.what,
        "source": [without_credentials(array.store.root), array.path, list(array.shape), str(array.dtype)],
        "place": [list(labels.resolution), list(labels.corner)], "box": list(craft.grid.extent), "ids": ids,
        "asked": {name: repr(value) for name, value in asked.items()},
        "sharding": None if spec is None else spec.to_json(),
    }  # fmt: skip
