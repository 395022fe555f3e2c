"""The codecs of numcodecs, as `numcodecs.<id>`: in Zarr v3 as zarr-python writes them, in N5 in the same way.

numcodecs is needed only when one of them is used. Where an installed plugin says that it reads a `numcodecs.<id>` by
itself, a document's codec goes to that plugin instead, which is faster and bounds what a stream may take.
"""

from __future__ import annotations

import inspect
import json
import math
from functools import lru_cache
from importlib import metadata
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from zvcore.cached import cached_property
from zvcore.casting import as_dtype
from zvcore.codecs.base import Codec
from zvcore.codecs.buffers import readable_bytes
from zvcore.codecs.lost_differences import refuse_lost_differences
from zvcore.codecs.registry import find_plugin
from zvcore.codecs.serializers import COUNTED, NUMBERS, check_count, decode_numbers
from zvcore.codecs.unfit import CASTING
from zvcore.errors import (
    CodecConflictError,
    CodecNotFoundError,
    CorruptDataError,
    MetadataError,
    UnsupportedError,
    ZvcoreError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PREFIX", "NumcodecsCodec", "adapter"]

PREFIX = "numcodecs."

# Filters: arrays to arrays.
_FILTERS = frozenset(("astype", "bitround", "categorize", "delta", "fixedscaleoffset", "packbits", "quantize"))
# Arrays to bytes; the type and shape of the values are not in the bytes.
_SERIALIZERS = frozenset(("json2", "msgpack2", "pcodec", "vlen-array", "vlen-bytes", "vlen-utf8", "zfpy"))
# Reading them runs whatever the data says.
_DANGEROUS = frozenset(("pickle",))
# How many bytes those add that make data longer by always as much.
_ADDED = {
    "adler32": 4,
    "crc32": 4,
    "crc32c": 4,
    "fletcher32": 4,
    "jenkins_lookup3": 4,
    "shuffle": 0,
}
# The parameter that takes the array's type (as a string) or item size where a document does not say it.
_FROM_DTYPE = {
    "astype": "decode_dtype",
    "delta": "dtype",
    "fixedscaleoffset": "dtype",
    "quantize": "dtype",
    "shuffle": "elementsize",
}


class NumcodecsCodec(Codec):
    """One codec of numcodecs with its configuration. Its parameters are those of the numcodecs class.

    numcodecs has no way to say how much a stream may decode to; a limit is checked only when the bytes are there.
    """

    numcodecs_id: ClassVar[str]
    numcodecs_class: ClassVar[type[Any]]

    def __init__(self, **parameters: Any) -> None:
        try:
            # As JSON has it: what cannot be written into a document is refused now.
            parameters = json.loads(json.dumps(parameters))
        except (TypeError, ValueError) as error:
            raise MetadataError(f"the parameters cannot be written as JSON: {error}", codec=self.name) from error
        self.__dict__["_parameters"] = parameters
        wanted = _FROM_DTYPE.get(self.numcodecs_id)
        if wanted is None or parameters.get(wanted) is not None:
            self._codec  # noqa: B018 - wrong values are reported now, not at the first chunk

    _parameters: dict[str, Any]

    @cached_property
    def _codec(self) -> Any:
        try:
            return self.numcodecs_class(**self._parameters)
        except Exception as error:
            raise MetadataError(f"numcodecs refuses the parameters: {error}", codec=self.name) from error

    def config(self) -> dict[str, Any]:
        return dict(self._parameters)

    @classmethod
    def _keywords(cls) -> tuple[str, ...]:
        return tuple(_keywords(cls.numcodecs_class))

    def for_dtype(self, dtype: np.dtype[Any]) -> Self:
        wanted = _FROM_DTYPE.get(self.numcodecs_id)
        if wanted is None or self._parameters.get(wanted) is not None:
            return self
        value: Any = dtype.itemsize if wanted == "elementsize" else dtype.str
        return self.replace(**{wanted: value})

    @property
    def makes_bytes_of_numbers(self) -> bool:
        """Whether it is a serializer of arrays of numbers; the others are for objects."""
        return self.kind == "serializer" and (self.numcodecs_id in NUMBERS or "imagecodecs" in self.numcodecs_id)

    def encoded_size(self, size: int) -> int | None:
        added = _ADDED.get(self.numcodecs_id)
        return None if added is None else size + added

    def to_zarr3(self) -> dict[str, Any]:
        # zarr-python wants the member even when it is empty.
        return {"configuration": {}, **super().to_zarr3()}

    def as_bytes(self, dtype: np.dtype[Any]) -> Codec | None:
        if self.kind != "array":
            return None
        try:
            cls = find_plugin(self.numcodecs_id)
        except (CodecNotFoundError, CodecConflictError):
            return None
        config = self.for_dtype(dtype)._codec.get_config()
        return None if cls is None else cls.on_items(dtype, config)

    def casting_config(self, dtype: np.dtype[Any]) -> Mapping[str, Any] | None:
        config: dict[str, Any] = self.for_dtype(dtype)._codec.get_config() if self.kind == "array" else {}
        return config if config.get("id") in CASTING else None

    # -- as bytes ------------------------------------------------------------------------------------------------

    def _input(self, data: Any) -> Any:
        # Filters and serializers look at the type and shape of an array.
        if self.kind != "bytes" and isinstance(data, np.ndarray):
            return data
        return readable_bytes(data)

    def _encode(self, data: Any) -> Any:
        return readable_bytes(self._codec.encode(data))

    def _decode(self, data: memoryview, max_size: int) -> Any:
        decoded = self._decoded(self._codec, data)
        return decoded if isinstance(decoded, bytes) else readable_bytes(decoded)

    def _encoded(self, codec: Any, values: Any) -> Any:
        if self.numcodecs_id != "delta":
            return codec.encode(values)
        # numcodecs makes other values of differences without an error; numpy's warning would say less than ours.
        with np.errstate(all="ignore"):
            stored = codec.encode(values)
        try:
            refuse_lost_differences(codec, values, stored)
        except UnsupportedError as error:
            raise error.located(codec=self.name)
        return stored

    def _decoded(self, codec: Any, stored: Any) -> Any:
        if self.numcodecs_id in COUNTED:
            check_count(self, stored)
        return codec.decode(stored)

    # -- as numcodecs has it ---------------------------------------------------------------------------------------

    def encode_buffer(self, values: Any) -> Any:
        """What numcodecs makes of an array or of bytes, as Zarr v2 has its filters: they see the type that goes in, and
        the items as they lie in memory.
        """
        try:
            return self._encoded(self._codec, values)
        except (MemoryError, ZvcoreError):
            raise
        except Exception as error:
            raise UnsupportedError(f"numcodecs refuses: {error}", codec=self.name) from error

    def decode_buffer(self, stored: Any) -> Any:
        """The opposite of `encode_buffer`: an array or bytes, whose type need not be that of the values."""
        try:
            return self._decoded(self._codec, stored)
        except (MemoryError, ZvcoreError):
            raise
        except Exception as error:
            raise CorruptDataError(f"not valid ({type(error).__name__}: {error})", codec=self.name) from error

    # -- as arrays -----------------------------------------------------------------------------------------------

    def encoded_form(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> tuple[np.dtype[Any], tuple[int, ...]]:
        """Type and shape of what a filter makes of an array of this type and shape."""
        if self.kind != "array":
            raise TypeError(f"{self.name} is not a filter")
        config = self.for_dtype(dtype)._codec.get_config()
        if self.numcodecs_id == "packbits":
            # One byte in front tells how many bits of the last one are padding.
            return np.dtype("u1"), (1 + math.ceil(math.prod(shape) / 8),)
        stored = config.get("encode_dtype") or config.get("astype")
        return (dtype if stored is None else np.dtype(stored)), shape

    def taken_type(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """The type of the items that a filter takes, whatever the type of those that it gets."""
        taken = self.for_dtype(dtype)._codec.get_config().get(_FROM_DTYPE.get(self.numcodecs_id, ""))
        return np.dtype(taken) if isinstance(taken, str) else dtype

    @property
    def stores_untold_type(self) -> bool:
        """Whether it stores items as another type in a way that zarr-python does not know of in Zarr v3, where it takes
        what quantize has stored for items of the array's type, whatever `astype` says.
        """
        stored = self._parameters.get("astype") if self.numcodecs_id == "quantize" else None
        return stored is not None and np.dtype(stored) != np.dtype(self._parameters.get("dtype"))

    def encode_array(self, values: npt.NDArray[Any]) -> Any:
        """What a filter (an array) or a serializer (bytes) makes of an array."""
        codec = self.for_dtype(values.dtype)._codec
        taken = codec.get_config().get(_FROM_DTYPE.get(self.numcodecs_id, ""))
        if isinstance(taken, str) and np.dtype(taken) == values.dtype.newbyteorder():
            # numcodecs would take the bytes for items in the order that the document says.
            values = as_dtype(values, np.dtype(taken))
        # numcodecs goes through an array as it lies in memory.
        stored = self._encoded(codec, np.ascontiguousarray(values))
        if self.kind != "array":
            return stored
        dtype, shape = self.encoded_form(values.dtype, values.shape)
        # bitround answers with integers that are the bits of its floats.
        return np.asarray(stored).view(dtype).reshape(shape)

    def decode_array(self, stored: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
        """The array of this type and shape that a filter's array or a serializer's bytes stand for."""
        size = math.prod(shape)
        try:
            if self.numcodecs_id in NUMBERS:
                return decode_numbers(self.numcodecs_id, self, stored, dtype, shape)
            if self.kind == "array":
                stored = np.ascontiguousarray(stored).view(self.encoded_form(dtype, shape)[0])
            values = np.asarray(self._decoded(self.for_dtype(dtype)._codec, stored))
        except (MemoryError, ZvcoreError):
            raise
        except Exception as error:
            raise CorruptDataError(f"not valid ({type(error).__name__}: {error})", codec=self.name) from error
        if values.size != size:
            raise CorruptDataError("not as many values as the chunk", codec=self.name, expected=size, found=values.size)
        return values.reshape(shape).astype(dtype, copy=False)


def adapter(name: str) -> type[NumcodecsCodec]:
    """The codec class for `numcodecs.<id>`."""
    try:
        from numcodecs import registry
    except ImportError as error:
        raise CodecNotFoundError(f"the codec {name!r} needs numcodecs: pip install numcodecs") from error
    identifier = name.removeprefix(PREFIX)
    found = registry.codec_registry.get(identifier)
    if found is None and identifier in registry.entries:
        try:
            found = registry.entries[identifier].load()
        except Exception as error:
            raise CodecNotFoundError(f"numcodecs cannot load its codec {identifier!r}: {error}") from error
    if found is None:
        known = ", ".join(sorted({*registry.codec_registry, *registry.entries}))
        extra = f"; pip install 'numcodecs[{identifier}]' adds it" if identifier in NUMBERS else ""
        raise CodecNotFoundError(
            f"numcodecs {metadata.version('numcodecs')} has no codec {identifier!r}; it has {known}{extra}"
        )
    if identifier in _DANGEROUS:
        raise UnsupportedError("its data may run any program when it is read", codec=name)
    return _made(identifier, found)


@lru_cache(maxsize=256)
def _made(identifier: str, numcodecs_class: type[Any]) -> type[NumcodecsCodec]:
    kind = "array" if identifier in _FILTERS else "bytes"
    if identifier in _SERIALIZERS or identifier.startswith("imagecodecs_"):
        kind = "serializer"
    members = {
        "name": PREFIX + identifier,
        "numcodecs_id": identifier,
        "numcodecs_class": numcodecs_class,
        "kind": kind,
        "spellings": {**NumcodecsCodec.spellings, "zarr2": identifier},
        # zarr 2 put codecs that N5 does not know into N5 under their bare id.
        "also_read": {"n5": {identifier: {}}},
        "__doc__": numcodecs_class.__doc__,
        "__reduce__": _reduce,
    }
    return type(f"Numcodecs_{identifier.replace('-', '_')}", (NumcodecsCodec,), members)


def _keywords(numcodecs_class: type[Any]) -> list[str]:
    keywords = list(inspect.signature(numcodecs_class.__init__).parameters.values())[1:]
    return [keyword.name for keyword in keywords if keyword.kind not in (keyword.VAR_POSITIONAL, keyword.VAR_KEYWORD)]


def _reduce(self: NumcodecsCodec) -> tuple[Any, ...]:
    return (_rebuild, (self.name, self.config(), self._kept))


def _rebuild(name: str, config: Mapping[str, Any], kept: dict[str, Any]) -> Codec:
    codec = adapter(name)(**config)
    codec._kept.update(kept)
    return codec
