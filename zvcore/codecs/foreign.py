"""Makes full codecs of classes that only have `encode` and `decode`.

A plugin need not know the base class, and one that does may override `encode` and `decode` themselves. Everything that
callers rely on (checked sizes, `out`, errors of one kind, spellings) is then put around the plugin's own methods.
"""

from __future__ import annotations

import inspect
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from zvcore.codecs.base import Codec

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["complete"]


def complete(cls: Any, name: str | None) -> type[Codec]:
    """The class itself if it is a `Codec` with nothing of that overridden, else a subclass of both."""
    if not isinstance(cls, type):
        raise TypeError(f"a codec must be a class, not {cls!r}")
    own = getattr(cls, "name", None)
    if name is None:
        name = own
    if not isinstance(name, str) or not name:
        raise TypeError(f"the codec class {cls.__qualname__} has no name")
    if isinstance(own, str) and own and own != name:
        raise TypeError(f"the codec class {cls.__qualname__} calls itself {own!r}, not {name!r}")
    if issubclass(cls, Codec):
        if cls.name == name and cls.encode is Codec.encode and cls.decode is Codec.decode:
            return cls
    else:
        for method in ("encode", "decode"):
            if not callable(getattr(cls, method, None)):
                raise TypeError(f"the codec class {cls.__qualname__} has no method {method}")
    return _completed(cls, name)


@lru_cache(maxsize=256)
def _completed(cls: Any, name: str) -> type[Codec]:
    bounded = "max_size" in inspect.signature(cls.decode).parameters

    def _encode(self: Any, data: memoryview) -> Any:
        return cls.encode(self, data)

    def _decode(self: Any, data: memoryview, max_size: int) -> Any:
        return cls.decode(self, data, max_size=max_size) if bounded else cls.decode(self, data)

    def from_config(kind: type[Any], config: Mapping[str, Any]) -> Any:
        config = {key: value for key, value in config.items() if key != "name" or value != name}
        own: Any = getattr(cls, "from_config", None)
        inherited: Any = Codec.from_config
        if own is None or getattr(own, "__func__", None) is inherited.__func__:
            return inherited.__func__(kind, config)
        codec = own.__func__(kind, config) if inspect.ismethod(own) else own(config)
        if not isinstance(codec, kind):
            # It named its class instead of using what it was called on.
            object.__setattr__(codec, "__class__", kind)
        return codec

    def __reduce__(self: Any) -> tuple[Any, ...]:
        return (_rebuild, (cls, name, self.config(), self._kept))

    members = {
        "name": name,
        "encode": Codec.encode,
        "decode": Codec.decode,
        "_encode": _encode,
        "_decode": _decode,
        "from_config": classmethod(from_config),
        "__reduce__": __reduce__,
        "__eq__": Codec.__eq__,
        "__hash__": Codec.__hash__,
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
    }
    bases = (cls,) if issubclass(cls, Codec) else (cls, Codec)
    return type(cls.__name__, bases, members)


def _rebuild(cls: Any, name: str, config: dict[str, Any], kept: dict[str, Any]) -> Codec:
    codec = _completed(cls, name).from_config(config)
    codec._kept.update(kept)
    return codec
