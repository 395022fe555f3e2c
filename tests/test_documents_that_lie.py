"""Numbers in documents that no float can hold, wherever a document has one: errors of zvcore, and no others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.documents.values import is_number
from zvcore.errors import ZvcoreError
from zvcore.pictures import preview
from zvcore.precomputed import Skeleton, Skeletons, write_skeletons

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

BAD = [10**400, float("nan"), "9" * 5000]


def test_what_is_a_number() -> None:
    for value in (0, -1, 1.5, 2**63, 1e308, -1e308):
        assert is_number(value)
    for value in (*BAD, True, None, "1", [1]):
        assert not is_number(value)


def dataset(path: Path) -> Path:
    attrs = {"resolution": [1, 1, 1], "offset": [0, 0, 0], "units": ["nm"] * 3, "downsamplingFactors": [1, 1, 1]}
    zvcore.create(path, format="n5", shape=(8, 8, 8), dtype="uint8", chunks=(4, 4, 4), attrs=attrs)
    return path / "attributes.json"


def pyramid(path: Path) -> Path:
    for level in range(2):
        zvcore.create(path / f"s{level}", format="n5", shape=(8 >> level,) * 3, dtype="uint8", chunks=(4, 4, 4))
    document = path / "attributes.json"
    transform = {"axes": ["z", "y", "x"], "scale": [1, 1, 1], "translate": [0, 0, 0], "units": ["nm"] * 3}
    levels = [{"path": f"s{level}", "transform": transform} for level in range(2)]
    document.write_text(json.dumps({"n5": "4.0.0", "multiscales": [{"datasets": levels}]}))
    return document


def volume(path: Path) -> Path:
    zvcore.create(path, format="precomputed", shape=(8, 8, 8), dtype="uint8", chunks=(4, 4, 4), sharding="advise")
    return path / "info"


def ome(path: Path) -> Path:
    zvcore.open(path, mode="w", format="zarr3")
    zvcore.create(path / "0", format="zarr3", shape=(8, 8, 8), dtype="uint8", chunks=(4, 4, 4))
    changes = [{"type": "scale", "scale": [1, 1, 1]}, {"type": "translation", "translation": [0, 0, 0]}]
    axes = [{"name": name, "type": "space", "unit": "micrometer"} for name in "zyx"]
    found = {
        "version": "0.5",
        "multiscales": [{"axes": axes, "datasets": [{"path": "0", "coordinateTransformations": changes}]}],
    }
    document = path / "zarr.json"
    document.write_text(json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {"ome": found}}))
    return document


def skeletons(path: Path) -> Path:
    write_skeletons(path, {1: Skeleton(np.zeros((2, 3), "f4"), np.array([[0, 1]], "u4"))})
    return path / "info"


def with_bad_numbers(document: Any) -> Iterator[Any]:
    """The document once for every number in it and every bad one."""
    if isinstance(document, dict):
        for name, value in document.items():
            yield from ({**document, name: changed} for changed in with_bad_numbers(value))
    elif isinstance(document, list):
        for place, value in enumerate(document):
            yield from ([*document[:place], changed, *document[place + 1 :]] for changed in with_bad_numbers(value))
    elif isinstance(document, (int, float)):
        yield from BAD


def looked_at(path: Path) -> None:
    node = zvcore.open(path)
    if hasattr(node, "multiscale"):
        node.multiscale()
    preview(node, size=4)


@pytest.mark.parametrize(
    ("make", "look"),
    [(dataset, looked_at), (pyramid, looked_at), (volume, looked_at), (ome, looked_at), (skeletons, Skeletons)],
)
def test_numbers_that_no_float_holds(tmp_path: Path, make: Callable[[Path], Path], look: Callable[[Path], Any]) -> None:
    document = make(tmp_path / "a")
    refused = 0
    for changed in with_bad_numbers(json.loads(document.read_text())):
        document.write_text(json.dumps(changed))
        for function in (look, zvcore.inspect, zvcore.verify):
            try:
                function(tmp_path / "a")
            except ZvcoreError:
                refused += 1
    assert refused
