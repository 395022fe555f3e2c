from collections.abc import Callable
from typing import final

from zvcore.engine.carrying import Carrying
from zvcore.engine.chunks import Chunks
from zvcore.engine.sinks import Sink
from zvcore.engine.work import Work

class UnlikeChunkError(Exception): ...

@final
class TakingOver(Carrying): ...

def take_over_chunks(
    source: Chunks,
    target: Chunks,
    sink: Sink,
    fits: int | Callable[[memoryview], bool],
    work: Work,
    decoded: int | None = None,
) -> tuple[int, int]: ...
