from collections.abc import Sequence
from typing import final

import numpy as np
import numpy.typing as npt

from zvcore.engine.sources import Sources
from zvcore.stores import Store

@final
class Version: ...

@final
class KnownRanges:
    asked_again: bool
    def __init__(self, grid: Sequence[int]) -> None: ...
    def note(self, positions: npt.NDArray[np.int64], folder: bytes, sources: Sources) -> None: ...
    def recall(self, positions: npt.NDArray[np.int64], store: Store) -> tuple[bytes, Sources] | None: ...
