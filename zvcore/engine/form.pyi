from typing import Any, final

@final
class Form:
    chunk_nbytes: int
    ndim: int
    def __new__(cls, form: Any, shape: tuple[int, ...], fill_value: Any, framing: object | None = None) -> Form: ...
