from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, final

import numpy as np
import numpy.typing as npt

_Places: TypeAlias = npt.NDArray[np.int64]
_Uints: TypeAlias = npt.NDArray[np.uint64]

class _Index(Protocol):
    @property
    def offsets(self) -> npt.NDArray[np.uint64]: ...
    @property
    def lengths(self) -> npt.NDArray[np.uint64]: ...

class ShardGrid:
    def __init__(self, per_shard: Sequence[int], strides: Sequence[int], grid: Sequence[int]) -> None: ...

@final
class KnownShard: ...

@final
class KnownShards(ShardGrid):
    def note(
        self, positions: npt.NDArray[np.int64], which: npt.NDArray[np.int32], indexes: Sequence[_Index | None]
    ) -> None: ...
    def recall(
        self, positions: npt.NDArray[np.int64]
    ) -> tuple[_Places, npt.NDArray[np.int32], _Uints, _Uints, list[Any]] | None: ...
