"""Vertices of lines as a format stores them: three coordinates of one type of floats, in its unit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.errors import UnfitValueError

if TYPE_CHECKING:
    import numpy.typing as npt

    from zvcore.report import Report

__all__ = ["StoredPositions", "count_nowhere", "narrowed", "nowhere"]


def count_nowhere(positions: npt.NDArray[Any]) -> int:
    """How many vertices lie nowhere: a coordinate is NaN or infinite."""
    finite = np.isfinite(positions)
    # To look at three numbers at a time takes long, and nearly always all are finite.
    return 0 if finite.all() else int((~finite).any(1).sum())


def nowhere(count: int) -> str:
    """What is said of so many such vertices, whatever they are stored in."""
    return f"{count} vertices have no place: NaN or infinity"


def narrowed(values: npt.NDArray[Any], dtype: np.dtype[Any], name: str, key: str) -> npt.NDArray[Any]:
    """Values of an attribute in the type that a format stores: rounded where it has fewer bits, but never infinite."""
    with np.errstate(over="ignore"):
        stored = values.astype(dtype)
    if dtype.kind == "f" and values.dtype.kind in "fiu":
        beyond = np.isinf(stored) & np.isfinite(values)
        if beyond.any():
            raise UnfitValueError(
                f"{name!r} has values that {dtype} cannot hold", key=key, found=values[beyond].reshape(-1)[0].item()
            )
    return stored


class StoredPositions:
    """Turns positions into those that are stored, and notes by how much a type of fewer bits changes them.

    dtype    that the format stores
    affine   from the coordinates that are given to those that are stored, 4 x 4
    key      of what is written, for errors
    finite   whether vertices that lie nowhere are refused; otherwise they are stored as they are, and told
    """

    def __init__(self, dtype: Any, affine: npt.NDArray[np.float64], key: str, *, finite: bool = False) -> None:
        self.dtype = np.dtype(dtype)
        self._key = key
        self._factor = float(affine[0, 0])
        # A product of matrices would make NaN of a vertex of which one coordinate is infinite.
        self._affine = None if np.array_equal(affine, np.diag([*[self._factor] * 3, 1])) else affine
        self._changed = 0.0
        self._finite = finite
        self._nowhere = 0

    def __call__(self, positions: npt.NDArray[Any]) -> npt.NDArray[Any]:
        three = np.zeros((len(positions), 3), positions.dtype)
        shared = min(3, positions.shape[1])
        three[:, :shared] = positions[:, :shared]
        odd = count_nowhere(three)
        if odd and self._finite:
            row = int(np.argmin(np.isfinite(three).all(1)))
            raise UnfitValueError(
                "vertices that lie nowhere have no place here", key=self._key, found=three[row].tolist()
            )
        self._nowhere += odd
        with np.errstate(over="ignore", invalid="ignore"):
            if self._affine is not None:
                exact = three @ self._affine[:3, :3].T + self._affine[:3, 3]
            else:
                exact = three if self._factor == 1 else three.astype(np.float64) * self._factor
            stored = exact.astype(self.dtype)
            if not np.isfinite(stored).all():
                lost = np.isfinite(three).all(1) & ~np.isfinite(stored).all(1)
                if lost.any():
                    row = int(np.argmax(lost))
                    raise UnfitValueError(
                        f"positions that {self.dtype} cannot hold", key=self._key, found=three[row].tolist()
                    )
            if positions.dtype.itemsize > self.dtype.itemsize and len(stored):
                self._changed = max(self._changed, float(np.nanmax(np.abs(stored - exact), initial=0)))
        return stored

    def again(self) -> None:
        """Positions are gone through from the beginning once more."""
        self._nowhere = 0

    def tell(self, report: Report) -> None:
        """What was changed, after all were stored; what the last bit of a change of units does is not told."""
        if self._nowhere:
            report.add("positions", nowhere(self._nowhere), fatal=False)
        if self._changed:
            report.lose("positions", f"they are stored as {self.dtype}, and changed by up to {self._changed:.3g}")
