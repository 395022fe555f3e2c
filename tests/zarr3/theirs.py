"""A codec that zarr-python alone knows: arrays with it go to its own pipeline."""

from __future__ import annotations

from typing import Any

import zarr.codecs


class Theirs(zarr.codecs.TransposeCodec):
    """A filter that leaves arrays of one axis as they are."""

    def __init__(self) -> None:
        super().__init__(order=[0])

    def to_dict(self) -> Any:
        return {"name": "somebody.s", "configuration": {}}

    def evolve_from_array_spec(self, array_spec: Any) -> Any:
        return self
