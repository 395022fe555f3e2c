"""Entries of OME-Zarr 0.6, whose specification is not out yet, in the words of 0.5.

Levels are taken to where their own scale and translation take them. What else the drafts know (affine transformations,
rotations, displacements, further coordinate systems) is not understood, and told by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["as_finished", "is_draft"]

SYSTEMS = "coordinateSystems"
_TRANSFORMS = "coordinateTransformations"
_PLAIN = ("scale", "translation", "identity")


def is_draft(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get(SYSTEMS), list)


def as_finished(entry: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """(the entry as version 0.5 has it, the names of what it says besides)."""
    untold = []
    systems = [one for one in entry[SYSTEMS] if isinstance(one, dict)]
    datasets = []
    output = None
    given = entry.get("datasets")
    for dataset in given if isinstance(given, list) else ():
        if not isinstance(dataset, dict):
            datasets.append(dataset)
            continue
        steps = []
        for one in _each(dataset.get(_TRANSFORMS)):
            output = output or _name(one.get("output"))
            plain = list(_plain(one))
            steps += [step for step in plain if step.get("type") in _PLAIN]
            untold += [f"{_TRANSFORMS} of {dataset.get('path')!r}: {step.get('type')}" for step in plain
                       if step.get("type") not in _PLAIN]  # fmt: skip
        datasets.append({"path": dataset.get("path"), _TRANSFORMS: steps})
    told = next((one for one in systems if one.get("name") == output), systems[0] if systems else {})
    untold += [f"{SYSTEMS}: {one.get('name')!r}" for one in systems if one is not told]
    untold += [f"{_TRANSFORMS}: {one.get('type')}" for one in _each(entry.get(_TRANSFORMS))]
    finished = {name: value for name, value in entry.items() if name not in (SYSTEMS, _TRANSFORMS)}
    return {**finished, "axes": told.get("axes", []), "datasets": datasets}, untold


def _each(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _name(given: Any) -> str | None:
    """The coordinate system that a transformation leads to: earlier drafts had a name alone."""
    name = given.get("name") if isinstance(given, dict) else given
    return name if isinstance(name, str) else None


def _plain(one: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A transformation, or those that a sequence is made of, without where they lead from and to."""
    if one.get("type") != "sequence":
        yield {name: value for name, value in one.items() if name not in ("input", "output", "name")}
        return
    for step in _each(one.get("transformations")):
        yield {name: value for name, value in step.items() if name not in ("input", "output", "name")}
