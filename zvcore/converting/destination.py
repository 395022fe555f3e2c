"""Makes the folders and arrays of a destination, or finds them again when an interrupted conversion goes on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from zvcore import n5, precomputed, zarr3
from zvcore.array import Array
from zvcore.converting.describing import array_attributes
from zvcore.converting.geometry import in_nanometers, volume_place
from zvcore.errors import NotFoundError, UnsupportedError
from zvcore.format import get_format
from zvcore.images import Axes, default_names
from zvcore.images.axes import plain, short_unit
from zvcore.zarr3.ome import ome_attributes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zvcore.stores import Store

__all__ = ["Destination", "destination_of"]


class Destination(ABC):
    """Where a conversion writes. Paths count from the store's root; "" is the root itself.

    found   whether an earlier run has begun here, so that what it made is used
    notes   what could not be said in this format
    """

    def __init__(self, store: Store, found: bool) -> None:
        self.store = store
        self.found = found
        self.notes: list[str] = []

    @abstractmethod
    def folder(self, path: str, attrs: Mapping[str, Any]) -> None: ...

    @abstractmethod
    def array(self, path: str, options: Mapping[str, Any], attrs: Mapping[str, Any], axes: Axes | None) -> Array:
        """Make an array. `axes` says where it lies; None: the pyramid that it belongs to says so."""

    @abstractmethod
    def pyramid(
        self, path: str, names: Sequence[str], levels: Sequence[Axes], name: str | None, method: str | None
    ) -> None:
        """Describe the arrays of these names in a folder as the levels of one image."""

    @abstractmethod
    def level_names(self, wanted: Sequence[str | None]) -> list[str]:
        """What the levels of a pyramid are called; `wanted` are their names in the source, where they have some."""

    def path_of(self, array: Array) -> str:
        """What an array is called here."""
        return array.layout.store.root.removeprefix(self.store.root).strip("/")

    def _open(self, path: str) -> Array | None:
        """What an earlier run has made."""
        if not self.found:
            return None
        try:
            made = get_format(self.format).open(self.store.child(path) if path else self.store, "r+")
        except NotFoundError:
            return None
        return made if isinstance(made, Array) else None

    format: str


class ZarrDestination(Destination):
    format = "zarr3"

    def _exists(self, path: str) -> bool:
        return self.store.exists(f"{path}/zarr.json" if path else "zarr.json")

    def _child(self, path: str) -> Store:
        return self.store.child(path) if path else self.store

    def folder(self, path: str, attrs: Mapping[str, Any]) -> None:
        if self.found and self._exists(path):
            return
        zarr3.create_group(self._child(path), dict(attrs))

    def _folders_above(self, path: str) -> None:
        parts = path.split("/")
        for depth in range(len(parts)):
            above = "/".join(parts[:depth])
            if not self._exists(above):
                zarr3.create_group(self._child(above))

    def array(self, path: str, options: Mapping[str, Any], attrs: Mapping[str, Any], axes: Axes | None) -> Array:
        made = self._open(path)
        if made is not None:
            return made
        if path:
            self._folders_above(path)
        given = dict(options)
        extra = given.pop("attrs", None) or {}
        said = {} if axes is None else array_attributes(axes, "zarr3")
        return zarr3.create(self._child(path), attrs={**attrs, **said, **extra}, **given)

    def pyramid(
        self, path: str, names: Sequence[str], levels: Sequence[Axes], name: str | None, method: str | None
    ) -> None:
        rank = len(levels[0])
        if not 2 <= rank <= 5:
            self.notes.append(f"OME-Zarr has images of 2 to 5 axes; nothing describes the levels of {rank}")
            return
        group = zarr3.open(self._child(path), "r+")
        called = name or path.rpartition("/")[2] or self.store.root.rstrip("/").rpartition("/")[2]
        before = group.attrs.get("ome")
        kept = {key: value for key, value in before.items() if key != "multiscales"} if isinstance(before, dict) else {}
        group.attrs.update({"ome": {**kept, **ome_attributes(names, levels, called, method)}})

    def level_names(self, wanted: Sequence[str | None]) -> list[str]:
        return _distinct(wanted, "")


class N5Destination(Destination):
    format = "n5"

    def _child(self, path: str) -> Store:
        return self.store.child(path) if path else self.store

    def folder(self, path: str, attrs: Mapping[str, Any]) -> None:
        n5.create_group(self._child(path), dict(attrs), member=bool(path))

    def array(self, path: str, options: Mapping[str, Any], attrs: Mapping[str, Any], axes: Axes | None) -> Array:
        made = self._open(path)
        if made is not None:
            return made
        if path and not self.store.exists("attributes.json"):
            self.folder("", {})
        given = dict(options)
        extra = given.pop("attrs", None) or {}
        said = {} if axes is None else array_attributes(axes, "n5")
        return n5.create(self._child(path), attrs={**attrs, **said, **extra}, member=bool(path), **given)

    def pyramid(
        self, path: str, names: Sequence[str], levels: Sequence[Axes], name: str | None, method: str | None
    ) -> None:
        """As n5-viewer reads it, and where that cannot say all of it, as COSEM and CellMap do."""
        group: Any = n5.open(self._child(path), "r+")
        rank = len(levels[0])
        called = default_names(rank)[::-1]
        described = []
        for one, axes in zip(names, levels, strict=True):
            sizes = [1.0 if axis.scale is None else axis.scale for axis in axes]
            base = [1.0 if axis.scale is None else axis.scale for axis in levels[0]]
            described.append(
                n5.Level(
                    one,
                    tuple(plain(a / b) for a, b in zip(sizes, base, strict=True)),
                    tuple(plain(n) for n in sizes),
                    tuple(plain(axis.offset) for axis in axes),
                    tuple(short_unit(axis.unit) for axis in axes),
                    tuple(axis.name or known for axis, known in zip(axes, called, strict=True)),
                )
            )
        try:
            group.write_multiscale(n5.Multiscale(tuple(described), "n5-viewer"), "n5-viewer")
        except UnsupportedError:
            self._cosem(group, described, name)

    def _cosem(self, group: Any, levels: Sequence[Any], name: str | None) -> None:
        entries = []
        for level in levels:
            transform = {
                "axes": list(level.axes[::-1]), "scale": list(level.resolution[::-1]),
                "translate": list(level.offset[::-1]), "units": list(level.units[::-1]),
            }  # fmt: skip
            group[level.path].attrs.update({"transform": transform})
            entries.append({"path": level.path, "transform": transform})
        group.attrs.update({"multiscales": [{"name": name or "", "datasets": entries}]})

    def level_names(self, wanted: Sequence[str | None]) -> list[str]:
        good = all(one is not None and one.rpartition("/")[2].startswith("s") for one in wanted)
        return _distinct(wanted if good else [None] * len(wanted), "s")


class VolumeDestination(Destination):
    format = "precomputed"

    def __init__(self, store: Store, found: bool) -> None:
        super().__init__(store, found)
        self.finest: Axes | None = None
        self.kind: str | None = None

    def folder(self, path: str, attrs: Mapping[str, Any]) -> None:
        raise UnsupportedError(
            "a precomputed volume is one image: choose one array or one multiscale set to convert", key=self.store.root
        )

    def array(self, path: str, options: Mapping[str, Any], attrs: Mapping[str, Any], axes: Axes | None) -> Array:
        assert axes is not None
        self.finest = self.finest or axes
        offset, exact = volume_place(axes, self.finest)
        if not exact:
            self.notes.append(f"the offset of {path or 'the volume'} is no whole number of voxels, and is rounded")
        given: dict[str, Any] = {"resolution": in_nanometers(axes), "voxel_offset": offset, **options}
        if self.kind is not None:
            given.setdefault("type", self.kind)
        key = given.get("key") or "_".join(f"{plain(float(n)):.15g}" for n in given["resolution"])
        if self.found and self.store.exists("info"):
            volume = precomputed.Volume(self.store, "r+")
            if key in volume:
                return volume[key]
        given["key"] = key
        return precomputed.create(self.store, **given)

    def pyramid(
        self, path: str, names: Sequence[str], levels: Sequence[Axes], name: str | None, method: str | None
    ) -> None:
        """The scales have said it all themselves."""

    def path_of(self, array: Array) -> str:
        return str(array.key)  # type: ignore[attr-defined]

    def level_names(self, wanted: Sequence[str | None]) -> list[str]:
        return ["" for _ in wanted]


def _distinct(wanted: Sequence[str | None], prefix: str) -> list[str]:
    """Names of levels: as wanted, else numbers, which begin where no name is taken."""
    names: list[str] = []
    for i, one in enumerate(wanted):
        if one is None:
            one = f"{prefix}{i}"
            if names and names[-1].startswith("s") and names[-1][1:].isdigit():
                one = f"s{int(names[-1][1:]) + 1}"
            while one in names or one in wanted:
                one += "_"
        names.append(one)
    return names


def destination_of(format: str, store: Store, found: bool) -> Destination:
    kinds: dict[str, type[Destination]] = {
        "zarr3": ZarrDestination, "n5": N5Destination, "precomputed": VolumeDestination,
    }  # fmt: skip
    if format not in kinds:
        raise UnsupportedError(f"arrays cannot be written as {format!r}", expected=", ".join(kinds))
    return kinds[format](store, found)
