from typing import Any, TypeAlias, final

import numpy as np
import numpy.typing as npt

from zvcore.engine.batches import Task
from zvcore.engine.buffers import Buffers
from zvcore.engine.chunks import Chunks
from zvcore.engine.selection import Selection
from zvcore.engine.work import Work

_Uints: TypeAlias = npt.NDArray[np.uint64]

def read_chunks(chunks: Chunks, selection: Selection, out: npt.NDArray[Any], work: Work) -> bool: ...
def parts_wanted(chunks: Chunks, selection: Selection, out: npt.NDArray[Any]) -> npt.NDArray[np.uint64] | None: ...
def narrow(parts: _Uints, offset: _Uints, length: _Uints) -> None: ...
def fetch_chunks(
    chunks: Chunks,
    work: Work,
    expected: npt.NDArray[np.uint64] | None = None,
    max_size: int | None = None,
    faults: list[tuple[int, Any]] | None = None,
) -> Buffers: ...

class Receiver: ...

@final
class IntoItems(Receiver): ...

@final
class IntoBuffers(Receiver): ...

@final
class Faults:
    def __new__(cls, count: int) -> Faults: ...

@final
class Reading(Task): ...
