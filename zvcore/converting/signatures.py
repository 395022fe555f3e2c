"""One list of parameters for functions that are asked the same."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["asked_like"]

P = ParamSpec("P")
T = TypeVar("T")


def asked_like(front: Callable[P, Any]) -> Callable[[Callable[[Mapping[str, Any]], T]], Callable[P, T]]:
    """Lets a function be called as `front` is: it gets the arguments of such a call by name, with the defaults.

    Editors, `help` and type checkers see the parameters of `front`.
    """
    signature = inspect.signature(front)

    def decorate(function: Callable[[Mapping[str, Any]], T]) -> Callable[P, T]:
        @functools.wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> T:
            given = signature.bind(*args, **kwargs)
            given.apply_defaults()
            return function(given.arguments)

        result = function.__annotations__["return"]
        called.__annotations__ = {**front.__annotations__, "return": result}
        called.__dict__["__signature__"] = signature.replace(return_annotation=result)
        return called

    return decorate
