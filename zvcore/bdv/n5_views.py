"""The views of a dataset whose values lie in N5: `setup0/timepoint0/s0`."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TYPE_CHECKING, Any

from zvcore.bdv.known import Views
from zvcore.bdv.views import ViewsArray, ViewsLayout, view_path
from zvcore.documents.members import Items, Number, Place
from zvcore.errors import MetadataError, UnsupportedError
from zvcore.n5.documents import ATTRIBUTES, read_document
from zvcore.n5.metadata import DatasetMetadata, is_dataset
from zvcore.stores.request_threads import side_by_side

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zvcore.bdv.spim_data import Setup, SpimData
    from zvcore.images import Axes
    from zvcore.stores import Store

__all__ = ["n5_levels", "views_in_n5"]

_LEVEL = re.compile(r"s(0|[1-9][0-9]{0,2})")
_AT_ONCE = 16


def views_in_n5(store: Store, data: SpimData, setups: Sequence[int]) -> set[tuple[int, int]]:
    """The (time point, setup) of these setups that are stored."""
    there = {setup: set(store.list_dir(f"{data.path}/setup{setup}")[0]) for setup in setups}
    return {(time, setup) for setup in setups for time in data.time_points if f"timepoint{time}" in there[setup]}


def n5_levels(store: Store, data: SpimData, setup: Setup) -> Views | None:
    """The levels of a setup; None where nothing of it is stored."""
    above = f"{data.path}/setup{setup.id}"
    there = set(store.list_dir(above)[0])
    times = [time for time in data.time_points if f"timepoint{time}" in there]
    if not times:
        return None
    folder = f"{data.path}/{view_path(times[0], setup.id)}"
    levels = sorted(
        (name for name in store.list_dir(folder)[0] if _LEVEL.fullmatch(name)), key=lambda name: int(name[1:])
    )
    found = _metadata(store, folder, levels)
    if not found or found[0] is None:
        raise MetadataError("a view without a finest level", key=f"{store.root}/{folder}", expected="s0")
    known = [one for one in found if one is not None]
    if len(known) != len(found):
        raise MetadataError("a level of a view is no dataset", key=f"{store.root}/{folder}")

    def differing(time: int) -> str | None:
        other = f"{data.path}/{view_path(time, setup.id)}"
        return None if _metadata(store, other, levels) == found else other

    unlike = next((one for one in side_by_side(differing, times[1:], _AT_ONCE) if one is not None), None)
    if unlike is not None:
        raise UnsupportedError(
            "a time point whose levels are stored in another way than those of the first", key=f"{store.root}/{unlike}"
        )
    kind = tuple((one.dimensions, one.block_size, one.data_type, json.dumps(one.compression)) for one in known)
    return Views(
        kind, known[0].dimensions, _factors(store, above, known), partial(_level, store, data, known, tuple(levels))
    )


def _metadata(store: Store, folder: str, levels: Sequence[str]) -> list[DatasetMetadata | None]:
    """Of each level of a view; None where there is no dataset."""
    found: list[DatasetMetadata | None] = []
    for level in levels:
        path = f"{folder}/{level}"
        document = read_document(store, path)
        where = f"{store.root}/{path}/{ATTRIBUTES}"
        made = DatasetMetadata.parse(document, where) if document is not None and is_dataset(document) else None
        if made is not None and (len(made.dimensions) != 3 or not made.numeric):
            raise UnsupportedError(
                "a view that is no box of numbers", key=where, found=f"{made.data_type}, {len(made.dimensions)} axes"
            )
        found.append(made)
    return found


def _factors(store: Store, above: str, levels: Sequence[DatasetMetadata]) -> list[tuple[float, ...]]:
    """How much coarser the levels are than the first, as the setup says it, or as their shapes are."""
    document = read_document(store, above) or {}
    given = document.get("downsamplingFactors")
    place = Place(f"{store.root}/{above}/{ATTRIBUTES}").member("downsamplingFactors")
    said: list[Any] = given if isinstance(given, list) else []
    finest = levels[0].dimensions
    return [
        tuple(Items(Number(positive=True), 3).load(said[number], place))
        if number < len(said)
        else tuple(float(max(1, round(a / b))) if b else 1.0 for a, b in zip(finest, one.dimensions, strict=True))
        for number, one in enumerate(levels)
    ]


def _level(
    store: Store, data: SpimData, known: Sequence[DatasetMetadata], names: Sequence[str], setups: Sequence[int],
    number: int, axes: Axes, place: Store,
) -> ViewsArray:  # fmt: skip
    layout = ViewsLayout(
        store, known[number], folder=data.path, level=names[number], time_points=data.time_points, setups=setups
    )
    return ViewsArray(layout, axes, place)
