"""The base class of all codecs."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, dataclass_transform

from zvcore.cached import cached_property
from zvcore.codecs.buffers import readable_bytes
from zvcore.codecs.methods import decode_into, decode_through
from zvcore.codecs.offering import OfferedTo
from zvcore.codecs.parameters import FORMATS, Parameter, param
from zvcore.codecs.table import Table
from zvcore.errors import MetadataError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

__all__ = ["Codec"]


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(param,))
class Codec:
    """Turns the bytes of a chunk into stored bytes and back.

    A subclass gives its `name`, declares its parameters with `param`, and has two methods:

        _encode(data: memoryview) -> bytes-like
        _decode(data: memoryview, max_size: int) -> bytes-like of at most max_size bytes

    and, if it can be called without the GIL, `__zv_codec__()`, which returns a capsule as `zv_codec.h` describes, or
    None when its native part is not there. The two methods are then needed only for that case.

    Codec objects are immutable, equal when class and parameters are, and safe to use from many threads at once.
    """

    name: ClassVar[str] = ""
    # The codec's name in a format, where it is not `name`; None: the format cannot name it.
    spellings: ClassVar[Mapping[str, str | None]] = {"neuroglancer": None}
    # Further names under which a format's data may mention it, and the parameters that each implies:
    # {"zarr3": {"numcodecs.zlib": {"use_zlib": True}}}. They are read, and written back when read.
    also_read: ClassVar[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {}
    # What it works on: "bytes"; "array", a filter of arrays; "serializer", which makes bytes of arrays. Only numcodecs
    # has the latter two.
    kind: ClassVar[Literal["bytes", "array", "serializer"]] = "bytes"
    # Whether stored and decoded bytes are the same, so that the engine need not call it at all.
    identity: ClassVar[bool] = False
    # Whether it only proves that bytes are what was written: such a codec can be checked without the others.
    is_checksum: ClassVar[bool] = False
    # Whether it does to bytes what a filter of arrays does to items (`on_items`); it stands in front of other codecs.
    of_items: ClassVar[bool] = False
    # Parameters that decoding does not need to know.
    encoding_only: ClassVar[tuple[str, ...]] = ()
    # The class that zarr-python's registry wants, and numcodecs'; for their entry points.
    for_zarr_python: ClassVar[OfferedTo] = OfferedTo("zvcore.codecs.offered_to_zarr_python")
    for_numcodecs: ClassVar[OfferedTo] = OfferedTo("zvcore.codecs.offered_to_numcodecs")
    # All parameters in the order of their declaration, those of base classes first.
    parameters: ClassVar[tuple[Parameter, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        found = {parameter.name: parameter for parameter in cls.parameters}
        for name, value in list(vars(cls).items()):
            if isinstance(value, Parameter):
                found[name] = value
                # The class attribute is the default, as with a dataclass.
                setattr(cls, name, value.default)
        cls.parameters = tuple(found.values())

    def __init__(self, **parameters: Any) -> None:
        values = self.__dict__
        for parameter in self.parameters:
            name = parameter.name
            value = parameters.pop(name) if name in parameters else parameter.default
            values[name] = parameter.check(value, self.name)
        if parameters:
            raise TypeError(f"{type(self).__name__}() has no parameter {', '.join(map(repr, parameters))}")
        self._check()

    def _check(self) -> None:
        """Raise MetadataError when parameters do not fit together. For subclasses."""

    def __setattr__(self, name: str, value: Any) -> None:
        # A subclass with an __init__ of its own may set what is not yet there.
        if name in self.__dict__ or type(self).__init__ is Codec.__init__:
            raise AttributeError(f"{type(self).__name__} is immutable")
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    # -- working -----------------------------------------------------------------------------------------------

    def encode(self, data: Any) -> bytes:
        """The stored form of the bytes of any buffer; those of an array are taken in C order."""
        native = self._native
        if native is not None:
            self._check_data(data)
            return native.encode(data)
        return bytes(self._encode(self._input(data)))

    def decode(self, data: Any, out: Any = None, max_size: int | None = None) -> Any:
        """The bytes that `data` stands for; the opposite of `encode`.

        With `out`, a writable C-contiguous buffer, they are written there, must fill it exactly, and `out` is returned.
        Without, a stream that holds more than `max_size` bytes (default: `zvcore.codecs.max_decoded_size`) is refused.
        """
        native = self._native
        if native is not None:
            return native.decode(data, out, max_size)
        return decode_through(self._decode, self.name, data, out, max_size)

    def decode_directly(self, data: memoryview, out: memoryview) -> bool:
        """For the engine: decode by Python what must fill `out`, with no memory between. False: nothing was done, and
        `decode` is to be asked.
        """
        if self._decode_into is None:
            return False
        decode_into(self._decode_into, self.name, data, out)
        return True

    def _input(self, data: Any) -> memoryview:
        return readable_bytes(data)

    def _check_data(self, data: Any) -> None:
        """Raise for data that C code would encode as something else. For subclasses."""

    def _encode(self, data: memoryview) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has neither _encode nor a native part")

    # Of codecs that can decode to memory that is there: a method (data, out) that fills all of `out`, or raises.
    _decode_into: ClassVar[Callable[[Any, memoryview, memoryview], None] | None] = None

    def _decode(self, data: memoryview, max_size: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has neither _decode nor a native part")

    def __zv_codec__(self) -> Any:
        """A capsule with the codec's C functions, or None."""
        return None

    @cached_property
    def _native(self) -> Table | None:
        capsule = self.__zv_codec__()
        return None if capsule is None else Table(capsule, self.name)

    @property
    def native(self) -> bool:
        """Whether encoding and decoding run in C, without the GIL."""
        return self._native is not None

    @property
    def library(self) -> str | None:
        """The C library that does the work, and its version as it is loaded now; None if Python does it."""
        return None if self._native is None else self._native.library

    @property
    def encoding_rate(self) -> float | None:
        """About how many bytes one thread encodes in a second, of data that is hard for this codec, to the order of
        magnitude; None: so many that nobody waits for it.

        How much a conversion does before it notes what is done goes by that.
        """
        return None

    def encoded_size(self, size: int) -> int | None:
        """How many bytes `encode` makes of `size` bytes, whatever they are; None: that depends on them.

        Only codecs with an answer can be used where a format must know sizes beforehand, as in Zarr's shard indexes.
        """
        return size if self.identity else None

    def for_dtype(self, dtype: np.dtype[Any]) -> Self:
        """This codec with everything settled that depends on the type of the items. Most codecs do not care."""
        return self

    @classmethod
    def on_items(cls, dtype: np.dtype[Any], config: Mapping[str, Any]) -> Self | None:
        """The codec of bytes that does to items of this type, one after the other as they lie in memory, what
        numcodecs' filter of this codec's name does to an array of them; None: it cannot, or is no such codec."""
        return None

    def as_bytes(self, dtype: np.dtype[Any]) -> Codec | None:
        """A filter of arrays as a codec of bytes, for items of this type; None: only Python can run it."""
        return None

    def casting_config(self, dtype: np.dtype[Any]) -> Mapping[str, Any] | None:
        """How numcodecs configures a filter that stores items of this type as another; None: this is no such filter."""
        return None

    def decodes_alike(self, other: Codec) -> bool:
        """Whether this codec decodes what `other` encoded, so that stored bytes may change hands as they are."""
        return type(self) is type(other) and self._decoding() == other._decoding()

    def reads_as(self, data: memoryview, size: int) -> bool:
        """Whether these bytes, which stand for `size` bytes with a codec that `decodes_alike`, do so with this one, as
        far as it can be seen without decoding them.

        For codecs that are strict where others are lenient, and to find streams that were cut.
        """
        return True

    def _decoding(self) -> dict[str, Any]:
        return {name: value for name, value in self.config().items() if name not in self.encoding_only}

    # -- configuration -------------------------------------------------------------------------------------------

    def config(self) -> dict[str, Any]:
        """All parameters by name. `from_config` and `zvcore.codecs.get` take them back."""
        return {parameter.name: getattr(self, parameter.name) for parameter in self.parameters}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """The codec with these parameters, by their own names or those that a format has for them."""
        by_name = {parameter.name: parameter for parameter in cls.parameters}
        aliases = {alias: p.name for p in cls.parameters for alias in p.spelling.values() if alias is not None}
        legal = cls._keywords()
        values: dict[str, Any] = {}
        for member, value in config.items():
            if member == "name" and "name" not in legal:
                if value != cls.name:
                    raise MetadataError("the configuration is another codec's", expected=cls.name, found=value)
                continue
            name = member if member in legal else aliases.get(member)
            if name is None:
                expected = ", ".join(legal) or "none"
                raise MetadataError(f"there is no parameter {member!r}", codec=cls.name, expected=expected)
            if name in values:
                raise MetadataError(f"{member!r} says {name!r} a second time", codec=cls.name)
            values[name] = by_name[name].check(value, cls.name, member) if name in by_name else value
        try:
            return cls(**values)
        except MetadataError:
            raise
        except (TypeError, ValueError) as error:
            # From a subclass with an __init__ of its own.
            raise MetadataError(f"the parameters are refused: {error}", codec=cls.name) from error

    def replace(self, **parameters: Any) -> Self:
        """The same codec with some parameters changed. What a document had beyond the parameters stays."""
        codec = type(self).from_config({**self.config(), **parameters})
        codec._kept.update(self._kept)
        return codec

    @classmethod
    def _keywords(cls) -> tuple[str, ...]:
        """The names of all parameters, also of a class that has an __init__ of its own instead of declaring them."""
        names = [parameter.name for parameter in cls.parameters]
        if cls.__init__ is not Codec.__init__:
            for keyword in list(inspect.signature(cls.__init__).parameters.values())[1:]:
                if keyword.kind in (keyword.POSITIONAL_OR_KEYWORD, keyword.KEYWORD_ONLY) and keyword.name not in names:
                    names.append(keyword.name)
        return tuple(names)

    # -- formats ---------------------------------------------------------------------------------------------------

    @classmethod
    def name_in(cls, format: str) -> str | None:
        """What a format calls this codec; None if the format cannot name it."""
        default = None if format == "neuroglancer" else cls.name
        return cls.spellings.get(format, default)

    @classmethod
    def names_read(cls, format: str) -> tuple[str, ...]:
        """All names under which a format's data may mention this codec."""
        name = cls.name_in(format)
        return (*(() if name is None else (name,)), *cls.also_read.get(format, {}))

    def to_n5(self) -> dict[str, Any]:
        """As N5's `compression` member: `{"type": "gzip", "level": 6, "useZlib": false}`."""
        name, members, beside = self._written("n5")
        return {"type": name, **members, **beside}

    @classmethod
    def from_n5(cls, obj: Any) -> Codec:
        if not isinstance(obj, Mapping):
            expected = '{"type": ...}'
            raise MetadataError("a compression must be an object", codec=cls.name, expected=expected, found=repr(obj))
        return cls._read("n5", obj.get("type"), {key: value for key, value in obj.items() if key != "type"})

    def to_zarr2(self) -> dict[str, Any]:
        """As Zarr v2's `compressor`, or as one of its `filters`: `{"id": "gzip", "level": 6}`."""
        name, members, beside = self._written("zarr2")
        return {"id": name, **members, **beside}

    @classmethod
    def from_zarr2(cls, obj: Any) -> Codec:
        if not isinstance(obj, Mapping):
            raise MetadataError("a codec must be an object", codec=cls.name, expected='{"id": ...}', found=repr(obj))
        return cls._read("zarr2", obj.get("id"), {key: value for key, value in obj.items() if key != "id"})

    def to_zarr3(self) -> dict[str, Any]:
        """As in Zarr v3's `codecs`: `{"name": "gzip", "configuration": {"level": 6}}`."""
        name, members, beside = self._written("zarr3")
        return {"name": name, **({"configuration": members} if members else {}), **beside}

    @classmethod
    def from_zarr3(cls, obj: Any) -> Codec:
        # A codec without configuration may be written as its bare name.
        if isinstance(obj, str):
            obj = {"name": obj}
        if not isinstance(obj, Mapping):
            raise MetadataError("a codec must be an object", codec=cls.name, expected='{"name": ...}', found=repr(obj))
        members = obj.get("configuration", {})
        if not isinstance(members, Mapping):
            raise MetadataError("a codec's configuration must be an object", codec=cls.name, found=repr(members))
        beside = {key: value for key, value in obj.items() if key not in ("name", "configuration")}
        return cls._read("zarr3", obj.get("name"), members, beside)

    def to_neuroglancer(self) -> str:
        """As Neuroglancer's `data_encoding` and `minishard_index_encoding`: `"gzip"`."""
        return self._written("neuroglancer")[0]

    @classmethod
    def from_neuroglancer(cls, obj: str) -> Self:
        return cls._read("neuroglancer", obj, {})

    def _written(self, format: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
        """(name, members, members beside the configuration) in a format."""
        own = self.name_in(format)
        name, kept, beside = self._kept.get(format, (own, {}, {}))
        if name is None:
            raise UnsupportedError(f"{FORMATS[format]} has no name for this codec", codec=self.name)
        by_name = {parameter.name: parameter for parameter in self.parameters}
        members = {}
        for name_here, value in self.config().items():
            parameter = by_name.get(name_here)
            if parameter is None:
                members[name_here] = value
            elif parameter.written(format, value):
                members[str(parameter.spelled(format))] = value
        # A copy: callers must not be able to change the document through the answer.
        return name, {**members, **(copy.deepcopy(kept) if kept else {})}, copy.deepcopy(beside) if beside else {}

    @classmethod
    def _read(cls, format: str, name: Any, members: Mapping[str, Any], beside: Mapping[str, Any] | None = None) -> Self:
        """The codec that a format's document describes. Members that are no parameters are kept for writing back."""
        if name not in cls.names_read(format):
            expected = " or ".join(cls.names_read(format)) or f"nothing, {FORMATS[format]} cannot name it"
            raise MetadataError("the document names another codec", codec=cls.name, expected=expected, found=repr(name))
        by_member = {member: p for p in cls.parameters if (member := p.spelled(format)) is not None}
        others = set(cls._keywords()) - {parameter.name for parameter in cls.parameters}
        values = dict(cls.also_read.get(format, {}).get(name, {}))
        unknown = {}
        for member, value in members.items():
            if member in by_member:
                parameter = by_member[member]
                values[parameter.name] = parameter.check(value, cls.name, member)
            elif member in others:
                values[member] = value
            else:
                unknown[member] = copy.deepcopy(value)
        codec = cls.from_config(values)
        if unknown or beside or name != cls.name_in(format):
            codec._kept[format] = (name, unknown, copy.deepcopy(dict(beside or {})))
        return codec

    @cached_property
    def _kept(self) -> dict[str, tuple[str | None, dict[str, Any], dict[str, Any]]]:
        """What a document had beyond the parameters: format -> (name there, members within, members beside)."""
        return {}

    @property
    def unknown_members(self) -> list[str]:
        """Members of the document that named it which are none of its parameters: other formats do not say them."""
        found = {name for _, within, beside in self._kept.values() for name in (*within, *beside)}
        return sorted(found - {"must_understand"})

    # -- as a value ------------------------------------------------------------------------------------------------

    @cached_property
    def _identity(self) -> tuple[Any, ...]:
        said = json.dumps([self.config(), self._kept], sort_keys=True, default=repr)
        return (type(self), said)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Codec):
            return NotImplemented
        return self is other or self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.config().items())})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.config(), self._kept))


def _rebuild(cls: type[Codec], config: dict[str, Any], kept: dict[str, Any]) -> Codec:
    codec = cls.from_config(config)
    codec._kept.update(kept)
    return codec
