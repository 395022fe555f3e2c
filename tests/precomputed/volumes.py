"""Small volumes for tests: made, opened, filled, and as documents."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

import zvcore
from zvcore.precomputed import ShardingSpec

if TYPE_CHECKING:
    from pathlib import Path


MURMUR = ShardingSpec(1, "murmurhash3_x86_128", 2, 1, "gzip", "gzip")


def create(path: Any, **options: Any) -> Any:
    return zvcore.create(
        path, format="precomputed", **{"shape": (70, 45, 33), "dtype": "uint16", "chunks": (32, 16, 16), **options}
    )


def open_(path: Any, mode: Any = "r", **options: Any) -> Any:
    return zvcore.open(path, mode, format="precomputed", **options)


def voxels(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray[Any, Any]:
    generator = np.random.default_rng(seed)
    coarse = generator.integers(1, 200, tuple(-(-n // 5) for n in shape[:3]) + shape[3:])
    fine = coarse.repeat(5, 0).repeat(5, 1).repeat(5, 2)[tuple(slice(n) for n in shape)]
    return np.asfortranarray(fine.astype(dtype))


def info(**changes: Any) -> dict[str, Any]:
    scale = {
        "key": "s", "size": [70, 45, 33], "resolution": [8, 8, 40], "encoding": "raw", "chunk_sizes": [[32, 16, 16]],
    }  # fmt: skip
    scale.update({name[6:]: value for name, value in changes.items() if name.startswith("scale_")})
    document = {"type": "image", "data_type": "uint8", "num_channels": 1, "scales": [scale]}
    document.update({name: value for name, value in changes.items() if not name.startswith("scale_")})
    return document


def write_info(folder: Path, document: Any) -> None:
    (folder / "info").write_text(document if isinstance(document, str) else json.dumps(document))
