"""The chains of a TIFF's directories, each of which says where the next one lies, and how its values are stored."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from zvcore.errors import CorruptDataError, MetadataError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias

    import numpy.typing as npt

    Way: TypeAlias = tuple[tuple[str, str], ...]

__all__ = ["Directories", "check_planes"]

# More tags than any program writes: tifffile takes such a directory for the end of the chain.
_MOST_TAGS = 4096
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
# How many directories are asked for before it is known that they lie there: at equal distances, and at those that
# differ by no more than this part of them.
_FORESEEN, _NEARLY, _ALIKE = 64, 8, 1 / 64
_SLACK = 1 << 13
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
    """

    elsewhere: npt.NDArray[np.intp]
    nbytes: npt.NDArray[np.float64]
    asked: npt.NDArray[np.intp]
    asked_elsewhere: npt.NDArray[np.intp]
    parts: npt.NDArray[np.intp]


class Directories:
    """All directories of a file: those of its chain, and those that these name as parts of theirs (SubIFDs).

    tifffile follows a circle for ever, and keeps what it finds. What leads nowhere it takes for the end: of a file that
    was cut off, the pages behind would be missing without a word. Of most pages it asks no more than where their values
    lie, and decodes these as those of the first one: `ways` has how the values of each are stored.

    `expect` is called with the places in the file where directories are expected, and how far off they may lie.
    """

    def __init__(self, file: Any, key: str, expect: Callable[[Sequence[int], int], None]) -> None:
        self._expect = expect
        self.form, self.handle, self.byteorder, self.key = file.tiff, file.filehandle, file.byteorder, key
        # By where a directory lies; None where tags have a form that is not known here.
        self.ways: dict[int, Way | None] = {}
        # By what the tags say, as it lies in the file. Most pages of a file are stored in one way.
        self._known: dict[tuple[bytes, ...], Way] = {}
        self._nbytes = 0
        # How many bytes the directory has that was read last; at first, what is surely needed of one.
        self._usual = int(self.form.tagnosize)
        # By the codes of tags, their types and counts, as they lie in the file.
        self._forms: dict[bytes, _Form] = {}
        # By the codes of tags, and by their types.
        self._is_asked = np.isin(np.arange(1 << 16), [*_WAYS])
        self._size_of = np.array([*_SIZES, 0], np.uint64)
        chains = [int(file.pages.first.offset)]
        while chains:
            chains += self._follow(chains.pop())

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

    def _follow(self, at: int) -> list[int]:
        """One chain to its end; where the chains of parts begin that its directories name."""
        parts: list[int] = []
        seen: set[int] = set()
        self._step = self._foreseen = 0
        while at:
            if at in seen:
                raise MetadataError("the directories of this TIFF lead in a circle", key=self.key, found=at)
            seen.add(at)
            if at in self.ways:
                break
            following, named = self._read(at, len(seen) - 1)
            parts += named
            self._foresee(at, following)
            at = following
        return parts

    def _foresee(self, at: int, following: int) -> None:
        """Tell which directories are likely to come next: those of pages of one size often lie at equal distances."""
        before, step = self._step, following - at
        self._step = step
        if following < self._foreseen or step <= 0 or abs(step - before) > step * _ALIKE:
            return
        # Those of packed pages lie near the places at which equal distances would have them.
        count, slack = (_FORESEEN, 0) if step == before else (_NEARLY, min(step // 4, _SLACK))
        places = range(following, self.handle.size, step)[:count]
        self._expect(places, slack)
        self._foreseen = following + len(places) * step - slack

    def _read(self, at: int, number: int) -> tuple[int, list[int]]:
        """(where the next directory of the chain lies, where those of parts do)."""
        form, handle = self.form, self.handle
        if at >= handle.size:
            raise CorruptDataError(
                f"the directory behind the first {number} lies behind the end of this TIFF, which was cut off",
                key=self.key, offset=at, expected=f"an offset below {handle.size}, or 0", found=at,
            )  # fmt: skip
        handle.seek(at)
        # In one piece where it is as long as the one before, as most are.
        stored = handle.read(self._usual)
        count = self._number(stored[: form.tagnosize])
        end = at + form.tagnosize + count * form.tagsize + form.offsetsize
        if not 0 < count <= _MOST_TAGS or end > handle.size:
            raise CorruptDataError(
                f"what should be directory {number} of this TIFF is none", key=self.key, offset=at,
                expected=f"1 to {_MOST_TAGS} tags in the file", found=count,
            )  # fmt: skip
        self._take(end - at, at)
        stored += handle.read(max(0, end - at - len(stored)))
        self._usual = end - at
        raw = stored[form.tagnosize : end - at - form.offsetsize]
        following = self._number(stored[end - at - form.offsetsize : end - at])
        lies = _TAGS.get((form.offsetsize, form.tagsize))
        if lies is None:
            self.ways[at] = None
            return following, []
        tags = np.frombuffer(raw, np.dtype(lies).newbyteorder(self.byteorder))
        told = np.frombuffer(raw, np.uint8).reshape(count, form.tagsize)[:, : -form.offsetsize].tobytes()
        known = self._forms.get(told) or self._form_of(told, tags)
        self._check_values(tags[known.elsewhere], known.nbytes)
        self.ways[at] = self._way(tags[known.asked], tags[known.asked_elsewhere])
        parts = [self._numbers(tag) for tag in tags[known.parts]] if len(known.parts) else ()
        return following, [part for part in itertools.chain(*parts) if part]

    def _form_of(self, told: bytes, tags: Any) -> _Form:
        """What all directories have in common whose tags have these codes, types and counts."""
        self._check_places(tags)
        # Of a wild number of items as a float, which cannot overflow.
        nbytes = tags["count"].astype(np.float64) * self._size_of[np.minimum(tags["type"], len(_SIZES))]
        lies_elsewhere, is_asked = nbytes > self.form.offsetsize, self._is_asked[tags["code"]]
        (elsewhere,), (parts,) = lies_elsewhere.nonzero(), (tags["code"] == _PARTS).nonzero()
        (asked,), (asked_elsewhere,) = (is_asked & ~lies_elsewhere).nonzero(), (is_asked & lies_elsewhere).nonzero()
        found = self._forms[told] = _Form(elsewhere, nbytes[elsewhere], asked, asked_elsewhere, parts)
        return found

    def _check_values(self, tags: Any, nbytes: npt.NDArray[np.float64]) -> None:
        """That what tags say elsewhere lies in the file: tifffile leaves out what does not, such as words."""
        outside = tags["value"] + nbytes > self.handle.size
        if outside.any():
            tag = tags[int(np.argmax(outside))]
            raise CorruptDataError(
                f"what tag {tag['code']} says lies behind the end of this TIFF, which was cut off",
                key=self.key, offset=int(tag["value"]), expected=f"at most {self.handle.size} bytes",
                found=int(nbytes[np.argmax(outside)]),
            )  # fmt: skip

    def _check_places(self, tags: Any) -> None:
        """That where values lie is said in whole numbers from 0: tifffile takes any, and a fraction would be cut."""
        for tag in tags[np.isin(tags["code"], _PLACES)]:
            if int(tag["type"]) not in _NUMBERS:
                raise MetadataError(
                    f"tag {tag['code']}, which says where values lie, is of a type that cannot", key=self.key,
                    expected=f"one of {', '.join(map(str, _NUMBERS))}", found=int(tag["type"]),
                )  # fmt: skip

    def _way(self, tags: npt.NDArray[Any], elsewhere: npt.NDArray[Any]) -> Way:
        """How values are stored, by what tags say themselves and what others say elsewhere; worked out once for all
        directories whose tags have the same bytes.
        """
        raws = [self._raw(tag, _MOST_VALUES) for tag in elsewhere]
        told = (tags.tobytes(), elsewhere["code"].tobytes(), *raws)
        if told not in self._known:
            numbers = {int(tag["code"]): self._numbers(tag, _MOST_VALUES) for tag in itertools.chain(tags, elsewhere)}
            self._known[told] = _way_of(numbers)
        return self._known[told]

    def _numbers(self, tag: Any, most: int | None = None) -> list[int]:
        """The numbers that a tag says, and `most` at most; none of other types."""
        kind = _NUMBERS.get(int(tag["type"]))
        return [] if kind is None else np.frombuffer(self._raw(tag, most), self.byteorder + kind).tolist()

    def _raw(self, tag: Any, most: int | None) -> bytes:
        """The bytes of what a tag says."""
        size = int(self._size_of[min(tag["type"], len(_SIZES))])
        nbytes, raw = int(tag["count"]) * size, bytes(tag.tobytes()[-self.form.offsetsize :])
        if nbytes <= len(raw):
            return raw[:nbytes]
        if most is None:
            self._take(nbytes, int(tag["value"]))
        else:
            nbytes = min(nbytes, most * size)
        self.handle.seek(int(tag["value"]))
        return bytes(self.handle.read(nbytes))

    def _take(self, nbytes: int, at: int) -> None:
        """That directories do not share bytes: they would be more than there is room for, each with all the others."""
        self._nbytes += nbytes
        if self._nbytes > self.handle.size:
            raise MetadataError("the directories of this TIFF share bytes", key=self.key, offset=at)

    def _number(self, raw: bytes) -> int:
        return int.from_bytes(raw, "little" if self.byteorder == "<" else "big")


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
