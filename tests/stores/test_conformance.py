"""The first party's stores do what `zvcore.testing.check_store` asks of others."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from zvcore.stores import LocalStore, MemoryStore, open_store
from zvcore.testing import check_store

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from typing_extensions import Buffer

    from tests.stores.servers import S3


def test_folders(tmp_path: Path) -> None:
    check_store(lambda mode: LocalStore(tmp_path, read_only=mode == "r"))


def test_memory() -> None:
    name = str(uuid.uuid4())
    check_store(lambda mode: MemoryStore(name, read_only=mode == "r"))


def test_object_stores(s3_process: S3) -> None:
    url = s3_process.url(f"conformance-{uuid.uuid4()}")
    check_store(lambda mode: open_store(url, mode, s3_process.options))


def test_fsspec() -> None:
    pytest.importorskip("fsspec")
    url = f"dir::memory://{uuid.uuid4()}"
    check_store(lambda mode: open_store(url, mode))


class Forgetful(MemoryStore):
    """Two writers at the same time lose what one of them wrote."""

    can_lock = False

    def put_if_unchanged(self, key: str, data: Buffer | Sequence[Buffer], stamp: object) -> None:
        if stamp is None:
            super().put_if_unchanged(key, data, stamp)
        else:
            self.put(key, data)


def test_what_is_wrong_is_reported() -> None:
    with pytest.raises(AssertionError, match="stamp of an older version must raise ConflictError"):
        check_store(lambda mode: Forgetful("forgetful", read_only=mode == "r"))
