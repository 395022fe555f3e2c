"""Draws points and lines as they look along one axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.errors import UnsupportedError
from zvcore.pictures.colours import label_colours

if TYPE_CHECKING:
    import numpy.typing as npt

    from zvcore.exchange.lines import Lines
    from zvcore.zvf.vector_store import Level, VectorStore

__all__ = ["draw_lines", "draw_vectors", "sample_of"]

# Of stores that are larger, so many objects (or chunks, where there are no objects) are shown.
_MOST_VERTICES = 4_000_000
_MOST_OBJECTS = 20_000
_MOST_CHUNKS = 512
_MOST_READ = 16_000_000


def draw_vectors(store: VectorStore, axis: int | None = None, size: int = 1024) -> npt.NDArray[np.uint8]:
    """uint8[rows, columns, 3]: each object in a colour of its own; the level is the finest that is not too large."""
    levels = store.levels
    if not levels:
        raise UnsupportedError("the store has no levels", key=store.store.root)
    for number in levels:
        level = store.level(number)
        if (level.vertex_count or 0) <= _MOST_VERTICES:
            break
    positions, offsets, ids = sample_of(level)
    if not len(positions):
        raise UnsupportedError("there is nothing to draw", key=f"{store.store.root}/{level.path}")
    return draw(positions, offsets, ids, store.is_lines, f"{store.store.root}/{level.path}", axis, size)


def draw_lines(lines: Lines, key: str, axis: int | None = None, size: int = 1024) -> npt.NDArray[np.uint8]:
    """A picture of lines that a format gives: of many, of some that are spread evenly."""
    step = max(1, -(-lines.count // _MOST_OBJECTS), -(-(lines.vertices or 0) // _MOST_VERTICES))
    parts: list[Any] = []
    ids: list[int] = []
    for batch in lines.batches():
        bounds = batch.offsets.tolist()
        for row, id in enumerate(batch.ids.tolist()):
            if id % step == 0:
                parts.append(batch.positions[bounds[row] : bounds[row + 1]])
                ids.append(id)
    if not any(len(part) for part in parts):
        raise UnsupportedError("there is nothing to draw", key=key)
    offsets = np.cumsum([0, *map(len, parts)])
    return draw(np.concatenate(parts), offsets, np.array(ids), True, key, axis, size)


def draw(
    positions: npt.NDArray[Any], offsets: npt.NDArray[Any], ids: Any, is_lines: bool, key: str, axis: int | None,
    size: int,
) -> npt.NDArray[np.uint8]:  # fmt: skip
    """Objects, each in a colour of its own, seen along an axis."""
    positions = np.asarray(positions, np.float64)
    ndim = positions.shape[1]
    along = ndim - 1 if axis is None else axis
    shown = [a for a in range(ndim) if a != along or ndim < 3][:2]
    flat = positions[:, shown] if len(shown) == 2 else np.c_[positions[:, shown], np.zeros(len(positions))]
    good = np.isfinite(flat).all(1)
    if not good.any():
        raise UnsupportedError("no position is a number", key=key)
    low, high = flat[good].min(0), flat[good].max(0)
    extent = np.maximum(high - low, 1e-12)
    scale = (size - 5) / extent.max()
    columns, rows = (np.ceil(extent * scale).astype(int) + 5).tolist()
    places = np.where(good[:, None], (flat - low) * scale + 2, -1)
    colours = label_colours(np.asarray(ids).astype(np.int64) + 1)
    picture = np.zeros((rows, columns, 3), np.uint8)
    if is_lines:
        _draw_lines(picture, places, offsets, colours)
    else:
        of_row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        near = range(-1, 2) if len(places) < 100_000 else (0,)
        for across in near:
            for down in near:
                _put(picture, np.where(places < 0, -9, places + (across, down)), colours[of_row])
    return picture


def sample_of(level: Level) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(positions, offsets, a number for each row) of the level, or of a part of it that is spread evenly."""
    if level.objects is not None:
        ids = level.object_ids(present_only=True)
        few = ids[:: max(1, -(-len(ids) // _MOST_OBJECTS))]
        positions, offsets = level.read_objects(few)
        return positions, np.asarray(offsets, np.int64), few
    chunks = level.chunks()
    few = chunks[:: max(1, -(-len(chunks) // _MOST_CHUNKS))]
    most = _MOST_READ // max(1, len(few))
    parts = []
    for where in few.tolist():
        part = level.read_chunk(tuple(where))[0]
        # What is left out of a crowd is not seen.
        parts.append(part if len(part) <= most else part[:: -(-len(part) // most)].copy())
    if not parts:
        return np.zeros((0, level.ndim)), np.zeros(1, np.int64), np.zeros(0, np.int64)
    offsets = np.r_[0, np.cumsum([len(part) for part in parts])]
    return np.concatenate(parts), offsets, np.arange(len(parts))


def _put(picture: npt.NDArray[np.uint8], places: npt.NDArray[Any], colours: npt.NDArray[np.uint8]) -> None:
    columns, rows = places.astype(np.int64).T
    inside = (columns >= 0) & (rows >= 0) & (columns < picture.shape[1]) & (rows < picture.shape[0])
    picture[rows[inside], columns[inside]] = colours[inside]


def _draw_lines(
    picture: npt.NDArray[np.uint8],
    places: npt.NDArray[Any],
    offsets: npt.NDArray[np.int64],
    colours: npt.NDArray[np.uint8],
) -> None:
    """Dots along each segment, half a pixel apart."""
    if len(places) < 2:
        return _put(picture, places, colours[:1].repeat(len(places), 0))
    of_row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    joined = (of_row[1:] == of_row[:-1]) & (places[1:] >= 0).all(1) & (places[:-1] >= 0).all(1)
    starts, ends, owners = places[:-1][joined], places[1:][joined], of_row[:-1][joined]
    _put(picture, places, colours[of_row])
    dots = np.ceil(np.abs(ends - starts).max(1, initial=0) * 2).astype(np.int64) + 1
    at = 0
    while at < len(starts):
        # Batches of a few million dots.
        until = at + max(1, int(np.searchsorted(np.cumsum(dots[at:]), 4_000_000)))
        count = dots[at:until]
        segment = np.repeat(np.arange(at, at + len(count)), count)
        first = np.repeat(np.cumsum(count) - count, count)
        part = ((np.arange(len(segment)) - first) / np.repeat(np.maximum(count - 1, 1), count))[:, None]
        _put(picture, starts[segment] * (1 - part) + ends[segment] * part, colours[owners[segment]])
        at = until
    return None
