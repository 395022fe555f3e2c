"""One list of parameters for several functions."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from inspect import BoundArguments

__all__ = ["asked_by", "asked_like"]

P = ParamSpec("P")
Q = TypeVar("Q")
T = TypeVar("T")


def asked_like(front: Callable[P, Any]) -> Callable[[Callable[[Mapping[str, Any]], T]], Callable[P, T]]:
    """Lets a function be called as `front` is: it gets the arguments of such a call by name, with the defaults.

    Editors, `help` and type checkers see the parameters of `front`.
    """
    signature = inspect.signature(front)

    def decorate(function: Callable[[Mapping[str, Any]], T]) -> Callable[P, T]:
        @functools.wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> T:
            given = _bound(function, signature, *args, **kwargs)
            given.apply_defaults()
            return function(given.arguments)

        return _with_parameters(called, signature)

    return decorate


def asked_by(question: Callable[P, Q]) -> Callable[[Callable[[Q], T]], Callable[P, T]]:
    """Lets a function be called with what its one argument, a `question`, is made of.

    Questions that have fields in common inherit them: that is how several functions share some of their parameters.
    """
    signature = inspect.signature(question)

    def decorate(function: Callable[[Q], T]) -> Callable[P, T]:
        @functools.wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> T:
            _bound(function, signature, *args, **kwargs)
            return function(question(*args, **kwargs))

        return _with_parameters(called, signature)

    return decorate


def _bound(function: Callable[..., Any], signature: inspect.Signature, *args: Any, **kwargs: Any) -> BoundArguments:
    """The arguments of a call; an error names the function that was called, as Python's own do."""
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{function.__name__}() {error}") from None


def _with_parameters(called: Callable[P, T], signature: inspect.Signature) -> Callable[P, T]:
    """The same function; editors, `help` and type checkers see these parameters."""
    result = called.__annotations__["return"]
    parameters = signature.parameters.values()
    called.__annotations__ = {one.name: one.annotation for one in parameters} | {"return": result}
    called.__dict__["__signature__"] = signature.replace(return_annotation=result)
    return called
