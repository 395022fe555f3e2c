from typing import Any, final

@final
class Form:
    ndim: int
    def __new__(cls, form: Any, shape: tuple[int, ...], fill_value: Any, framing: object | None = None) -> Form: ...
