from collections.abc import Callable
from typing import Any

def decode_into(
    function: Callable[[memoryview, memoryview], None], name: str, data: memoryview, out: memoryview
) -> None: ...
def decode_through(
    function: Callable[[memoryview, int], Any], name: str, data: Any, out: Any, max_size: int | None
) -> Any: ...
