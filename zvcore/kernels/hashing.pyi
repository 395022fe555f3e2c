import numpy as np
import numpy.typing as npt

def murmurhash3_x86_128(ids: npt.ArrayLike) -> npt.NDArray[np.uint64]: ...
