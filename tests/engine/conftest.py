"""Stores for the tests of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from zvcore.stores import LocalStore, MemoryStore, Store

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return LocalStore(tmp_path) if request.param == "local" else MemoryStore()
