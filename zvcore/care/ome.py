"""Whether what a group says in OME-Zarr's words is true of what lies in it: levels, axes, sizes, labels, plates."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from zvcore.errors import ZvcoreError
from zvcore.images.ome import ATTRIBUTE, LABELS, MOST_AXES, read_set, read_words, type_by_name
from zvcore.report import Problem, What
from zvcore.stores.object_names import keys_below

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zvcore.images.axes import Axes
    from zvcore.images.ome import OmeSet
    from zvcore.report import Report
    from zvcore.stores import Store

    # The shape of the array at a path, () for a group; None where nothing is.
    ShapeAt = Callable[[str], tuple[int, ...] | None]

__all__ = ["check_ome"]

# Of so many places that a group names, the documents are asked for at once, where each is a request.
_AT_ONCE = 1024
_KINDS = ("time", "channel", "space")


def check_ome(
    attrs: Mapping[str, Any], store: Store, shape_at: Callable[[Store, str], tuple[int, ...] | None], report: Report,
    *, document: str, marks: Sequence[str],
) -> None:  # fmt: skip
    """Check the attributes of a group at the root of a store, which stand in `document`.

    shape_at  gives the shape of the array at a path, () for a group; None where nothing is
    marks     the documents that it looks at
    """
    words = read_words(attrs)
    if words.members:
        inside = ATTRIBUTE in words.taken
        if inside and words.version is None:
            what = "ome names no version of OME-Zarr, which readers may refuse"
            report.add(document, what, kind=What.DOCUMENT, fatal=False)
        checker = _Checker(words.members, f"{ATTRIBUTE}." if inside else "", partial(shape_at, store), report, document)
        with store.looking_at([f"{path}/{mark}" for path in checker.places()[:_AT_ONCE] for mark in marks]):
            checker.all()


class _Checker:
    """`prefix`: what stands before the names of members where they are told."""

    def __init__(
        self, members: Mapping[str, Any], prefix: str, shape_at: ShapeAt, report: Report, document: str
    ) -> None:
        self.members = members
        self.prefix = prefix
        self.shape_at = shape_at
        self.report = report
        self.document = document

    def places(self) -> list[str]:
        """What it will look at, as far as objects can be there."""
        entries = self.members.get("multiscales")
        named = [path for entry in (entries if isinstance(entries, list) else ()) for path in _paths(entry, "datasets")]
        named += _texts(self.members.get(LABELS)) + _paths(self.members.get("plate"), "wells")
        named += _paths(self.members.get("well"), "images")
        return keys_below((path.strip("/") for path in named), "")

    def all(self) -> None:
        entries = self.members.get("multiscales")
        for number, entry in enumerate(entries if isinstance(entries, list) else ()):
            shapes = self.levels(entry)
            try:
                image = read_set({"multiscales": [entry]}, self.document)
            except ZvcoreError as error:
                self.report.tell(Problem.of(error, self.document))
                continue
            if image is not None:
                self.axes(image.axes[0])
                if image.sized:
                    self.sizes(image, shapes)
                self.channels(image, shapes, number)
        self.named(LABELS, _texts(self.members.get(LABELS)), "the label image")
        self.plate()
        self.named("well.images", _paths(self.members.get("well"), "images"), "the field of view")

    def wrong(self, what: str, kind: What = What.DOCUMENT, *, fatal: bool = True) -> None:
        self.report.add(self.document, what, kind=kind, fatal=fatal)

    def found(self, path: str) -> tuple[int, ...] | None:
        try:
            return self.shape_at(path)
        except ZvcoreError as error:
            self.report.tell(Problem.of(error, self.document))
            return ()

    # --- an image

    def levels(self, entry: Any) -> dict[str, tuple[int, ...]]:
        """The shapes of the levels that are there."""
        told = f"{self.prefix}multiscales"
        shapes = {}
        levels = entry.get("datasets") if isinstance(entry, dict) else None
        for level in levels if isinstance(levels, list) else ():
            path = level.get("path") if isinstance(level, dict) else None
            if not isinstance(path, str) or not path.strip("/"):
                self.wrong(f"{told} has a dataset without a path")
                continue
            shape = self.found(path.strip("/"))
            if shape is None:
                self.wrong(f"{told} names the level {path!r}, which is not there", What.MISSING)
            elif shape:
                shapes[path.strip("/")] = shape
        return shapes

    def axes(self, axes: Axes) -> None:
        """What OME-Zarr wants of axes, and readers rely on."""
        names = [axis.name for axis in axes]
        shown = " ".join(name or "?" for name in names)
        if not 2 <= len(names) <= MOST_AXES:
            self.wrong(f"the image has {len(names)} axes ({shown}); OME-Zarr knows 2 to {MOST_AXES}", fatal=False)
        if len({*names}) < len(names):
            self.wrong(f"two axes of the image have the same name ({shown})", fatal=False)
        kinds = [axis.type or type_by_name(axis.name) for axis in axes]
        order = [_KINDS.index(kind) if kind in _KINDS else 1 for kind in kinds]
        if order != sorted(order):
            self.wrong(f"the axes are {shown}; OME-Zarr has time first, then channels, then z, y, x", fatal=False)
        for kind in ("time", "channel"):
            if kinds.count(kind) > 1:
                self.wrong(f"the image has {kinds.count(kind)} {kind} axes ({shown}); there can be one", fatal=False)

    def sizes(self, image: OmeSet, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Pixel sizes against numbers of pixels."""
        first = shapes.get(image.paths[0])
        for path, axes in zip(image.paths, image.axes, strict=True):
            shape = shapes.get(path)
            if shape is None:
                continue
            if axes and len(shape) != len(axes):
                self.wrong(f"level {path!r} has {len(shape)} axes, and the image is said to have {len(axes)}")
            elif first is not None and len(first) == len(shape) == len(axes):
                self.against_first(path, axes, shape, image, first)

    def against_first(self, path: str, axes: Axes, shape: Sequence[int], image: OmeSet, first: Sequence[int]) -> None:
        for axis, finest, here, pixels in zip(axes, image.axes[0], shape, first, strict=True):
            ratio = (axis.scale or 1.0) / (finest.scale or 1.0)
            if here > pixels:
                what = f"level {path!r} has more pixels along {axis.name} ({here}) than the level before it ({pixels})"
                self.wrong(what, fatal=False)
            # Programs round to either side at each level, and smooth over more than one pixel at the edges.
            # As products: the ratio of two sizes that floats hold may be too small for one.
            elif abs(pixels - here * ratio) > (2 + 0.05 * here) * ratio:
                self.wrong(
                    f"level {path!r} has {here} pixels along {axis.name}, but its pixel size says that they are "
                    f"{ratio:.4g} times as large as those of level {image.paths[0]!r}, of which there are {pixels}: "
                    f"lengths measured in it are wrong",
                    fatal=False,
                )

    def channels(self, image: OmeSet, shapes: Mapping[str, tuple[int, ...]], number: int) -> None:
        """Names and colours of channels against the number of channels."""
        omero = self.members.get("omero")
        told = omero.get("channels") if isinstance(omero, dict) else None
        shape = shapes.get(image.paths[0])
        kinds = [axis.type or type_by_name(axis.name) for axis in image.axes[0]]
        if number or not isinstance(told, list) or shape is None or len(kinds) != len(shape):
            return
        there = shape[kinds.index("channel")] if "channel" in kinds else 1
        if len(told) != there:
            what = f"{self.prefix}omero describes {len(told)} channels, and the image has {there}"
            self.wrong(what, fatal=False)

    # --- what names other groups

    def named(self, told: str, paths: Sequence[str], what: str) -> None:
        for path in paths:
            if self.found(path.strip("/")) is None:
                self.wrong(f"{self.prefix}{told} names {what} {path!r}, which is not there", What.MISSING)

    def plate(self) -> None:
        plate = self.members.get("plate")
        if not isinstance(plate, dict):
            return
        rows, columns = _names(plate.get("rows")), _names(plate.get("columns"))
        for path in _paths(plate, "wells"):
            parts = path.strip("/").split("/")
            if len(parts) != 2 or parts[0] not in rows or parts[1] not in columns:
                self.wrong(f"the plate has a well {path!r}, which is not in one of its rows and columns", fatal=False)
            if self.found(path.strip("/")) is None:
                what = f"the plate names the well {path!r}, which is not there"
                self.wrong(what, What.MISSING, fatal=False)


def _texts(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str) and one.strip("/")] if isinstance(value, list) else []


def _paths(value: Any, member: str) -> list[str]:
    entries = value.get(member) if isinstance(value, dict) else None
    return _texts([one.get("path") for one in entries if isinstance(one, dict)] if isinstance(entries, list) else None)


def _names(value: Any) -> list[str]:
    return _texts([one.get("name") for one in value if isinstance(one, dict)] if isinstance(value, list) else None)
