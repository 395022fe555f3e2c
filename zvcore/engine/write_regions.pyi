from typing import final

from zvcore.engine.batches import Task
from zvcore.engine.chunks import Chunks
from zvcore.engine.regions import Regions
from zvcore.engine.sinks import Sink
from zvcore.engine.work import Work

@final
class EncodingRegions(Task): ...

def encode_regions(chunks: Chunks, regions: Regions, sink: Sink, work: Work) -> None: ...
