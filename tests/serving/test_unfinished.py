"""Who reads a served data set elsewhere learns that its conversion has not ended: what is missing is no fill value."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import zvcore
from tests.convert.interrupting import MEMORY, source
from tests.serving.conftest import served
from zvcore.converting import note
from zvcore.errors import UnfinishedConversionWarning
from zvcore.stores import LocalStore

if TYPE_CHECKING:
    from pathlib import Path


class Stop(Exception):
    pass


def stop_soon(done: int, total: int) -> None:
    if done:
        raise Stop("the disk of alice is full")


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """half/, which is not finished, and whole/."""
    source(tmp_path / "src")
    options: dict[str, Any] = {"format": "zarr3", "chunks": (16, 16, 16), "memory": MEMORY, "threads": 1}
    with pytest.raises(Stop):
        zvcore.convert(tmp_path / "src", tmp_path / "shelf" / "half", **options, progress=stop_soon)
    zvcore.convert(tmp_path / "src", tmp_path / "shelf" / "whole", **options)
    return tmp_path / "shelf"


def test_readers_elsewhere_are_told(shelf: Path) -> None:
    here = note.unfinished_at(LocalStore(shelf / "half"))
    assert here is not None and here.done
    with served(shelf) as client:
        url = client.server.url.rstrip("/")
        with pytest.warns(UnfinishedConversionWarning, match=f"{here.done} of {here.units} units"):
            zvcore.open(f"{url}/half")
        assert zvcore.verify(f"{url}/half").status == "unfinished"
        # What a web server has cannot be listed, and so not be checked: that is no damage.
        assert zvcore.verify(f"{url}/whole").status == "unsupported"
    with served(shelf / "half") as client, pytest.warns(UnfinishedConversionWarning):
        zvcore.open(client.server.url)


def test_they_learn_neither_from_where_nor_why(shelf: Path, tmp_path: Path) -> None:
    own = (shelf / "half" / note.KEY).read_text()
    assert "alice" in own and str(tmp_path) in own
    with served(shelf) as client:
        answer = client.ask(f"/half/{note.KEY}")
        assert answer.status == 200 and b"alice" not in answer.body and str(tmp_path).encode() not in answer.body
        assert sorted(json.loads(answer.body)) == ["done", "units", "version"]
        for place in ("whole", "none", "half/none", "..", "%2e%2e"):
            assert client.ask(f"/{place}/{note.KEY}").status == 404


def test_a_note_that_cannot_be_read_is_one_all_the_same(shelf: Path) -> None:
    (shelf / "half" / note.KEY).write_text('{"version": 1, "done": {"/home/alice": 3}}')
    with served(shelf) as client:
        assert b"alice" not in client.ask(f"/half/{note.KEY}").body
        with pytest.warns(UnfinishedConversionWarning, match="whose note cannot be read"):
            zvcore.open(f"{client.server.url}half")


def test_a_note_from_outside_is_none(shelf: Path, tmp_path: Path) -> None:
    (shelf / "half" / note.KEY).rename(tmp_path / "note")
    (shelf / "half" / note.KEY).symlink_to(tmp_path / "note")
    with served(shelf) as client:
        assert client.ask(f"/half/{note.KEY}").status == 404
