from typing import final

from zvcore.engine.carrying import Carrying
from zvcore.engine.cells import Cells
from zvcore.engine.chunks import Chunks
from zvcore.engine.sinks import Sink
from zvcore.engine.work import Work

@final
class Recoding(Carrying): ...

def recode_chunks(cells: Cells, source: Chunks, target: Chunks, sink: Sink, work: Work) -> int: ...
