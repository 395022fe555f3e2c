from typing import final

LEAST_MEDIUM: int
MOST_WAITING: int

@final
class MediumMemory:
    def __new__(cls, size: int) -> MediumMemory: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

def forget() -> None: ...
