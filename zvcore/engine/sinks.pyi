from typing import final

from zvcore.engine.buffers import Buffers, Keys
from zvcore.engine.prepared import Prepared

class Sink:
    store_empty: bool

@final
class Gathered(Sink):
    chunks: Buffers
    def __new__(cls, count: int) -> Gathered: ...

@final
class Files(Sink):
    def __new__(cls, keys: Keys, prepared: Prepared) -> Files: ...
