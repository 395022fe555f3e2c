"""The documents that a group with consolidated metadata has of all that lies in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from zvcore.cached import cached_property
from zvcore.stores.sorted_keys import all_below, directly_below

__all__ = ["ToldMembers"]


class _Told:
    """What the outermost group tells, shared by all that look at a part of it."""

    def __init__(self, documents: Mapping[str, Any]) -> None:
        self.documents = documents

    @cached_property
    def names(self) -> list[str]:
        return sorted(self.documents)


class ToldMembers(Mapping[str, Any]):
    """Path -> document, as seen from the group or from one of the groups in it. The documents are kept once."""

    def __init__(self, documents: Mapping[str, Any]) -> None:
        self._told = _Told(documents)
        self._start = ""

    def __getitem__(self, path: str) -> Any:
        return self._told.documents[self._start + path]

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and self._start + path in self._told.documents

    def __iter__(self) -> Iterator[str]:
        skip = len(self._start)
        return (name[skip:] for name in self._told.names[all_below(self._told.names, self._start)])

    def __len__(self) -> int:
        span = all_below(self._told.names, self._start)
        return int(span.stop - span.start)

    def names(self) -> list[str]:
        """What lies directly in this group."""
        return directly_below(self._told.names, self._start)[1]

    def within(self, path: str) -> ToldMembers:
        """The same as seen from a group in this one."""
        view = object.__new__(ToldMembers)
        view._told, view._start = self._told, f"{self._start}{path}/"
        return view
