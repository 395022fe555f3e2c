"""Codecs that other distributions have written for zarr-python, by the names that they have in Zarr v3.

zarr-python is needed only when one of them is used. What has a name in zvcore, or in numcodecs, never comes here.
"""

from __future__ import annotations

import json
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from zvcore.cached import cached_property
from zvcore.codecs.base import Codec
from zvcore.errors import CodecNotFoundError, CorruptDataError, MetadataError, UnsupportedError, ZvcoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

__all__ = ["ZarrPythonCodec", "adapter"]

GROUP = "zarr.codecs"


class ZarrPythonCodec(Codec):
    """One codec of zarr-python's registry with its configuration.

    It has no way to say how much a stream may decode to; a limit is checked only when the bytes are there.
    """

    spellings = {"n5": None, "zarr2": None, "neuroglancer": None}
    zarr_class: ClassVar[type[Any]]
    # Of a serializer: it gets arrays of numbers.
    makes_bytes_of_numbers: ClassVar[bool]

    def __init__(self, **parameters: Any) -> None:
        try:
            # As JSON has it: what cannot be written into a document is refused now.
            parameters = json.loads(json.dumps(parameters))
        except (TypeError, ValueError) as error:
            raise MetadataError(f"the parameters cannot be written as JSON: {error}", codec=self.name) from error
        self.__dict__["_parameters"] = parameters
        self._codec  # noqa: B018 - wrong values are reported now, not at the first chunk

    _parameters: dict[str, Any]

    @cached_property
    def _codec(self) -> Any:
        try:
            return self.zarr_class.from_dict(self.to_zarr3())
        except Exception as error:
            raise MetadataError(f"the parameters are refused: {error}", codec=self.name) from error

    def config(self) -> dict[str, Any]:
        return dict(self._parameters)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        return cls(**config)

    def to_zarr3(self) -> dict[str, Any]:
        return {"name": self.name, **({"configuration": self.config()} if self._parameters else {})}

    @classmethod
    def from_zarr3(cls, obj: Any) -> Codec:
        configuration = obj.get("configuration", {}) if isinstance(obj, dict) else {}
        if not isinstance(configuration, dict):
            raise MetadataError("a codec's configuration must be an object", codec=cls.name, found=repr(configuration))
        return cls.from_config(configuration)

    # -- as bytes ------------------------------------------------------------------------------------------------

    def _encode(self, data: memoryview) -> bytes:
        spec = _spec(np.dtype("u1"), (data.nbytes,))
        given = spec.prototype.buffer.from_bytes(bytes(data))
        return self._bytes_of(self._encoded(self._codec, given, spec))

    def _decode(self, data: memoryview, max_size: int) -> bytes:
        spec = _spec(np.dtype("u1"), (data.nbytes,))
        given = spec.prototype.buffer.from_bytes(bytes(data))
        return bytes(self._decoded(self._codec, given, spec).to_bytes())

    # -- as arrays -----------------------------------------------------------------------------------------------

    def encoded_form(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> tuple[np.dtype[Any], tuple[int, ...]]:
        """Type and shape of what a filter makes of an array of this type and shape."""
        if self.kind != "array":
            raise TypeError(f"{self.name} is not a filter")
        codec, spec = self._meant_for(dtype, shape)
        try:
            made = codec.resolve_metadata(spec)
            return made.dtype.to_native_dtype(), tuple(made.shape)
        except Exception as error:
            raise self._unfit(dtype, shape, error) from error

    def encode_array(self, values: npt.NDArray[Any]) -> Any:
        """What a filter (an array) or a serializer (bytes) makes of an array."""
        codec, spec = self._meant_for(values.dtype, values.shape)
        made = self._encoded(codec, spec.prototype.nd_buffer.from_numpy_array(np.ascontiguousarray(values)), spec)
        return made.as_numpy_array() if self.kind == "array" else self._bytes_of(made)

    def decode_array(self, stored: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
        """The array of this type and shape that a filter's array or a serializer's bytes stand for."""
        codec, spec = self._meant_for(dtype, shape)
        if self.kind == "array":
            given = spec.prototype.nd_buffer.from_numpy_array(np.ascontiguousarray(stored))
        else:
            given = spec.prototype.buffer.from_bytes(bytes(stored))
        values = np.asarray(self._decoded(codec, given, spec).as_numpy_array())
        if values.shape != shape or values.dtype.newbyteorder("=") != dtype.newbyteorder("="):
            expected, found = f"{dtype} {shape}", f"{values.dtype} {values.shape}"
            raise CorruptDataError("other values than the chunk's", codec=self.name, expected=expected, found=found)
        return values.astype(dtype, copy=False)

    def _unfit(self, dtype: np.dtype[Any], shape: tuple[int, ...], why: Exception) -> MetadataError:
        return MetadataError(f"it is not for such arrays: {why}", codec=self.name, found=f"{dtype} {shape}")

    # -- running them --------------------------------------------------------------------------------------------

    def _meant_for(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> tuple[Any, Any]:
        """The codec for arrays of this type and shape, and what it is told of them."""
        try:
            spec = _spec(dtype, shape)
            return self._codec.evolve_from_array_spec(spec), spec
        except Exception as error:
            raise self._unfit(dtype, shape, error) from error

    def _encoded(self, codec: Any, data: Any, spec: Any) -> Any:
        try:
            return _run(codec, "encode", data, spec)
        except (MemoryError, ZvcoreError):
            raise
        except Exception as error:
            raise UnsupportedError(f"it cannot hold such chunks: {error}", codec=self.name) from error

    def _decoded(self, codec: Any, data: Any, spec: Any) -> Any:
        try:
            return _run(codec, "decode", data, spec)
        except (MemoryError, ZvcoreError):
            raise
        except Exception as error:
            raise CorruptDataError(f"not valid ({type(error).__name__}: {error})", codec=self.name) from error

    def _bytes_of(self, made: Any) -> bytes:
        if made is None:
            raise UnsupportedError("it leaves out chunks that have values", codec=self.name)
        return bytes(made.to_bytes())


def _run(codec: Any, what: str, data: Any, spec: Any) -> Any:
    """Newer codecs can be called as they are, all others in zarr-python's loop of events."""
    plain: Callable[..., Any] | None = getattr(codec, f"_{what}_sync", None)
    if plain is not None:
        return plain(data, spec)
    from zarr.core.sync import sync

    return sync(getattr(codec, f"_{what}_single")(data, spec))


def _spec(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    from zarr.core.array_spec import ArrayConfig, ArraySpec
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.dtype import get_data_type_from_native_dtype

    data_type = get_data_type_from_native_dtype(dtype)
    config = ArrayConfig(order="C", write_empty_chunks=True)
    return ArraySpec(shape, data_type, data_type.default_scalar(), config, default_buffer_prototype())


def adapter(name: str) -> type[ZarrPythonCodec] | None:
    """The codec class for this name of zarr-python's registry; None if it has no such codec."""
    if not _installed(name) and "zarr.registry" not in sys.modules:
        return None
    from zarr.registry import get_codec_class

    try:
        found: Any = get_codec_class(name)
    except (LookupError, ValueError):
        return None
    except Exception as error:
        raise CodecNotFoundError(f"zarr-python cannot load its codec {name!r}: {error}") from error
    return _made(name, found)


def _installed(name: str) -> bool:
    """Whether some distribution has such a codec for zarr-python, which need not be imported yet."""
    from importlib import metadata

    points = metadata.entry_points()
    return bool(points.select(group=GROUP, name=name) or points.select(group=f"{GROUP}.{name}"))


@lru_cache(maxsize=256)
def _made(name: str, zarr_class: type[Any]) -> type[ZarrPythonCodec] | None:
    from zarr.abc.codec import ArrayArrayCodec, ArrayBytesCodec

    kind = "array" if issubclass(zarr_class, ArrayArrayCodec) else "bytes"
    if issubclass(zarr_class, ArrayBytesCodec):
        kind = "serializer"
    members = {
        "name": name,
        "zarr_class": zarr_class,
        "kind": kind,
        "makes_bytes_of_numbers": kind == "serializer",
        "__doc__": zarr_class.__doc__,
        "__reduce__": _reduce,
    }
    return type(f"ZarrPython_{''.join(c if c.isalnum() else '_' for c in name)}", (ZarrPythonCodec,), members)


def _reduce(self: ZarrPythonCodec) -> tuple[Any, ...]:
    return (_rebuild, (self.name, self.config()))


def _rebuild(name: str, config: Mapping[str, Any]) -> Codec:
    cls = adapter(name)
    if cls is None:
        raise CodecNotFoundError(f"zarr-python has no codec {name!r} here")
    return cls.from_config(config)
