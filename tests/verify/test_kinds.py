"""What programs can tell problems apart by: their kinds, and what zvcore cannot read from what is broken."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

import zvcore
import zvcore.codecs
from zvcore.codecs import registry
from zvcore.commands.cli import main
from zvcore.errors import OutOfMemoryError

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def kinds(path: Path, **options: bool) -> list[str]:
    return [problem["kind"] for problem in zvcore.verify(path, **options).to_json()["problems"]]


def make(path: Path, format: str, **options: object) -> Path:
    array = zvcore.create(path, format=format, shape=(20, 20), dtype="u2", chunks=(10, 10), **options)
    array[...] = np.arange(400, dtype="u2").reshape(20, 20)
    return path


def test_the_kinds_of_problems_of_n5(tmp_path: Path) -> None:
    path = make(tmp_path / "a", "n5", codec="raw")
    (path / "0/1").write_bytes((path / "0/1").read_bytes()[:-1])
    (path / "note.txt").write_text("hello")
    assert sorted(kinds(path)) == ["size", "stray"]
    (path / "attributes.json").write_text("{")
    assert kinds(path) == ["document"]


def test_a_level_that_is_named_and_not_there_is_missing(tmp_path: Path) -> None:
    (tmp_path / "g").mkdir()
    document = {"n5": "4.0.0", "multiscales": [{"datasets": [{"path": "s0", "transform": {}}]}]}
    (tmp_path / "g/attributes.json").write_text(json.dumps(document))
    assert kinds(tmp_path / "g") == ["missing"]


def test_what_cannot_be_read_is_unsupported_and_not_broken(tmp_path: Path) -> None:
    path = make(tmp_path / "a", "n5", codec="gzip")
    document = json.loads((path / "attributes.json").read_text())
    document["compression"] = {"type": "from-the-future"}
    (path / "attributes.json").write_text(json.dumps(document))
    report = zvcore.verify(path)
    assert kinds(path) == ["unsupported"]
    assert report.status == "unsupported" and not report.ok
    zvcore.repair(path)
    assert (path / "0/0").exists()
    (path / "attributes.json").write_text("{")
    assert zvcore.verify(path).status == "damaged"


def test_a_place_without_a_format_is_not_merely_unsupported(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/x").write_bytes(b"x")
    report = zvcore.verify(tmp_path / "a")
    assert report.status == "damaged"
    assert [problem.kind for problem in report.problems] == ["document"]


def test_the_kinds_of_problems_of_zarr(tmp_path: Path) -> None:
    path = make(tmp_path / "a", "zarr3", codec="raw", shards=(20, 20))
    shard = path / "c/0/0"
    data = bytearray(shard.read_bytes())
    data[-4 - 16 * 4 : -4 - 16 * 4 + 8] = (1 << 40).to_bytes(8, "little")
    data[-4 - 16 * 4 :] = registry.get("crc32c").encode(data[-4 - 16 * 4 : -4])
    shard.write_bytes(data)
    (path / "note.txt").write_text("hello")
    assert sorted(kinds(path)) == ["index_entry", "stray"]
    shard.write_bytes(data[:-1])
    assert sorted(kinds(path)) == ["index", "stray"]


class Hungry(zvcore.codecs.Codec):
    """There is room to encode with it, and none to decode."""

    name = "hungry"

    def _encode(self, data):  # type: ignore[no-untyped-def]
        return bytes(data)

    def _decode(self, data, max_size):  # type: ignore[no-untyped-def]
        raise OutOfMemoryError("out of memory")


def test_what_there_is_no_memory_for_is_neither_damaged_nor_unsupported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    zvcore.codecs.register("hungry", Hungry)
    try:
        path = make(tmp_path / "a", "zarr3", codec="hungry")
        assert kinds(path) == ["memory"] * 4
        assert main(["verify", str(path)]) == 3
        assert "out of memory" in capsys.readouterr().out
        assert zvcore.repair(path).counts.get("chunks dropped") is None
        assert (path / "c/0/0").exists()
    finally:
        zvcore.codecs.unregister("hungry")


def test_a_file_of_no_known_format_is_not_called_damaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.mgz").write_bytes(b"words")
    report = zvcore.verify(tmp_path / "notes.mgz")
    assert report.status == "unsupported" and not report.ok
    assert main(["verify", str(tmp_path / "notes.mgz")]) == 3
    assert "damaged" not in capsys.readouterr().out
