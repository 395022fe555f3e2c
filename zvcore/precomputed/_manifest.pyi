from collections.abc import Callable
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

_T = TypeVar("_T")

def split_manifest(
    data: Buffer,
    level: Callable[[float, npt.NDArray[np.float32], npt.NDArray[np.uint32], npt.NDArray[np.uint32]], _T],
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], list[_T]]: ...
