"""The XML of BigDataViewer and BigStitcher (`SpimData`): read with its claims bounded, and written."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from zvcore.documents.xml import parse_xml
from zvcore.errors import MetadataError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from xml.etree.ElementTree import Element

__all__ = ["LOADERS", "Affine", "Setup", "SpimData", "parse_spim_data", "spim_data_text"]

# How image loaders are called, and the element that names the file or folder of each.
LOADERS = {"bdv.n5": "n5", "bdv.hdf5": "hdf5"}
_LARGEST_ID = 10**9
_IDENTITY = (1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0)

# Three rows of four numbers: from the places of voxels to places in the world.
Affine = tuple[float, ...]


@dataclass(frozen=True)
class Setup:
    """What was recorded in one way: one channel, from one side, of one tile.

    size         in voxels, and
    voxel_size   in `unit`, along x, y and z; None where it is not said
    attributes   which channel, angle, illumination, tile and so on, by their numbers
    """

    id: int
    name: str | None = None
    size: tuple[int, ...] | None = None
    voxel_size: tuple[float, ...] | None = None
    unit: str | None = None
    attributes: Mapping[str, int] = field(default_factory=dict)


@dataclass
class SpimData:
    """A dataset.

    loader         the kind of image loader, and
    path           what it reads, beside the XML
    time_points    their numbers in order
    missing        (time point, setup) that were never recorded
    registrations  the transform of each (time point, setup)
    names          of channels, angles and so on: {attribute: {number: name}}
    """

    loader: str
    path: str
    setups: Sequence[Setup]
    time_points: Sequence[int]
    missing: frozenset[tuple[int, int]] = frozenset()
    registrations: Mapping[tuple[int, int], Affine] = field(default_factory=dict)
    names: Mapping[str, Mapping[int, str]] = field(default_factory=dict)


class _Reader:
    """Finds members of elements, and says what is wrong with them."""

    def __init__(self, key: str) -> None:
        self.key = key

    def error(self, what: str, found: object = None) -> MetadataError:
        return MetadataError(what, key=self.key, found=None if found is None else repr(found)[:80])

    def one(self, above: Element, name: str) -> Element:
        found = above.find(name)
        if found is None:
            raise self.error(f"{above.tag} has no {name}")
        return found

    def whole(self, text: str | None, what: str) -> int:
        match = re.fullmatch(r"\s*([0-9]{1,10})\s*", text or "")
        if match is None or int(match[1]) > _LARGEST_ID:
            raise self.error(f"{what} is a whole number of at most {_LARGEST_ID}", text)
        return int(match[1])

    def numbers(self, text: str | None, count: int, what: str) -> tuple[float, ...]:
        parts = (text or "").split(None, count)
        try:
            found = tuple(float(part) for part in parts)
        except ValueError:
            found = ()
        if len(found) != count or not all(map(math.isfinite, found)):
            raise self.error(f"{what} is {count} numbers", text)
        return found


def parse_spim_data(raw: bytes | memoryview, key: str) -> SpimData:
    """What the XML says. Transforms, sizes and names that are left out are None, or those that change nothing."""
    reader = _Reader(key)
    root = parse_xml(raw, key)
    if root.tag != "SpimData":
        raise reader.error("this is no XML of BigDataViewer: its root is not SpimData", root.tag)
    sequence = reader.one(root, "SequenceDescription")
    loader, path = _loader(reader, root, reader.one(sequence, "ImageLoader"))
    holding = reader.one(sequence, "ViewSetups")
    setups = [_setup(reader, one) for one in holding.findall("ViewSetup")]
    if not setups or len({one.id for one in setups}) != len(setups):
        raise reader.error("ViewSetups has setups, each with a number of its own")
    missing = frozenset(_view(reader, one) for one in sequence.findall("MissingViews/MissingView"))
    registrations = {
        _view(reader, one): _affine(reader, one) for one in root.findall("ViewRegistrations/ViewRegistration")
    }
    time_points = _time_points(reader, sequence.find("Timepoints"), len(registrations) + len(missing))
    return SpimData(loader, path, setups, time_points, missing, registrations, _names(reader, holding))


def _loader(reader: _Reader, root: Element, loader: Element) -> tuple[str, str]:
    """(kind, path) of what holds the values, which lies beside the XML or below."""
    kind = loader.get("format", "")
    if kind not in LOADERS:
        raise UnsupportedError(
            "an image loader that is not read here", key=reader.key, expected=" or ".join(LOADERS), found=kind[:80]
        )
    place = reader.one(loader, LOADERS[kind])
    base = root.find("BasePath")
    parts: list[str] = []
    for element in [place] if base is None else [base, place]:
        text = (element.text or "").strip().replace("\\", "/")
        if element.get("type", "relative") != "relative" or text.startswith("/") or ".." in text.split("/"):
            raise UnsupportedError(
                "values that do not lie beside the XML, which are not followed", key=reader.key, found=text[:200]
            )
        parts.extend(part for part in text.split("/") if part not in ("", "."))
    if not parts:
        raise reader.error("the image loader names no file")
    return kind, "/".join(parts)


def _setup(reader: _Reader, element: Element) -> Setup:
    number = reader.whole(element.findtext("id"), "the id of a setup")
    size, voxel = element.findtext("size"), element.find("voxelSize")
    sizes = None if voxel is None else reader.numbers(voxel.findtext("size"), 3, "voxelSize")
    if sizes is not None and not all(n > 0 for n in sizes):
        raise reader.error("voxelSize is larger than nothing", sizes)
    shape = None if size is None else reader.numbers(size, 3, "the size of a setup")
    holding = element.find("attributes")
    attributes = {
        str(one.tag): reader.whole(one.text, f"the {one.tag} of a setup")
        for one in (() if holding is None else holding)
        if re.fullmatch(r"\s*[0-9]+\s*", one.text or "")
    }
    return Setup(
        number, element.findtext("name"), None if shape is None else tuple(map(int, shape)), sizes,
        None if voxel is None else voxel.findtext("unit"), attributes,
    )  # fmt: skip


def _view(reader: _Reader, element: Element) -> tuple[int, int]:
    return (
        reader.whole(element.get("timepoint"), "the time point of a view"),
        reader.whole(element.get("setup"), "the setup of a view"),
    )


def _affine(reader: _Reader, registration: Element) -> Affine:
    """What all transforms of a view are together: the last is applied first."""
    found: Affine = _IDENTITY
    for transform in registration.findall("ViewTransform"):
        if transform.get("type", "affine") != "affine":
            raise UnsupportedError("a transform that is not affine", key=reader.key, found=transform.get("type"))
        found = _after(found, reader.numbers(transform.findtext("affine"), 12, "an affine transform"))
    if not all(map(math.isfinite, found)):
        raise reader.error("the transforms of a view are beyond all numbers")
    return found


def _after(outer: Affine, inner: Affine) -> Affine:
    """The transform that is `inner` and then `outer`."""
    rows = []
    for row in range(0, 12, 4):
        for column in range(4):
            products = [outer[row + i] * inner[4 * i + column] for i in range(3)]
            rows.append(sum(products) + (outer[row + 3] if column == 3 else 0.0))
    return tuple(rows)


def _time_points(reader: _Reader, element: Element | None, views: int) -> list[int]:
    """Their numbers. Each has views, whose transforms the document has too: so it cannot claim more than it holds."""
    if element is None:
        return [0]
    kind = element.get("type", "")
    if kind == "range":
        first, last = (reader.whole(element.findtext(name), f"the {name} time point") for name in ("first", "last"))
        spans = [(first, last, 1)]
    elif kind == "pattern":
        spans = _spans(reader, element.findtext("integerpattern") or "")
    elif kind == "list":
        ids = [one.findtext("id") or one.get("id") or one.text for one in element]
        spans = [(number, number, 1) for number in (reader.whole(one, "the id of a time point") for one in ids)]
    else:
        raise UnsupportedError("time points told in a way that is not known", key=reader.key, found=kind)
    count = sum(max(0, (last - first) // step + 1) for first, last, step in spans)
    if not 0 < count <= max(1, views):
        raise MetadataError(
            "the time points have no views", key=reader.key, expected=f"1 to {max(1, views)} time points", found=count
        )
    return sorted({number for first, last, step in spans for number in range(first, last + 1, step)})


def _spans(reader: _Reader, pattern: str) -> list[tuple[int, int, int]]:
    """(first, last, step) of each part of a pattern such as `0-9:3, 12`."""
    spans = []
    for part in pattern.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,10})\s*(?:-\s*([0-9]{1,10})\s*(?::\s*([0-9]{1,10})\s*)?)?", part)
        if match is None or int(match[3] or 1) < 1:
            raise reader.error("integerpattern is numbers and ranges of them", pattern)
        first = reader.whole(match[1], "a time point")
        spans.append((first, reader.whole(match[2] or match[1], "a time point"), int(match[3] or 1)))
    return spans


def _names(reader: _Reader, holding: Element) -> dict[str, dict[int, str]]:
    """What channels, angles and so on are called."""
    found: dict[str, dict[int, str]] = {}
    for attribute in holding.findall("Attributes"):
        named = found.setdefault(attribute.get("name", ""), {})
        for one in attribute:
            number, name = one.findtext("id"), one.findtext("name")
            if number is not None and name:
                named[reader.whole(number, "the id of an attribute")] = name
    return found


def spim_data_text(data: SpimData) -> bytes:
    """The XML of a dataset whose time points are a range."""
    root = ElementTree.Element("SpimData", version="0.2")
    _add(root, "BasePath", ".", type="relative")
    sequence = _add(root, "SequenceDescription")
    loader = _add(sequence, "ImageLoader", format=data.loader, version="1.0")
    _add(loader, LOADERS[data.loader], data.path, type="relative")
    _add_setups(_add(sequence, "ViewSetups"), data)
    points = _add(sequence, "Timepoints", type="range")
    _add(points, "first", str(data.time_points[0]))
    _add(points, "last", str(data.time_points[-1]))
    registrations = _add(root, "ViewRegistrations")
    for (time, setup), affine in data.registrations.items():
        view = _add(registrations, "ViewRegistration", timepoint=str(time), setup=str(setup))
        transform = _add(view, "ViewTransform", type="affine")
        _add(transform, "Name", "calibration")
        _add(transform, "affine", " ".join(map(repr, affine)))
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="UTF-8", xml_declaration=True)
    return text + b"\n"


def _add_setups(holding: Element, data: SpimData) -> None:
    for setup in data.setups:
        element = _add(holding, "ViewSetup")
        _add(element, "id", str(setup.id))
        if setup.name is not None:
            _add(element, "name", setup.name)
        if setup.size is not None:
            _add(element, "size", " ".join(map(str, setup.size)))
        if setup.voxel_size is not None:
            voxel = _add(element, "voxelSize")
            _add(voxel, "unit", setup.unit or "pixel")
            _add(voxel, "size", " ".join(map(repr, setup.voxel_size)))
        attributes = _add(element, "attributes")
        for name, number in setup.attributes.items():
            _add(attributes, name, str(number))
    for name, named in data.names.items():
        attribute = _add(holding, "Attributes", name=name)
        for number, called in named.items():
            one = _add(attribute, name.capitalize())
            _add(one, "id", str(number))
            _add(one, "name", called)


def _add(above: Element, tag: str, text: str | None = None, **attributes: str) -> Element:
    element = ElementTree.SubElement(above, tag, attributes)
    # Characters that XML has no way to write.
    element.text = None if text is None else "".join(one if one.isprintable() else " " for one in text)
    return element
