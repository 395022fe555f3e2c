from collections.abc import Sequence

def coalesce(
    key: str, ranges: Sequence[tuple[int, int]], size: int, gap: int, limit: int
) -> list[tuple[int, int, list[int]]]: ...
