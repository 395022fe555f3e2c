"""The head of a request: what its lines say, read quickly where they are as nearly all are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable
    from email.message import Message
    from io import BufferedIOBase

__all__ = ["Fields", "Quick", "begins_as_usual", "lines_of", "read_quickly"]

# As `http.server` has them: more is refused.
_LONGEST_LINE, _MOST_LINES = 65536, 100
_REQUEST = re.compile(rb"(GET|HEAD) (/(?!/)[\x21-\x7e]*) HTTP/1\.1\r\n")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*((?:[\x21-\x7e][\x20-\x7e]*)?)\r\n")
_END = b"\r\n"


class Fields:
    """The fields of a head. Names may be in any letters.

    sound  each line is a field
    """

    def __init__(self, pairs: Iterable[tuple[str, str]], sound: bool = True) -> None:
        self.sound = sound
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            self._values.setdefault(name.lower(), []).append(value)

    @classmethod
    def of(cls, headers: Message) -> Fields:
        """What Python has read."""
        return cls(headers.items(), not (headers.defects or headers.get_payload()))

    def get(self, name: str) -> str | None:
        """The value of the first field of this name."""
        found = self._values.get(name.lower())
        return None if found is None else found[0]

    def all(self, name: str) -> list[str]:
        return self._values.get(name.lower(), [])

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def put(self, name: str, value: str) -> None:
        """Let this be the only field of this name."""
        self._values[name.lower()] = [value]


class Quick(NamedTuple):
    """A request that needs nothing but an answer."""

    method: str
    target: str
    fields: Fields


def begins_as_usual(first: bytes) -> bool:
    """Whether a head that begins with this line is worth waiting for: other lines are refused at once."""
    return _REQUEST.fullmatch(first) is not None


def lines_of(file: BufferedIOBase) -> list[bytes]:
    """The lines of a head behind the first, up to the empty one, or to one line more than may be."""
    lines: list[bytes] = []
    while len(lines) <= _MOST_LINES:
        line = file.readline(_LONGEST_LINE + 1)
        lines.append(line)
        if line in (_END, b"\n", b"") or len(line) > _LONGEST_LINE:
            break
    return lines


def read_quickly(first: bytes, lines: list[bytes]) -> Quick | None:
    """A request if its head is of the usual form; None: `http.server` shall say what it is."""
    asked = _REQUEST.fullmatch(first)
    if asked is None or lines[-1] != _END:
        return None
    pairs = []
    for line in lines[:-1]:
        found = _FIELD.fullmatch(line)
        if found is None:
            return None
        pairs.append((found[1].decode(), found[2].decode()))
    fields = Fields(pairs)
    return None if "Expect" in fields else Quick(asked[1].decode(), asked[2].decode(), fields)
