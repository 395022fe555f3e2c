import numpy as np
import numpy.typing as npt

from zvcore.engine.buffers import Keys

class Packer:
    def __new__(
        cls,
        keys: Keys,
        root: bytes,
        order: npt.NDArray[np.int64],
        bounds: npt.NDArray[np.int64],
        head: int,
        work: npt.NDArray[np.int64] | None = None,
        work_bounds: npt.NDArray[np.int64] | None = None,
    ) -> Packer: ...
    def __len__(self) -> int: ...
    @property
    def sizes(self) -> npt.NDArray[np.uint64]: ...
    def finish(self, which: int, head: bytes, tail: bytes, sync: bool) -> None: ...
