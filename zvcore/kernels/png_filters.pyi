import numpy as np
import numpy.typing as npt

_Lines = npt.NDArray[np.uint8]

def undo_filters(lines: _Lines, distance: int) -> _Lines: ...
def choose_filters(lines: _Lines, distance: int) -> _Lines: ...
