"""Image pyramids: the conventions by which programs describe scales, units and offsets, read into one answer.

Everything here is in N5's order of axes (x, y, z), whatever the convention's own order is.
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zvcore.documents import whole_if_possible
from zvcore.documents.members import Items, Number, Place, Text
from zvcore.errors import AccessRefusedError, MetadataError, NotFoundError, UnsupportedError
from zvcore.n5.documents import ATTRIBUTES, read_document
from zvcore.n5.metadata import DatasetMetadata, is_dataset
from zvcore.stores.base import UnlistedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zvcore.n5.group import N5Group
    from zvcore.stores import Store

__all__ = ["CONVENTIONS", "Level", "Multiscale", "read_multiscale", "write_multiscale"]

CONVENTIONS = ("n5-viewer", "bdv", "cosem", "neuroglancer", "paintera")
_AXES = ("x", "y", "z", "t", "c")
_LEVEL = re.compile(r"s([0-9]{1,4})")
_TIMEPOINT = re.compile(r"timepoint([0-9]{1,9})")
_CHANNEL = re.compile(r"(?:c|ch|setup)([0-9]{1,9})")
# So many levels are asked for together.
_LEVELS_AT_ONCE = 16

Numbers = tuple[float, ...]


class MissingLevelError(NotFoundError):
    """A pyramid names a level that is not there."""


@dataclass(frozen=True)
class Level:
    """One level of a pyramid. Each tuple has an entry per axis.

    path        of the dataset, from the group that was asked
    factors     how many voxels of the finest level, along each axis, one of this level stands for
    resolution  the size of a voxel of this level
    offset      where the centre of its first voxel lies
    units       of resolution and offset
    axes        their names
    """

    path: str
    factors: Numbers
    resolution: Numbers
    offset: Numbers
    units: tuple[str, ...]
    axes: tuple[str, ...]

    @property
    def unit(self) -> str | None:
        """The one unit of all axes; None if they have several."""
        return self.units[0] if len(set(self.units)) == 1 else None


@dataclass(frozen=True)
class Multiscale:
    """The levels of a pyramid, from the finest on, and the convention in which they were described."""

    levels: tuple[Level, ...]
    convention: str

    def __getitem__(self, i: int) -> Level:
        return self.levels[i]

    def __len__(self) -> int:
        return len(self.levels)

    @property
    def axes(self) -> tuple[str, ...]:
        return self.levels[0].axes

    @property
    def unit(self) -> str | None:
        return self.levels[0].unit


class _Reader:
    """One group and what its conventions need to know of it."""

    def __init__(self, store: Store, document: Mapping[str, Any]) -> None:
        self.store = store
        self.document = document
        self.where = f"{store.root}/attributes.json"

    def attributes(self, path: str) -> dict[str, Any]:
        return read_document(self.store, path) or {}

    def folders(self, prefix: str = "") -> list[str] | None:
        """The names of what lies in a folder; None where the store does not list it."""
        try:
            return self.store.list_dir(prefix)[0]
        except UnlistedError:
            return None

    def datasets(self, prefix: str = "") -> list[tuple[int, str, dict[str, Any]]]:
        """The levels `s0`, `s1`... below a folder: (number, path, attributes)."""
        names = self.folders(prefix)
        found: list[tuple[int, str, dict[str, Any]]] = []
        if names is not None:
            levels = [name for name in names if _LEVEL.fullmatch(name)]
            for first in range(0, len(levels), _LEVELS_AT_ONCE):
                found += self._of_levels(prefix, levels[first : first + _LEVELS_AT_ONCE], self.attributes)
            return sorted(found)
        for first in itertools.count(0, _LEVELS_AT_ONCE):
            guessed = [f"s{number}" for number in range(first, first + _LEVELS_AT_ONCE)]
            some = self._of_levels(prefix, guessed, self._if_there)
            found += some
            if len(some) < _LEVELS_AT_ONCE:
                break
        return found

    def _if_there(self, path: str) -> dict[str, Any]:
        """`attributes` of what may not be there: some servers refuse what they do not have."""
        try:
            return self.attributes(path)
        except AccessRefusedError:
            return {}

    def _of_levels(
        self, prefix: str, names: Sequence[str], read: Callable[[str], dict[str, Any]]
    ) -> list[tuple[int, str, dict[str, Any]]]:
        """`datasets`, of those of these names that are there."""
        paths = [f"{prefix}/{name}" if prefix else name for name in names]
        with self.store.looking_at([f"{path}/{ATTRIBUTES}" for path in paths]):
            told = [(int(name[1:]), path, read(path)) for name, path in zip(names, paths, strict=True)]
        return [one for one in told if is_dataset(one[2])]

    def rank(self, attributes: Mapping[str, Any], path: str) -> int:
        """How many axes a level has."""
        return len(DatasetMetadata.parse(attributes, f"{self.store.root}/{path}/attributes.json").dimensions)

    def numbers(self, value: Any, what: str, rank: int, where: str | None = None) -> Numbers:
        return self._listed(Number(), value, what, rank, where)

    def factors(self, value: Any, what: str, rank: int, where: str | None = None) -> Numbers:
        return self._listed(Number(positive=True), value, what, rank, where)

    def _listed(self, kind: Number, value: Any, what: str, rank: int, where: str | None) -> Numbers:
        found = Items(kind, rank).load(value, Place(where or self.where).member(what))
        return tuple([whole_if_possible(n) for n in found])


def read_multiscale(store: Store, document: Mapping[str, Any]) -> Multiscale:
    """The levels in the group at the root of a store, by whichever convention its attributes describe them."""
    reader = _Reader(store, document)
    document = reader.document
    if "painteraData" in document:
        prefix = "data" if reader.datasets("data") else ""
        scene = reader.attributes(prefix) if prefix else document
        return _scene(reader, prefix, {**document, **scene}, None, "paintera")
    if isinstance(document.get("multiscales"), list) and document["multiscales"]:
        return _cosem(reader, _cosem_paths(reader, document["multiscales"][0]))
    if "downsamplingFactors" in document and (path := _first_timepoint(reader)) is not None:
        return _scene(reader, path, reader.attributes(path), document["downsamplingFactors"], "bdv")
    levels = reader.datasets()
    if not levels:
        raise _nothing(reader)
    if document.get("multiScale") is True:
        named = "paintera" if {"offset", "maxId", "isLabelMultiset"} & document.keys() else "bdv"
        return _scene(reader, "", document, None, named)
    viewers = "pixelResolution" in document or not {"axes", "units", "resolution"} & document.keys()
    if not viewers and {"downsamplingFactors", "scales"} & document.keys():
        return _neuroglancer(reader)
    if any(isinstance(attributes.get("transform"), dict) for _, _, attributes in levels):
        return _cosem(reader, [(path, None) for _, path, _ in levels])
    return _viewer(reader, levels)


def _first_timepoint(reader: _Reader) -> str | None:
    """The folder of the first point in time that there is."""
    names = reader.folders()
    if names is None:
        return "timepoint0" if reader.datasets("timepoint0") else None
    numbers = [(int(match[1]), name) for name in names if (match := _TIMEPOINT.fullmatch(name)) is not None]
    return min(numbers)[1] if numbers else None


def _nothing(reader: _Reader) -> NotFoundError:
    channels = [name for name in reader.folders() or () if _CHANNEL.fullmatch(name)]
    advice = f"; ask one of {', '.join(channels[:5])}" if channels else ""
    return NotFoundError(f"no scales here that any known convention describes{advice}", key=reader.store.root)


def _level(path: str, factors: Numbers, base: Numbers, units: Any, axes: Any, origin: Numbers | None = None) -> Level:
    """A level of a pyramid whose voxels are means of boxes: its first voxel's centre lies within the first box."""
    rank = len(factors)
    offset = tuple((f - 1) / 2 * r for f, r in zip(factors, base, strict=True))
    if origin is not None:
        offset = tuple(a + b for a, b in zip(origin, offset, strict=True))
    return Level(
        path,
        factors,
        tuple(whole_if_possible(f * r) for f, r in zip(factors, base, strict=True)),
        tuple(whole_if_possible(n) for n in offset),
        tuple([units] * rank if isinstance(units, str) else units),
        tuple(axes)[:rank] if axes else _axes(rank),
    )


def _axes(rank: int) -> tuple[str, ...]:
    return tuple(_AXES[i] if i < len(_AXES) else f"dim_{i}" for i in range(rank))


def _pixel_resolution(reader: _Reader, value: Any, rank: int, where: str) -> tuple[Numbers, str]:
    if value is None:
        return (1,) * rank, "pixel"
    if isinstance(value, dict):
        unit = value.get("unit", "pixel")
        if not isinstance(unit, str):
            raise MetadataError("the unit of pixelResolution is a string", key=where, found=repr(unit))
        return reader.factors(value.get("dimensions"), "pixelResolution", rank, where), unit
    return reader.factors(value, "pixelResolution", rank, where), "pixel"


def _viewer(reader: _Reader, levels: list[tuple[int, str, dict[str, Any]]]) -> Multiscale:
    """n5-viewer: each level says its factors and the resolution of the finest; older ones leave that to the group."""
    scales = reader.document.get("scales")
    found = []
    for i, (number, path, attributes) in enumerate(levels):
        where = f"{reader.store.root}/{path}/attributes.json"
        rank = reader.rank(attributes, path)
        given = attributes.get("downsamplingFactors")
        if given is None and isinstance(scales, list) and i < len(scales):
            given = scales[i]
        if given is None:
            given = [2**number] * rank
        factors = reader.factors(given, "downsamplingFactors", rank, where)
        resolution = attributes.get("pixelResolution", reader.document.get("pixelResolution"))
        base, unit = _pixel_resolution(reader, resolution, rank, where)
        level = _level(path, factors, base, unit, None)
        affine = attributes.get("affineTransform", reader.document.get("affineTransform"))
        found.append(level if affine is None else _transformed(reader, level, affine, where))
    return Multiscale(tuple(found), "n5-viewer")


def _transformed(reader: _Reader, level: Level, affine: Any, where: str) -> Level:
    """The level scaled and moved; three axes, the matrix by rows."""
    if len(level.factors) != 3:
        raise UnsupportedError("an affineTransform of other than three axes", key=where)
    rows = reader.numbers(affine, "affineTransform", 12, where)
    if any(rows[4 * i + j] != 0 for i in range(3) for j in range(3) if i != j) or any(
        rows[5 * i] <= 0 for i in range(3)
    ):
        raise UnsupportedError("an affineTransform that turns or shears the image", key=where)
    return Level(
        level.path,
        level.factors,
        tuple(whole_if_possible(n * rows[5 * i]) for i, n in enumerate(level.resolution)),
        tuple(whole_if_possible(n * rows[5 * i] + rows[4 * i + 3]) for i, n in enumerate(level.offset)),
        level.units,
        level.axes,
    )


def _scene(reader: _Reader, prefix: str, scene: Mapping[str, Any], table: Any, convention: str) -> Multiscale:
    """BigDataViewer and paintera: the folder of the levels says resolution and offset, the levels their factors."""
    found = []
    for i, (number, path, attributes) in enumerate(reader.datasets(prefix)):
        where = f"{reader.store.root}/{path}/attributes.json"
        rank = reader.rank(attributes, path)
        given = table[i] if isinstance(table, list) and i < len(table) else attributes.get("downsamplingFactors")
        if given is None:
            given = [1] * rank if number == 0 else [2**number] * rank
        factors = reader.factors(given, "downsamplingFactors", rank, where)
        base = reader.factors(scene.get("resolution", [1] * rank), "resolution", rank)
        origin = reader.numbers(scene.get("offset", [0] * rank), "offset", rank)
        unit = scene.get("unit", "pixel" if "resolution" not in scene else "")
        found.append(_level(path, factors, base, str(unit), None, origin))
    if not found:
        raise _nothing(reader)
    return Multiscale(tuple(found), convention)


def _cosem_paths(reader: _Reader, scales: Any) -> list[tuple[str, Any]]:
    """(path, transform) of each level, from a description of the group."""
    entries = scales.get("datasets") if isinstance(scales, dict) else scales
    if isinstance(entries, str):
        entries = reader.document["multiscales"]
    if not isinstance(entries, list) or not entries:
        raise MetadataError("multiscales names datasets", key=reader.where, found=repr(scales))
    found = []
    for entry in entries:
        path = entry.get("path") if isinstance(entry, dict) else entry
        if not isinstance(path, str):
            raise MetadataError("multiscales names datasets by their path", key=reader.where, found=repr(entry))
        found.append((path, entry.get("transform") if isinstance(entry, dict) else None))
    return found


def _cosem(reader: _Reader, paths: Sequence[tuple[str, Any]]) -> Multiscale:
    """COSEM and CellMap: every level has a transform, by default from the slowest axis to the fastest."""
    found: list[Level] = []
    for path, transform in paths:
        where = f"{reader.store.root}/{path}/attributes.json"
        attributes = reader.attributes(path)
        if not is_dataset(attributes):
            raise MissingLevelError("multiscales names a dataset that is not there", key=f"{reader.store.root}/{path}")
        own = attributes.get("transform", transform)
        if not isinstance(own, dict):
            raise MetadataError("a level has no transform", key=where, found=repr(own))
        rank = reader.rank(attributes, path)
        turn = 1 if own.get("ordering", "C") == "F" else -1
        scale = reader.factors(own.get("scale"), "scale", rank, where)[::turn]
        offset = reader.numbers(own.get("translate", [0] * rank), "translate", rank, where)[::turn]
        default_axes = list(_axes(rank))[::turn]
        axes = _texts(own.get("axes", default_axes), "axes", rank, where)[::turn]
        units = _texts(own.get("units", ["nm"] * rank), "units", rank, where)[::turn]
        base = found[0].resolution if found else scale
        factors = tuple(whole_if_possible(round(a / b, 9)) for a, b in zip(scale, base, strict=True))
        found.append(Level(path, factors, scale, offset, units, axes))
    return Multiscale(tuple(found), "cosem")


def _texts(value: Any, what: str, rank: int, where: str) -> tuple[str, ...]:
    return Items(Text(), rank).load(value, Place(where).member(what))


def _neuroglancer(reader: _Reader) -> Multiscale:
    """Neuroglancer: the group says all, and the levels are `s0`, `s1`..."""
    document = reader.document
    table = document.get("downsamplingFactors", document.get("scales"))
    if not isinstance(table, list) or not table:
        raise MetadataError("downsamplingFactors is a list of lists", key=reader.where, found=repr(table))
    found = []
    for i, given in enumerate(table):
        path = f"s{i}"
        attributes = reader.attributes(path)
        if not is_dataset(attributes):
            raise MissingLevelError("the group names a level that is not there", key=f"{reader.store.root}/{path}")
        rank = reader.rank(attributes, path)
        factors = reader.factors(given, "downsamplingFactors", rank)
        base = reader.factors(document.get("resolution", [1] * rank), "resolution", rank)
        units = _texts(document.get("units", ["nm"] * rank), "units", rank, reader.where)
        axes = _texts(document.get("axes", list(_axes(rank))), "axes", rank, reader.where)
        found.append(_level(path, factors, base, units, axes))
    return Multiscale(tuple(found), "neuroglancer")


def write_multiscale(group: N5Group, multiscale: Multiscale, convention: str) -> None:
    if convention not in ("n5-viewer", "neuroglancer"):
        raise ValueError(f"convention is 'n5-viewer' or 'neuroglancer', not {convention!r}")
    levels = multiscale.levels
    if not levels:
        raise ValueError("a pyramid has at least one level")
    first = levels[0]
    base = tuple(whole_if_possible(r / f) for r, f in zip(first.resolution, first.factors, strict=True))
    for i, level in enumerate(levels):
        here = _level(level.path, level.factors, base, level.units, level.axes)
        if level.path != f"s{i}":
            raise UnsupportedError("this convention names its levels s0, s1...", expected=f"s{i}", found=level.path)
        sizes = zip(here.resolution, level.resolution, strict=True)
        places = zip(here.offset, level.offset, level.resolution, strict=True)
        if not all(math.isclose(a, b, rel_tol=1e-9) for a, b in sizes) or not all(
            math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9 * size) for a, b, size in places
        ):
            raise UnsupportedError(
                "this convention cannot say such a resolution or offset", key=level.path,
                expected=(here.resolution, here.offset), found=(level.resolution, level.offset),
            )  # fmt: skip
        if level.path not in group:
            raise NotFoundError("no such level", key=f"{group.store.root}/{level.path}")
    if convention == "neuroglancer":
        said = {
            "axes": list(first.axes),
            "units": list(first.units),
            "resolution": list(base),
            "downsamplingFactors": [list(level.factors) for level in levels],
        }
        group.attrs.update(said)
        return
    if first.unit is None:
        raise UnsupportedError("n5-viewer has one unit for all axes", found=first.units)
    # It does not name axes, and every reader takes them in this order: a channel would come back as time.
    if first.axes != _axes(len(first.axes)):
        raise UnsupportedError("n5-viewer has no names for axes", expected=_axes(len(first.axes)), found=first.axes)
    for level in levels:
        group[level.path].attrs.update(
            {
                "downsamplingFactors": list(level.factors),
                "pixelResolution": {"dimensions": list(base), "unit": first.unit},
            }
        )
