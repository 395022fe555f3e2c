"""Options: the value of one that was not given, so that the format chooses, and what is no answer to yes or no."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["AUTO", "Auto", "chosen", "refuse_texts"]

T = TypeVar("T")


class Auto(Enum):
    """The type of `AUTO`."""

    AUTO = "auto"

    def __repr__(self) -> str:
        return "AUTO"


AUTO = Auto.AUTO


def chosen(given: Any, default: Any) -> Any:
    """What was given, or the default where nothing was."""
    return default if given is AUTO else given


def refuse_texts(options: Mapping[str, Any], names: Iterable[str]) -> None:
    """TypeError for texts in the options of these names, which are True or False: to Python "no" is true, too."""
    for name in names:
        if isinstance(options.get(name), str | bytes):
            raise TypeError(f"{name} is True or False, not {options[name]!r}")
