"""What Neuroglancer draws of precomputed data: meshes, skeletons, annotations, and where each of them must be seen.

Everything lies within a cube of 64 voxels of 8 nm. The things are in its right half, so that the left half, where the
same places are looked at, shows that no colour is there by chance.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import numpy as np

import zvcore
from zvcore.precomputed import Skeleton, write_annotations, write_meshes, write_segment_properties, write_skeletons

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["SCENES", "Scene", "make_objects", "misplaced", "view"]

SIDE, VOXEL = 64, 8
SEGMENT = 2**40 + 7
RED = "#ff0000"
# Pixels of the screen for each voxel.
ZOOM = 8
_SHADER = "void main() { setColor(vec4(1.0, 0.0, 0.0, 1.0)); setPointMarkerSize(24.0); setLineWidth(9.0); }"


@dataclass(frozen=True)
class Scene:
    """A data set of one kind.

    make   writes it into a folder
    seen   places in voxels at which its colour must be, and
    free   places at which it must not be
    solid  whether it is looked at in space; else in the plane in the middle
    """

    make: Callable[[Path], None]
    seen: tuple[tuple[float, float], ...]
    free: tuple[tuple[float, float], ...]
    solid: bool


def box(low: tuple[int, int, int], high: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray]:
    """The surface of a box in voxels, in nanometers."""
    vertices = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)])
    faces = [
        [0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1], [2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4],
        [1, 5, 7], [1, 7, 3],
    ]  # fmt: skip
    places = np.array(low) + vertices * (np.array(high) - np.array(low))
    return (places * VOXEL).astype(np.float32), np.array(faces, np.uint32)


BOX = (38, 22, 24), (58, 42, 40)


def volume(folder: Path, empty: bool = True, **options: Any) -> None:
    """Labels; with `empty`, the segment has no voxel: what is drawn of it is not the volume."""
    labels = zvcore.create(
        folder, format="precomputed", shape=(SIDE, SIDE, SIDE), dtype="uint64", type="segmentation",
        resolution=(VOXEL, VOXEL, VOXEL), chunks=(32, 32, 32), **options,
    )  # fmt: skip
    values = np.zeros((SIDE, SIDE, SIDE, 1), np.uint64)
    if not empty:
        values[tuple(slice(a, b) for a, b in zip(*BOX, strict=True))] = SEGMENT
    labels[...] = values


def labels(folder: Path, **options: Any) -> None:
    volume(folder, empty=False, **options)


def meshes(folder: Path, levels: int = 1, **options: Any) -> None:
    volume(folder, mesh="mesh", segment_properties="properties")
    surface: Any = box(*BOX)
    write_meshes(folder / "mesh", {SEGMENT: [surface] * levels if levels > 1 else surface}, **options)
    write_segment_properties(folder / "properties", [SEGMENT], {"label": ["the box"]})


def forged(folder: Path, **options: Any) -> None:
    """The mesh is made of the voxels themselves."""
    labels(folder)
    zvcore.mesh(folder, box=(32, 32, 32), threads=1, simplify=1, **options)
    # What is drawn is the mesh: the voxels go.
    volume = zvcore.open(folder, "r+")
    volume[next(iter(volume))][...] = 0


def skeletons(folder: Path, sharding: str | None = None) -> None:
    volume(folder, skeletons="skeletons")
    vertices = np.array([[38, 32, 32], [58, 32, 32], [48, 20, 32]], np.float32) * VOXEL
    bone = Skeleton(vertices, np.array([[0, 1], [1, 2]], np.uint32))
    spec = None if sharding is None else zvcore.precomputed.ShardingSpec.advise(count=1, bytes=100)
    write_skeletons(folder / "skeletons", {SEGMENT: bone}, sharding=spec)


def annotations(folder: Path, kind: str, columns: dict[str, Any], sharding: Any = None) -> None:
    write_annotations(
        folder, kind, columns, dimensions=dict.fromkeys("xyz", (VOXEL * 1e-9, "m")), sharding=sharding,
        lower_bound=(0, 0, 0), upper_bound=(SIDE, SIDE, SIDE),
    )  # fmt: skip


def pair(name: str, a: list[float], b: list[float]) -> dict[str, Any]:
    return {f"{name}_a": [a], f"{name}_b": [b]}


SPEC = zvcore.precomputed.ShardingSpec(0, "murmurhash3_x86_128", 0, 0, "gzip", "raw")
IN_BOX, OUT_OF_BOX = ((48, 32), (41, 25), (55, 39)), ((16, 32), (9, 25), (48, 56), (48, 8))
ON_BONE, OFF_BONE = ((48, 32), (53, 26)), ((16, 32), (11, 26), (48, 44))
POINT = partial(annotations, kind="point", columns={"point": [[48, 32, 32.5]]})
LINE = partial(annotations, kind="line", columns=pair("point", [40, 24, 32.5], [56, 40, 32.5]))
AREA = partial(
    annotations, kind="axis_aligned_bounding_box", columns=pair("point", [40, 24, 30], [56, 40, 35])
)  # fmt: skip
BALL = partial(annotations, kind="ellipsoid", columns={"center": [[48, 32, 32.5]], "radii": [[9, 9, 4]]})
PATH = partial(
    annotations, kind="polyline", columns={"points": [[[40, 32, 32.5], [48, 32, 32.5], [48, 44, 32.5]]]}
)  # fmt: skip

SCENES: dict[str, Scene] = {
    "labels raw": Scene(partial(labels, encoding="raw"), IN_BOX, OUT_OF_BOX, False),
    "labels compressed_segmentation": Scene(labels, IN_BOX, OUT_OF_BOX, False),
    "labels compresso": Scene(partial(labels, encoding="compresso"), IN_BOX, OUT_OF_BOX, False),
    "labels in shards": Scene(partial(labels, sharding="advise"), IN_BOX, OUT_OF_BOX, False),
    "mesh legacy": Scene(partial(meshes, kind="legacy"), IN_BOX, OUT_OF_BOX, True),
    "mesh in files": Scene(partial(meshes, sharding=None), IN_BOX, OUT_OF_BOX, True),
    "mesh in shards": Scene(partial(meshes, sharding="advise"), IN_BOX, OUT_OF_BOX, True),
    "mesh of levels": Scene(partial(meshes, levels=3, lod_scales=(1, 2, 4)), IN_BOX, OUT_OF_BOX, True),
    "mesh of 10 bits": Scene(partial(meshes, vertex_quantization_bits=10), IN_BOX, OUT_OF_BOX, True),
    "mesh forged": Scene(forged, IN_BOX, OUT_OF_BOX, True),
    "skeleton in files": Scene(skeletons, ON_BONE, OFF_BONE, True),
    "skeleton in shards": Scene(partial(skeletons, sharding="advise"), ON_BONE, OFF_BONE, True),
    "point": Scene(POINT, ((48, 32),), ((16, 32), (48, 44)), False),
    "points in shards": Scene(partial(POINT, sharding=SPEC), ((48, 32),), ((16, 32), (48, 44)), False),
    "line": Scene(LINE, ((48, 32), (42, 26), (54, 38)), ((16, 32), (42, 38), (54, 26)), False),
    "box": Scene(AREA, ((40, 32), (56, 32), (48, 24), (48, 40)), ((24, 32), (8, 32), (48, 32)), False),
    "ellipsoid": Scene(BALL, ((48, 32), (54, 32), (48, 38)), ((16, 32), (48, 45), (38, 22)), False),
    "polyline": Scene(PATH, ((44, 32), (48, 38)), ((20, 32), (42, 40), (54, 32)), False),
}


def make_objects(root: Path) -> None:
    for name, scene in SCENES.items():
        scene.make(root / name)


def view(link: str, name: str) -> dict[str, Any]:
    """The link of the page, with the colour in which its thing is to be drawn, and from where it is looked at."""
    scene = SCENES[name]
    head, _, text = link.partition("#!")
    state = json.loads(unquote(text))
    for layer in state["layers"]:
        layer.pop("tab", None)
        if layer["type"] == "annotation":
            layer |= {"shader": _SHADER, "crossSectionAnnotationSpacing": 1}
        else:
            layer |= {
                "segments": [str(SEGMENT)], "segmentColors": {str(SEGMENT): RED}, "selectedAlpha": 1,
                "skeletonRendering": {"mode3d": "lines", "lineWidth3d": 9},
            }  # fmt: skip
    middle = SIDE / 2
    looked = {"position": [middle, middle, middle + 0.5], "showAxisLines": False, "showDefaultAnnotations": False}
    if scene.solid:
        looked |= {"layout": {"type": "3d", "orthographicProjection": True}, "showSlices": False}
    else:
        looked |= {"layout": "xy", "crossSectionScale": 1 / ZOOM}
    return {
        "link": f"{head}#!{quote(json.dumps(state), safe='')}", "state": looked,
        "scale": 1 / ZOOM if scene.solid else None,
    }  # fmt: skip


def misplaced(name: str, shown: np.ndarray, panel: list[float]) -> list[str]:
    """The places that have not the colour they must have, or have it and must not."""
    scene = SCENES[name]
    left, top, width, height = panel
    rgb = shown[..., :3].astype(int)
    # Surfaces are shaded: what tells is the hue.
    red = (rgb[..., 0] > 60) & (rgb[..., 0] > 2 * rgb[..., 1]) & (rgb[..., 0] > 2 * rgb[..., 2])
    wrong = []
    for places, expected in ((scene.seen, True), (scene.free, False)):
        for x, y in places:
            column = round(left + width / 2 + (x - SIDE / 2) * ZOOM)
            row = round(top + height / 2 + (y - SIDE / 2) * ZOOM)
            around = red[row - 3 : row + 4, column - 3 : column + 4]
            if (around.mean() > 0.2) != expected:  # a line may be of two pixels
                wrong.append(f"voxel {x}, {y}: {'not red' if expected else 'red'} ({rgb[row, column].tolist()})")
    return wrong
