from typing import final

from zvcore.engine.chunks import Chunks
from zvcore.engine.regions import Regions
from zvcore.engine.sinks import Sink
from zvcore.engine.work import Work
from zvcore.engine.write import Encoding

@final
class EncodingRegions(Encoding): ...

def encode_regions(chunks: Chunks, regions: Regions, sink: Sink, work: Work) -> None: ...
