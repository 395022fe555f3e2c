import numpy as np
import numpy.typing as npt

_Integers = npt.NDArray[np.int64]

def named_boxes(positions: _Integers, chunk: _Integers, size: _Integers, corner: _Integers) -> _Integers: ...
