"""Sets of annotations to be damaged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import zvcore
from zvcore.precomputed import Ragged, ShardedStore, write_annotations
from zvcore.precomputed.annotation_records import encode_lists
from zvcore.precomputed.annotation_values import IndexValues
from zvcore.stores import LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NM = dict.fromkeys("xyz", (1e-9, "m"))


def made(path: Path, type: str = "point", count: int = 300, sharding: Any = None, **options: Any) -> Any:
    rng = np.random.default_rng(0)
    a, b = (rng.random((2, count, 3)) * 100).astype("f4")
    columns: dict[str, Any] = {
        "point": {"point": a}, "line": {"point_a": a, "point_b": b}, "ellipsoid": {"center": a, "radii": b},
        "axis_aligned_bounding_box": {"point_a": a, "point_b": a + b / 10},
        "polyline": {"points": Ragged.of([rng.random((2 + n % 3, 3)) for n in range(count)], "f4", 3)},
    }[type]  # fmt: skip
    columns |= {
        "id": np.arange(count, dtype="u8") * 2**52 + 5, "size": rng.random(count).astype("f4"),
        "segments": [rng.integers(0, 9, n % 3, np.uint64).tolist() for n in range(count)],
    }  # fmt: skip
    write_annotations(
        path, type, columns, dimensions=NM, relationships=["segments"], limit=50, sharding=sharding, **options
    )
    return zvcore.open(path)


def rewritten(path: Path, index: Any, key: Any, change: Any) -> None:
    """Change a list: `change` gets its bytes, and gives new ones."""
    values = IndexValues(LocalStore(path), index)
    data, starts, _ = values.fetch(np.asarray(key)[None])
    new = change(data[starts[0] : starts[-1]].tobytes())
    if index.sharding is not None:
        id = int(values.numbers(np.asarray(key)[None])[0])
        ShardedStore(path / index.folder, index.sharding, "r+").update({id: new})
    else:
        (path / index.folder / values.name(np.asarray(key))).write_bytes(new)


def without_the_last(form: Any) -> Callable[[bytes], bytes]:
    """Makes a list one annotation shorter."""

    def change(data: bytes) -> bytes:
        found = form.listed(np.frombuffer(data, np.uint8), np.array([0, len(data)]))
        rows = np.arange(len(found.ids) - 1)
        return encode_lists(found.records.take(rows), found.ids[rows], np.array([len(rows)])).data.tobytes()

    return change
