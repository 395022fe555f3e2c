"""Passwords and signatures in addresses: whoever wrote them uses them, and nobody reads them anywhere."""

from __future__ import annotations

import base64
import json
import logging
import pickle
from http.server import SimpleHTTPRequestHandler
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.stores.servers import web_server
from zvcore.commands import cli
from zvcore.errors import UnsupportedError, ZvcoreError, without_credentials

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

USER, PASSWORD = "somebody", "s3cret@:"
VALUES = np.arange(64, dtype="u1").reshape(8, 8)


class Closed(SimpleHTTPRequestHandler):
    """Gives nothing to anybody who does not know the password."""

    def send_head(self) -> Any:
        given = self.headers.get("Authorization", "").removeprefix("Basic ")
        if base64.b64decode(given).decode() != f"{USER}:{PASSWORD}":
            self.send_error(401)
            return None
        return super().send_head()

    def list_directory(self, path: Any) -> Any:
        self.send_error(404)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("closed")
    group = zvcore.open(folder / "g", "w", format="zarr3")
    assert group is not None
    zvcore.create(folder / "g" / "a", format="zarr3", data=VALUES, chunks=(4, 4))
    (folder / "broken").mkdir()
    (folder / "broken" / "zarr.json").write_text("{")
    np.save(folder / "x.npy", VALUES)
    return folder


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    with web_server(folder, Closed) as url:
        yield url.replace("://", f"://{USER}:s3cret%40%3A@")


def untold(text: str) -> str:
    assert "s3cret" not in text and USER not in text
    return text


def test_nothing_that_is_shown_has_the_password(url: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "zvcore"):
        group, array = zvcore.open(f"{url}/g"), zvcore.open(f"{url}/g/a")
        for one in (array, group["a"], pickle.loads(pickle.dumps(array))):
            assert (one[...] == VALUES).all()
        for one in (array, group, array.store, zvcore.open(f"{url}/x.npy"), group["a"].store):
            assert url.partition("@")[2] in untold(repr(one))
            untold(one._repr_html_() if hasattr(one, "_repr_html_") else "")
        untold(json.dumps(zvcore.inspect(f"{url}/g/a"), default=str))
    untold(caplog.text)


@pytest.mark.parametrize("path", ["nothing", "broken", "g/a/../x", "x.npy?sig=s3cret", "g/a?X-Amz-Signature=s3cret"])
def test_errors_do_not_tell_it(url: str, path: str) -> None:
    with pytest.raises(ZvcoreError) as caught:
        zvcore.open(f"{url}/{path}")
    untold(f"{caught.value} {caught.value!r} {caught.value.key}")
    with pytest.raises(ValueError, match="storage_options") as refused:
        zvcore.open(f"{url}/g/a", storage_options={"nonsense": 1})
    untold(str(refused.value))


@pytest.mark.parametrize(
    "words",
    [["info", "{}/g/a"], ["info", "{}/nothing"], ["verify", "{}/broken"], ["cat", "{}/g"], ["verify", "{}/g/a"],
     ["convert", "{}/g/a", "out"], ["cp", "{}/g", "out"], ["cp", "{}/x.npy", "{}/y.npy"], ["bench", "{}/g"],
     ["repair", "{}/broken"], ["get", "{}/g/a?s3cret", "-o", "x.npy"], ["ls", "{}/nothing"],
     ["preview", "{}/x.npy", "-o", "x.png"],
     ["-vv", "info", "{}/g/a"], ["info", "--json", "{}/g/a"]],
)  # fmt: skip
def test_commands_do_not_tell_it(
    url: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    cli.main([word.replace("{}", url) for word in words])
    found = capfd.readouterr()
    untold(found.out + found.err)


def test_references_name_the_address_without_it_and_say_so() -> None:
    fsspec = pytest.importorskip("fsspec")
    from zvcore.stores.fsspec_client import FsspecClient
    from zvcore.stores.remote import RemoteStore

    client = FsspecClient(fsspec.filesystem("memory", skip_instance_cache=True))
    store = RemoteStore(client, f"sftp://{USER}:s3cret@host/x", "/x", read_only=False)
    zvcore.create(store, format="zarr2", data=VALUES, chunks=(4, 4))
    losses: list[Any] = []
    found = zvcore.references(store, losses=losses)["refs"]
    assert found["0.0"] == ["sftp://host/x/0.0"]
    assert any("without its user name and password" in str(one) for one in losses)
    assert store.child("a").address == f"sftp://{USER}:s3cret@host/x/a"


@pytest.mark.parametrize(
    ("text", "told"),
    [("https://u:p@host/x", "https://host/x"), ("in (sftp://u:p@w@host:22/a@b)", "in (sftp://host:22/a@b)"),
     ("https://host/x?sig=1&y=2: gone", "https://host/x?... gone"), ("s3://bucket/is it?yes", "s3://bucket/is it?yes"),
     ("zip://a@b/c.zarr::https://u@host/x.zip", "zip://b/c.zarr::https://host/x.zip"),
     ("abfs://container@account.dfs.core.windows.net/x",) * 2, ("github://o:r@main/x",) * 2, ("a@b: 1://", "a@b: 1://")],
)  # fmt: skip
def test_what_is_left_of_a_text(text: str, told: str) -> None:
    assert without_credentials(text) == told
    assert str(UnsupportedError(text)) == told
