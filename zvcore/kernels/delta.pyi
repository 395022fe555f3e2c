from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

def decode_minishard_index(
    raw: Buffer | npt.NDArray[Any],
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64], npt.NDArray[np.uint64]]: ...
def encode_minishard_index(ids: npt.ArrayLike, offsets: npt.ArrayLike, sizes: npt.ArrayLike) -> bytes: ...
