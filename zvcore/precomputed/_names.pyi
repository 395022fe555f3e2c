import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]

def named_boxes(positions: Integers, chunk: Integers, size: Integers, corner: Integers) -> Integers: ...
