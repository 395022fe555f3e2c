"""What documents said, kept for those who read the same again: to make it anew takes longer than to read the bytes.

The bytes themselves are read each time, so nothing here is ever out of date. What else decides what a document means,
whoever keeps it looks after: where codecs do, that is `zvcore.codecs.registry.kept`.
"""

from __future__ import annotations

import marshal
from typing import Any, Protocol, TypeAlias, TypeVar

__all__ = ["Known", "Shared", "recalled", "remembered"]


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
# (bytes, where they were read) -> (what they say, the document as `marshal` has it).
Known: TypeAlias = dict[tuple[bytes, str], tuple[S, bytes]]

# So many documents are kept with what they said, if they are no longer than that.
_MOST_KNOWN, _LONGEST_KNOWN = 256, 1 << 14


def recalled(known: Known[S], raw: bytes, where: str) -> tuple[dict[str, Any], S] | None:
    """(the document, what it says) of these bytes, if that is `known`. Both are the caller's own."""
    found = known.get((raw, where))
    if found is None:
        return None
    return _own(*found)


def remembered(known: Known[S], raw: bytes, where: str, document: dict[str, Any], said: S) -> tuple[dict[str, Any], S]:
    """The same of a document that was not known, and is from now on."""
    copy = marshal.dumps(document) if len(raw) <= _LONGEST_KNOWN else None
    # Who compares documents relies on every NaN being the same object, as it comes from JSON.
    if copy is None or marshal.loads(copy) != document:
        return document, said
    if len(known) >= _MOST_KNOWN:
        known.clear()
    known[raw, where] = said, copy
    return _own(said, copy)


def _own(said: S, copy: bytes) -> tuple[dict[str, Any], S]:
    """With a document of their own, as nobody may change what is kept. To copy it is quicker than to read the text."""
    document = marshal.loads(copy)
    return document, said.said_again(document)
