from collections.abc import Sequence
from typing import Any, Protocol, final

import numpy as np
import numpy.typing as npt

from zvcore.codecs.chain import CodecChain
from zvcore.engine.form import Form
from zvcore.engine.selection import Selection
from zvcore.stores.files import OpenFile

class _Index(Protocol):
    @property
    def offsets(self) -> npt.NDArray[np.uint64]: ...
    @property
    def lengths(self) -> npt.NDArray[np.uint64]: ...

@final
class OpenShard: ...

@final
class OpenShards:
    def __new__(cls, per_shard: Sequence[int], strides: Sequence[int], grid: Sequence[int]) -> OpenShards: ...
    def note(self, positions: npt.NDArray[np.int64], file: OpenFile, index: _Index, stamp: bytes) -> None: ...
    def read(self, form: Form, selection: Selection, chain: CodecChain, out: npt.NDArray[Any]) -> bool: ...
