from typing_extensions import Buffer

FINE_ROW: int
ABSENT_ROW: int

def row_error(data: Buffer, ndim: int) -> Exception | None: ...
