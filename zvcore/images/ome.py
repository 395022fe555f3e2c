"""OME-Zarr: what the attributes of a group say in its words, whether of version 0.4 (Zarr v2) or 0.5 (Zarr v3).

Version 0.5 has all its words in the attribute `ome`, with one version for them; before that each stood among the
attributes, with a version of its own. Here they are members without versions: `multiscales`, `omero`, `image-label`,
`labels`, `plate`, `well`, `bioformats2raw.layout`, `series`, and whatever else somebody wrote beside these.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from zvcore.documents.values import copied, is_number
from zvcore.errors import MetadataError
from zvcore.images.axes import Axis, all_named, long_unit, plain, size_of
from zvcore.images.ome_draft import as_finished, is_draft
from zvcore.images.remainder import remainder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zvcore.images.axes import Axes
    from zvcore.images.described import Described

__all__ = [
    "ATTRIBUTE",
    "LABELS",
    "MOST_AXES",
    "OmeSet",
    "Words",
    "attributes_of",
    "first_entry",
    "members_of",
    "read_about",
    "read_axes_told",
    "read_set",
    "read_words",
    "type_by_name",
    "with_types",
    "with_version",
]

# The attribute that has them all since version 0.5.
ATTRIBUTE = "ome"
# In which group beside its levels an image's label images lie, and the word by which that group tells of them.
LABELS = "labels"
# OME-Zarr has images of 2 to so many axes.
MOST_AXES = 5

# What each of the words of version 0.4 is, to tell it from an attribute of a user.
_WORDS: dict[str, type] = {
    "multiscales": list, "omero": dict, "image-label": dict, LABELS: list, "plate": dict, "well": dict,
    "bioformats2raw.layout": int, "series": list,
}  # fmt: skip
# Those that say their version, in 0.4 and in 0.5.
_VERSIONED = {"0.4": ("omero", "image-label", "plate", "well"), "0.5": ("image-label", "plate", "well")}


# --- the words of a group


@dataclass(frozen=True)
class Words:
    """What a group says in OME-Zarr's words.

    members   by name, without versions
    version   the one that it names; None: it names none
    taken     the attributes that they are
    """

    members: dict[str, Any] = field(default_factory=dict)
    version: str | None = None
    taken: frozenset[str] = frozenset()


def read_words(attrs: Mapping[str, Any], *, flat: bool = True) -> Words:
    """The words among a group's attributes; `flat`: as version 0.4 had them too."""
    inside = attrs.get(ATTRIBUTE)
    if isinstance(inside, dict):
        version = inside.get("version")
        members = {name: value for name, value in inside.items() if name != "version"}
        taken = frozenset({ATTRIBUTE})
    elif flat:
        members = {name: attrs[name] for name, kind in _WORDS.items() if _is_word(attrs.get(name), kind)}
        said = [one.get("version") for one in _versioned(members) if isinstance(one, dict)]
        version = next((one for one in said if isinstance(one, str)), None)
        taken = frozenset(members)
    else:
        return Words()
    found = copied(members)
    for one in _versioned(found):
        if isinstance(one, dict) and isinstance(one.get("version"), str):
            del one["version"]
    return Words(found, version if isinstance(version, str) else None, taken)


def _is_word(value: Any, kind: type) -> bool:
    if not isinstance(value, kind) or isinstance(value, bool):
        return False
    return not isinstance(value, list) or all(isinstance(one, dict | str) for one in value)


def _versioned(members: Mapping[str, Any]) -> list[Any]:
    """The objects that may name a version."""
    entries = members.get("multiscales")
    return [*(entries if isinstance(entries, list) else ()), *(members.get(name) for name in _VERSIONED["0.4"])]


def attributes_of(members: Mapping[str, Any], version: str) -> dict[str, Any]:
    """The attributes by which a group says these members in a version."""
    if not members:
        return {}
    said = {name: copied(value) for name, value in members.items()}
    for name in _VERSIONED.get(version, ()):
        if isinstance(said.get(name), dict):
            said[name] = {"version": version, **said[name]}
    if version != "0.4":
        return {ATTRIBUTE: {"version": version, **said}}
    if isinstance(said.get("multiscales"), list):
        said["multiscales"] = [
            {"version": version, **one} if isinstance(one, dict) else one for one in said["multiscales"]
        ]
    return said


def with_version(attrs: dict[str, Any], version: str) -> dict[str, Any]:
    """Attributes of a group, whose words say their version where they have a place for it that is empty.

    ome-zarr-py leaves it out of groups of labels; validators refuse these, and what they lie in.
    """
    inside = attrs.get(ATTRIBUTE)
    if version == "0.4" or not isinstance(inside, dict) or "version" in inside or not inside.keys() & _WORDS.keys():
        return attrs
    return {**attrs, ATTRIBUTE: {"version": version, **inside}}


# --- images


@dataclass(frozen=True)
class OmeSet:
    """One `multiscales` entry: paths of arrays from the finest on, and the axes of each.

    rest     members of the entry that say nothing of where voxels lie, such as `metadata`
    untold   members further inside that are not known here, by their paths
    sized    whether it says how large pixels are: before version 0.4 there was no place for it
    """

    paths: tuple[str, ...]
    axes: tuple[Axes, ...]
    name: str | None
    method: str | None
    rest: dict[str, Any] = field(default_factory=dict)
    untold: tuple[str, ...] = ()
    sized: bool = True


# The axes of all images before version 0.3, which do not name any.
_UNSAID_AXES = ["t", "c", "z", "y", "x"]
_TRANSFORM = {"type": True, "scale": True, "translation": True}
# What is understood of an entry.
_ENTRY: dict[str, Any] = {
    "axes": [{"name": True, "type": True, "unit": True}],
    "datasets": [{"path": True, "coordinateTransformations": [_TRANSFORM]}],
    "coordinateTransformations": [_TRANSFORM],
}


def read_set(members: Mapping[str, Any], where: str) -> OmeSet | None:
    """The first image that these members describe; None if they describe none."""
    entries = members.get("multiscales")
    if not isinstance(entries, list) or not entries or not isinstance(entries[0], dict):
        return None
    entry, beyond = as_finished(entries[0]) if is_draft(entries[0]) else (entries[0], [])
    datasets = entry.get("datasets")
    if not isinstance(datasets, list) or not datasets or not all(isinstance(one, dict) for one in datasets):
        raise MetadataError("multiscales names datasets", key=where, found=repr(datasets)[:80])
    named = read_axes(entry.get("axes", _UNSAID_AXES), where)
    around = _transforms(entry.get("coordinateTransformations"), len(named), where)
    paths = []
    axes = []
    for dataset in datasets:
        path = dataset.get("path")
        if not isinstance(path, str) or not path.strip("/"):
            raise MetadataError("multiscales names datasets by their path", key=where, found=repr(path))
        scale, offset = _transforms(dataset.get("coordinateTransformations"), len(named), where)
        paths.append(path.strip("/"))
        here = tuple(
            Axis(axis.name, axis.unit, a * b, c * a + d, axis.type)
            for axis, a, b, c, d in zip(named, around[0], scale, offset, around[1], strict=True)
        )
        # Products of sizes that are numbers may be none, and of very small ones nothing is left.
        if not all(is_number(axis.scale) and axis.scale > 0 and is_number(axis.offset) for axis in here):
            raise MetadataError("the transformations lead beyond what a float can hold", key=where, found=path)
        axes.append(here)
    name, method, rest = read_about(entry)
    inside = {name: entry[name] for name in _ENTRY if name in entry}
    untold = tuple(f"multiscales[0].{path}" for path in [*remainder(inside, _ENTRY), *beyond])
    sized = any("coordinateTransformations" in one for one in [entry, *datasets])
    return OmeSet(tuple(paths), tuple(axes), name, method, rest, untold, sized)


def first_entry(members: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the first `multiscales` entry of these members, the members without it)."""
    others = {name: value for name, value in members.items() if name != "multiscales"}
    entries = members.get("multiscales")
    if not isinstance(entries, list) or not entries or not isinstance(entries[0], dict):
        return {}, others
    return entries[0], {**others, **({"multiscales": entries[1:]} if entries[1:] else {})}


def read_about(entry: Mapping[str, Any]) -> tuple[str | None, str | None, dict[str, Any]]:
    """(name, method, what else is in it that says nothing of where voxels lie) of a `multiscales` entry."""
    said = {name: value for name in ("name", "type") if isinstance(value := entry.get(name), str)}
    rest = {name: value for name, value in entry.items() if name not in _ENTRY and name not in said}
    return said.get("name"), said.get("type"), {name: value for name, value in rest.items() if value is not None}


def read_axes_told(entry: Mapping[str, Any]) -> Axes:
    """The axes that an entry names beside another description of the levels; none where it names none."""
    try:
        return read_axes(entry.get("axes", []), "")
    except MetadataError:
        return ()


def read_axes(given: Any, where: str) -> Axes:
    """Names, units and types of axes: before 0.4 they were names alone."""
    found = [
        (one.get("name"), one.get("unit"), one.get("type")) if isinstance(one, dict) else (one, None, None)
        for one in _listed(given)
    ]
    if not isinstance(given, list) or not all(name is None or isinstance(name, str) for name, _, _ in found):
        raise MetadataError("axes is a list of axes with names", key=where, found=repr(given)[:80])
    return tuple(Axis(name, _text(unit), type=_text(kind)) for name, unit, kind in found)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _transforms(given: Any, rank: int, where: str) -> tuple[list[float], list[float]]:
    """(scale, offset) of a list of transformations, in the order in which they stand."""
    scale, offset = [1.0] * rank, [0.0] * rank
    for one in _listed(given):
        kind = one.get("type") if isinstance(one, dict) else None
        if kind == "identity":
            continue
        if kind not in ("scale", "translation"):
            raise MetadataError("a transformation is a scale or a translation", key=where, found=repr(one)[:80])
        numbers = one.get(kind)
        if (
            not isinstance(numbers, list)
            or len(numbers) != rank
            or not all(map(is_number, numbers))
            or (kind == "scale" and any(n <= 0 for n in numbers))
        ):
            raise MetadataError(
                f"{kind} has a {'positive ' if kind == 'scale' else ''}number for each axis", key=where, expected=rank,
                found=repr(numbers)[:80],
            )  # fmt: skip
        if kind == "scale":
            scale = [a * b for a, b in zip(scale, numbers, strict=True)]
            offset = [a * b for a, b in zip(offset, numbers, strict=True)]
        else:
            offset = [a + b for a, b in zip(offset, numbers, strict=True)]
    return scale, offset


# --- writing

_TYPES = {"x": "space", "y": "space", "z": "space", "c": "channel", "channel": "channel", "t": "time", "time": "time"}


def members_of(image: Described, name: str | None, *, places: bool = True) -> dict[str, Any]:
    """The members that describe an image; without `places`, what they say besides where its voxels lie.

    `name` is what it is called where it has no name.
    """
    words = {one: value for one, value in image.words.items() if one != "multiscales"}
    entry = _entry(image, name, places)
    others = image.words.get("multiscales", []) if places else []
    if image.kind == "segmentation":
        words.setdefault("image-label", {})
    elif image.kind == "image" and image.like_labels and "omero" not in words:
        # What has no channels to show, and numbers like those of labels, would be taken for labels.
        metadata = entry.get("metadata", {})
        if isinstance(metadata, dict):
            entry["metadata"] = {**metadata, "type": "image"}
    if entry or others:
        return {"multiscales": [entry, *others], **words}
    return words


def _entry(image: Described, name: str | None, places: bool) -> dict[str, Any]:
    called = image.name or name
    entry: dict[str, Any] = {} if called is None else {"name": called}
    axes = [_axis(axis) for axis in all_named(image.axes[0])]
    if places:
        entry["axes"] = axes
        entry["datasets"] = [
            {
                "path": path,
                "coordinateTransformations": [
                    {"type": "scale", "scale": [size_of(axis) for axis in level]},
                    {"type": "translation", "translation": [plain(axis.offset, size_of(axis)) for axis in level]},
                ],
            }
            for path, level in zip(image.names, image.axes, strict=True)
        ]
    elif any(axis.type is not None and axis.type != type_by_name(axis.name) for axis in image.axes[0]):
        entry["axes"] = axes
    if image.method is not None:
        entry["type"] = image.method
    return {**entry, **image.rest}


def type_by_name(name: str | None) -> str | None:
    """What an axis of this name is, where nothing else is said."""
    return None if name is None else _TYPES.get(name.lower())


def _axis(axis: Axis) -> dict[str, str]:
    """One of `axes`. What its name stands for is its type, where none is said."""
    said = {"name": str(axis.name)}
    kind = axis.type or type_by_name(said["name"])
    if kind is not None:
        said["type"] = kind
    unit = long_unit(axis.unit)
    if unit is not None and kind != "channel":
        said["unit"] = unit
    return said


def with_types(axes: Axes, told: Axes) -> Axes:
    """Axes with the types that others of the same names have."""
    types = {axis.name: axis.type for axis in told}
    return tuple(replace(axis, type=types.get(axis.name, axis.type)) for axis in axes)
