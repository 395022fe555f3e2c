"""Declaring a codec's parameters: one line each says name, default, legal values and how each format spells it."""

from __future__ import annotations

import math
import numbers
import operator
from typing import TYPE_CHECKING, Any

from zvcore.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FORMATS", "Parameter", "param"]

# The formats whose spelling of a codec is known, and what each calls itself in messages.
FORMATS = {"n5": "N5", "zarr2": "Zarr v2", "zarr3": "Zarr v3", "neuroglancer": "Neuroglancer"}


class Parameter:
    """One parameter of a codec class: what its values may be, and its name in each format.

    A format whose spelling is None neither writes nor reads the parameter; the default then holds.
    """

    __slots__ = ("choices", "default", "doc", "high", "kind", "low", "name", "optional", "sparse", "spelling")

    def __init__(
        self,
        default: Any,
        kind: type | None,
        low: float | None,
        high: float | None,
        choices: tuple[Any, ...] | None,
        spelling: Mapping[str, str | None],
        sparse: tuple[str, ...],
        doc: str,
    ) -> None:
        if kind is None and default is None:
            raise TypeError("a parameter whose default is None needs type=")
        self.name = ""
        self.kind: type = type(default) if kind is None else kind
        self.default = default
        self.optional = default is None
        self.low = low
        self.high = high
        self.choices = choices
        self.spelling = dict(spelling)
        self.sparse = sparse
        self.doc = doc

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def spelled(self, format: str) -> str | None:
        """The parameter's member name in a format, None where the format does not have it."""
        return self.spelling.get(format, self.name)

    def written(self, format: str, value: Any) -> bool:
        """Whether a value of this parameter stands in a format's document."""
        if value is None or self.spelled(format) is None:
            return False
        return format not in self.sparse or value != self.default

    def expectation(self) -> str:
        """The legal values, in words."""
        if self.choices is not None:
            words = ", ".join(repr(choice) for choice in self.choices)
            return f"one of {words}" + (" or null" if self.optional else "")
        kinds: dict[type, str] = {bool: "true or false", int: "an integer", float: "a number", str: "a string"}
        text = kinds.get(self.kind, f"a {self.kind.__name__}")
        if self.low is not None and self.high is not None:
            text += f" from {self.low} to {self.high}"
        elif self.low is not None:
            text += f" of at least {self.low}"
        elif self.high is not None:
            text += f" of at most {self.high}"
        return text + (" or null" if self.optional else "")

    def check(self, value: Any, codec: str, member: str | None = None) -> Any:
        """The value in its proper type, or MetadataError naming the member and what is legal."""
        try:
            good = self._converted(value)
        except (TypeError, ValueError, OverflowError):
            good = _WRONG
        if good is _WRONG or not (good is None or self._legal(good)):
            fault = f"{(member or self.name)!r} has a wrong value"
            raise MetadataError(fault, codec=codec, expected=self.expectation(), found=_short(value))
        return good

    def _legal(self, value: Any) -> bool:
        if self.choices is not None and value not in self.choices:
            return False
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    def _converted(self, value: Any) -> Any:
        if value is None:
            return None if self.optional else _WRONG
        if self.kind is bool:
            return bool(value) if type(value).__name__ in ("bool", "bool_") else _WRONG
        if isinstance(value, bool):
            return _WRONG
        if self.kind is int:
            # JSON writers of other languages write 6 as 6.0.
            if isinstance(value, float):
                return int(value) if value.is_integer() else _WRONG
            return operator.index(value)
        if self.kind is float:
            return float(value) if isinstance(value, numbers.Real) and math.isfinite(float(value)) else _WRONG
        return value if isinstance(value, self.kind) else _WRONG


_WRONG: Any = object()


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def param(
    default: Any,
    *,
    type: type | None = None,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[Any, ...] | None = None,
    sparse: tuple[str, ...] = (),
    doc: str = "",
    **spelling: str | None,
) -> Any:
    """Declare a parameter in the body of a `Codec` class.

        level: int = param(6, low=-1, high=9)
        use_zlib: bool = param(False, n5="useZlib", zarr3=None)

    `type` is needed only where the default is None (then null is legal too). Further keywords are names of formats:
    the member's name there, or None where the format has no such member. `sparse` names formats that get the member
    only when it is not the default, because some of their readers refuse it.
    """
    unknown = set(spelling) - set(FORMATS)
    if unknown:
        raise TypeError(f"unknown format {', '.join(sorted(unknown))}; there are {', '.join(FORMATS)}")
    return Parameter(default, type, low, high, choices, spelling, sparse, doc)
