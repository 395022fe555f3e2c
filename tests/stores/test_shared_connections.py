"""Stores that are opened alike share obstore's connections; those that are not, do not."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from zvcore.stores import open_store
from zvcore.stores.obstore_stores import ObstoreMaker

if TYPE_CHECKING:
    from pathlib import Path

OPTIONS = {"region": "us-east-1", "access_key_id": "a", "secret_access_key": "b"}


def made(url: str = "s3://bucket/a", **options: Any) -> Any:
    store: Any = open_store(url, "r", {**OPTIONS, **options})
    return store._client._store


def test_the_same_options_share_connections() -> None:
    assert made() is made("s3://bucket/another")
    assert made(client_options={"timeout": "9s"}) is made(client_options={"timeout": "9s"})
    assert open_store("s3://bucket/a", "r", OPTIONS) is not open_store("s3://bucket/a", "r", OPTIONS)


@pytest.mark.parametrize(
    "other",
    [{"access_key_id": "c"}, {"secret_access_key": "c"}, {"region": "eu-west-1"}, {"endpoint": "https://other"},
     {"client_options": {"timeout": "9s"}}, {"virtual_hosted_style_request": True}],
)  # fmt: skip
def test_other_options_do_not(other: dict[str, Any]) -> None:
    assert made() is not made(**other)


def test_other_buckets_and_environments_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    first = made()
    assert made("s3://other/a") is not first
    monkeypatch.setenv("AWS_SESSION_TOKEN", "x")
    second = made()
    assert second is not first
    monkeypatch.delenv("AWS_SESSION_TOKEN")
    assert made() is first


def test_a_proxy_counts_as_long_as_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def goes_without_obstore() -> bool:
        store: Any = open_store("s3://bucket/a", "r", OPTIONS)
        plain: bool = store._client._plain
        return plain

    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    assert goes_without_obstore()
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    assert not goes_without_obstore()
    monkeypatch.setenv("HTTPS_PROXY", "")
    assert goes_without_obstore()


def test_what_cannot_be_compared_is_not_shared() -> None:
    class Provider:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self) -> dict[str, Any]:
            return {"access_key_id": "a", "secret_access_key": "b", "expires_at": None}

    maker = ObstoreMaker("S3Store", "bucket", {"region": "us-east-1", "credential_provider": Provider()})
    assert maker(False) is not maker(False)


def test_credentials_in_files_are_read_again_when_they_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    folder = tmp_path / ".aws"
    folder.mkdir()
    (folder / "credentials").write_text("[default]\naws_access_key_id = a\naws_secret_access_key = b\n")

    def by_profile() -> Any:
        store: Any = open_store("s3://bucket/a", "r", {"region": "us-east-1"})
        return store._client._store

    first = by_profile()
    assert by_profile() is first
    (folder / "credentials").write_text("[default]\naws_access_key_id = other\naws_secret_access_key = b\n")
    assert by_profile() is not first


def test_the_file_of_a_service_account_is_read_again_when_it_changes(tmp_path: Path) -> None:
    key = tmp_path / "key.json"

    def by_file(name: str) -> Any:
        account = {"type": "service_account", "private_key": "k", "private_key_id": "1", "client_email": name}
        key.write_text(json.dumps({**account, "gcs_base_url": "http://localhost:1", "disable_oauth": True}))
        return ObstoreMaker("GCSStore", "bucket", {"service_account_path": str(key)})(False)

    first = by_file("a@b")
    os.utime(key)
    assert by_file("another@b") is not first
