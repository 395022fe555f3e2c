from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

MOST_OF_A_PLACE: int

def downsample_mean(
    values: npt.NDArray[Any], out: npt.NDArray[Any], factors: Sequence[int], lanes: int = 1
) -> None: ...
def downsample_mode(values: npt.NDArray[Any], out: npt.NDArray[Any], factors: Sequence[int]) -> None: ...
