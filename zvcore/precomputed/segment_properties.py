"""Checking the document of segment properties: inline, with as many values of each property as there are ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.documents.members import Anything, Items, Member, Number, Object, Place, Table, Text
from zvcore.documents.values import is_number
from zvcore.report import What

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zvcore.report import Report

__all__ = ["check_segment_properties"]

_NUMBERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "float32")
_DOCUMENT = Table(Member("inline", Object()))
_INLINE = Table(Member("ids", Items(Text())), Member("properties", Items(Object()), default=(), null=True))
_PROPERTY = Table(
    Member("id", Text()),
    Member("type", Text("label", "description", "string", "tags", "number")),
    Member("values", Items(Anything())),
)
_NUMBER = Table(Member("data_type", Text(*_NUMBERS)))
_TAGS = Table(Member("tags", Items(Text())))
_ONE_OF_EACH = ("label", "description", "tags")


def check_segment_properties(info: Mapping[str, Any], where: str, report: Report) -> int:
    """How many segments the document tells of; MetadataError for the first member that is wrong."""
    place = Place(where).member("inline")
    inline = _INLINE.load(_DOCUMENT.load(info, Place(where))["inline"], place)
    ids = inline["ids"]
    for number, id in enumerate(ids):
        if not (id.isascii() and id.isdecimal() and len(id) <= 20 and int(id) < 2**64):
            raise place.member("ids").item(number).wrong("an id in decimal digits", id)
    if len(set(ids)) < len(ids):
        report.add(where, "$.inline.ids: an id is there more than once", fatal=False, kind=What.DOCUMENT)
    types = []
    for number, document in enumerate(inline["properties"]):
        here = place.member("properties").item(number)
        types.append(_check_property(document, here, len(ids)))
        odd = next((text for text in _texts_of(document) if not _is_unicode(text)), None)
        if odd is not None:
            report.add(
                where, f"{here.path}: a text is no Unicode: half of a surrogate pair", found=repr(odd)[:99],
                kind=What.DOCUMENT,
            )  # fmt: skip
        if types[-1] in _ONE_OF_EACH and types.count(types[-1]) > 1:
            raise here.error(f"there is more than one property of the type {types[-1]!r}")
    return len(ids)


def _check_property(document: Mapping[str, Any], place: Place, count: int) -> str:
    found = _PROPERTY.load(document, place)
    values, here = found["values"], place.member("values")
    if len(values) != count:
        raise here.error("there is not one value for each id", expected=count, found=len(values))
    kind: str = found["type"]
    if kind == "tags":
        tags = _TAGS.load(document, place)["tags"]
        for number, value in enumerate(values):
            if not _ascending(value, len(tags)):
                raise here.item(number).wrong(f"ascending numbers of tags, below {len(tags)}", value)
    elif kind == "number":
        _NUMBER.load(document, place)
        for number, value in enumerate(values):
            if not is_number(value):
                raise here.item(number).wrong(Number().one, value)
    else:
        for number, value in enumerate(values):
            if not isinstance(value, str):
                raise here.item(number).wrong(Text().one, value)
    return kind


def _texts_of(document: Mapping[str, Any]) -> Iterator[str]:
    """All texts of a property. JSON has room for some that no other encoding has, and many programs refuse."""
    for value in document.values():
        for text in value if isinstance(value, list) else (value,):
            if isinstance(text, str):
                yield text


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _ascending(value: Any, count: int) -> bool:
    """Whether these are the numbers of some of so many tags, in order."""
    if not isinstance(value, list) or not all(isinstance(one, int) and not isinstance(one, bool) for one in value):
        return False
    pairs = zip([-1, *value], [*value, count], strict=True)
    return all(first < second for first, second in pairs)
