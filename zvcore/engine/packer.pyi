from collections.abc import Hashable
from typing import NamedTuple, final

import numpy as np
import numpy.typing as npt

from zvcore.engine.batches import Task
from zvcore.engine.buffers import Keys
from zvcore.engine.prepared import Prepared
from zvcore.engine.sinks import Sink
from zvcore.engine.work import Work

class Ends(NamedTuple):
    head: bytes
    tail: bytes
    replaces: Hashable | None = ...

@final
class Packer(Sink):
    def __new__(
        cls,
        keys: Keys,
        prepared: Prepared,
        order: npt.NDArray[np.int64],
        bounds: npt.NDArray[np.int64],
        head: int,
        work: npt.NDArray[np.int64] | None = None,
        work_bounds: npt.NDArray[np.int64] | None = None,
    ) -> Packer: ...
    def __len__(self) -> int: ...
    @property
    def sizes(self) -> npt.NDArray[np.uint64]: ...
    def finish(self, ends: dict[int, Ends], work: Work) -> None: ...

@final
class Finishing(Task):
    def __new__(cls, packer: Packer, ends: dict[int, Ends]) -> Finishing: ...
