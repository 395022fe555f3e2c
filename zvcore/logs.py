"""What zvcore does, for programs that listen through Python's `logging`: loggers "zvcore.opening", "zvcore.stores", ...

A program that has not imported `logging` cannot be listening: then nothing is imported, and nothing looked up.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import logging

__all__ = ["Log"]

_DEBUG, _INFO = 10, 20


class Log:
    """One logger. Texts are put together only if somebody listens; `info` and `debug` take what `%` puts in.

    What costs something to find out is asked for behind `if log.tells:` or `if log.tells_all:`.
    """

    def __init__(self, name: str) -> None:
        self._name = f"zvcore.{name}"
        self._logger: logging.Logger | None = None

    def info(self, text: str, *parts: Any) -> None:
        """What was done, a line for a person."""
        if (logger := self._listening(_INFO)) is not None:
            logger.info(text, *parts, stacklevel=2)

    def debug(self, text: str, *parts: Any) -> None:
        """Each step of it."""
        if (logger := self._listening(_DEBUG)) is not None:
            logger.debug(text, *parts, stacklevel=2)

    @property
    def tells(self) -> bool:
        return self._listening(_INFO) is not None

    @property
    def tells_all(self) -> bool:
        return self._listening(_DEBUG) is not None

    def _listening(self, level: int) -> logging.Logger | None:
        logger = self._logger
        if logger is None:
            loaded = sys.modules.get("logging")
            if loaded is None or not hasattr(loaded, "getLogger"):
                return None
            logger = self._logger = loaded.getLogger(self._name)
        return logger if logger.isEnabledFor(level) else None
