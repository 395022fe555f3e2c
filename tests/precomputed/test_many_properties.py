"""A document of annotations that declares many properties is read in proportion to their number."""

from __future__ import annotations

import json
import sys
from typing import Any

import zvcore
from zvcore.stores import MemoryStore


def calls_to_open(count: int) -> int:
    store = MemoryStore()
    info = {
        "@type": "neuroglancer_annotations_v1",
        "dimensions": {name: [1e-9, "m"] for name in "xyz"},
        "lower_bound": [0, 0, 0],
        "upper_bound": [8, 8, 8],
        "annotation_type": "POINT",
        "properties": [{"id": f"p{number}", "type": "float32"} for number in range(count)],
        "relationships": [],
        "by_id": {"key": "by_id"},
        "spatial": [{"key": "s", "grid_shape": [1, 1, 1], "chunk_size": [8, 8, 8], "limit": 1}],
    }
    store.put("info", json.dumps(info).encode())
    calls = 0

    def counted(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        opened = zvcore.open(store)
    finally:
        sys.setprofile(before)
    assert opened.kind == "annotations"
    return calls


def test_each_property_is_not_compared_with_all_others() -> None:
    calls_to_open(1)  # imports
    few, many = calls_to_open(200), calls_to_open(800)
    assert many < 6 * few
