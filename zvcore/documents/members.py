"""The members of a JSON document, declared once: one table reads them, writes them, and names them in errors.

    SCALE = Table(
        Member("size", Items(Integer(least=1), 3)),
        Member("resolution", Items(Number(positive=True), 3)),
        Member("voxel_offset", Items(Integer(), 3), default=(0, 0, 0)),
    )
    SCALE.load(document, Place("info", "$.scales[0]"))
    # info: $.scales[0].resolution: expected three positive numbers, found 'x'

What a member may be is a `Kind`, which turns JSON into a value and back. Members that no table knows stay where they
are: code that rewrites a document starts from the whole of it.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zvcore.documents.values import is_number, shown
from zvcore.errors import MetadataError, ZvcoreError

__all__ = [
    "Anything",
    "Integer",
    "Items",
    "Kind",
    "Made",
    "Member",
    "Named",
    "Number",
    "Object",
    "Optional",
    "Place",
    "Table",
    "Text",
    "is_member_name",
    "named",
]

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COUNTS = ("no", "one", "two", "three", "four", "five", "six")
# A largest number that is worth saying before it is passed.
_SMALL = 10**6
_NOTHING: Any = object()


class Place:
    """A value in a document: the document's key in its store, and the JSON path that leads there.

    The path is put together when somebody asks for it: documents are read often, and are seldom wrong.
    """

    __slots__ = ("_above", "_step", "key")

    def __init__(self, key: str | None, path: str | int = "$", above: Place | None = None) -> None:
        self.key = key
        self._step = path
        self._above = above

    def member(self, name: str) -> Place:
        return Place(self.key, name, self)

    def item(self, number: int) -> Place:
        return Place(self.key, number, self)

    @property
    def path(self) -> str:
        steps = []
        here = self
        while here._above is not None:
            step = here._step
            plain = isinstance(step, str) and _PLAIN_NAME.fullmatch(step)
            steps.append(f".{step}" if plain else f"[{json.dumps(step)}]")
            here = here._above
        return "".join([str(here._step), *reversed(steps)])

    def made(self, load: Callable[[Any, str | None], Any], value: Any) -> Any:
        """What `load(value, key)` gives; its errors are told which member it is."""
        try:
            return load(value, self.key)
        except ZvcoreError as error:
            raise error.located(key=self.key, member=self.path)

    def wrong(self, expected: str, found: Any, error: type[ZvcoreError] = MetadataError) -> ZvcoreError:
        """The error of a value that is none of those that may stand here."""
        what = "nothing" if found is _NOTHING else shown(found)
        return error("", key=self.key, member=self.path, expected=expected, found=what)

    def error(self, message: str, **facts: Any) -> MetadataError:
        """The error of a value that does not go together with others."""
        return MetadataError(message, key=self.key, member=self.path, **facts)


class Kind(ABC):
    """What a member may be. `one` and `many` are words for such a value and for several."""

    one: str
    many: str

    @abstractmethod
    def load(self, value: Any, place: Place) -> Any:
        """The value that the JSON stands for; an error about the place if it is not such a value."""

    def dump(self, value: Any) -> Any:
        """The JSON that stands for a value."""
        return value


class Anything(Kind):
    """Whatever JSON can say: somebody else looks at it."""

    def __init__(self, one: str = "a value", many: str = "values") -> None:
        self.one, self.many = one, many

    def load(self, value: Any, place: Place) -> Any:
        return value


class Object(Kind):
    """A JSON object, whatever its members are."""

    one, many = "an object", "objects"

    def load(self, value: Any, place: Place) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise place.wrong(self.one, value)
        return value


class Integer(Kind):
    """A whole number.

    most     the largest; what is larger raises `beyond`
    lenient  whether 4.0, "4" and "4.0" are 4 as well, as readers in other languages have it; else only 4 is
    floats   whether 4.0 is
    """

    def __init__(
        self,
        least: int | None = None,
        most: int | None = None,
        *,
        lenient: bool = False,
        floats: bool = False,
        beyond: type[ZvcoreError] = MetadataError,
    ) -> None:
        self.least, self.most, self.lenient, self.floats, self.beyond = least, most, lenient, floats or lenient, beyond
        self.one, self.many = "an integer", "integers"
        if least is not None and most is not None and most <= _SMALL:
            self.one, self.many = f"an integer from {least} to {most}", f"integers from {least} to {most}"
        elif least == 1:
            self.one, self.many = "a positive integer", "positive integers"
        elif least is not None and least >= 0:
            self.one, self.many = f"an integer of at least {least}", f"integers of at least {least}"

    def load(self, value: Any, place: Place) -> int:
        number = value
        if self.lenient and isinstance(value, str) and re.fullmatch(r"\s*-?[0-9]{1,20}(\.0*)?\s*", value):
            number = int(value.split(".")[0])
        if self.floats and isinstance(number, float) and is_number(number) and number.is_integer():
            number = int(number)
        if not isinstance(number, int) or isinstance(number, bool):
            raise place.wrong(self.one, value)
        if self.least is not None and number < self.least:
            raise place.wrong(self.one if self.least >= 0 else f"an integer of at least {self.least}", value)
        if self.most is not None and number > self.most:
            expected = self.one if self.most <= _SMALL else f"an integer of at most {self.most}"
            raise place.wrong(expected, value, self.beyond)
        return number

    def dump(self, value: Any) -> int:
        return int(value)


class Number(Kind):
    """A number that a float can hold."""

    def __init__(self, positive: bool = False) -> None:
        self.positive = positive
        self.one, self.many = ("a positive number", "positive numbers") if positive else ("a number", "numbers")

    def load(self, value: Any, place: Place) -> float:
        if not is_number(value) or (self.positive and value <= 0):
            raise place.wrong(self.one, value)
        return value


class Text(Kind):
    """A string, or one of a few; what is none of them raises `otherwise`."""

    def __init__(self, *choices: str, otherwise: type[ZvcoreError] = MetadataError) -> None:
        self.choices, self.otherwise = choices, otherwise
        words = [repr(one) for one in choices]
        self.one = f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0] if words else "a string"
        self.many = f"strings that are {self.one}" if words else "strings"

    def load(self, value: Any, place: Place) -> str:
        if not isinstance(value, str) or (self.choices and value not in self.choices):
            raise place.wrong(self.one, value, self.otherwise if self.choices else MetadataError)
        return value


class Optional(Kind):
    """A value of some kind, or null."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.one, self.many = f"{kind.one} or null", f"{kind.many} or nulls"

    def load(self, value: Any, place: Place) -> Any:
        if value is None:
            return None
        try:
            return self.kind.load(value, place)
        except ZvcoreError as error:
            if error.member == place.path and error.expected == self.kind.one:
                error.expected = self.one
            raise

    def dump(self, value: Any) -> Any:
        return None if value is None else self.kind.dump(value)


class Items(Kind):
    """A list of values of one kind, as a tuple: of so many (one of several numbers), or of at least `least`."""

    def __init__(self, kind: Kind, *counts: int, least: int = 0) -> None:
        self.kind, self.counts, self.least = kind, counts, least
        words = [_COUNTS[n] if n < len(_COUNTS) else str(n) for n in counts]
        if words:
            self.one = f"{' or '.join(words)} {kind.many}"
        else:
            self.one = f"a list of {kind.many}{' that is not empty' if least else ''}"
        self.many = f"lists of {' or '.join([*words, ''])}{kind.many}"

    def load(self, value: Any, place: Place) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) < self.least or (self.counts and len(value) not in self.counts):
            raise place.wrong(self.one, value)
        load = self.kind.load
        try:
            return tuple([load(item, place) for item in value])
        except ZvcoreError:
            # Once more, to say which: a place for each of many numbers would take longer than the numbers.
            return tuple([load(item, place.item(number)) for number, item in enumerate(value)])

    def dump(self, value: Sequence[Any]) -> list[Any]:
        return [self.kind.dump(item) for item in value]


class Made(Kind):
    """A value made from JSON by `load(value, place)`; its errors name the member."""

    def __init__(
        self, load: Callable[[Any, Place], Any], dump: Callable[[Any], Any] = lambda value: value, one: str = "a value"
    ) -> None:
        self._load, self._dump = load, dump
        self.one, self.many = one, f"several of {one}"

    def load(self, value: Any, place: Place) -> Any:
        try:
            return self._load(value, place)
        except ZvcoreError as error:
            raise error.located(key=place.key, member=place.path)

    def dump(self, value: Any) -> Any:
        return self._dump(value)


@dataclass(frozen=True)
class Member:
    """One member of an object.

    name     in the document
    kind     what it may be
    default  the value where it is missing; without one it must be there
    null     whether null is as good as missing
    field    what the value is called here, if not the same
    always   whether it is written where it has its default too
    """

    name: str
    kind: Kind
    default: Any = _NOTHING
    field: str = ""
    null: bool = False
    always: bool = False


class Table(Kind):
    """An object with these members; others may be in it, and mean nothing here."""

    one, many = "an object", "objects"

    def __init__(self, *members: Member) -> None:
        self.members = members
        self.names = frozenset(member.name for member in members)
        self._rows = [(one.name, one.kind, one.default, one.field or one.name, one.null) for one in members]

    def load(self, value: Any, place: Place) -> dict[str, Any]:
        """The values of the members, by the names of their fields."""
        # The first, since asking abstract classes takes longer.
        if not isinstance(value, (dict, Mapping)):
            raise place.wrong(self.one, value)
        try:
            return self._loaded(value, place, exact=False)
        except ZvcoreError:
            # Once more, to say where: documents are read often, and are seldom wrong.
            return self._loaded(value, place, exact=True)

    def _loaded(self, value: Mapping[str, Any], place: Place, exact: bool) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, kind, default, field, null in self._rows:
            given = value.get(name, _NOTHING)
            if default is not _NOTHING and (given is _NOTHING or (given is None and null)):
                found[field] = default
            elif given is _NOTHING:
                raise place.member(name).wrong(kind.one, _NOTHING)
            else:
                found[field] = kind.load(given, place.member(name) if exact else place)
        return found

    def dump(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """The members that say these values; defaults are left out unless they are always written."""
        made = {}
        for member in self.members:
            given = value[member.field or member.name]
            if member.always or member.default is _NOTHING or given != member.default:
                made[member.name] = member.kind.dump(given)
        return made


class Named(Kind):
    """Zarr's way to name one of several things: {"name": ..., "configuration": {...}}, or only the name.

    The value is (name, the members of its configuration). A name that is none of these raises `otherwise`.
    """

    def __init__(self, otherwise: type[ZvcoreError] = MetadataError, **tables: Table) -> None:
        self.otherwise, self.tables = otherwise, tables
        self._name = Text(*tables, otherwise=otherwise)
        self.one, self.many = "a name, or an object with a name", "objects with a name"

    def load(self, value: Any, place: Place) -> tuple[str, dict[str, Any]]:
        name, configuration, at = named(value, place)
        if isinstance(value, dict):
            place = place.member("name")
        self._name.load(name, place)
        return name, self.tables[name].load(configuration, at)

    def dump(self, value: tuple[str, Mapping[str, Any]]) -> dict[str, Any]:
        name, configuration = value
        made = self.tables[name].dump(configuration)
        return {"name": name, "configuration": made} if made else {"name": name}


def named(value: Any, place: Place) -> tuple[str, dict[str, Any], Place]:
    """(name, configuration, where that stands) of an object that has a name, or of the name alone."""
    at = place.member("configuration")
    if isinstance(value, str):
        return value, {}, at
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise place.wrong("a name, or an object with a name", value)
    configuration = value.get("configuration", {})
    if not isinstance(configuration, dict):
        raise at.wrong("an object", configuration)
    return value["name"], configuration, at


_LEADING_ELSEWHERE = frozenset(("", ".", ".."))


def is_member_name(path: str) -> bool:
    """Whether this can be where a member lies in a group: names between slashes, none of which leads elsewhere."""
    return _LEADING_ELSEWHERE.isdisjoint(path.split("/"))
