from typing import final

from zvcore.stores.files import OpenFile

@final
class FileCopies:
    def __new__(
        cls,
        source: int,
        wanted: list[tuple[bytes, bytes, bytes]],
        *,
        root: int,
        durability: int,
        largest: int,
        creates: bool,
        compares: bool,
    ) -> FileCopies: ...
    def work(self) -> bool: ...
    def stop(self) -> None: ...
    def outcomes(self) -> list[tuple[str, int] | None]: ...

def copy_part(file: OpenFile, into: int, at: int, size: int) -> int: ...
def same_part(one: OpenFile, other: OpenFile, at: int, size: int) -> bool: ...
def next_data(file: OpenFile, at: int, size: int) -> tuple[int, int]: ...
