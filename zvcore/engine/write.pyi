from collections.abc import Sequence
from typing import Any, final

import numpy.typing as npt

from zvcore.codecs.chain import CodecChain
from zvcore.engine.batches import Task
from zvcore.engine.buffers import Buffers
from zvcore.engine.chunks import Chunks
from zvcore.engine.selection import Selection
from zvcore.engine.sinks import Sink
from zvcore.engine.work import Work

class Encoding(Task): ...

@final
class EncodingItems(Encoding): ...

@final
class StringEncoding(Task):
    def __new__(cls, items: Sequence[Any]) -> StringEncoding: ...

def encode_chunks(chunks: Chunks, selection: Selection, values: npt.NDArray[Any], sink: Sink, work: Work) -> None: ...
def encode_many(items: Sequence[Any], chain: CodecChain, work: Work) -> Buffers: ...
