"""Paths of this machine in full, whatever becomes of the current directory."""

from __future__ import annotations

import os

__all__ = ["absolute"]


def absolute(path: str | bytes | os.PathLike[str], *, through_links: bool = False) -> str:
    """Where a path leads. `through_links`: as the file system has it, which knows what `..` means behind a link."""
    text = os.fsdecode(path)
    try:
        return os.path.realpath(text) if through_links else os.path.abspath(text)
    except FileNotFoundError as error:
        # The system's error names no file, and does not say what is missing.
        gone = "the current directory has been removed; this was to lie in it"
        raise FileNotFoundError(error.errno, gone, text) from error
