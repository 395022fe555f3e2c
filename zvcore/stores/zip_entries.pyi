from typing import TypeVar

_T = TypeVar("_T")

def usual_entries(raw: bytes, count: int, shift: int, end: int, entry: type[_T]) -> dict[str, _T] | None: ...
