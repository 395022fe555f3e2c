"""Object stores for the tests of stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.stores.servers import S3, Proxy, best_server, s3_server, service

if TYPE_CHECKING:
    from collections.abc import Iterator


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
