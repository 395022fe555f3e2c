"""The directory of an archive is read in two ways, which say the same of every archive, whoever wrote or damaged it."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zvcore.errors import ZvcoreError
from zvcore.stores import zip_directory
from zvcore.stores.zip_directory import Entry, directory_bytes, read_directory
from zvcore.stores.zip_entries import UsualEntries

NAMES = st.one_of(
    st.from_regex(r"[a-z]{1,3}(/[a-z0-9.]{1,4}){0,2}", fullmatch=True),
    st.sampled_from(["zarr.json", "c/0/0", "folder/", "a b", "ä/é", "日本", "..", "a//b", "a\\b", "/a"]),
)
CONTENTS = st.one_of(st.binary(max_size=40), st.just(b"0" * 5000))


@st.composite
def archives(draw: st.DrawFn) -> bytes:
    file = io.BytesIO(draw(st.binary(max_size=9)))
    file.seek(0, 2)
    with zipfile.ZipFile(file, "w" if not file.tell() else "a") as archive:
        for name in draw(st.lists(NAMES, max_size=6, unique=True)):
            info = zipfile.ZipInfo(name)
            info.compress_type = draw(st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))
            info.extra = draw(st.sampled_from([b"", b"\x34\x12\x02\0ab"]))
            with archive.open(info, "w", force_zip64=draw(st.booleans())) as entry:
                entry.write(b"" if name.endswith("/") else draw(CONTENTS))
        archive.comment = draw(st.sampled_from([b"", b"a comment"]))
    return file.getvalue()


def found_in(data: bytes) -> Any:
    try:
        entries, comment = read_directory(lambda at, length: data[at : at + length], len(data), "x.zip")
    except ZvcoreError as error:
        return type(error), str(error)
    return [*entries.items()], comment


def both_ways(data: bytes) -> tuple[Any, Any]:
    usual = found_in(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zip_directory._Usual, "read", lambda *_: False)
        return usual, found_in(data)


@given(archives())
def test_the_same_of_archives_of_others(data: bytes) -> None:
    usual, careful = both_ways(data)
    if isinstance(usual[0], list):
        # Their order says nothing.
        usual, careful = (dict(usual[0]), usual[1]), (dict(careful[0]), careful[1])
    assert usual == careful


@given(archives(), st.data())
def test_the_same_of_damaged_ones(data: bytes, draw: st.DataObject) -> None:
    damaged = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 3))):
        # Mostly in the directory, at the end.
        at = len(damaged) - 1 - min(len(damaged) - 1, draw.draw(st.integers(0, 150) | st.integers(0, len(damaged))))
        damaged[at] = draw.draw(st.sampled_from([0, 1, 8, 0x50, 0xFF]) | st.integers(0, 255))
    usual, careful = both_ways(bytes(damaged))
    if isinstance(usual[0], list) and isinstance(careful[0], list):
        usual, careful = (dict(usual[0]), usual[1]), (dict(careful[0]), careful[1])
    assert usual == careful


def test_offsets_of_more_than_32_bits() -> None:
    """As in archives of more than 4 GiB, of which only the directory is here."""
    wide = (0xFFFFFFFF).to_bytes(4, "little")
    record = bytearray(46)
    record[:4] = b"PK\1\2"
    record[20:28] = (7).to_bytes(4, "little") * 2
    record[28:30], record[30:32] = (1).to_bytes(2, "little"), (12).to_bytes(2, "little")
    record[42:46] = wide
    raw = bytes(record) + b"a\x01\0\x08\0" + (5 << 32).to_bytes(8, "little")
    entries = UsualEntries()
    assert entries.read(raw, 1, 3, 6 << 32, Entry)
    assert [*entries] == ["a"] and entries["a"] == Entry((5 << 32) + 3, 7, 7, 0, 0, 6 << 32)
    assert entries.read(raw, 1, 3, (5 << 32) + 3 + 37, Entry)
    assert not entries.read(raw, 1, 3, (5 << 32) + 3 + 36, Entry)
    assert not entries.read(raw, 2, 3, 6 << 32, Entry)
    assert not entries.read(raw[:-1], 1, 3, 6 << 32, Entry)
    assert "a" not in entries and not [*entries]
    assert not entries.read(b"", 1 << 40, 0, 0, Entry)
    assert entries.get("a") is None and len(entries) == 0
    assert UsualEntries().get("a") is None and not [*UsualEntries()]
    assert entries.read(b"", 0, 0, 0, Entry) and not [*entries] and entries.get("a") is None


def archive_of(names: list[str]) -> bytes:
    entries = [(name, Entry(i * 100, 5, 5, i, 0)) for i, name in enumerate(names)]
    return bytes(100 * len(names)) + directory_bytes(entries, 100 * len(names))


def directory_of(names: list[str]) -> tuple[bytes, int]:
    """The records of an archive's directory, and where they begin."""
    data, begin = archive_of(names), 100 * len(names)
    return data[begin : data.index(b"PK\5\6", begin)], begin


def test_each_name_finds_its_entry_and_others_none() -> None:
    names = [f"c/{i}/{j}/{k}" for i in range(20) for j in range(20) for k in range(20)]
    raw, end = directory_of(names)
    entries = UsualEntries()
    assert entries.read(raw, len(names), 0, end, Entry)
    assert [*entries] == names and len(entries) == 8000
    for i, name in enumerate(names):
        assert name in entries and entries[name] is entries.get(name)
        assert entries[name] == Entry(i * 100, 5, 5, i, 0, (i + 1) * 100)
    for name in ("c/20/0/0", "c/0/0", "", "c/0/0/0\0", "é", "\ud800", 5, None):
        assert entries.get(name) is None and name not in entries
    with pytest.raises(KeyError, match="c/20/0/0"):
        entries["c/20/0/0"]


def place_of(name: str) -> int:
    """As zip_entries.pyx has it, of a name of 8 bytes."""
    mixed = 8 * 0x9E3779B97F4A7C15 ^ int.from_bytes(name.encode(), "little")
    mixed = mixed * 0x9E3779B97F4A7C15 % (1 << 64)
    return (mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9 % (1 << 64)


def test_names_in_each_others_way_are_left_to_the_careful_reader() -> None:
    """Names that are made to want one place would take time that grows with the square of their number."""
    names = [f"{number:08x}" for number in range(20_000)]
    same = [name for name in names if place_of(name) >> 57 == 5][:64]
    assert len(same) == 64
    for some, fine in (names[:64], True), (same, False):
        raw, end = directory_of(some)
        assert UsualEntries().read(raw, 64, 0, end, Entry) == fine
        usual, careful = both_ways(archive_of(some))
        assert usual == careful and [name for name, _ in usual[0]] == some
