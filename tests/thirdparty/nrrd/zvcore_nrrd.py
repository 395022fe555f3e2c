"""NRRD ("nearly raw raster data"): one array in one file, a header of text and then the values, raw or as gzip.

A file whose header is followed by nothing is one that nobody has written to yet: it reads as 0.
"""

import itertools
import json
import math
import re
import sys

import numpy as np

from zvcore.errors import MetadataError, UnsupportedError
from zvcore.exchange import Exchange
from zvcore.headed import HeadedFormat, Header
from zvcore.images import Axis

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
ENCODINGS = {"raw": None, "gzip": "gzip", "gz": "gzip"}
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


# --- the header


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
    swapped = endian != sys.byteorder and dtype.itemsize > 1
    found = Header(shape, dtype, encoding, swapped, attributes, start)
    if found.nbytes > LARGEST:
        raise MetadataError("the sizes are too large", key=key, expected=f"at most {LARGEST} bytes", found=found.nbytes)
    return found


def encoded(header):
    """A header as it is stored."""
    endian = "big" if header.swapped == (sys.byteorder == "little") else "little"
    lines = ["NRRD0005", f"type: {header.dtype.name if header.dtype.kind != 'f' else as_float(header.dtype)}"]
    lines += [f"dimension: {len(header.shape)}", "sizes: " + " ".join(map(str, header.shape))]
    lines += [f"encoding: {header.codec or 'raw'}", *([f"endian: {endian}"] if header.dtype.itemsize > 1 else [])]
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


class Nrrd(HeadedFormat):
    # zvcore reads NRRD itself; this one writes it, too.
    name = "raster"
    title = "NRRD"
    suffixes = (".raster",)

    dtypes = tuple(NAMES.values())
    reserved = frozenset(OWN + ELSEWHERE)
    longest_header = LARGEST_HEADER

    def parse(self, raw, key):
        return parse(raw, key)

    def spell(self, header):
        return encoded(header)

    def is_whole(self, raw):
        return re.search(rb"\n\r?\n", raw) is not None

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

    def exchange(self):
        return NrrdExchange(self)
