"""What codecs that make arrays of arrays have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from zvcore.codecs import Codec
from zvcore.codecs.small_numbers import kind_of
from zvcore.documents.values import shown
from zvcore.errors import MetadataError, UnsupportedError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["Filter"]


class Filter(Codec, ABC):
    """A codec for Zarr v3 only, whose configuration has no members that it does not know."""

    kind = "array"
    spellings = {"n5": None, "zarr2": None, "neuroglancer": None}
    # Whether each item is changed by itself, whatever its neighbours are; or none is changed, and items only move.
    elementwise = False
    moves_only = False

    @abstractmethod
    def encoded_form(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> tuple[np.dtype[Any], tuple[int, ...]]:
        """The type and shape that an array of this type and shape becomes."""

    @abstractmethod
    def encode_array(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]: ...

    @abstractmethod
    def decode_array(
        self, stored: npt.NDArray[Any], dtype: np.dtype[Any], shape: tuple[int, ...]
    ) -> npt.NDArray[Any]: ...

    def written_config(self) -> dict[str, Any]:
        """The configuration without what may be left out."""
        return self.config()

    def to_zarr3(self) -> dict[str, Any]:
        config = self.written_config()
        return {"name": self.name, **({"configuration": config} if config else {})}

    @classmethod
    def from_zarr3(cls, obj: Any) -> Codec:
        config = obj.get("configuration", {}) if isinstance(obj, Mapping) else {}
        if not isinstance(config, Mapping):
            raise MetadataError("a codec's configuration must be an object", codec=cls.name, found=shown(config))
        return cls.from_config(config)

    def refused(self, member: str, expected: str, found: Any) -> MetadataError:
        return MetadataError(f"{member!r} has a wrong value", codec=self.name, expected=expected, found=shown(found))

    def check_numbers(self, dtype: np.dtype[Any]) -> None:
        if kind_of(dtype) not in "iuf":
            raise UnsupportedError("only integers and floats can be worked on", codec=self.name, found=str(dtype))

    def _encode(self, data: Any) -> bytes:
        raise UnsupportedError("arrays are made of arrays, not bytes of bytes", codec=self.name)

    def _decode(self, data: Any, max_size: int) -> bytes:
        raise UnsupportedError("arrays are made of arrays, not bytes of bytes", codec=self.name)
