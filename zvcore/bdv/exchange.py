"""BigDataViewer in conversions: one image, whose channels are setups, as N5 and the XML that tells of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zvcore import codecs
from zvcore.bdv.spim_data import Setup, SpimData, spim_data_text
from zvcore.bdv.views import ViewsArray, ViewsLayout, view_path
from zvcore.borrowed.exchange import BorrowedExchange
from zvcore.errors import UnsupportedError, ZvcoreError
from zvcore.exchange.exchange import slow_first
from zvcore.exchange.target import chunk_shape
from zvcore.exchange.writer import ImageWriter
from zvcore.format import get_format
from zvcore.images.axes import long_unit, plain, unit_ratio
from zvcore.n5.creating import compression_of, data_type_of
from zvcore.n5.documents import document_key, encoded
from zvcore.n5.metadata import VERSION, DatasetMetadata

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from zvcore.array import Array
    from zvcore.codecs.base import Codec
    from zvcore.converting.view import View
    from zvcore.exchange.target import Place, Target
    from zvcore.images import Axes, Described
    from zvcore.stores import Store

__all__ = ["BdvExchange"]

DOCUMENT, CONTAINER = "dataset.xml", "dataset.n5"
_AXES = "tczyx"
_OTHER_NAMES = {"time": "t", "channel": "c"}
_OUTER = 2


class BdvExchange(BorrowedExchange):
    holds = "image"
    common_codecs = ("gzip", "zstd", "blosc", "bzip2", "xz")
    default_codec = "gzip"
    has_attributes = False

    # --- as a source

    def codecs_of(self, array: Array) -> list[Codec]:
        return [codec for codec in super().codecs_of(array) if codec.name != "crc32c"]

    def spare_axes(self, array: Array) -> Collection[int]:
        return tuple(axis for axis in range(_OUTER) if array.shape[axis] == 1)

    # --- as a destination

    def axes_for(
        self, array: Array, kept: Sequence[int], shape: Sequence[int], channel: int | None
    ) -> tuple[tuple[int | None, ...], str]:
        """Axes t, c, z, y, x: by their names, and those without one by their place."""
        named = [_known(axis.name) for axis in get_format(array.format).places(array)[0]]
        rest = slow_first(array, kept)
        outer: list[int | None] = [None, None]
        for place, name in enumerate(_AXES[:_OUTER]):
            found = [axis for axis in rest if named[axis] == name or (name == "c" and axis == channel)]
            if len(found) == 1:
                outer[place] = found[0]
                rest.remove(found[0])
        while len(rest) > 3 and shape[rest[0]] == 1:
            rest.pop(0)
        if len(rest) == 5 and outer == [None, None]:
            outer = [rest.pop(0), rest.pop(0)]
        elif len(rest) == 4 and None in outer and named[rest[0]] in (None, "t", "c"):
            # Of four axes without names, the first is that of channels, as Zarr and volumes have it.
            outer[1 if outer[1] is None else 0] = rest.pop(0)
        if not 2 <= len(rest) <= 3:
            raise UnsupportedError(
                "BigDataViewer has axes t, c, z, y and x; choose the rest with a region", key=array.store.root,
                found=f"{len(kept)} axes",
            )  # fmt: skip
        return (*outer, *[None] * (3 - len(rest)), *rest), "C"

    def array_options(self, view: View, target: Target, place: Place) -> dict[str, Any]:
        for axis, expected in zip(place.axes, _AXES, strict=True):
            if _known(axis.name) not in (None, expected):
                raise UnsupportedError(
                    f"the axis {axis.name!r} stands where BigDataViewer has {expected!r}; choose others with a region",
                    key=view.array.store.root,
                )
        if view.value_dtype.kind == "b":
            raise UnsupportedError("BigDataViewer has no booleans; convert with dtype='uint8'")
        if target.options:
            raise TypeError(f"{self.format.name} has no option {next(iter(target.options))!r} for such a conversion")
        asked = target.chunks
        chunks = chunk_shape(view, (1, 1, *asked) if asked is not None and len(asked) == 3 else asked)
        return {
            "shape": place.shape or view.shape, "dtype": view.value_dtype, "chunks": (1, 1, *chunks[_OUTER:]),
            **self.codec_option(view, target), **self.shard_option(view, target, chunks),
        }  # fmt: skip

    def spells(self, codec: Codec) -> bool:
        try:
            spelled = codec.to_n5()
            return "framing" not in spelled and codecs.from_n5(spelled).decodes_alike(codec)
        except ZvcoreError:
            return False

    def spatial_axes(self, axes: Axes, order: str) -> tuple[int, ...]:
        return (2, 3, 4)

    def level_names(self, wanted: Sequence[str | None]) -> list[str]:
        return [f"s{number}" for number in range(len(wanted))]

    def image_losses(self, image: Described) -> list[str]:
        labels = _labels(image)
        kind = None if image.kind == "image" else image.kind
        kept = replace(
            image, name=None, kind=kind, words={name: one for name, one in image.words.items() if name != "omero"}
        )
        lost = super().image_losses(kept)
        if image.name is not None and len(labels) > 1:
            lost.append(f"the name {image.name!r} has no place beside those of the channels")
        if image.words.get("omero"):
            lost.append("of omero, the names of the channels are kept, and no colours and windows")
        time = image.axes[0][0]
        if time.scale not in (None, 1.0) or time.unit is not None or time.offset:
            lost.append("the size, unit and beginning of time steps have no place in BigDataViewer")
        spatial = image.axes[0][_OUTER:]
        if len({long_unit(axis.unit) for axis in spatial if axis.name is not None}) > 1:
            lost.append("units that differ from axis to axis: all sizes are said in the unit of x")
        lost += [
            f"the unit {axis.unit!r} of the axis {axis.name!r}, which is none of the kind that x has"
            for axis in spatial
            if axis.unit is not None and unit_ratio(axis.unit, spatial[2].unit) is None
        ]
        return lost + [
            f"where level {number} begins is not where BigDataViewer takes it to be"
            for number, axes in enumerate(image.axes)
            if not _usual_place(axes, image.axes[0])
        ]

    def writer(self, store: Store, found: bool) -> ImageWriter:
        if store.file is not None:
            raise UnsupportedError("BigDataViewer's data are made in a folder, with the XML in it", key=store.root)
        return BdvWriter(self.format, store, found)


def _known(name: str | None) -> str | None:
    return None if name is None else _OTHER_NAMES.get(name.lower(), name.lower())


def _sizes(axes: Axes) -> list[float]:
    """The sizes of voxels along z, y and x."""
    return [1.0 if axis.scale is None else axis.scale for axis in axes[_OUTER:]]


def _in_one_unit(axes: Axes) -> Axes:
    """Sizes and places in the unit of x, for which alone there is room; those that measure something else stay."""
    *_, x = axes
    found = []
    for axis in axes:
        ratio = unit_ratio(axis.unit, x.unit) if axis.unit is not None and axis in axes[_OUTER:] else None
        if ratio not in (None, 1):
            size = None if axis.scale is None else plain(axis.scale * float(ratio))
            axis = replace(axis, unit=x.unit, scale=size, offset=plain(axis.offset * float(ratio)))
        found.append(axis)
    return tuple(found)


def _usual_place(axes: Axes, finest: Axes) -> bool:
    """Whether the first voxel of a level lies in the middle of those that it stands for."""
    for here, size, base, first in zip(axes[_OUTER:], _sizes(axes), _sizes(finest), finest[_OUTER:], strict=True):
        if abs(here.offset - first.offset - (size - base) / 2) > 1e-6 * abs(base):
            return False
    return True


def _labels(image: Described) -> list[str | None]:
    omero = image.words.get("omero")
    channels = omero.get("channels") if isinstance(omero, dict) else None
    found = [one.get("label") if isinstance(one, dict) else None for one in channels or ()]
    return [one if isinstance(one, str) and one else None for one in found]


class BdvWriter(ImageWriter):
    """The datasets of all views, and the XML. What an earlier run has made is written once more: it is the same."""

    def __init__(self, format: Any, store: Store, found: bool) -> None:
        super().__init__(format, store, found)
        self._made: list[ViewsArray] = []

    def array(self, path: str, options: Mapping[str, Any], attrs: Mapping[str, Any]) -> Array:
        times, setups = (range(n) for n in options["shape"][:_OUTER])
        items = options["dtype"]
        document = {
            "dataType": data_type_of(items),
            "compression": compression_of(options["codec"], items),
            "blockSize": list(options["chunks"][:1:-1]),
            "dimensions": list(options["shape"][:1:-1]),
        }  # fmt: skip
        metadata = DatasetMetadata.parse(document, f"{self.store.root}/{path}")
        layout = ViewsLayout(self.store, metadata, folder=CONTAINER, level=path, time_points=times, setups=setups)
        made = ViewsArray(layout, (), self.store, writable=True)
        for setup in setups:
            for time in times:
                self._put(view_path(time, setup, path), metadata.to_json())
        self._made.append(made)
        return made

    def _put(self, path: str, document: Mapping[str, Any]) -> None:
        self.store.put(document_key(f"{CONTAINER}/{path}" if path else CONTAINER), encoded(dict(document)))

    def image(self, path: str, image: Described) -> None:
        image = replace(image, axes=[_in_one_unit(axes) for axes in image.axes])
        sizes = _sizes(image.axes[0])
        factors = []
        for axes in image.axes:
            ratios = [size / base for size, base in zip(_sizes(axes), sizes, strict=True)][::-1]
            if any(abs(n - round(n)) > 1e-6 or round(n) < 1 for n in ratios):
                raise UnsupportedError(
                    "levels of BigDataViewer are coarser by whole numbers", key=self.store.root, found=ratios
                )
            factors.append([round(n) for n in ratios])
        layout = self._made[0].layout
        data_type = layout.metadata.data_type
        self._put("", {"n5": VERSION})
        for setup in layout.setups.tolist():
            self._put(f"setup{setup}", {"downsamplingFactors": factors, "dataType": data_type})
            for time in layout.time_points.tolist():
                self._put(view_path(time, setup), {"multiScale": True, "resolution": sizes[::-1]})
        self.store.put(DOCUMENT, spim_data_text(_described(image, layout)))


def _described(image: Described, layout: ViewsLayout) -> SpimData:
    """What the XML says of an image."""
    times, setups = layout.time_points.tolist(), layout.setups.tolist()
    spatial, sizes = image.axes[0][_OUTER:], _sizes(image.axes[0])
    affine = tuple(
        float(sizes[2 - row] if row == column else spatial[2 - row].offset if column == 3 else 0.0)
        for row in range(3)
        for column in range(4)
    )
    labels = _labels(image)
    only = image.name if len(setups) == 1 else None
    named = {setup: labels[setup] if setup < len(labels) else None for setup in setups}
    made = [
        Setup(
            setup, only or named[setup] or f"channel {setup}", layout.metadata.dimensions, tuple(sizes[::-1]),
            long_unit(spatial[2].unit) or "pixel", {"channel": setup},
        )
        for setup in setups
    ]  # fmt: skip
    return SpimData(
        "bdv.n5", CONTAINER, made, times, frozenset(),
        {(time, setup): affine for time in times for setup in setups},
        {"channel": {setup: named[setup] or str(setup) for setup in setups}},
    )  # fmt: skip
