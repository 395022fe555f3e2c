"""Properties that are worked out once for each object."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

__all__ = ["cached_property"]

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:
    from functools import cached_property as locked_property

    class cached_property(locked_property):
        """Without the lock of Python 3.11, which all objects of a class share: a child of a process in which another
        thread was working out such a property would wait for that thread, which it does not have.
        """

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            if instance is None:
                return self
            values = instance.__dict__
            if self.attrname not in values:
                values.setdefault(self.attrname, self.func(instance))
            return values[self.attrname]
