"""What Neuroglancer can open by itself, and links that open it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from zvcore.format import ViewerSource, get_format

if TYPE_CHECKING:
    from zvcore.images import Image
    from zvcore.serving.catalog import Dataset

__all__ = ["DEMO", "direct_source", "link", "state", "together", "with_annotations"]

DEMO = "https://neuroglancer-demo.appspot.com/"

_TYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "float32")


def direct_source(dataset: Dataset, base: str) -> tuple[str | None, str]:
    """(what to type into Neuroglancer, "") for what it reads by itself, else (None, why it does not)."""
    where = f"{base}/" + "".join(f"{quote(name)}/" for name in dataset.names)
    if dataset.pyramid is not None and dataset.node is not None:
        inside = get_format(dataset.format).viewer_folder(dataset.pyramid)
        where += f"{quote(inside)}/" if inside else ""
    if dataset.viewer is not None:
        found = dataset.viewer
    elif dataset.pyramid is not None:
        found = _of_image(dataset.pyramid)
    elif dataset.node is not None:
        found = get_format(dataset.format).viewer_source(dataset.node)
    else:
        found = ViewerSource(None, "broken")
    return (None if found.scheme is None else f"{found.scheme}{where}"), found.why


def _of_image(image: Image) -> ViewerSource:
    """Every level has to be one that it reads."""
    for array in image.arrays:
        if array.dtype.name not in _TYPES:
            return ViewerSource(None, f"Neuroglancer shows no {array.dtype.name}")
        found = get_format(array.format).viewer_source(array)
        if found.scheme is None:
            break
    return found


def state(
    name: str,
    source: str,
    kind: str,
    limits: tuple[float, float] | None = None,
    segments: list[str] | None = None,
    axes: dict[str, tuple[float, str]] | None = None,
    place: tuple[list[float], float] | None = None,
) -> dict[str, Any]:
    """A viewer's state with one layer.

    kind   "image", "segmentation" or "annotation"
    axes   their sizes and units, in their order on the screen
    place  (middle, extent) in nanometers of lines or points, of which Neuroglancer does not know where they are
    """
    layer: dict[str, Any] = {"type": kind, "source": source, "name": name or "data", "tab": "source"}
    if limits is not None and kind == "image":
        layer["shaderControls"] = {"normalized": {"range": list(limits)}}
    if segments:
        layer["segments"] = segments
    found: dict[str, Any] = {"layers": [layer], "layout": "4panel"}
    if axes:
        # Neuroglancer heeds the second only where the first says which axes there are.
        found["dimensions"] = {name: list(size) for name, size in axes.items()}
        found["displayDimensions"] = list(axes)[:3]
    if place is not None:
        found["dimensions"] = {name: [1e-9, "m"] for name in "xyz"}
        found |= {"position": place[0], "projectionScale": 1.3 * place[1], "layout": "3d"}
    return found


def with_annotations(one: dict[str, Any], source: str, folders: dict[str, list[str]]) -> dict[str, Any]:
    """A state with a further layer for each folder of annotations within its source.

    Relationships lead to the segments of the layer, if it has such: then choosing some shows which are theirs.
    """
    [base] = one["layers"]
    layers = [base]
    for name, relationships in folders.items():
        layer: dict[str, Any] = {
            "type": "annotation",
            "source": f"{source}{quote(name)}/",
            "name": name,
            "tab": "source",
        }
        if layer["name"] == base["name"]:
            layer["name"] = f"{name} (annotations)"
        if base["type"] == "segmentation" and relationships:
            layer["linkedSegmentationLayer"] = dict.fromkeys(relationships, base["name"])
        layers.append(layer)
    return {**one, "layers": layers}


def together(states: list[dict[str, Any]]) -> dict[str, Any]:
    """One state with the layers of several. Images lie below segmentations, and the first says where things are."""
    order = {"image": 0, "segmentation": 1}
    layers = [layer for one in states for layer in one["layers"]]
    names: dict[str, int] = {}
    for one in states:
        called = {}
        for layer in one["layers"]:
            seen = names[layer["name"]] = names.get(layer["name"], 0) + 1
            before = layer["name"]
            layer["name"] = called[before] = before if seen == 1 else f"{before} ({seen})"
        for layer in one["layers"]:
            if "linkedSegmentationLayer" in layer:
                linked = layer["linkedSegmentationLayer"]
                layer["linkedSegmentationLayer"] = {name: called[base] for name, base in linked.items()}
    places = sorted(states, key=lambda one: order.get(one["layers"][0]["type"], len(order)))
    found = {**places[0], "layers": sorted(layers, key=lambda layer: order.get(layer["type"], len(order)))}
    return found | ({"layout": "4panel"} if len(states) > 1 else {})


def link(viewer: str, viewer_state: dict[str, Any]) -> str:
    """A URL that opens this state."""
    text = json.dumps(viewer_state, separators=(",", ":"), allow_nan=False)
    return f"{viewer.split('#', 1)[0]}#!{quote(text, safe='')}"
