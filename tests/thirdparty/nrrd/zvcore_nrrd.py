"""NRRD ("nearly raw raster data"): one array in one file, a header of text and then the values, raw or as gzip.

A file whose header is followed by nothing is one that nobody has written to yet: it reads as 0.
"""

import itertools
import json
import math
import re
import sys
from dataclasses import dataclass

import numpy as np

from zvcore import codecs
from zvcore.array import Array
from zvcore.choices import AUTO, chosen
from zvcore.codecs import CodecChain
from zvcore.documents import Attributes, Document
from zvcore.engine import ABSENT, Keys, Sources
from zvcore.errors import (
    ConflictError,
    CorruptDataError,
    MetadataError,
    NotFoundError,
    ReadOnlyError,
    UnsupportedError,
    ZvcoreError,
)  # fmt: skip
from zvcore.exchange import Exchange
from zvcore.format import Format
from zvcore.images import Axis
from zvcore.layout import ChunkForm, Layout
from zvcore.placement import Group, Shards
from zvcore.report import Problem, Report

TYPES = {
    "int8": "signed char, int8, int8_t", "uint8": "unsigned char, uchar, uint8, uint8_t",
    "int16": "short, short int, signed short, signed short int, int16, int16_t",
    "uint16": "ushort, unsigned short, unsigned short int, uint16, uint16_t",
    "int32": "int, signed int, int32, int32_t", "uint32": "uint, unsigned int, uint32, uint32_t",
    "int64": "longlong, long long, long long int, signed long long, signed long long int, int64, int64_t",
    "uint64": "ulonglong, unsigned long long, unsigned long long int, uint64, uint64_t",
    "float32": "float", "float64": "double",
}  # fmt: skip
NAMES = {spelling: np.dtype(name) for name, spellings in TYPES.items() for spelling in spellings.split(", ")}
ENCODINGS = {"raw": "raw", "gzip": "gzip", "gz": "gzip"}
# What says how the values lie is the format's own; the other fields are attributes, their texts as they stand.
OWN = ("type", "dimension", "sizes", "encoding", "endian")
PLACING = ("space", "space dimension", "space units", "space origin", "space directions", "spacings", "units", "labels")
FIELDS = (
    "content", "min", "max", "old min", "old max", "sample units", "sampleunits", "block size", "number", *PLACING,
    "thicknesses", "axis mins", "axismins", "axis maxs", "axismaxs", "centerings", "centers", "kinds",
    "measurement frame",
)  # fmt: skip
ELSEWHERE = ("data file", "datafile", "line skip", "lineskip", "byte skip", "byteskip")
LARGEST_HEADER = 16 << 20
LARGEST = 1 << 62
SLAB = 1 << 20
# So many bytes at most come out of one byte of gzip: what claims more is not decoded.
GZIP_BEST = 1100


# --- the header


@dataclass
class Header:
    """What a header says: `start` is where the values begin."""

    shape: tuple
    dtype: np.dtype
    encoding: str
    swapped: bool
    attributes: dict
    start: int = 0

    @property
    def nbytes(self):
        return math.prod(self.shape) * self.dtype.itemsize

    def form(self):
        """(shape, type, encoding, byte order): what has to stay as it is while the file is open."""
        return self.shape, self.dtype, self.encoding, self.swapped


def parse(raw, key):
    """The header at the beginning of these bytes, which are anybody's."""
    raw = bytes(raw[:LARGEST_HEADER])
    if not re.match(rb"NRRD000[1-5]\r?\n", raw):
        raise MetadataError("this is no NRRD file", key=key, offset=0, expected="NRRD0001 to 5", found=raw[:8])
    end = re.search(rb"\n\r?\n", raw)
    if end is None:
        raise MetadataError("the header has no end", key=key, offset=len(raw), expected="an empty line")
    own, attributes, offset = {}, {}, 0
    for line in raw[: end.start() + 1].splitlines(keepends=True):
        text = line.decode("utf-8", "surrogateescape").rstrip("\r\n")
        if offset and text and not text.startswith("#"):
            found = re.match(r"([^:]+):(=|\s*)(.*)", text)
            if found is None:
                raise MetadataError("this line has no field", key=key, offset=offset, found=repr(text[:60]))
            name, kind, value = found.groups()
            if kind == "=":
                attributes[unescaped(name)] = as_value(unescaped(value))
                offset += len(line)
                continue
            name = name.strip().lower()
            if name in ELSEWHERE and value.strip() != "0":
                raise UnsupportedError(f"values elsewhere than behind the header ({name!r})", key=key, offset=offset)
            if name in own or (name not in OWN and name not in FIELDS and name not in ELSEWHERE):
                raise MetadataError("a field that is unknown, or there twice", key=key, offset=offset, found=repr(name))
            (own if name in OWN else attributes)[name] = value.strip()
        offset += len(line)
    for name in ELSEWHERE:
        attributes.pop(name, None)
    return understood(own, attributes, key, end.end())


def understood(own, attributes, key, start):
    def field(name, legal):
        text = own.get(name, "")
        if text.lower() not in legal:
            kind = UnsupportedError if name in own else MetadataError
            raise kind(f"the field {name!r}", key=key, expected=" or ".join(legal), found=repr(text[:60]))
        return legal[text.lower()]

    dtype = field("type", NAMES)
    encoding = field("encoding", ENCODINGS)
    endian = "little" if dtype.itemsize == 1 else field("endian", {"little": "little", "big": "big"})
    texts = own.get("sizes", "").split()
    if not 1 <= len(texts) <= 16 or not all(re.fullmatch("[0-9]{1,19}", n) and int(n) > 0 for n in texts):
        raise MetadataError(
            "the sizes", key=key, expected="1 to 16 positive numbers", found=repr(own.get("sizes"))[:60]
        )
    shape = tuple(map(int, texts))
    if own.get("dimension") != str(len(shape)):
        raise MetadataError("the dimension", key=key, expected=len(shape), found=repr(own.get("dimension"))[:60])
    found = Header(shape, dtype, encoding, endian != sys.byteorder and dtype.itemsize > 1, attributes, start)
    if found.nbytes > LARGEST:
        raise MetadataError("the sizes are too large", key=key, expected=f"at most {LARGEST} bytes", found=found.nbytes)
    return found


def encoded(header):
    """A header as it is stored."""
    endian = "big" if header.swapped == (sys.byteorder == "little") else "little"
    lines = ["NRRD0005", f"type: {header.dtype.name if header.dtype.kind != 'f' else as_float(header.dtype)}"]
    lines += [f"dimension: {len(header.shape)}", "sizes: " + " ".join(map(str, header.shape))]
    lines += [f"encoding: {header.encoding}", *([f"endian: {endian}"] if header.dtype.itemsize > 1 else [])]
    given = header.attributes
    for name in [one for one in FIELDS if one in given]:
        if not isinstance(given[name], str) or "\n" in given[name]:
            raise MetadataError("this field of NRRD is a line of text", key=name, found=repr(given[name])[:60])
        lines.append(f"{name}: {given[name]}")
    for name in given.keys() - set(FIELDS):
        if not name or ":" in name or name.startswith("#") or name != name.strip():
            raise MetadataError("no key of NRRD is called so", found=repr(name)[:60])
    lines += [f"{escaped(n)}:={escaped(as_text(given[n]))}" for n in given if n not in FIELDS]
    return ("\n".join(lines) + "\n\n").encode("utf-8", "surrogateescape")


def as_float(dtype):
    return "float" if dtype.itemsize == 4 else "double"


def as_value(text):
    """Values of keys are texts; what is JSON is what it says, so that numbers and lists come back."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def as_text(value):
    return value if isinstance(value, str) and as_value(value) == value else json.dumps(value)


def escaped(text):
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def unescaped(text):
    return re.sub(r"\\([n\\])", lambda found: "\n" if found[1] == "n" else "\\", text)


class HeaderDocument(Document):
    """The header: its content is {"header": Header, "attributes": the user's part}."""

    def parse(self, raw):
        if raw is None:
            raise NotFoundError("the file is gone", key=self.store.root)
        header = parse(raw, self.key)
        return {"header": header, "attributes": header.attributes}

    def latest(self):
        return self.parse(first_bytes(self.store))

    def change(self, make):
        if self.read_only:
            raise ReadOnlyError("opened for reading; open it with mode='r+' to change attributes", key=self.store.root)

        def changed(raw):
            content = self.parse(raw)
            old = content["header"]
            self.content = made = make(content)
            return encoded(Header(*old.form(), made["attributes"])) + bytes(raw[old.start :])

        self.store.change(self.key, changed)
        return self.content


class HeaderAttributes(Attributes):
    reserved = frozenset(OWN + ELSEWHERE)

    def _of(self, content):
        return content["attributes"]

    def _placed(self, content, values):
        return {**content, "attributes": values}


def first_bytes(store):
    found = store.get(store.file, 0, 1 << 16)
    if found is not None and len(found) == 1 << 16 and not re.search(rb"\n\r?\n", found):
        found = store.get(store.file, 0, LARGEST_HEADER)
    return found


# --- the values


class FileLayout(Layout):
    """Raw values are read slab by slab along the slowest axis; a gzip stream is one chunk."""

    store_empty = True

    def __init__(self, store, header):
        self.store, self.header, self.shape = store, header, header.shape
        row = header.nbytes // header.shape[-1]
        deep = max(1, min(header.shape[-1], SLAB // row)) if header.encoding == "raw" else header.shape[-1]
        chunk = (*header.shape[:-1], deep)
        self.form = ChunkForm(chunk, header.dtype, header.swapped, tuple(range(len(chunk)))[::-1], "cropped")
        self.shard_shape = header.shape
        self.fill_value = header.dtype.type(0)
        self.codec = codecs.get("gzip") if header.encoding == "gzip" else None
        self.chains = (CodecChain(() if self.codec is None else (self.codec,)),)
        self.slab = row * deep

    @property
    def placement(self):
        return InFile(self)

    def chunk_name(self, position):
        return self.store.file

    def present(self):
        """(the header, the size, the stamp) of the file as it is now; its values may have moved since it was opened."""
        stamp, size = self.store.stamp(self.store.file), self.store.size(self.store.file)
        raw = None if stamp is None else first_bytes(self.store)
        if raw is None or size is None:
            raise NotFoundError("the file is gone", key=self.store.root)
        return self.checked(parse(raw, self.store.file)), size, stamp

    def checked(self, header):
        if header.form() != self.header.form():
            raise ConflictError("the file holds another array by now; open it again", key=self.store.root)
        return header

    def spans(self, positions):
        """(first byte, length) of the raw values of some chunks."""
        first = positions[:, -1].astype(np.uint64) * np.uint64(self.slab)
        return first, np.minimum(np.uint64(self.slab), np.uint64(self.header.nbytes) - first)

    def locate(self, positions):
        header, size, stamp = self.present()
        count = len(positions)
        if size <= header.start:
            offset, length = np.zeros(count, np.uint64), np.full(count, ABSENT, np.uint64)
        elif self.codec is not None:
            offset = np.full(count, header.start, np.uint64)
            length = np.full(count, size - header.start, np.uint64)
        else:
            offset, length = self.spans(positions)
            offset = offset + np.uint64(header.start)
        keys = Keys.of([self.store.file])
        return Sources(keys=keys, key=np.zeros(count, np.int32), offset=offset, length=length, stamps=[stamp])


class InFile(Shards):
    def __init__(self, layout):
        self.layout, self.store = layout, layout.store

    def groups(self, positions):
        return [Group(self.store.file, np.arange(len(positions)))]

    def replace(self, edit, group, positions, chunks):
        layout, raw = self.layout, edit.get()
        if raw is None:
            raise NotFoundError("the file is gone", key=self.store.root)
        header = layout.checked(parse(raw, group.key))
        if layout.codec is not None:
            edit.put([bytes(raw[: header.start]), b"" if chunks[0] is None else chunks[0]])
            return
        values = bytearray(raw[header.start :]) or bytearray(header.nbytes)
        if len(values) < header.nbytes:
            raise CorruptDataError(
                "the file is cut off", key=group.key, offset=header.start, expected=header.nbytes, found=len(values)
            )
        for row, (first, length) in enumerate(zip(*layout.spans(positions), strict=True)):
            values[int(first) : int(first + length)] = bytes(int(length)) if chunks[row] is None else chunks[row]
        edit.put([bytes(raw[: header.start]), values])


class NrrdArray(Array):
    def __init__(self, store, header, read_only=False):
        content = {"header": header, "attributes": header.attributes}
        document = HeaderDocument(store, store.file, content, read_only=read_only)
        layout = FileLayout(store, header)
        attrs = HeaderAttributes(document)
        super().__init__(layout, format="nrrd", attrs=attrs, codec=layout.codec, document=document, read_only=read_only)

    def __reduce__(self):
        return NrrdArray, (self.store, self._document.content["header"], self.read_only)


# --- the format


class NrrdExchange(Exchange):
    common_codecs = ("gzip",)
    default_codec = "gzip"
    has_attributes = True
    reserved = frozenset(OWN + ELSEWHERE)
    placing = frozenset(PLACING)

    def axes_for(self, array, kept, shape, channel):
        axes, _ = super().axes_for(array, kept, shape, channel)
        return axes[::-1], "F"

    def array_options(self, view, target, place):
        if target.chunks is not None:
            raise UnsupportedError("NRRD has no chunks")
        options = super().array_options(view, target, place)
        del options["chunks"]
        return options

    def placing_attributes(self, axes):
        said = {"labels": " ".join(f'"{axis.name}"' for axis in axes)} if all(axis.name for axis in axes) else {}
        spatial = [axis for axis in axes if axis.scale is not None]
        if spatial:
            rank = len(spatial)
            rows = itertools.count()
            vectors = [
                "none" if axis.scale is None else vector(axis.scale if i == at else 0 for at in range(rank))
                for axis in axes
                for i in [None if axis.scale is None else next(rows)]
            ]
            said["space dimension"] = str(rank)
            said["space units"] = " ".join(f'"{axis.unit or ""}"' for axis in spatial)
            said["space origin"] = vector(axis.offset for axis in spatial)
            said["space directions"] = " ".join(vectors)
        return said


def vector(numbers):
    return f"({','.join(format(float(n), '.17g') for n in numbers)})"


def numbers(text):
    try:
        found = [float(n) for n in text.split(",")]
    except ValueError:
        return []
    return found if all(map(math.isfinite, found)) else []


class Nrrd(Format):
    name = "nrrd"
    title = "NRRD"
    suffixes = (".nrrd",)

    def open(self, store, mode="r", **options):
        raw = first_bytes(store) if store.file is not None else None
        if raw is None:
            raise NotFoundError("there is no file here", key=store.root)
        return NrrdArray(store, parse(raw, store.file), mode == "r")

    def create(self, store, *, shape, dtype, codec=AUTO, fill_value=AUTO, attrs=None, overwrite=False):
        """`codec` is "gzip" (as NRRD has it, which knows no level) or None for raw values."""
        codec = chosen(codec, "gzip")
        name = "raw" if codec is None or codec == [] else codecs.as_codec(codec).name
        dtype = np.dtype(dtype).newbyteorder("=")
        if name not in ENCODINGS or dtype not in NAMES.values():
            raise UnsupportedError("NRRD has no such codec or type", key=store.root, found=f"{name}, {dtype}")
        if chosen(fill_value, 0) != 0:
            raise MetadataError("NRRD has no fill value: what was not written is 0", found=repr(fill_value))
        header = Header(tuple(map(int, shape)), dtype, name, False, HeaderAttributes.checked(attrs or {}))
        raw = encoded(header)
        array = NrrdArray(store, parse(raw, store.file))  # what we write must be what we would accept
        if overwrite:
            store.put(store.file, raw)
        elif store.exists(store.file):
            raise ConflictError("a file is here already; overwrite=True replaces it", key=store.root)
        else:
            store.put_if_unchanged(store.file, raw, None)
        return array

    def read_axes(self, array):
        """From the space, or else from spacings, units and labels; where a text is not understood, nothing is known."""
        told = {name: str(array.attrs.get(name, "")) for name in PLACING}
        labels, units = (re.findall(r'"([^"]*)"', told[name]) for name in ("labels", "units"))
        vectors = re.findall(r"none|\([^)]*\)", told["space directions"])
        origin, space_units = numbers(told["space origin"].strip("()")), re.findall(r'"([^"]*)"', told["space units"])
        axes = []
        for i in range(array.ndim):
            scale, unit, offset = None, units[i] if i < len(units) else None, 0.0
            spacing = told["spacings"].split()
            if i < len(spacing):
                scale = next(iter(numbers(spacing[i])), None)
            if len(vectors) == array.ndim:
                along = numbers(vectors[i].strip("()"))
                scale = math.hypot(*along) if any(along) else None
                main = [at for at, n in enumerate(along) if n]
                if len(main) == 1:
                    unit = space_units[main[0]] if main[0] < len(space_units) else unit
                    offset = origin[main[0]] if main[0] < len(origin) else 0.0
            axes.append(Axis(labels[i] if len(labels) == array.ndim else None, unit or None, scale or None, offset))
        return tuple(axes)

    def fastest_first(self, array):
        return True

    def exchange(self):
        return NrrdExchange(self)

    def care(self):
        return NrrdCare()


class NrrdCare:
    def verify(self, store, *, only=None, fast=False, threads=None, watch=None):
        report = Report(watch=watch)
        try:
            array = Nrrd().open(store)
            report.count("arrays")
            header, size, _ = array.layout.present()
            here = {"offset": header.start, "length": size - header.start}
            if size == header.start:
                report.add(store.file, "nothing was written yet: it reads as 0", fatal=False)
            elif header.encoding == "raw" and size - header.start != header.nbytes:
                what = f"the values should be {header.nbytes} bytes"
                report.add(store.file, what, **here, expected=header.nbytes, found=size - header.start)
            elif header.nbytes > GZIP_BEST * here["length"]:
                what = "no gzip stream is as short as this for such sizes"
                report.add(store.file, what, **here, expected=header.nbytes, found=here["length"])
            elif not fast:
                try:
                    for at in range(0, array.shape[-1], array.chunks[-1]):
                        array.read((..., slice(at, at + array.chunks[-1])), threads=threads)
                except ZvcoreError as error:
                    report.problems.append(Problem.of(error.located(**here)))
        except ZvcoreError as error:
            report.problems.append(Problem.of(error, str(store.file)))
        report.looked_at()
        return report

    def repair(self, store, out=None, *, only=None, threads=None):
        raise UnsupportedError("nothing of a damaged NRRD file can be told from what is sound", key=store.root)

    def compact(self, store, *, threads=None, only=None):
        return Report()

    def inspect(self, store, *, only=None, threads=None):
        array = Nrrd().open(store)
        size = store.size(store.file) or 0
        return {
            "format": "nrrd", "kind": "array", "shape": array.shape, "dtype": str(array.dtype), "chunks": array.chunks,
            "codecs": [array.layout.header.encoding], "attributes": dict(array.attrs), "nbytes": array.nbytes,
            "objects": 1, "stored_bytes": size, "ratio": array.nbytes / size,
        }  # fmt: skip
