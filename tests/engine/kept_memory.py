"""For tests of memory that results leave to the next ones."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zvcore.engine.large import LargeMemory
    from zvcore.engine.medium import MediumMemory

__all__ = ["address", "nothing_else_waits"]


@contextmanager
def nothing_else_waits(forget: Callable[[], None]) -> Iterator[None]:
    """What other tests have left in cycles does not come in between."""
    gc.disable()
    forget()
    try:
        yield
    finally:
        forget()
        gc.enable()


def address(memory: LargeMemory | MediumMemory) -> int:
    return np.frombuffer(memoryview(memory), np.uint8).ctypes.data
