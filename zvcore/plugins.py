"""What installed distributions add to zvcore: entry points of a group, found lazily, and what is registered by hand."""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import zvcore.system.imports  # noqa: F401  forks wait for plugins that are being loaded
from zvcore.errors import PluginError

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.metadata import EntryPoint

__all__ = ["Plugins"]

T = TypeVar("T")
D = TypeVar("D")


class Plugins(Generic[T]):
    """The plugins of one kind by name. The environment is read when the first one is asked for, and once.

    kind      what messages call one of them
    choose    what a program calls to decide between two of one name
    complete  makes a plugin of what an entry point names, or raises
    broken    the error for a plugin that does not load
    conflict  the error for a name that two distributions provide
    """

    def __init__(
        self,
        group: str,
        kind: str,
        choose: str,
        *,
        complete: Callable[[Any, str], T] | None = None,
        broken: type[PluginError] = PluginError,
        conflict: type[PluginError] = PluginError,
    ) -> None:
        self.group = group
        self.kind = kind
        self._choose = choose
        self._complete = complete or (lambda plugin, name: cast("T", plugin))
        self._broken = broken
        self._conflict = conflict
        self._lock = threading.Lock()
        self._registered: dict[str, T] = {}
        self._claims: dict[str, list[EntryPoint]] | None = None
        self._loaded: dict[str, T | PluginError] = {}
        # What was made of all of them, by what made it, and how often they have changed.
        self._derived: dict[Any, Any] = {}
        self._changes = 0
        _all.add(self)

    def register(self, name: str, plugin: T) -> None:
        """Use this for the name from now on, whatever is installed."""
        with self._lock:
            self._registered[name] = plugin
            self._changed()

    def unregister(self, name: str) -> None:
        """Take back a `register`; what is installed counts again."""
        with self._lock:
            del self._registered[name]
            self._changed()

    def _changed(self) -> None:
        self._changes += 1
        self._derived = {}

    def derived(self, make: Callable[[], D]) -> D:
        """What `make` makes of all of them, which is kept until they change."""
        derived, changes = self._derived, self._changes
        if make in derived:
            return cast("D", derived[make])
        made = make()
        with self._lock:
            if changes == self._changes:
                self._derived[make] = made
        return made

    def names(self) -> list[str]:
        return sorted({*self._installed(), *self._registered})

    def provider(self, name: str) -> str | None:
        """The distribution (or those) that provides a name; None if it is registered by hand or unknown."""
        claims = () if name in self._registered else self._installed().get(name, ())
        return " and ".join(map(_distribution, claims)) or None

    def find(self, name: str) -> T | None:
        """The plugin of this name; None if nothing is installed or registered under it."""
        registered = self._registered.get(name)
        if registered is not None:
            return registered
        loaded = self._loaded.get(name)
        if loaded is None:
            claims = self._installed().get(name)
            if claims is None:
                return None
            # Without the lock: an import may take long, and may come back here. A second thread at worst does it again.
            loaded = self._load(name, claims)
            with self._lock:
                loaded = self._loaded.setdefault(name, loaded)
        if isinstance(loaded, PluginError):
            # A new error each time: one that is kept would gather tracebacks.
            raise type(loaded)(*loaded.args) from loaded.__cause__
        return loaded

    def rescan(self) -> None:
        """Forget what is installed, so that the next question looks again: for programs that install plugins while they
        run, and for tests.
        """
        with self._lock:
            self._claims = None
            self._loaded = {}
            self._changed()

    def _load(self, name: str, claims: list[EntryPoint]) -> T | PluginError:
        """The plugin, or what is wrong with it: that, too, is determined only once."""
        if len(claims) > 1:
            sides = " and ".join(f"{_distribution(claim)} ({claim.value})" for claim in claims)
            choose = self._choose.format(name=repr(name))
            return self._conflict(
                f"the {self.kind} {name!r} is provided by {sides}; choose one by {choose}, or uninstall the other"
            )
        try:
            return self._complete(claims[0].load(), name)
        except Exception as error:
            # Whatever a plugin does wrong, it must not break the others.
            broken = self._broken(
                f"the {self.kind} {name!r} of {_distribution(claims[0])} cannot be loaded from {claims[0].value}: "
                f"{type(error).__name__}: {error}"
            )
            broken.__cause__ = error
            return broken

    def _installed(self) -> dict[str, list[EntryPoint]]:
        claims = self._claims
        if claims is None:
            from importlib import metadata

            claims = {}
            for point in metadata.entry_points(group=self.group):
                others = claims.setdefault(point.name, [])
                # A distribution can be on Python's path twice.
                if all((point.value, _distribution(point)) != (one.value, _distribution(one)) for one in others):
                    others.append(point)
            with self._lock:
                self._claims = claims
        return claims

    def _after_fork(self) -> None:
        self._lock = threading.Lock()


def _distribution(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "an unknown distribution"


_all: weakref.WeakSet[Plugins[Any]] = weakref.WeakSet()


def _after_fork() -> None:
    for plugins in [*_all]:
        plugins._after_fork()


os.register_at_fork(after_in_child=_after_fork)
