from typing import final

from zvcore.engine.sources import Sources

@final
class Loader:
    run_count: int
    def __new__(cls, sources: Sources, count: int, root: bytes | None, threads: int) -> Loader: ...
    def release(self) -> None: ...
