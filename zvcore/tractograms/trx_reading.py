"""Files of TRX: a zip archive with an array in each member, which are read side by side."""

from __future__ import annotations

import zipfile
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore import codecs
from zvcore.borrowed.file import reading, stream
from zvcore.cached import cached_property
from zvcore.documents.document import parse
from zvcore.documents.values import as_json
from zvcore.errors import CorruptDataError, MetadataError, UnsupportedError
from zvcore.exchange.lines import LineBatch
from zvcore.tractograms.streamlines import Streamlines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt

    from zvcore.stores import Store

__all__ = ["TYPES", "TrxStreamlines"]

_TITLE = "TRX"
# The types that members may have, by the ends of their names.
TYPES = {
    **{name: np.dtype(name).newbyteorder("<") for name in (
        "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    )},
    "bit": np.dtype(bool), "bool": np.dtype(bool),
}  # fmt: skip
_HEADER = "header.json"
_LONGEST_HEADER = 1 << 20
# Bytes of data of groups, which stand in a header; lines read at once.
_MOST_OF_GROUPS = 1 << 20
_BATCH, _MOST_VERTICES, _BATCH_BYTES = 2048, 1 << 20, 256 << 20


class _Member:
    """One array of the archive: its rows, and how many numbers each has."""

    def __init__(self, info: zipfile.ZipInfo, name: str, key: str) -> None:
        parts = name.split(".")
        self.info = info
        self.name = parts[0]
        known = len(parts) in (2, 3) and bool(parts[0]) and parts[-1] in TYPES
        if known and len(parts) == 3:
            known = parts[1].isascii() and parts[1].isdigit() and 0 < len(parts[1]) < 6 and int(parts[1]) > 0
        if not known:
            raise MetadataError(
                "a member of the archive is called as no array of TRX is", key=key, found=info.filename,
                expected="name.type or name.numbers.type",
            )  # fmt: skip
        self.type = TYPES[parts[-1]]
        self.numbers = int(parts[1]) if len(parts) == 3 else 1
        each = self.type.itemsize * self.numbers
        if info.file_size % each:
            raise CorruptDataError(
                "a member of the archive is cut", key=f"{key}:/{info.filename}", expected=f"a multiple of {each} bytes",
                found=info.file_size,
            )  # fmt: skip
        self.rows = info.file_size // each


class TrxStreamlines(Streamlines):
    def __init__(self, store: Store) -> None:
        super().__init__("trx", store)
        self._found: dict[str, dict[str, _Member]] = {"": {}, "dpv": {}, "dps": {}, "groups": {}}
        self._of_groups: dict[str, dict[str, _Member]] = {}
        with reading(store.root, _TITLE), self._archive() as archive:
            header = self._take_members(archive)
        self.stated = self._count(header, "NB_STREAMLINES")
        self._vertices = self._count(header, "NB_VERTICES")
        self._check()
        self._header = {name: value for name, value in header.items() if name not in ("NB_STREAMLINES", "NB_VERTICES")}
        self.attributes = {
            name: (one.type.newbyteorder("="), one.numbers) for name, one in self._found["dpv"].items()
        }  # fmt: skip

    def _archive(self) -> zipfile.ZipFile:
        return zipfile.ZipFile(stream(self.store))

    def _take_members(self, archive: zipfile.ZipFile) -> dict[str, Any]:
        """Sort the members by their folders; the header."""
        header = None
        for info in archive.infolist():
            folder, _, name = info.filename.rpartition("/")
            if info.is_dir():
                continue
            if info.filename == _HEADER:
                if info.file_size > _LONGEST_HEADER:
                    raise MetadataError("the header is too long", key=self._key(_HEADER), found=info.file_size)
                header = parse(archive.read(info), self._key(_HEADER))
                continue
            if folder in self._found:
                members = self._found[folder]
            elif folder.startswith("dpg/") and folder.count("/") == 1:
                members = self._of_groups.setdefault(folder[4:], {})
            else:
                raise UnsupportedError("a member that TRX does not have", key=self.store.root, found=info.filename)
            one = _Member(info, name, self.store.root)
            if one.name in members:
                raise MetadataError("two arrays have one name", key=self.store.root, found=info.filename)
            members[one.name] = one
        if header is None:
            raise MetadataError("the archive has no header", key=self.store.root, expected=_HEADER)
        return header

    def _key(self, member: str) -> str:
        return f"{self.store.root}:/{member}"

    def _count(self, header: Mapping[str, Any], name: str) -> int:
        value = header.get(name)
        if type(value) is not int or not 0 <= value < 2**62:
            raise MetadataError(f"{name} is no count", key=self._key(_HEADER), found=repr(value)[:99])
        return value

    def _check(self) -> None:
        """Each array has as many rows as the header says. Files without lines need not have any."""
        assert self.stated is not None
        root = self._found[""]
        unknown = sorted(root.keys() - {"positions", "offsets"})
        if unknown:
            raise UnsupportedError("an array that TRX does not have", key=self.store.root, found=unknown[0])
        if self.stated:
            for name, numbers, kinds in (("positions", 3, "f"), ("offsets", 1, "iu")):
                if name not in root or root[name].numbers != numbers or root[name].type.kind not in kinds:
                    raise MetadataError(f"the file has no {name}", key=self.store.root, found=sorted(root))
        elif self._vertices:
            raise MetadataError("vertices of no line", key=self._key(_HEADER), found=self._vertices)
        rows: dict[str, tuple[int, ...]] = {"dpv": (self._vertices,), "dps": (self.stated,)}
        expected = [(one, rows[folder]) for folder in rows for one in self._found[folder].values()]
        if self.stated:
            # Older files leave out the last offset.
            expected += [(root["positions"], (self._vertices,)), (root["offsets"], (self.stated + 1, self.stated))]
        for one, counts in expected:
            if one.rows not in counts:
                raise CorruptDataError(
                    "an array has another length than the header says", key=self._key(one.info.filename),
                    expected=counts[0], found=one.rows,
                )  # fmt: skip

    def header(self) -> dict[str, Any]:
        header = as_json(self._header, "the header of a TRX", self.store.root)
        root = self._found[""]
        types = {name: one.type.name for name, one in root.items()}
        return {"format": ".trx", "header": header, "types": types, "data_per_group": self._data_per_group()}

    def _data_per_group(self) -> dict[str, Any]:
        members = [one for group in self._of_groups.values() for one in group.values()]
        if sum(one.info.file_size for one in members) > _MOST_OF_GROUPS:
            raise UnsupportedError(
                "data of groups that are larger than those that zvcore keeps", key=self.store.root,
                expected=f"at most {_MOST_OF_GROUPS} bytes",
            )  # fmt: skip
        return {
            group: {
                name: {"type": one.type.name, "values": self._whole(one).reshape(-1).tolist()}
                for name, one in named.items()
            }
            for group, named in self._of_groups.items()
        }

    def _refuse_if_too_large(self, what: str, nbytes: int) -> None:
        """Deflate makes a thousand bytes of one: what is held at once is bounded as it is for codecs."""
        most = codecs.max_decoded_size
        most = most if self.store.largest is None else min(most, self.store.largest)
        if nbytes > most:
            raise UnsupportedError(
                "more than may be decoded at once", key=self._key(what), expected=f"at most {most} bytes", found=nbytes
            )

    def _all_in(self, folder: str) -> Iterator[tuple[str, _Member]]:
        """The arrays of a folder, which will be held in memory together."""
        members = self._found[folder]
        self._refuse_if_too_large(folder, sum(one.info.file_size for one in members.values()))
        return iter(members.items())

    def _whole(self, member: _Member) -> npt.NDArray[Any]:
        """All of an array, in this machine's byte order."""
        with reading(self.store.root, _TITLE), self._archive() as archive:
            return self._table(member, archive.read(member.info))

    def _table(self, member: _Member, raw: bytes) -> npt.NDArray[Any]:
        if member.type.kind == "b" and raw.strip(b"\0\1"):
            raise CorruptDataError("a boolean is 0 or 1", key=self._key(member.info.filename))
        found = np.frombuffer(raw, member.type).astype(member.type.newbyteorder("="))
        return found if member.numbers == 1 else found.reshape(-1, member.numbers)

    @cached_property
    def of_objects(self) -> Mapping[str, npt.NDArray[Any]]:
        return {name: self._whole(one) for name, one in self._all_in("dps")}

    @cached_property
    def groups(self) -> Mapping[str, npt.NDArray[Any]]:
        assert self.stated is not None
        found = {}
        for name, one in self._all_in("groups"):
            if one.numbers != 1 or one.type.kind not in "iu":
                raise MetadataError("a group is a list of lines", key=self._key(one.info.filename))
            ids = self._whole(one)
            if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < self.stated:
                raise CorruptDataError(
                    "a group has lines that there are not", key=self._key(one.info.filename),
                    expected=f"0 to {self.stated - 1}", found=int(ids.max()),
                )  # fmt: skip
            found[name] = ids.astype(np.int64)
        return found

    def batches(self) -> Iterator[LineBatch]:
        """Lines in their order: the arrays are read side by side, some rows of each at a time."""
        assert self.stated is not None
        if not self.stated:
            return
        with ExitStack() as opened:
            opened.enter_context(reading(self.store.root, _TITLE))
            archive = opened.enter_context(self._archive())
            root, of_points = self._found[""], self._found["dpv"]
            files = {
                one.info.filename: opened.enter_context(archive.open(one.info))
                for one in (root["offsets"], root["positions"], *of_points.values())
            }

            def rows(member: _Member, count: int) -> npt.NDArray[Any]:
                wanted = count * member.type.itemsize * member.numbers
                raw = files[member.info.filename].read(wanted)
                if len(raw) != wanted:
                    raise CorruptDataError(
                        "an array ends too early", key=self._key(member.info.filename), expected=wanted, found=len(raw)
                    )
                return self._table(member, raw)

            each = sum(one.type.itemsize * one.numbers for one in (root["positions"], *of_points.values()))
            at_once = min(_MOST_VERTICES, max(1, _BATCH_BYTES // each))
            for first, bounds in self._spans(lambda count: rows(root["offsets"], count), at_once):
                count = int(bounds[-1] - bounds[0])
                self._refuse_if_too_large("positions", count * each)
                values = {name: rows(one, count) for name, one in of_points.items()}
                ids = np.arange(first, first + len(bounds) - 1, dtype=np.int64)
                yield LineBatch(ids, rows(root["positions"], count), bounds - bounds[0], values)

    def _spans(self, offsets: Any, at_once: int) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
        """(number of the first line, where each begins and the last ends), of some lines at a time.

        `at_once`: how many vertices they have together, unless one line has more.
        """
        assert self.stated is not None
        left = self._found[""]["offsets"].rows
        waiting = self._checked(offsets(1), 0)
        if waiting[0] != 0:
            raise CorruptDataError("the first line begins at 0", key=self._key("offsets"), found=int(waiting[0]))
        left -= 1
        first = 0
        while first < self.stated:
            count = min(_BATCH, left)
            more = self._checked(offsets(count), int(waiting[-1]))
            left -= count
            waiting = np.concatenate([waiting, more])
            if not left:
                if len(waiting) - 1 < self.stated - first:
                    waiting = np.append(waiting, self._vertices)
                if waiting[-1] != self._vertices:
                    raise CorruptDataError(
                        "the last line ends elsewhere than the vertices", key=self._key("offsets"),
                        expected=self._vertices, found=int(waiting[-1]),
                    )  # fmt: skip
            while len(waiting) > 1:
                stop = int(np.searchsorted(waiting, waiting[0] + at_once, "right"))
                stop = max(2, min(stop, len(waiting)))
                yield first, waiting[:stop]
                first += stop - 1
                waiting = waiting[stop - 1 :]

    def _checked(self, offsets: npt.NDArray[Any], last: int) -> npt.NDArray[np.int64]:
        """Offsets that do not decrease and lead nowhere outside."""
        wrong = len(offsets) and (int(offsets.max()) > self._vertices or int(offsets.min()) < last)
        found = offsets.astype(np.int64)
        if wrong or (np.diff(found) < 0).any():
            raise CorruptDataError(
                "offsets that decrease or lead out of the vertices", key=self._key("offsets"),
                expected=f"{last} to {self._vertices}",
            )  # fmt: skip
        return found
