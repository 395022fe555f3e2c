"""What the classes that stand for a codec in the registries of other libraries have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from zvcore.errors import UnsupportedError

if TYPE_CHECKING:
    from zvcore.codecs.base import Codec

__all__ = ["Offered", "name_among", "offered_class"]


class Offered:
    """A codec of zvcore as another library holds it: the same as any other with the same parameters."""

    codec_class: ClassVar[type[Codec]]
    codec: Codec

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Offered) and type(self) is type(other) and self.codec == other.codec

    def __hash__(self) -> int:
        return hash(self.codec)

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}({repr(self.codec).partition('(')[2]}"


def name_among(cls: Any, format: str) -> str | None:
    """The name of a codec of bytes in the registry that is a format's, or None where it cannot be there."""
    name: str | None = cls.name_in(format)
    return name if cls.kind == "bytes" else None


def offered_class(cls: Any, attribute: str, name: str | None, bases: tuple[type[Any], ...], **members: Any) -> Any:
    """The class for a library, which finds it again as an attribute of the codec's own; `name`: in its registry."""
    library = attribute.removeprefix("for_").replace("_", "-")
    if name is None:
        why = "it has no name there" if cls.kind == "bytes" else "only codecs of bytes can be"
        raise UnsupportedError(f"it cannot be offered to {library}: {why}", codec=cls.name)
    place = {"__module__": cls.__module__, "__qualname__": f"{cls.__qualname__}.{attribute}", "__doc__": cls.__doc__}
    return type(cls.__name__, bases, {"codec_class": cls, **place, **members})
