from typing import final

import numpy as np
import numpy.typing as npt

from zvcore.engine.buffers import Keys

@final
class Paths:
    def __new__(cls, keys: Keys, root: bytes) -> Paths: ...
    def __len__(self) -> int: ...
    def __getitem__(self, i: int, /) -> bytes: ...

def existing(keys: Keys, root: bytes) -> npt.NDArray[np.bool_]: ...
