"""Directories of TIFF at equal and unequal distances, read many at a time: what one of them says is not missed."""

from __future__ import annotations

import itertools
import pickle
import struct
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.errors import CorruptDataError, MetadataError, UnsupportedError, ZvcoreError
from zvcore.tiff.directories import Directories

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

tifffile = pytest.importorskip("tifffile")

SIDE, PAGES = 16, 400
VALUES = np.random.default_rng(5).integers(0, 60000, (PAGES, SIDE, SIDE), np.uint16)
WIDTH, LENGTH, BITS, COMPRESSION, PHOTOMETRIC, OFFSET, SAMPLES, ROWS, COUNT, SOFTWARE = (
    256, 257, 258, 259, 262, 273, 277, 278, 279, 305,
)  # fmt: skip
SHORT, LONG, LONG8, ASCII = 3, 4, 16, 2
Tags = dict[int, tuple[int, int]]


class Made:
    """A TIFF of pages whose directories lie where a test would have them."""

    def __init__(self, order: str = "<", big: bool = False) -> None:
        self.order, self.big = order, big
        self.offset, self.number = ("Q", "Q") if big else ("I", "H")
        mark = b"II" if order == "<" else b"MM"
        head = struct.pack(f"{order}HHHQ", 43, 8, 0, 0) if big else struct.pack(f"{order}HI", 42, 0)
        self.data = bytearray(mark + head)
        # Where the first directory is named, then the one behind each.
        self.ends = [8 if big else 4]
        self.places: list[int] = []

    def values(self, values: np.ndarray) -> int:
        at = len(self.data)
        self.data += values.astype(f"{self.order}u2").tobytes()
        return at

    def directory(self, at: int, change: Tags | None = None) -> None:
        """The directory of the page whose values lie there."""
        tags: Tags = {
            WIDTH: (SHORT, SIDE), LENGTH: (SHORT, SIDE), BITS: (SHORT, 16), COMPRESSION: (SHORT, 1),
            PHOTOMETRIC: (SHORT, 1), OFFSET: (LONG8 if self.big else LONG, at), SAMPLES: (SHORT, 1),
            ROWS: (SHORT, SIDE), COUNT: (LONG, SIDE * SIDE * 2), **(change or {}),
        }  # fmt: skip
        self.data += bytes(-len(self.data) % 2)
        here, order = len(self.data), self.order
        self.data += struct.pack(f"{order}{self.number}", len(tags))
        for code, (kind, value) in sorted(tags.items()):
            count = 20 if kind == ASCII else 1
            letter = {SHORT: "H", LONG: "I"}.get(kind, self.offset)
            said = struct.pack(order + letter, value).ljust(8 if self.big else 4, b"\0")
            self.data += struct.pack(f"{order}HH{self.offset}", code, kind, count) + said
        self.lead(len(self.places), here)
        self.places.append(here)
        self.ends.append(len(self.data))
        self.data += bytes(8 if self.big else 4)

    def lead(self, number: int, to: int) -> None:
        """The directory before that of this number leads there."""
        struct.pack_into(f"{self.order}{self.offset}", self.data, self.ends[number], to)


def made(kind: str, order: str = "<", big: bool = False, changes: dict[int, Tags] | None = None) -> Made:
    """Directories "behind" all values, "between" these, or "anywhere"; those of some pages with other tags."""
    file = Made(order, big)
    changes = changes or {}
    gaps = np.random.default_rng(7).integers(0, 500, PAGES)
    if kind == "behind":
        first = file.values(VALUES)
        for number in range(PAGES):
            file.directory(first + number * VALUES[0].nbytes, changes.get(number))
    for number in range(PAGES) if kind != "behind" else ():
        if kind == "anywhere":
            file.data += bytes(int(gaps[number]))
        file.directory(file.values(VALUES[number]), changes.get(number))
    return file


def written(path: Path, file: Made) -> Path:
    path.write_bytes(file.data)
    return path


KINDS = pytest.mark.parametrize("kind", ["behind", "between", "anywhere"])


@KINDS
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("big", [False, True])
def test_pages_are_read_wherever_their_directories_lie(tmp_path: Path, kind: str, order: str, big: bool) -> None:
    path = written(tmp_path / "a.tif", made(kind, order, big))
    array = zvcore.open(path)
    assert array.shape == VALUES.shape
    assert (array[...] == VALUES).all()
    assert (array[PAGES - 3] == VALUES[-3]).all()
    assert (pickle.loads(pickle.dumps(array))[5] == VALUES[5]).all()


@KINDS
@pytest.mark.parametrize("number", [1, 200, PAGES - 1])
def test_one_page_that_is_stored_in_another_way_is_not_taken_for_one_of_the_others(
    tmp_path: Path, kind: str, number: int
) -> None:
    """tifffile makes a series of its own of it where it looks at it, which is not always so."""
    file = made(kind, changes={number: {PHOTOMETRIC: (SHORT, 0)}})
    path = written(tmp_path / "a.tif", file)
    with tifffile.TiffFile(path) as seen:
        looks = len(seen.series) == 2
    if looks:
        assert len(zvcore.open(path)) == 2
        return
    with pytest.raises(UnsupportedError, match="stored in different ways") as told:
        zvcore.open(path)
    assert told.value.offset == file.places[number]


@pytest.mark.parametrize("number", [1, 200, PAGES - 1])
def test_a_page_that_words_claim_for_others_is_looked_at(tmp_path: Path, number: int) -> None:
    """tifffile decodes all pages as the first one where words say that they are one array."""
    path = tmp_path / "b.tif"
    tifffile.imwrite(path, VALUES[:, :8, :8], photometric="minisblack", compression="zlib", tile=(16, 16))
    with tifffile.TiffFile(path) as file:
        places = [page.offset for page in file.pages]
        tag = next(one for one in file.pages[number].aspage().tags if one.code == PHOTOMETRIC)
    assert len(places) == PAGES
    data = bytearray(path.read_bytes())
    struct.pack_into("<H", data, tag.offset + 8, 0)
    path.write_bytes(data)
    with pytest.raises(UnsupportedError, match="stored in different ways") as told:
        zvcore.open(path)
    assert told.value.offset == places[number]


@KINDS
def test_directories_of_many_forms_are_told_apart(tmp_path: Path, kind: str) -> None:
    """Some with a tag more, in turns: neither their lengths nor what they say may be mixed up."""
    changes = {number: {SOFTWARE: (ASCII, 8)} for number in range(0, PAGES, 3)}
    changes |= {number: {SAMPLES: (LONG, 1)} for number in range(1, PAGES, 3)}
    array = zvcore.open(written(tmp_path / "a.tif", made(kind, changes=changes)))
    assert (array[...] == VALUES).all()


@KINDS
@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("number", [0, 1, 200, PAGES - 1])
def test_what_one_page_says_behind_the_end_is_told(tmp_path: Path, kind: str, big: bool, number: int) -> None:
    far = 1 << 30
    changes = {n: {SOFTWARE: (ASCII, far if n == number else 16)} for n in range(PAGES)}
    path = written(tmp_path / "a.tif", made(kind, big=big, changes=changes))
    with pytest.raises(CorruptDataError, match="what tag 305 says") as told:
        zvcore.open(path)
    assert told.value.offset == far


def _circle(file: Made) -> None:
    file.lead(300, file.places[120])


def _itself(file: Made) -> None:
    file.lead(300, file.places[299])


def _last_to_first(file: Made) -> None:
    file.lead(PAGES, file.places[0])


def _behind_the_end(file: Made) -> None:
    file.lead(300, len(file.data) + 2)


def _into_values(file: Made) -> None:
    file.data += bytes(64)
    file.lead(300, len(file.data) - 32)


def _cut_off(file: Made) -> None:
    del file.data[file.ends[-1] - 4 :]


def _too_many_tags(file: Made) -> None:
    struct.pack_into("<H", file.data, file.places[250], 5000)


@KINDS
@pytest.mark.parametrize(
    ("spoil", "words", "error"),
    [
        (_circle, "lead in a circle", MetadataError),
        (_itself, "lead in a circle", MetadataError),
        (_last_to_first, "lead in a circle", MetadataError),
        (_behind_the_end, "behind the first 300 lies behind the end", CorruptDataError),
        (_into_values, "should be directory 300 of this TIFF is none", CorruptDataError),
        (_cut_off, f"should be directory {PAGES - 1} of this TIFF is none", CorruptDataError),
        (_too_many_tags, "should be directory 250 of this TIFF is none", CorruptDataError),
    ],
)
def test_chains_that_lie_are_refused(
    tmp_path: Path, kind: str, spoil: Callable[[Made], None], words: str, error: type[ZvcoreError]
) -> None:
    file = made(kind)
    spoil(file)
    with pytest.raises(error, match=words):
        zvcore.open(written(tmp_path / "a.tif", file))


@KINDS
def test_a_chain_may_leave_out_directories_and_go_back(tmp_path: Path, kind: str) -> None:
    """Programs that edit files do so; what is left out is not read, though it lies where one is expected."""
    file = made(kind)
    order: Sequence[int] = [*range(200), *range(210, PAGES), *range(203, 206)]
    file.lead(order[0], file.places[order[0]])
    for before, after in itertools.pairwise(order):
        file.lead(before + 1, file.places[after])
    file.lead(order[-1] + 1, 0)
    array = zvcore.open(written(tmp_path / "a.tif", file))
    assert (array[...] == VALUES[[*order]]).all()


def test_directories_that_lie_within_each_other_are_refused(tmp_path: Path) -> None:
    """At equal distances, each less than a directory is long: all of them would be read many times."""
    file = Made()
    step, tags = 12, 40
    at = len(file.data)
    file.lead(0, at)
    many = 600
    # Each is at the same time the tags of others: the number of tags at every one, and the place of the next where
    # the last tag ends.
    file.data += bytes(step * many + tags * 12 + 64)
    for number in range(many):
        here = at + number * step
        struct.pack_into("<H", file.data, here, tags)
        struct.pack_into("<I", file.data, here + 2 + tags * 12, here + step)
    with pytest.raises(ZvcoreError, match="share bytes"):
        zvcore.open(written(tmp_path / "a.tif", file))


def test_tifffile_is_told_where_directories_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or it looks for them again, which takes longer than all else; a version that keeps them otherwise does."""
    path = written(tmp_path / "a.tif", made("behind"))
    looks: list[int] = []
    seek = tifffile.TiffPages._seek

    def counted(self: object, index: int, /) -> object:
        if not self._indexed:  # type: ignore[attr-defined]
            looks.append(index)
        return seek(self, index)

    monkeypatch.setattr(tifffile.TiffPages, "_seek", counted)
    assert zvcore.open(path).shape == VALUES.shape
    assert not [index for index in looks if index > 1 or index < 0]


def _given(path: Path) -> Any:
    """tifffile's file, with what it is told."""
    file = tifffile.TiffFile(path)
    Directories(file, "a.tif", lambda places, slack: None).tell_tifffile(file, tifffile.TiffFrame)
    return file


@pytest.mark.parametrize("byteorder", ["<", ">"])
@pytest.mark.parametrize("bigtiff", [False, True])
@pytest.mark.parametrize("tile", [None, (16, 16), (32, 48)])
def test_tifffile_is_told_what_it_would_read_of_each_page(
    tmp_path: Path, byteorder: Any, bigtiff: bool, tile: Any
) -> None:
    """Strips and tiles, one of a page or many, whose places lie in its directory or behind it."""
    path, values = tmp_path / "a.tif", np.repeat(np.repeat(VALUES[:40], 3, axis=1), 3, axis=2)
    options = {"tile": tile} if tile else {"rowsperstrip": 24}
    tifffile.imwrite(path, values, bigtiff=bigtiff, byteorder=byteorder, photometric="minisblack",
                     compression="zlib", **options)  # fmt: skip
    with _given(path) as told, tifffile.TiffFile(path) as file:
        assert sorted(told.pages._loaded) == [*range(40)]
        for ours, theirs in zip(told.series[0].pages, file.series[0].pages, strict=True):
            for name in ("index", "offset", "dataoffsets", "databytecounts", "jpegtables", "subifds", "shape", "dtype"):
                assert getattr(ours, name) == getattr(theirs, name), name
    array = zvcore.open(path)
    assert (array[...] == values).all()
    assert (array[17] == values[17]).all()


def test_places_that_lie_elsewhere_than_behind_the_directory_are_left_to_tifffile(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, VALUES[:9], photometric="minisblack", compression="zlib", rowsperstrip=4)
    with tifffile.TiffFile(path) as file:
        tags = [file.pages[number].aspage().tags[273] for number in (4, 5)]
        places = [tag.valueoffset for tag in tags]
    data = bytearray(path.read_bytes())
    # Those of one stand at the end, and those of another before their directory.
    raw = [bytes(data[place : place + 16]) for place in places]
    with tifffile.TiffFile(path) as file:
        gap = file.pages[0].tags[305]
        front = gap.valueoffset if gap.count >= 17 else None
    struct.pack_into("<I", data, tags[0].offset + 8, len(data))
    data += raw[0]
    if front is not None:
        data[front : front + 16] = raw[1]
        struct.pack_into("<I", data, tags[1].offset + 8, front)
    path.write_bytes(data)
    with _given(path) as told:
        assert not set(told.pages._loaded) & {4}
    assert (zvcore.open(path)[...] == VALUES[:9]).all()


def test_pages_of_which_tifffile_asks_more_are_left_to_it(tmp_path: Path) -> None:
    path, values = tmp_path / "a.tif", VALUES[:6]
    with tifffile.TiffWriter(path) as writer:
        writer.write(values, photometric="minisblack", compression="zlib", subifds=1)
        writer.write(values[:, ::2, ::2], photometric="minisblack", compression="zlib", subfiletype=1)
    with _given(path) as told:
        assert sorted(told.pages._loaded) == [0]
    assert (zvcore.open(path)["0"][...] == values).all()
    assert (zvcore.open(path)["1"][...] == values[:, ::2, ::2]).all()


def test_nothing_is_told_where_tifffile_keeps_pages_otherwise(tmp_path: Path) -> None:
    """It is its own affair, and another version may do it in another way."""
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, VALUES[:5], photometric="minisblack", compression="zlib")
    with tifffile.TiffFile(path) as file:
        directories = Directories(file, "a.tif", lambda places, slack: None)
        for pages in (
            SimpleNamespace(),
            SimpleNamespace(_offsets=[1, 2], _indexed=False),
            SimpleNamespace(_offsets=()),
        ):
            before = repr(pages)
            directories.tell_tifffile(SimpleNamespace(pages=pages), tifffile.TiffFrame)
            assert repr(pages) == before
