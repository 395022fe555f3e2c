from typing import final

import numpy as np
import numpy.typing as npt

from zvcore.engine.selection import Selection

@final
class Cells:
    count: int
    def __new__(
        cls,
        source_selection: Selection,
        target_selection: Selection,
        axis_of: npt.ArrayLike,
        begin: npt.NDArray[np.int64],
        extent: npt.NDArray[np.int64],
        source_first: npt.NDArray[np.int64],
        target_first: npt.NDArray[np.int64],
        single: bool,
    ) -> Cells: ...
    def __len__(self) -> int: ...
