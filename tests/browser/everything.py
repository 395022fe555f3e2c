"""The one view of a folder: an image, a segmentation with a mesh, a skeleton and properties, and annotations.

Each thing has a place of its own in a cube of 64 voxels of 8 nm. The link has to select the segment.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import numpy as np
from objects import SIDE, VOXEL, box

import zvcore
from zvcore.precomputed import Skeleton, write_annotations, write_meshes, write_segment_properties, write_skeletons

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["amiss", "make_everything", "view_of_everything"]

SEGMENT = 2**40 + 7
ZOOM = 4
# Of the four panels: the plane of x and y, and space.
PLANE, SPACE = 0, 2
# What must be seen where: panel, place in voxels, colour.
SEEN = {
    "the image": (PLANE, (10, 54), "white"),
    "the labels": (PLANE, (16, 16), "green"),
    "annotations in the plane": (PLANE, (48, 12), "red"),
    "the mesh": (SPACE, (48, 32), "green"),
    "the skeleton": (SPACE, (48, 56), "green"),
    "annotations in space": (SPACE, (48, 12), "red"),
    "nothing": (SPACE, (10, 54), "black"),
}
_SHADER = "void main() { setColor(vec4(1.0, 0.0, 0.0, 1.0)); setPointMarkerSize(20.0); }"


def make_everything(root: Path) -> None:
    options: dict[str, Any] = {
        "format": "precomputed", "shape": (SIDE,) * 3, "resolution": (VOXEL,) * 3, "chunks": (32, 32, 32),
    }  # fmt: skip
    image = zvcore.create(root / "image", dtype="uint8", type="image", **options)
    # Some contrast: the server looks for the darkest and the brightest.
    image[...] = np.broadcast_to(
        np.where(np.arange(SIDE) < SIDE // 2, 160, 80)[:, None, None, None], (SIDE,) * 3 + (1,)
    )
    image[:, :, :8] = 0
    image[:, :, -8:] = 255
    labels = zvcore.create(
        root / "labels", dtype="uint64", type="segmentation", mesh="mesh", skeletons="bones",
        segment_properties="names", **options,
    )  # fmt: skip
    values = np.zeros((SIDE, SIDE, SIDE, 1), np.uint64)
    values[8:24, 8:24, 8:56] = SEGMENT
    labels[...] = values
    write_meshes(root / "labels/mesh", {SEGMENT: box((38, 24, 24), (58, 40, 40))})
    bone = np.array([[38, 56, 32], [58, 56, 32]], np.float32) * VOXEL
    write_skeletons(root / "labels/bones", {SEGMENT: Skeleton(bone, np.array([[0, 1]], np.uint32))})
    write_segment_properties(root / "labels/names", [SEGMENT], {"label": ["the box"]})
    write_annotations(
        root / "points", "point", {"point": [[48, 12, 32.5]]}, dimensions=dict.fromkeys("xyz", (VOXEL * 1e-9, "m")),
        lower_bound=(0, 0, 0), upper_bound=(SIDE, SIDE, SIDE),
    )  # fmt: skip


def view_of_everything(link: str) -> dict[str, Any]:
    """The link of the page with colours, and from where it is looked at."""
    head, _, text = link.partition("#!")
    state = json.loads(unquote(text))
    for layer in state["layers"]:
        layer.pop("tab", None)
        if layer["type"] == "annotation":
            layer |= {"shader": _SHADER, "crossSectionAnnotationSpacing": 1}
        elif layer["type"] == "segmentation":
            layer |= {
                "segmentColors": {str(SEGMENT): "#00ff00"}, "selectedAlpha": 1,
                "skeletonRendering": {"mode3d": "lines", "lineWidth3d": 9},
            }  # fmt: skip
    looked = {
        "layout": {"type": "4panel", "orthographicProjection": True}, "showSlices": False, "showAxisLines": False,
        "showScaleBar": False, "showDefaultAnnotations": False, "crossSectionScale": 1 / ZOOM,
        "position": [SIDE / 2, SIDE / 2, SIDE / 2 + 0.5],
    }  # fmt: skip
    return {"link": f"{head}#!{quote(json.dumps(state), safe='')}", "state": looked, "scale": 1 / ZOOM}


def amiss(shown: np.ndarray, panels: list[list[float]]) -> list[str]:
    """What is not where it must be, in the colour that it must have."""
    wrong = []
    for what, (panel, (x, y), colour) in SEEN.items():
        left, top, width, height = panels[panel]
        column = round(left + width / 2 + (x - SIDE / 2) * ZOOM)
        row = round(top + height / 2 + (y - SIDE / 2) * ZOOM)
        found = {_colour_of(rgb) for rgb in shown[row - 2 : row + 3, column - 2 : column + 3, :3].reshape(-1, 3)}
        if colour not in found:
            wrong.append(f"{what}: not {colour} at voxel {x}, {y}, but {' and '.join(sorted(found))}")
    return wrong


def _colour_of(rgb: np.ndarray) -> str:
    values = rgb.astype(int)
    most = int(values.argmax())
    if values[most] > 60 and values[most] > 2 * np.delete(values, most).max():
        return ("red", "green", "green")[most]
    return "black" if values.max() < 40 else "white" if values.min() > 200 else "grey"
