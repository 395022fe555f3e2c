"""Datasets of BigDataViewer as images: setups that differ in their channel alone are the channels of one."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from zvcore.bdv.hdf5_views import hdf5_levels, views_in_hdf5
from zvcore.bdv.n5_views import n5_levels, views_in_n5
from zvcore.bdv.spim_data import SpimData, parse_spim_data
from zvcore.borrowed.array import BorrowedGroup
from zvcore.documents.document import fetch
from zvcore.errors import NotFoundError
from zvcore.images import Axis, Image, Level
from zvcore.images.axes import long_unit
from zvcore.stores.single_file import SingleFileStore

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from zvcore.bdv.known import Views
    from zvcore.bdv.spim_data import Affine, Setup
    from zvcore.format import Node
    from zvcore.images import Axes
    from zvcore.stores import Store

__all__ = ["DOCUMENT", "absent_views", "document_of", "other_sizes", "read", "read_spim_data"]

# How the XML of a folder is called that zvcore writes.
DOCUMENT = "dataset.xml"
_CHANNEL = "channel"


def document_of(store: Store) -> tuple[Store, str]:
    """(the folder around the XML, the key of the XML in it)."""
    if isinstance(store, SingleFileStore):
        return store.folder, store.file
    return store, DOCUMENT


def read_spim_data(store: Store) -> SpimData:
    folder, key = document_of(store)
    raw = fetch(folder, key)
    if raw is None:
        raise NotFoundError("there is no XML of BigDataViewer here", key=f"{folder.root}/{key}")
    return parse_spim_data(raw, key)


def read(store: Store) -> Any:
    """The image that a dataset is, or a group of its images, which are called by the first setup of each; or what in
    it the store names.
    """
    inside = store.inside if isinstance(store, SingleFileStore) else ""
    if inside:
        assert isinstance(store, SingleFileStore)
        return _dataset(store.within(""))[inside]
    return _dataset(store)


def _dataset(store: Store) -> BorrowedGroup:
    folder, _ = document_of(store)
    data = read_spim_data(store)
    groups: dict[Hashable, tuple[Views, list[Setup]]] = {}
    empty: list[str] = []
    for setup in data.setups:
        views = _levels_of(folder, data, setup)
        if views is None:
            empty.append(f"the setup {setup.id}, of which nothing is stored")
            continue
        shown = _Shown(data, [setup])
        others = tuple(sorted((name, n) for name, n in setup.attributes.items() if name != _CHANNEL))
        alike = (views.kind, tuple(views.factors), others, shown.axes(), shown.transform)
        groups.setdefault(alike, (views, []))[1].append(setup)
    if not groups:
        raise NotFoundError("none of the setups has values", key=f"{folder.root}/{data.path}")
    if len(groups) == 1:
        return _image_node(store, data, *next(iter(groups.values())), empty)
    return BorrowedGroup("bdv", store, {
        f"setup{setups[0].id}": partial(_image_node, _within(store, f"setup{setups[0].id}"), data, views, setups)
        for views, setups in groups.values()
    }, untold=empty)  # fmt: skip


def absent_views(folder: Store, data: SpimData, setups: Sequence[int]) -> list[tuple[int, int]]:
    """The (time point, setup) of these setups that are not stored, and that the XML does not call missing."""
    views_in = views_in_n5 if data.loader == "bdv.n5" else views_in_hdf5
    stored = views_in(folder, data, setups)
    views = ((time, setup) for setup in setups for time in data.time_points)
    return [one for one in views if one not in stored and one not in data.missing]


def other_sizes(folder: Store, data: SpimData) -> list[str]:
    """Of setups whose size in the XML is not that of their values, in words."""
    found = ((setup, _levels_of(folder, data, setup)) for setup in data.setups)
    return [told for setup, views in found if views is not None for told in _other_size(setup, views)]


def _levels_of(folder: Store, data: SpimData, setup: Setup) -> Views | None:
    return (n5_levels if data.loader == "bdv.n5" else hdf5_levels)(folder, data, setup)


def _other_size(setup: Setup, views: Views) -> list[str]:
    if setup.size is None or setup.size == views.size:
        return []
    said, stored = (" x ".join(map(str, one)) for one in (setup.size, views.size))
    return [f"the size of the setup {setup.id} that the XML says ({said}; stored are {stored})"]


def _within(store: Store, name: str) -> Store:
    """The place of something in the XML that is opened; a folder is its own."""
    return store.within(f"{store.inside}/{name}") if isinstance(store, SingleFileStore) else store


def _image_node(
    store: Store, data: SpimData, views: Views, setups: list[Setup], untold: Sequence[str] = ()
) -> BorrowedGroup:
    shown = _Shown(data, setups)
    ids = [one.id for one in setups]
    folder, _ = document_of(store)
    members: dict[str, Callable[[], Node]] = {
        f"s{number}": partial(views.make, ids, number, shown.axes(factors), _within(store, f"s{number}"))
        for number, factors in enumerate(views.factors)
    }

    def image(node: BorrowedGroup) -> Image:
        levels = [Level(name, array := node[name], array.axes) for name in node]
        untold = [
            *shown.untold(absent_views(folder, data, ids)),
            *(w for one in setups for w in _other_size(one, views)),
        ]
        return Image("", levels, node.attrs, name=shown.name, convention="BigDataViewer", words=shown.words,
                     untold=tuple(untold))  # fmt: skip

    return BorrowedGroup("bdv", store, members, image=image, untold=untold)


class _Shown:
    """What the XML says of an image besides its values."""

    def __init__(self, data: SpimData, setups: Sequence[Setup]) -> None:
        self.data, self.setups = data, setups
        found = {self._of(time, setup) for setup in setups for time in data.time_points} - {None}
        first = next((one for time in data.time_points if (one := self._of(time, setups[0])) is not None), None)
        self.transform: Affine | None = first
        self._moving = len(found) > 1

    def _of(self, time: int, setup: Setup) -> Affine | None:
        return None if (time, setup.id) in self.data.missing else self.data.registrations.get((time, setup.id))

    @property
    def _only_places(self) -> bool:
        """Whether the transform does nothing but scale and move."""
        rows = self.transform
        return rows is None or all(
            rows[4 * i + j] > 0 if i == j else rows[4 * i + j] == 0 for i in range(3) for j in range(3)
        )

    def axes(self, factors: Sequence[float] = (1, 1, 1)) -> Axes:
        """Axes t, c, z, y, x of a level that is so much coarser along x, y and z."""
        setup, rows = self.setups[0], self.transform
        sizes: Sequence[float | None] = (None, None, None) if setup.voxel_size is None else setup.voxel_size
        origin: Sequence[float] = (0.0, 0.0, 0.0)
        if rows is not None and self._only_places:
            sizes, origin = (rows[0], rows[5], rows[10]), (rows[3], rows[7], rows[11])
        unit = long_unit(setup.unit)
        spatial = []
        for name, size, place, factor in zip("xyz", sizes, origin, factors, strict=True):
            base = 1.0 if size is None else size
            known = None if size is None and factor == 1 else base * factor
            spatial.append(Axis(name, unit, known, place + (factor - 1) / 2 * base, "space"))
        return (Axis("t", type="time"), Axis("c", type="channel"), *spatial[::-1])

    @property
    def name(self) -> str | None:
        """The name of the only setup; of several, each names its channel."""
        return self.setups[0].name if len(self.setups) == 1 else None

    @property
    def words(self) -> dict[str, Any]:
        """The channels in the words of OME-Zarr, where they have names."""
        named = self.data.names.get(_CHANNEL, {})
        labels = []
        for setup in self.setups:
            number = setup.attributes.get(_CHANNEL)
            called = None if number is None else named.get(number)
            labels.append(called if called not in (None, str(number)) else None)
        if len(self.setups) > 1:
            labels = [label or setup.name for label, setup in zip(labels, self.setups, strict=True)]
        if not any(labels):
            return {}
        return {"omero": {"channels": [{"label": label or "", "color": "FFFFFF"} for label in labels]}}

    def untold(self, absent: Sequence[tuple[int, int]]) -> list[str]:
        """What of the XML has no place in an image of these axes. `absent`: views that it does not call missing."""
        told = []
        called = ", ".join(f"setup {setup.id}" for setup in self.setups)
        if not self._only_places:
            told.append(f"the affine transform of {called}, which does more than scale and move")
        if self._moving:
            told.append(f"that the transforms of {called} differ from one time point to another")
        points = self.data.time_points
        if list(points) != list(range(len(points))):
            told.append(f"the numbers of the time points ({points[0]} to {points[-1]})")
        ids = {setup.id for setup in self.setups}
        missing = len(absent) + sum(1 for time, setup in self.data.missing if setup in ids)
        if missing:
            told.append(f"that {missing} views are missing, which read as zeros")
        told.extend(
            f"the {name} {self.data.names.get(name, {}).get(number, number)} of {called}"
            for name, number in self.setups[0].attributes.items()
            if name != _CHANNEL and (number or name in self.data.names) and self._tells_apart(name)
        )
        return told

    def _tells_apart(self, attribute: str) -> bool:
        return len({setup.attributes.get(attribute) for setup in self.data.setups}) > 1
