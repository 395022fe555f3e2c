from zvcore.stores.files import OpenFile

def copy_files(
    source: int,
    above: list[bytes],
    names: list[bytes],
    paths: list[bytes],
    *,
    root: int,
    durability: int,
    largest: int,
    creates: bool,
    compares: bool,
) -> list[tuple[str, int] | None]: ...
def copy_part(file: OpenFile, into: int, at: int, size: int) -> int: ...
def same_part(one: OpenFile, other: OpenFile, at: int, size: int) -> bool: ...
def next_data(file: OpenFile, at: int, size: int) -> tuple[int, int]: ...
