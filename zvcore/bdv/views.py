"""Where the blocks of an image lie whose channels and time points are datasets of N5 beside each other."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.borrowed.array import BorrowedArray
from zvcore.engine import Keys
from zvcore.errors import ZvcoreError
from zvcore.layout import StoredObject
from zvcore.n5._framing import framing, parse_header
from zvcore.n5.layout import BlockLayout

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zvcore.images import Axes
    from zvcore.n5.metadata import DatasetMetadata
    from zvcore.stores import Store

__all__ = ["ViewsArray", "ViewsLayout", "view_path"]

# Time points and channels: axes that blocks do not know.
_OUTER = 2
_FRAMING = framing(reverse=True, outer=_OUTER)
_BLOCK_KEY = re.compile(r"(0|[1-9][0-9]{0,18})/(0|[1-9][0-9]{0,18})/(0|[1-9][0-9]{0,18})")


def view_path(time_point: int, setup: int, level: str | None = None) -> str:
    """The folder of one time point of a setup, or of one level of it."""
    return f"setup{setup}/timepoint{time_point}{'' if level is None else f'/{level}'}"


class ViewsLayout(BlockLayout):
    """Axes t, c, z, y, x. Each (t, c) is a dataset, all of which have the same metadata.

    folder       the N5 container in the store, and
    level        the folder of the level in each view
    time_points  the numbers of the time points, and
    setups       of the setups that are the channels
    """

    def __init__(
        self,
        store: Store,
        metadata: DatasetMetadata,
        *,
        folder: str,
        level: str,
        time_points: Sequence[int],
        setups: Sequence[int],
    ) -> None:
        super().__init__(store, metadata, "C")
        self.folder, self.level = folder, level
        self.time_points = np.array(time_points, np.int64)
        self.setups = np.array(setups, np.int64)
        self.shape = (len(time_points), len(setups), *self.shape)
        self.form = replace(self.form, shape=(1, 1, *self.form.shape), axes=tuple(range(len(self.shape))))
        self.framing = _FRAMING

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self.framing = _FRAMING

    def unframed(self, data: memoryview, position: tuple[int, ...]) -> tuple[tuple[int, ...], memoryview] | None:
        try:
            mode, dimensions, _, start = parse_header(data, len(self.shape) - _OUTER)
        except ZvcoreError as error:
            raise error.located(key=self.chunk_name(position), chunk=position)
        return ((1,) * _OUTER + self.turned(dimensions), data[start:]) if mode == 0 else None

    def framed(self, payload: memoryview, position: tuple[int, ...]) -> bytes:
        shape = self.turned(self.block_shape(position)[_OUTER:])
        return np.array([len(shape), *shape], ">u4").tobytes() + payload

    def keys(self, positions: npt.NDArray[np.int64]) -> Keys:
        columns = np.empty(positions.shape, np.int64)
        columns[:, 0] = self.setups[positions[:, 1]]
        columns[:, 1] = self.time_points[positions[:, 0]]
        columns[:, _OUTER:] = positions[:, :1:-1]
        head = f"{self.folder}/setup"
        return Keys.format(columns, [head, "/timepoint", f"/{self.level}/", "/", "/", ""])

    def stored_objects(self) -> Iterator[StoredObject]:
        for channel, setup in enumerate(self.setups.tolist()):
            for time, number in enumerate(self.time_points.tolist()):
                head = f"{self.folder}/{view_path(number, setup, self.level)}/"
                for key in self.store.list(head):
                    match = _BLOCK_KEY.fullmatch(key[len(head) :])
                    if match is not None:
                        yield StoredObject(key, (time, channel, *(int(one) for one in match.groups()[::-1])))


class ViewsArray(BorrowedArray):
    """One level of an image of several views. It is changed only by the conversion that makes it."""

    _layout: ViewsLayout

    @property
    def layout(self) -> ViewsLayout:
        return self._layout

    def __init__(self, layout: ViewsLayout, axes: Axes, place: Store, *, writable: bool = False) -> None:
        super().__init__(layout, format="bdv", axes=axes, store=place)
        self._read_only = layout.store.read_only or not writable

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuilt, (self._layout, self.axes, self._place, not self._read_only))

    @property
    def path(self) -> str:
        """The folder of the first view."""
        layout = self._layout
        first = [numbers[:1].tolist() or [0] for numbers in (layout.time_points, layout.setups)]
        return f"{layout.folder}/{view_path(first[0][0], first[1][0], layout.level)}"

    @property
    def codec(self) -> Any:
        return self._layout.codec


def _rebuilt(layout: ViewsLayout, axes: Axes, place: Store, writable: bool) -> ViewsArray:
    return ViewsArray(layout, axes, place, writable=writable)
