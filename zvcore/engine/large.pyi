from typing import final

LEAST: int
MOST: int

@final
class LargeMemory:
    def __new__(cls, size: int) -> LargeMemory: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

def forget() -> None: ...
