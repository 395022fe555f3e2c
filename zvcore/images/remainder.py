"""What of a value in a document is not understood."""

from __future__ import annotations

from typing import Any

__all__ = ["remainder"]

# How many paths are told of one value.
_MOST = 100


def remainder(value: Any, known: Any) -> list[str]:
    """The paths of members that a table of known ones does not have.

    known   True: all of it; {name: table of its value}: an object's members; [table]: a list's items
    """
    found: list[str] = []
    waiting = [("", value, known)]
    while waiting and len(found) < _MOST:
        path, here, table = waiting.pop()
        if table is True:
            continue
        if isinstance(table, list) and isinstance(here, list):
            waiting.extend((f"{path}[{i}]", item, table[0]) for i, item in reversed([*enumerate(here)]))
        elif isinstance(table, dict) and isinstance(here, dict):
            below = f"{path}." if path else ""
            for name, one in reversed(here.items()):
                if name in table:
                    waiting.append((below + name, one, table[name]))
                elif one is not None:
                    found.append(below + name)
    return found
