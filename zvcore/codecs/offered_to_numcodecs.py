"""Codecs of zvcore as numcodecs' registry, which is that of Zarr v2, holds them.

`zvcore.codecs.numcodecs` brings codecs in, this module takes them out.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from numcodecs import registry
from numcodecs.abc import Codec as NumcodecsBase
from numcodecs.compat import ensure_contiguous_ndarray

from zvcore.codecs.offered import Offered, name_among, offered_class

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

__all__ = ["class_of", "register"]


class OfferedCodec(Offered):
    """A codec of zvcore with its parameters: `Runs.for_numcodecs(longest=100)`."""

    codec_id: ClassVar[str]

    def __init__(self, **parameters: Any) -> None:
        self.codec = self.codec_class(**parameters)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        made = cls.__new__(cls)
        made.codec = cls.codec_class.from_zarr2({"id": cls.codec_id, **config})
        return made

    def get_config(self) -> dict[str, Any]:
        return self.codec.to_zarr2()

    def encode(self, buf: Any) -> bytes:
        # The bytes of an array as they lie in memory, in whichever order.
        return self.codec.encode(ensure_contiguous_ndarray(buf))

    def decode(self, buf: Any, out: Any = None) -> Any:
        if out is None:
            return self.codec.decode(ensure_contiguous_ndarray(buf))
        self.codec.decode(ensure_contiguous_ndarray(buf), ensure_contiguous_ndarray(out))
        return out

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self.codec), self.get_config()))


@lru_cache(maxsize=256)
def class_of(cls: Any) -> type[OfferedCodec]:
    """The class for numcodecs, found again as an attribute of the codec's own."""
    name = name_among(cls, "zarr2")
    made: type[OfferedCodec] = offered_class(cls, "for_numcodecs", name, (OfferedCodec, NumcodecsBase), codec_id=name)
    return made


def _rebuild(cls: Any, config: dict[str, Any]) -> OfferedCodec:
    return class_of(cls).from_config(config)


def register(cls: Any) -> str | None:
    """Make the codec known; returns its name in Zarr v2, or None if there is nothing to do."""
    name = name_among(cls, "zarr2")
    if name is None or name in registry.codec_registry or name in registry.entries:
        return None
    registry.register_codec(class_of(cls), name)
    return name
