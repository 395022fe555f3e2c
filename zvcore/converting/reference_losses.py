"""What references do not say of what they refer to: it is told, as a conversion would."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from zvcore.array import Array
from zvcore.documents.values import as_json
from zvcore.errors import LostMetadataWarning, MetadataError
from zvcore.format import get_format
from zvcore.images.axes import known
from zvcore.report import Problem, What

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["not_referred_to", "sayable", "tell"]


def sayable(attrs: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """(attributes that JSON can say, the names of the others)."""
    said, others = {}, []
    for name, value in dict(attrs).items():
        try:
            said[name] = as_json(value, "attributes")
        except MetadataError:
            others.append(name)
    return said, others


def not_referred_to(path: str, node: Any) -> Iterator[Problem]:
    """What a group or an array says that has no place in references to it."""
    attrs = getattr(node, "attrs", {})
    for name in sayable(attrs)[1]:
        yield _loss(path, f"the attribute {name!r} is nothing that JSON can say")
    format = get_format(node.format)
    exchange = format.exchange()
    for member in exchange.other_members(attrs):
        if member != exchange.consolidated_member:
            yield _loss(path, f"the member {member!r} of its document is not carried")
    image = format.read_image(node)
    for what in image.untold if image is not None else format.untold(node):
        yield _loss(path, f"{what} is not known, and is not carried")
    if not isinstance(node, Array) or image is None:
        return
    for level in image.levels:
        for what in level.untold:
            yield _loss(path, f"{what} is not known, and is not carried")
        if known(level.axes) and not level.taken.intersection(attrs):
            # So it is of every volume: the list says it, and no warning.
            what = "sizes and places of voxels are carried only as far as attributes say them"
            yield Problem(path, what, fatal=False)


def tell(found: list[Problem], losses: list[Problem] | None) -> None:
    """Add what was lost to the caller's list; without one, a warning names attributes and the like."""
    if losses is not None:
        losses += found
        return
    dropped = [str(one) for one in found if one.kind is What.DOCUMENT]
    if dropped:
        warnings.warn(f"references do not carry: {'; '.join(dropped)}", LostMetadataWarning, stacklevel=2)


def _loss(path: str, what: str) -> Problem:
    return Problem(path, what, fatal=False, kind=What.DOCUMENT)
