"""What the system says of an object, as errors of stores say it: a check tells of it, and goes on with the others."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, TypeGuard

from zvcore.errors import InvalidKeyError, StoreError, ZvcoreError
from zvcore.report import Problem, What
from zvcore.stores.lock_names import NameTooLongError

if TYPE_CHECKING:
    from zvcore.report import Report
    from zvcore.stores.base import Refused

__all__ = ["is_strange_name", "passing_over", "refusal", "tell_refused", "tell_strange_names"]

# What this process has too little of says nothing of an object.
_OF_THIS_PROCESS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def refusal(error: ZvcoreError | OSError, root: str = "") -> ZvcoreError:
    """The same error, with the key of its object in the store with this root, as far as it says which that is.

    Raised again where it is about this process.
    """
    if isinstance(error, ZvcoreError):
        return error
    if error.errno in _OF_THIS_PROCESS:
        raise error
    name = error.filename
    key = os.fsdecode(name).removeprefix(f"{root}/" if root else "") if isinstance(name, str | bytes) else None
    return StoreError(f"{type(error).__name__}: {error.strerror or error}", key=key)


def tell_refused(report: Report) -> Refused:
    """What tells of folders and objects that cannot be read in a report, for work that goes on with the others."""

    def refused(key: str, error: OSError | InvalidKeyError) -> None:
        told = refusal(error)
        told.key = key
        report.tell(Problem.of(told))

    return refused


def is_strange_name(error: OSError | InvalidKeyError) -> TypeGuard[InvalidKeyError]:
    """Whether only an object's name is refused, and not a folder, in which anything may lie, for its long path."""
    return isinstance(error, InvalidKeyError) and not isinstance(error, NameTooLongError)


def tell_strange_names(report: Report) -> Refused:
    """What tells once of each object whose name is no key, which no reader asks for. Other refusals are errors."""
    told = {problem.where for problem in report.problems if problem.kind is What.STRAY}

    def refused(key: str, error: OSError | InvalidKeyError) -> None:
        if not is_strange_name(error):
            raise error
        if key not in told:
            report.add(key, error.message, fatal=False, kind=What.STRAY)

    return refused


def passing_over(key: str, error: OSError | InvalidKeyError) -> None:
    """For those beside whom somebody else tells of what is refused."""
