"""What the directories of a TIFF say of how values are stored, looked at many at a time."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from zvcore.errors import CorruptDataError, MetadataError, UnsupportedError
from zvcore.tiff.chains import Chains

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    import numpy.typing as npt

    from zvcore.tiff.chains import Rows

    Way: TypeAlias = tuple[tuple[str, str], ...]
    # Its code, the type and the number of its items, and what it says or where that lies.
    _Tag: TypeAlias = tuple[int, int, int, int]

__all__ = ["Directories", "check_planes"]

# How many bytes an item of each type takes; of types that nobody knows, none.
_SIZES = (0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8, 8, 8)
# How the whole numbers of types lie in the file.
_NUMBERS = {1: "u1", 3: "u2", 4: "u4", 13: "u4", 16: "u8", 18: "u8"}
# The tags by which values are decoded: what they are called here, and what goes without saying. Not JPEG's
# tables, which are taken from each page.
_WAYS = {
    256: ("width", 0), 257: ("length", 0), 32997: ("depth", 1), 258: ("bits", 1), 339: ("sample format", 1),
    277: ("samples", 1), 284: ("planar configuration", 1), 259: ("compression", 1), 317: ("predictor", 1),
    266: ("fill order", 1), 262: ("photometric", 0), 278: ("rows of a strip", 0), 322: ("tile width", 0),
    323: ("tile length", 0), 32998: ("tile depth", 1),
}  # fmt: skip
_TILE_WIDTH, _PARTS = 322, 330
# Offsets and lengths of strips and tiles, and where directories of parts lie.
_PLACES = (273, 279, 324, 325, _PARTS)
_LISTS = ((273, 324), (279, 325))
# JPEG's own tables.
_TABLES = 347
# How many bytes behind a directory are read with it: what does not fit into it most often lies there.
_BEHIND = 512
# Of how many samples the bits are looked at, of which some programs name those of each: hardly ever do they differ.
_MOST_VALUES = 64
# How a tag lies by the size of offsets. Other forms, such as that of NDPI, have more than this.
_TAGS = {
    (4, 12): [("code", "u2"), ("type", "u2"), ("count", "u4"), ("value", "u4")],
    (8, 20): [("code", "u2"), ("type", "u2"), ("count", "u8"), ("value", "u8")],
}


class _Form(NamedTuple):
    """What directories have in common whose tags have the same codes, types and counts: which of the tags say what.

    elsewhere  those of which what they say does not fit into them, and
    nbytes     how many bytes that is
    asked      those that tell how values are stored, by themselves, and
    asked_elsewhere  elsewhere
    parts      those that name directories of parts
    lists      those that name where strips or tiles lie, and how long they are; None where that is not all that differs
               from one page to another
    """

    elsewhere: npt.NDArray[np.intp]
    nbytes: npt.NDArray[np.float64]
    asked: npt.NDArray[np.intp]
    asked_elsewhere: npt.NDArray[np.intp]
    parts: npt.NDArray[np.intp]
    lists: tuple[int, int] | None


class Directories:
    """All directories of a file: those of its chain, and those that these name as parts of theirs (SubIFDs).

    tifffile keeps what it finds, asks most pages no more than where their values lie, and decodes these as those of the
    first one: `ways` has how the values of each are stored.

    `expect` is called with the places in the file where directories are expected, and how far off they may lie.
    """

    def __init__(self, file: Any, key: str, expect: Callable[[Sequence[int], int], None]) -> None:
        self.form, self.handle, self.byteorder, self.key = file.tiff, file.filehandle, file.byteorder, key
        # By where a directory lies; None where tags have a form that is not known here.
        self.ways: dict[int, Way | None] = {}
        # By what the tags say, as it lies in the file. Most pages of a file are stored in one way.
        self._known: dict[tuple[bytes, ...], Way] = {}
        # By the codes of tags, their types and counts, as they lie in the file.
        self._forms: dict[bytes, _Form] = {}
        # By where a directory lies: where its strips or tiles lie, and how long they are, where that is known so early
        # and tifffile is going to ask each page for it.
        self._lists: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self._are_asked = bool(file.is_shaped) and not file.pages.first.is_contiguous
        lies = _TAGS.get((self.form.offsetsize, self.form.tagsize))
        self._tags = None if lies is None else np.dtype(lies).newbyteorder(self.byteorder)
        self._chains = Chains(file, key, self._look, expect, _BEHIND if self._are_asked else 0)
        # Where chains of parts begin.
        self._parts: list[int] = []
        # Where the directories lie that are no parts, in their order.
        self.main = self._chains.walk(int(file.pages.first.offset), set())
        while self._parts:
            self._chains.walk(self._parts.pop(), self.ways.keys())

    def tell_tifffile(self, file: Any, frame: type[Any]) -> None:
        """Spare tifffile to look for the directories again, which takes it longer than all else, and for what they say,
        where it keeps that as it does now. Others of its versions look for themselves.

        `frame` is its class of pages that are stored as another.
        """
        pages = file.pages
        found: object = getattr(pages, "_offsets", None)
        if not isinstance(found, list) or getattr(pages, "_indexed", None) is not False or self._tags is None:
            return
        if found != self.main[: len(found)]:
            return
        found[:] = self.main
        pages._indexed = True
        loaded: object = getattr(pages, "_loaded", None)
        if not isinstance(loaded, dict) or not self._lists:
            return
        first = self.ways[self.main[0]]
        for index, place in enumerate(self.main):
            lists = self._lists.get(place)
            if lists is not None and self.ways[place] == first and index not in loaded:
                loaded[index] = frame(file, index, offset=place, dataoffsets=lists[0], databytecounts=lists[1])

    def check_alike(self, pages: Sequence[Any], keyframe: Any) -> None:
        """That values of pages are stored as those of the one that they are decoded as."""
        first = self.ways.get(int(keyframe.offset))
        if len(self._known) == 1:
            return  # so are those of all directories, of which many need not be looked for one by one
        for page in pages:
            own = None if page is None else self.ways.get(int(page.offset))
            if first is None or own is None or own == first:
                continue
            differ = [(name, told) for name, told in own if told != dict(first).get(name)]
            raise UnsupportedError(
                "pages of one series that are stored in different ways", key=self.key, offset=int(page.offset),
                expected=", ".join(f"{name} {dict(first)[name]}" for name, _ in differ),
                found=", ".join(f"{name} {told}" for name, told in differ),
            )  # fmt: skip

    def _look(self, rows: Rows) -> None:
        """Look at directories that are equally long."""
        if self._tags is None:
            self.ways.update(dict.fromkeys(rows.places))
            return
        count, of_value = len(rows.places), self.form.offsetsize // 4
        raw = np.ascontiguousarray(rows.raw[:, self.form.tagnosize : -self.form.offsetsize])
        tags = raw.view(self._tags)
        # All but what the tags say.
        told = raw.copy().view(np.uint32)
        told.reshape(*tags.shape, -1)[:, :, -of_value:] = 0
        for form, of in _groups(told):
            if len(of) == count:
                known = self._look_at_alike(form, tags, rows.places)
            else:
                known = self._look_at_alike(form, tags[of], [rows.places[n] for n in of])
            if known.lists is not None:
                self._take_lists(known.lists, tags[of], [rows.places[n] for n in of], rows, of)

    def _look_at_alike(self, told: bytes, tags: npt.NDArray[Any], places: Sequence[int]) -> _Form:
        """Look at directories whose tags have the same codes, types and counts."""
        known = self._forms.get(told) or self._form_of(told, tags[0])
        values = tags["value"]
        if len(known.elsewhere):
            self._check_values(tags[0], values[:, known.elsewhere], known)
        if len(known.asked_elsewhere):
            for place, one in zip(places, tags, strict=True):
                self.ways[place] = self._way(one[known.asked], one[known.asked_elsewhere])
        else:
            nothing = tags[0, :0]
            for _, of in _groups(values[:, known.asked]):
                way = self._way(tags[of[0], known.asked], nothing)
                self.ways.update(dict.fromkeys(places if len(of) == len(tags) else [places[n] for n in of], way))
        for tag in tags[:, known.parts].ravel().tolist() if len(known.parts) else ():
            self._parts += [part for part in self._numbers(tag) if part]
        return known

    def _take_lists(
        self, lists: tuple[int, int], tags: npt.NDArray[Any], places: Sequence[int], rows: Rows, of: Sequence[int]
    ) -> None:
        """Note where strips or tiles lie, and how long they are, where what was read tells it of all directories."""
        found = []
        for column in lists:
            kind, count = self.byteorder + _NUMBERS[int(tags[0, column]["type"])], int(tags[0, column]["count"])
            nbytes = count * np.dtype(kind).itemsize
            values = tags["value"][:, column]
            if nbytes <= self.form.offsetsize:
                raw = np.frombuffer(values.tobytes(), np.uint8).reshape(len(tags), -1)[:, :nbytes]
            else:
                ends = np.array(places, np.int64) + rows.raw.shape[1]
                # Where values begin in what was read: of 64 bits without a sign, those before it lie far behind it.
                begin = values.astype(np.uint64) - ends.astype(np.uint64)
                if nbytes > rows.behind.shape[1] or (begin > rows.behind.shape[1] - nbytes).any():
                    return
                columns = begin.astype(np.intp)[:, None] + np.arange(nbytes)
                raw = rows.behind[np.array(of, np.intp)[:, None], columns]
            found.append(map(tuple, np.ascontiguousarray(raw).view(kind).tolist()))
        self._lists.update(zip(places, zip(*found, strict=True), strict=True))

    def _form_of(self, told: bytes, tags: npt.NDArray[Any]) -> _Form:
        """What all directories have in common whose tags have these codes, types and counts."""
        # Whole numbers of Python: of items of a wild number, bytes do not overflow.
        elsewhere, asked, asked_elsewhere, parts = (list[int]() for _ in range(4))
        nbytes: list[float] = []
        for number, (code, kind, count, _) in enumerate(tags.tolist()):
            if code in _PLACES and kind not in _NUMBERS:
                raise _no_place(code, kind, self.key)
            length = count * _size_of(kind)
            if length > self.form.offsetsize:
                elsewhere.append(number)
                nbytes.append(float(length))
            if code in _WAYS:
                (asked if length <= self.form.offsetsize else asked_elsewhere).append(number)
            if code == _PARTS:
                parts.append(number)
        found = self._forms[told] = _Form(
            np.array(elsewhere, np.intp), np.array(nbytes), np.array(asked, np.intp),
            np.array(asked_elsewhere, np.intp), np.array(parts, np.intp),
            _lists_of(tags.tolist()) if self._are_asked else None,
        )  # fmt: skip
        return found

    def _check_values(self, tags: npt.NDArray[Any], values: npt.NDArray[Any], form: _Form) -> None:
        """That what tags say elsewhere lies in the file: tifffile leaves out what does not, such as words."""
        outside = values + form.nbytes > self.handle.size
        if outside.any():
            row, column = np.unravel_index(int(np.argmax(outside)), outside.shape)
            code = tags[form.elsewhere[column]]["code"]
            raise CorruptDataError(
                f"what tag {code} says lies behind the end of this TIFF, which was cut off",
                key=self.key, offset=int(values[row, column]), expected=f"at most {self.handle.size} bytes",
                found=int(form.nbytes[column]),
            )  # fmt: skip

    def _way(self, tags: npt.NDArray[Any], elsewhere: npt.NDArray[Any]) -> Way:
        """How values are stored, by what tags say themselves and what others say elsewhere; worked out once for all
        directories whose tags have the same bytes.
        """
        raws = [self._raw(tag, _MOST_VALUES) for tag in elsewhere.tolist()]
        told = (tags.tobytes(), elsewhere["code"].tobytes(), *raws)
        if told not in self._known:
            both = itertools.chain(tags.tolist(), elsewhere.tolist())
            self._known[told] = _way_of({tag[0]: self._numbers(tag, _MOST_VALUES) for tag in both})
        return self._known[told]

    def _numbers(self, tag: _Tag, most: int | None = None) -> list[int]:
        """The numbers that a tag says, and `most` at most; none of other types."""
        kind = _NUMBERS.get(tag[1])
        return [] if kind is None else np.frombuffer(self._raw(tag, most), self.byteorder + kind).tolist()

    def _raw(self, tag: _Tag, most: int | None) -> bytes:
        """The bytes of what a tag says."""
        _, kind, count, value = tag
        size = _size_of(kind)
        nbytes = count * size
        if nbytes <= self.form.offsetsize:
            return value.to_bytes(self.form.offsetsize, "little" if self.byteorder == "<" else "big")[:nbytes]
        if most is None:
            self._chains.take(nbytes, value)
        else:
            nbytes = min(nbytes, most * size)
        self.handle.seek(value)
        return bytes(self.handle.read(nbytes))


def _size_of(kind: int) -> int:
    """How many bytes an item of a type takes."""
    return _SIZES[kind] if kind < len(_SIZES) else 0


def _lists_of(tags: Sequence[_Tag]) -> tuple[int, int] | None:
    """Which of the tags of a directory name where strips or tiles lie, and how long they are; None where tifffile asks
    a page for more.
    """
    codes = [code for code, *_ in tags]
    places, lengths = ([n for n, code in enumerate(codes) if code in either] for either in _LISTS)
    if len(places) != 1 or len(lengths) != 1 or not {_PARTS, _TABLES}.isdisjoint(codes):
        return None
    (_, kind, count, _), (_, other, others, _) = tags[places[0]], tags[lengths[0]]
    known = kind in _NUMBERS and other in _NUMBERS
    return (places[0], lengths[0]) if known and 0 < count == others else None


def _no_place(code: int, kind: int, key: str) -> MetadataError:
    """That where values lie is said in something else than whole numbers from 0: tifffile takes any, and a fraction
    would be cut.
    """
    return MetadataError(
        f"tag {code}, which says where values lie, is of a type that cannot", key=key,
        expected=f"one of {', '.join(map(str, _NUMBERS))}", found=kind,
    )  # fmt: skip


def _groups(rows: npt.NDArray[Any]) -> Iterator[tuple[bytes, Sequence[int]]]:
    """(the bytes of what rows have in common, their numbers) of those that are equal."""
    if len(rows) == 1 or (rows == rows[0]).all():
        yield rows[0].tobytes(), range(len(rows))
        return
    found: dict[bytes, list[int]] = {}
    for number, row in enumerate(rows):
        found.setdefault(row.tobytes(), []).append(number)
    yield from found.items()


def _way_of(told: Mapping[int, Sequence[int]]) -> Way:
    """How values are stored, by what the tags of a directory say of it; what is not said is as TIFF has it then."""
    found = {name: told.get(code) or (usual,) for code, (name, usual) in _WAYS.items()}
    samples = found["samples"][0]
    for name in ("bits", "sample format"):
        # Some programs name more samples than there are, others one for all.
        each = found[name][:samples]
        found[name] = each[:1] if len(set(each)) == 1 else each
    # How many rows a strip may have is of no matter where there are fewer, nor where there are tiles.
    rows, length = found["rows of a strip"][0], found["length"][0]
    found["rows of a strip"] = (0,) if told.get(_TILE_WIDTH) else (min(rows, length) or length,)
    return tuple((name, " ".join(map(str, values))) for name, values in found.items())


def check_planes(file: Any, key: str) -> None:
    """An error where planes are missing that have no directories: of stacks beyond 4 GiB, ImageJ gives the first plane
    one, and the others follow its values. tifffile takes a stack that does not fit into the file for one plane.
    """
    if not file.is_imagej or file.pages.is_multipage:
        return
    page, count = file.pages.first, (file.imagej_metadata or {}).get("images", 1)
    # One plane that a program took out of a stack keeps the words, and nothing follows its values.
    begin = page.dataoffsets[0] if page.is_final and page.dataoffsets else 0
    there = file.filehandle.size - begin
    if page.offset < begin and isinstance(count, int) and page.nbytes < there < count * page.nbytes:
        raise CorruptDataError(
            "the file is too short for the planes that it tells of", key=key, offset=begin,
            expected=f"{count * page.nbytes} bytes", found=f"{there} bytes",
        )  # fmt: skip
