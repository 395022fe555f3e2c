from typing import Any

import numpy as np
import numpy.typing as npt

_Numbers = npt.NDArray[np.uint64]

def look_up(
    indexes: list[Any],
    which: npt.NDArray[np.int32],
    slots: npt.NDArray[np.int64],
    offsets: _Numbers,
    lengths: _Numbers,
) -> None: ...
