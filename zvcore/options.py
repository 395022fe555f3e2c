"""The arguments of `zvcore.create`, `zvcore.open` and a group's `create_dataset`, for type checkers.

Each format has its own options, beside these, in a module of this name; `zvcore/fronts.pyi` says which format has
which. A test compares them with what formats really take. Nothing here is imported by a program that runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypedDict

__all__ = ["BoxedCreation", "Codecs", "Creation", "Durability", "OneCodec", "Opening", "Placing", "UsualCreation"]

Durability: TypeAlias = Literal["none", "late", "rename", "fsync"]


class AnyCodec(Protocol):
    """A codec of zvcore or of another library."""

    def encode(self, data: Any, /) -> Any: ...

    def decode(self, data: Any, /) -> Any: ...


OneCodec: TypeAlias = str | Mapping[str, Any] | AnyCodec
Codecs: TypeAlias = OneCodec | Sequence[OneCodec] | None


class Placing(TypedDict, total=False):
    """How a place is reached, and what writing there promises."""

    storage_options: Mapping[str, Any] | None
    fsync: bool | None
    durability: Durability | None


class Opening(Placing, total=False):
    cache: int | None


class Creation(TypedDict, total=False):
    """What arrays of all formats are created with, besides a data type."""

    # A bare number is the length along the only axis.
    shape: Sequence[int] | int | None
    codec: Codecs
    fill_value: Any
    attrs: Mapping[str, Any] | None
    overwrite: bool


class BoxedCreation(Creation, total=False):
    """Those of formats whose chunks are all of one shape."""

    chunks: Sequence[int] | int | None


class UsualCreation(BoxedCreation, Placing, total=False):
    """What every format is asked for by the names that `zvcore.create` gives it, whether or not it has shards."""

    shards: Sequence[int] | int | None
