"""What a plugin refuses: each check of it says what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["refuses"]


def refuses(expected: type[BaseException], call: Callable[[], Any], what: str) -> BaseException:
    """The exception that a call raises; an AssertionError unless it is one of these."""
    try:
        call()
    except expected as error:
        return error
    except Exception as error:
        raise AssertionError(f"{what} must raise {expected.__name__}, not {type(error).__name__}: {error}") from error
    raise AssertionError(f"{what} must raise {expected.__name__}")
