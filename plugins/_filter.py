"""What codecs that turn arrays into arrays have in common."""

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
    """A codec for Zarr v3 only, which refuses members of its configuration that it does not know."""

    kind = "array"
    spellings = {"n5": None, "zarr2": None, "neuroglancer": None}
    # Whether each item is changed by itself, without regard to its neighbours; or none is changed, and items only move.
    elementwise = False
    moves_only = False

    @abstractmethod
    def encoded_form(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> tuple[np.dtype[Any], tuple[int, ...]]:
        """The type and shape that encoding gives an array of this type and shape."""

    @abstractmethod
    def encode_array(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]: ...

    @abstractmethod
    def decode_array(
        self, stored: npt.NDArray[Any], dtype: np.dtype[Any], shape: tuple[int, ...]
    ) -> npt.NDArray[Any]: ...

    def written_config(self) -> dict[str, Any]:
        """The configuration without the members that may be left out."""
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
            raise UnsupportedError("this codec takes only integers and floats", codec=self.name, found=str(dtype))

    def _encode(self, data: Any) -> bytes:
        raise UnsupportedError("this codec turns arrays into arrays, not bytes into bytes", codec=self.name)

    def _decode(self, data: Any, max_size: int) -> bytes:
        raise UnsupportedError("this codec turns arrays into arrays, not bytes into bytes", codec=self.name)
