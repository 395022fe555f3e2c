from collections.abc import Callable
from typing import Any, final

from zvcore.stores.files import Watched

@final
class Work:
    threads: int | None
    progress: Callable[[int, int], Any] | None
    memory: int | None
    watched: Watched | None
    def __new__(
        cls,
        threads: int | None = None,
        progress: Callable[[int, int], Any] | None = None,
        memory: int | None = None,
        watched: Watched | None = None,
    ) -> Work: ...
    def unwatched(self) -> Work: ...
    def telling(self, progress: Callable[[int, int], Any] | None) -> Work: ...
    def ahead(self, most: int) -> int: ...
