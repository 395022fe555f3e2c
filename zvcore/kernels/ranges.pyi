from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

def gather_ranges(
    source: Buffer | npt.NDArray[Any], offsets: npt.NDArray[np.uint64], sizes: npt.NDArray[np.uint64]
) -> npt.NDArray[np.uint8]: ...
def copy_ranges(
    source: Buffer | npt.NDArray[Any],
    starts: npt.NDArray[np.int64],
    target: npt.NDArray[np.uint8],
    places: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
) -> None: ...
