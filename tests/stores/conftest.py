"""Stores of each kind for the tests of stores, and what object stores need."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from tests.stores.servers import S3, Proxy, Together, best_server, s3_server, service
from zvcore.stores import LocalStore, MemoryStore, Store, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def s3_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with s3_server(best_server(), tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def proxy(s3_process: S3) -> Iterator[Proxy]:
    with Proxy(s3_process.port).running() as proxy:
        yield proxy


@pytest.fixture
def s3(s3_process: S3, proxy: Proxy) -> S3:
    """The server as seen through the proxy."""
    return service(s3_process.name, proxy.port)


@pytest.fixture
def together(proxy: Proxy) -> Iterator[type[Together]]:
    """What counts from its making on."""

    class Counting(Together):
        def __init__(self) -> None:
            super().__init__()
            proxy.spoil = self

    yield Counting
    proxy.spoil = None


@pytest.fixture(params=["local", "memory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "memory":
        return MemoryStore()
    if request.param == "s3":
        server = request.getfixturevalue("s3_process")
        return open_store(server.url(f"semantics-{uuid.uuid4()}"), "w", server.options)
    return LocalStore(tmp_path / "root")


@pytest.fixture(params=["local", "memory"])
def changeable(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A store that can be locked and whose objects can be changed in place."""
    return MemoryStore() if request.param == "memory" else LocalStore(tmp_path / "root")
