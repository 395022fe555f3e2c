from collections.abc import Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt

from zvcore.engine.batches import Task
from zvcore.engine.known_shards import ShardGrid, _Index
from zvcore.engine.prepared import Prepared
from zvcore.engine.selection import Selection
from zvcore.engine.work import Work
from zvcore.stores.chunk_cache import ChunkCache
from zvcore.stores.files import OpenFile

@final
class DecodedChunk:
    used: bool
    @property
    def nbytes(self) -> int: ...

@final
class OpenShard: ...

@final
class ChunkRead(Task): ...

@final
class Proof:
    def latest(self) -> int: ...
    def reach(self, latest: int) -> None: ...
    def fail(self) -> None: ...

@final
class OpenShards(ShardGrid):
    def __init__(
        self,
        per_shard: Sequence[int],
        strides: Sequence[int],
        grid: Sequence[int],
        proof: Proof,
        cache: ChunkCache | None = None,
    ) -> None: ...
    @property
    def proof(self) -> Proof: ...
    def note(self, positions: npt.NDArray[np.int64], file: OpenFile, index: _Index, stamp: bytes) -> None: ...
    def read(self, prepared: Prepared, selection: Selection, out: npt.NDArray[Any], work: Work) -> bool | None: ...
