from typing import TypeVar

T = TypeVar("T")

def usual_entries(raw: bytes, count: int, shift: int, end: int, entry: type[T]) -> dict[str, T] | None: ...
