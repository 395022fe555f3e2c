"""A document that is there and cannot be read is told as such, also where nobody said which format it should be."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import zvcore
from zvcore.commands import cli
from zvcore.errors import MetadataError, NotFoundError, UnsupportedError, ZvcoreError
from zvcore.format import Format, _plugins, get_format, register_format
from zvcore.stores import MemoryStore, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DOCUMENTS = {"zarr3": "zarr.json", "zarr2": ".zarray", "n5": "attributes.json", "precomputed": "info"}
BROKEN = {
    "cut off": lambda whole: whole[: len(whole) // 2],
    "empty": lambda whole: b"",
    "of another kind": lambda whole: b"[1, 2]",
    "not JSON": lambda whole: b"\x89PNG\r\n" + whole,
    "too deep": lambda whole: b'{"a": ' * 5000 + b"0" + b"}" * 5000,
}


def made(path: Path, format: str) -> Path:
    shape = (20, 20, 10, 1) if format == "precomputed" else (20, 20, 10)
    zvcore.create(path, format=format, shape=shape, dtype="uint8")[...] = 7
    return path


# A folder of N5 whose attributes describe nothing is a group, as Java has it: the blocks in it are named instead.
CASES = [(format, how) for format in DOCUMENTS for how in BROKEN if (format, how) != ("n5", "of another kind")]


@pytest.mark.parametrize(("format", "how"), CASES)
def test_a_damaged_document_is_named_with_what_is_wrong(
    format: str, how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = made(tmp_path / "data", format)
    document = path / DOCUMENTS[format]
    document.write_bytes(BROKEN[how](document.read_bytes()))
    with pytest.raises(MetadataError) as caught:
        zvcore.open(path)
    assert str(caught.value.key).endswith(DOCUMENTS[format]) and "no format" not in str(caught.value), caught.value
    for place in (path, open_store(path, "r")):
        report = zvcore.verify(place)
        assert report.status == "damaged"
        [problem] = [one for one in report.problems if one.fatal]
        assert problem.where == DOCUMENTS[format] and problem.kind == "document", problem
    assert cli.main(["verify", str(path)]) == 1
    assert DOCUMENTS[format] in capsys.readouterr().out
    assert cli.main(["info", str(path)]) == 1
    assert DOCUMENTS[format] in capsys.readouterr().err


def test_a_file_below_a_damaged_document_leads_to_it(tmp_path: Path) -> None:
    path = made(tmp_path / "data", "precomputed")
    (path / "info").write_bytes(b"{")
    file = next(file for file in path.rglob("*") if file.is_file() and file.name != "info")
    [problem] = zvcore.verify(file).problems
    assert problem.where == str(path / "info")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"scales": {}}, "$.scales"),
        ({"scales": 5, "@type": None}, "$.scales"),
        ({"num_channels": "one", "scales": {}}, "$.num_channels"),
    ],
)
def test_problems_of_a_volume_s_info_name_the_member(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    path = made(tmp_path / "data", "precomputed")
    info = json.loads((path / "info").read_text())
    info.pop("@type", None)
    changed = {name: value for name, value in {**info, **change}.items() if value is not None}
    (path / "info").write_text(json.dumps(changed))
    with pytest.raises(MetadataError) as caught:
        zvcore.open(path)
    assert words in str(caught.value)


def test_what_is_no_mark_is_no_damage(tmp_path: Path) -> None:
    (tmp_path / "info").write_text(json.dumps({"made by": "another program"}))
    with pytest.raises(UnsupportedError, match="info describes nothing known"):
        zvcore.open(tmp_path)
    (tmp_path / "info").rename(tmp_path / "notes.txt")
    with pytest.raises(UnsupportedError, match=r"there is no zarr\.json, .*no info") as caught:
        zvcore.open(tmp_path)
    assert caught.value.found == "notes.txt"
    (tmp_path / "notes.txt").unlink()
    with pytest.raises(NotFoundError):
        zvcore.open(tmp_path)


class Header(Format):
    """A format of somebody else, whose document is no JSON, and which looks into it to know its own."""

    name = "header"
    title = "headers"
    marks = ("header.txt",)

    def detect(self, store: Any) -> bool:
        return bytes(store.get("header.txt") or b"").startswith(b"HEADER 1\n")

    def unreadable(self, store: Any) -> ZvcoreError | None:
        if not store.exists("header.txt"):
            return None
        return MetadataError("the first line is not that of a header", key="header.txt", offset=0)

    def open(self, store: Any, mode: str = "r", **options: Any) -> Any:
        return "opened"

    def care(self) -> Any:
        return get_format("n5").care()


@pytest.fixture
def header() -> Iterator[None]:
    register_format(Header)
    yield
    _plugins.unregister("header")


@pytest.mark.usefixtures("header")
def test_formats_of_third_parties_say_themselves_what_is_wrong() -> None:
    store = MemoryStore()
    store.put("header.txt", b"HEADER 1\nwhatever")
    assert zvcore.open(store) == "opened"
    store.put("header.txt", b"HEDAER 1\n")
    with pytest.raises(MetadataError, match="cannot be read: the first line is not that of a header") as caught:
        zvcore.open(store)
    assert caught.value.key == f"{store.root}/header.txt"
