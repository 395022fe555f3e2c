from typing import final

import numpy as np
import numpy.typing as npt

from zvcore.engine.prepared import Prepared
from zvcore.engine.sources import Sources

class StaleSourcesError(Exception): ...

@final
class Chunks:
    prepared: Prepared
    positions: npt.NDArray[np.int64] | None
    known_as: npt.NDArray[np.int64] | None
    sources: Sources | None
    rows: npt.NDArray[np.intp] | None
    count: int
    def __new__(
        cls,
        prepared: Prepared,
        positions: npt.NDArray[np.int64] | None,
        sources: Sources | None = None,
        rows: npt.NDArray[np.intp] | None = None,
        chain: npt.NDArray[np.uint8] | None = None,
        known_as: npt.NDArray[np.int64] | None = None,
    ) -> Chunks: ...
    def __len__(self) -> int: ...
