from collections.abc import Sequence
from typing import Any, final, overload

import numpy as np
import numpy.typing as npt

MOST_AXES: int

@final
class Selection:
    shape: tuple[int, ...]
    result_shape: tuple[int, ...]
    ndim: int
    has_lists: bool
    is_item: bool
    is_points: bool
    point_positions: npt.NDArray[np.int64]
    point_first: npt.NDArray[np.int64]
    point_source: npt.NDArray[np.int64]
    point_target: npt.NDArray[np.int64]
    @staticmethod
    def basic(key: Any, shape: tuple[int, ...]) -> Selection: ...
    @staticmethod
    def orthogonal(key: Any, shape: tuple[int, ...], chunk_shape: tuple[int, ...]) -> Selection: ...
    @staticmethod
    def points(key: Any, shape: tuple[int, ...], chunk_shape: tuple[int, ...]) -> Selection: ...
    @property
    def full_shape(self) -> tuple[int, ...]: ...
    def chunk_counts(self, chunk_shape: tuple[int, ...]) -> tuple[int, ...]: ...
    def chunk_places(self, axis: int, extent: int, first: int, stop: int) -> npt.NDArray[np.int64]: ...
    @overload
    def positions(
        self,
        chunk_shape: tuple[int, ...],
        window: Sequence[tuple[int, int]] | None = None,
        most: None = None,
        reversed: bool = False,
    ) -> npt.NDArray[np.int64]: ...
    @overload
    def positions(
        self, chunk_shape: tuple[int, ...], *, most: int, reversed: bool = False
    ) -> npt.NDArray[np.int64] | None: ...
    def touched(self, positions: npt.NDArray[np.int64], chunk_shape: tuple[int, ...]) -> npt.NDArray[np.bool_]: ...
    def points_of(
        self, rows: npt.NDArray[np.intp] | None, count: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]: ...
    def share(self, position: Any, chunk_shape: tuple[int, ...], row: int = 0) -> tuple[Any, Any]: ...
    def covered(self, positions: npt.NDArray[np.int64], chunk_shape: tuple[int, ...]) -> npt.NDArray[np.bool_]: ...
