"""The value of an option that was not given: then the format chooses, which it must not do if the option was given."""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeVar

__all__ = ["AUTO", "Auto", "chosen"]

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
