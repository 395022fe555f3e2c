"""What documents said, kept for those who read the same again: to make it anew takes longer than to read the bytes.

The bytes themselves are read each time, so nothing here is ever out of date. What else decides what a document means,
whoever keeps it looks after: where codecs do, that is `zvcore.codecs.registry.kept`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from zvcore.documents.document import parse

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Shared", "remembered"]


class Shared(dict[Any, Any]):
    """What was made of a document, by all that decides it: those who read the same share it. A copy, also in another
    process, begins with nothing.
    """

    def __reduce__(self) -> tuple[type[Shared], tuple[()]]:
        return Shared, ()


class _Said(Protocol):
    def said_again(self, document: dict[str, Any]) -> Any:
        """This, as another reading of the same document gives it: what is made of it is not made anew."""
        ...


S = TypeVar("S", bound=_Said)

# So many documents are kept with what they said, if they are no longer than that.
_MOST_KNOWN, _LONGEST_KNOWN = 256, 1 << 14


def remembered(
    known: dict[tuple[bytes, str], S],
    raw: bytes,
    document: dict[str, Any],
    where: str,
    make: Callable[[dict[str, Any], str], Any],
    kind: type[S],
) -> Any:
    """What a document says that these bytes are: what was made of them before, if that is `known`; else what `make`
    makes of it. Only what is of one `kind` is kept.
    """
    found = known.get((raw, where))
    if found is None:
        made = make(document, where)
        if not isinstance(made, kind) or len(raw) > _LONGEST_KNOWN:
            return made
        if len(known) >= _MOST_KNOWN:
            known.clear()
        known[raw, where] = found = made
        # With a document of its own: nobody else may change what is kept.
        document = parse(raw, where)
    return found.said_again(document)
