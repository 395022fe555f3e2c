from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

def decode_compressed_segmentation(
    data: Buffer, shape: Sequence[int], block: Sequence[int], dtype: npt.DTypeLike
) -> npt.NDArray[Any]: ...
def encode_compressed_segmentation(
    values: npt.NDArray[np.uint32] | npt.NDArray[np.uint64], block: Sequence[int]
) -> bytes: ...
