from typing import Any, final

import numpy as np
import numpy.typing as npt

from zvcore.engine.chunks import Chunks
from zvcore.engine.form import Form
from zvcore.engine.read import Receiver
from zvcore.engine.selection import Selection
from zvcore.engine.work import Work

@final
class Regions:
    positions: npt.NDArray[np.int64]
    def __new__(cls, count: int) -> Regions: ...
    @staticmethod
    def of(
        selections: list[Selection],
        values: list[npt.NDArray[Any]],
        form: Form,
        shape: tuple[int, ...],
        most: int,
        writable: bool,
    ) -> Regions | None: ...
    def covered(self) -> npt.NDArray[np.bool_]: ...

@final
class IntoRegions(Receiver): ...

def read_regions(chunks: Chunks, regions: Regions, work: Work) -> bool: ...
def parts_of_regions(chunks: Chunks, regions: Regions) -> npt.NDArray[np.uint64] | None: ...
