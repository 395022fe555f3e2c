import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

_Fault = tuple[int, int, int]

def check_bounds(data: Buffer | npt.NDArray[np.uint8], starts: npt.NDArray[np.int64]) -> None: ...
def scan_annotations(
    data: Buffer | npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    fixed: int,
    point_bytes: int,
    relationships: int,
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], _Fault | None]: ...
def scan_lists(
    data: Buffer | npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], fixed: int, point_bytes: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.uint32], _Fault | None]: ...
