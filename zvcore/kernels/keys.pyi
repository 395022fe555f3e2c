from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

# Key i is literals[0] + str(columns[i, 0]) + literals[1] + str(columns[i, 1]) + ... + literals[k], for columns [n, k].
# Returns (pool, ends): the keys with a NUL after each, and for each the position of its NUL.
def format_keys(
    columns: npt.ArrayLike, literals: Sequence[str | bytes]
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]: ...
