"""Members of the objects within an array's document that Zarr does not have: an array made anew is without them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.documents.members import Place, named
from zvcore.zarr3.chain import SHARDING
from zvcore.zarr3.metadata import GRID, KEYS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

__all__ = ["unknown_members"]

# Codecs that are no plugins: what their configurations have. Plugins keep what they do not know themselves.
_CODECS: dict[str, Collection[str]] = {
    "bytes": ("endian",),
    "endian": ("endian",),
    "transpose": ("order",),
    "sharding_indexed": SHARDING.names,
    "vlen-utf8": (),
    "vlen-bytes": (),
}
# Beside a name. What may be ignored says nothing by saying so.
_BESIDE = frozenset({"name", "configuration", "must_understand"})


def unknown_members(document: Mapping[str, Any]) -> list[str]:
    """Where they stand in a document that `metadata` has accepted."""
    root = Place(None)
    found: list[str] = []
    for member, kind in (("chunk_grid", GRID), ("chunk_key_encoding", KEYS)):
        value = document.get(member)
        if isinstance(value, dict):
            found += _beyond(value, kind.tables[value["name"]].names, root.member(member))
    found += _of_codecs(document.get("codecs", ()), root.member("codecs"))
    return [path.removeprefix("$.") for path in found]


def _of_codecs(codecs: Collection[Any], place: Place) -> Iterator[str]:
    for number, codec in enumerate(codecs):
        at = place.item(number)
        name, configuration, within = named(codec, at)
        if name in _CODECS and isinstance(codec, dict):
            yield from _beyond(codec, _CODECS[name], at)
        if name == "sharding_indexed":
            for member in ("codecs", "index_codecs"):
                yield from _of_codecs(configuration.get(member, ()), within.member(member))


def _beyond(value: Mapping[str, Any], known: Collection[str], place: Place) -> Iterator[str]:
    for name in sorted(value.keys() - _BESIDE):
        yield place.member(name).path
    for name in sorted(value.get("configuration", {}).keys() - set(known)):
        yield place.member("configuration").member(name).path
