from typing import Any, SupportsIndex

import numpy.typing as npt
from typing_extensions import Buffer

def crc32c(data: Buffer | npt.NDArray[Any], value: SupportsIndex = 0) -> int: ...
