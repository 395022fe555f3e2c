from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

def format_keys(
    columns: npt.NDArray[Any], literals: Sequence[str | bytes]
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]: ...
