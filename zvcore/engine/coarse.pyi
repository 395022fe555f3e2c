from collections.abc import Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt

from zvcore.engine.chunks import Chunks
from zvcore.engine.read import Receiver
from zvcore.engine.work import Work

AXES: int

def makes(dtype: np.dtype[Any], modes: bool) -> bool: ...
def read_coarser(
    chunks: Chunks,
    out: npt.NDArray[Any],
    first: Sequence[int],
    factors: Sequence[int],
    modes: bool,
    work: Work,
) -> None: ...

@final
class IntoCoarse(Receiver): ...
