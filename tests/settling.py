"""Files that are old enough for what is kept of them to be trusted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.processes import PATIENCE
from zvcore.stores import LocalStore

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["wait_until_settled"]


def wait_until_settled(path: Path) -> None:
    """Until no file can be written once more and look the same."""
    store = LocalStore(path)
    until = time.monotonic() + PATIENCE
    while not all(store.settled(store.stamp(key)) for key in store.list()):
        assert time.monotonic() < until
        time.sleep(0.002)
