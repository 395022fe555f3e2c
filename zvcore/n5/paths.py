r"""Paths into attributes and groups, as Java N5 understands them.

`a/b[2]` is the third item of the list `b` of the object `a`. `\/` and `\[` stand for a slash and a bracket in a key;
"" and "/" are the whole document; `.` and `..` work as in folders, and the parent of the root is the root.
"""

from __future__ import annotations

import re
from typing import Any

from zvcore.documents.values import DEEPEST
from zvcore.errors import InvalidKeyError, MetadataError

__all__ = ["MISSING", "find", "group_path", "removed", "replaced", "tokens"]

MISSING: Any = object()

_PART = re.compile(r"\[([0-9]{1,9})\]|((?:\\[/\[]|[^/\[]|\[(?![0-9]{1,9}\]))+)")
# A path may make a list longer by naming an item, so the longest list is bounded.
_LONGEST = 1 << 24

Token = str | int


def tokens(path: str) -> list[Token]:
    """The keys (str) and indices (int) that lead to an attribute."""
    if not isinstance(path, str):
        raise TypeError(f"an attribute path is a str, not {type(path).__name__}")
    found: list[Token] = []
    for match in _PART.finditer(path):
        if match[1] is not None:
            index = int(match[1])
            if index >= _LONGEST:
                raise MetadataError(
                    f"the index in {path!r} is too large", expected=f"less than {_LONGEST}", found=index
                )
            found.append(index)
        elif match[2] == "..":
            del found[-1:]
        elif match[2] != ".":
            found.append(match[2].replace("\\/", "/").replace("\\[", "["))
    return found


def find(document: Any, path: list[Token]) -> Any:
    """What stands there, or MISSING."""
    for token in path:
        if isinstance(token, int):
            if not isinstance(document, list) or token >= len(document):
                return MISSING
        elif not isinstance(document, dict) or token not in document:
            return MISSING
        document = document[token]
    return document


def replaced(document: Any, path: list[Token], value: Any) -> Any:
    """The document with the value there. What is in the way and neither list nor object as needed is replaced."""
    if not path:
        return value
    if len(path) > DEEPEST:
        raise MetadataError("the path leads deeper than a document may be", expected=DEEPEST, found=len(path))
    token, rest = path[0], path[1:]
    if isinstance(token, int):
        items = list(document) if isinstance(document, list) else []
        present = items[token] if token < len(items) else MISSING
        new = replaced(present, rest, value)
        if token >= len(items):
            # Lists of numbers stay lists of numbers for readers that need them so.
            number = isinstance(new, int | float) and not isinstance(new, bool)
            items += [0 if number else None] * (token + 1 - len(items))
        items[token] = new
        return items
    members = dict(document) if isinstance(document, dict) else {}
    members[token] = replaced(members.get(token, MISSING), rest, value)
    return members


def removed(document: Any, path: list[Token]) -> Any:
    """The document without what stands there; items behind it move up. Something must stand there."""
    token = path[0]
    copy: Any = list(document) if isinstance(document, list) else dict(document)
    if len(path) == 1:
        del copy[token]
    else:
        copy[token] = removed(copy[token], path[1:])
    return copy


def group_path(path: str) -> str:
    """A path to a member with the detours taken out; leaving the group is an error."""
    if not isinstance(path, str):
        raise TypeError(f"a path is a str, not {type(path).__name__}")
    names: list[str] = []
    for name in path.split("/"):
        if name == "..":
            if not names:
                raise InvalidKeyError(f"{path!r} leads out of the group")
            names.pop()
        elif name not in ("", "."):
            names.append(name)
    return "/".join(names)
