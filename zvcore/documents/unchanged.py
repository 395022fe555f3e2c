"""Whether a document still says what those were told who read by it: others may replace what it describes meanwhile."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, TypeVar

from zvcore.documents.document import fetch_version, parse
from zvcore.errors import ConflictError, CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from zvcore.stores import Store
    from zvcore.stores.base import Stamp

__all__ = ["Unchanged"]

T = TypeVar("T")

# Over a network, to look is a request: it is done this many seconds after the last look, where nothing was found.
_PAUSE = 1.0


class Unchanged:
    """The members of a document that must stay as they are, as they were when it was read.

    `stamp`: of which version the content is, as `fetch_version` has it.
    """

    def __init__(
        self, store: Store, key: str, content: Mapping[str, Any], stamp: Stamp | None, members: Iterable[str]
    ) -> None:
        self._store, self._key = store, key
        self._members = tuple(members)
        self._told = self._of(content)
        self._far = store.remote or store.blind
        self._seen = stamp
        self._looked = time.monotonic()

    def _of(self, content: Mapping[str, Any]) -> str:
        # As text, in which the order of names tells as well.
        return json.dumps([content.get(name) for name in self._members])

    def check(self, missing: bool = False) -> None:
        """After a read: raise where what was found may be of something else. `missing`: something was not found."""
        if not self._far:
            self._look()
        elif missing and time.monotonic() - self._looked >= _PAUSE:
            self._look()
            self._looked = time.monotonic()

    def steady(self, read: Callable[[], T], is_whole: Callable[[T], object]) -> T:
        """What `read` gives, if it is of what was opened; `is_whole`: whether all that was asked for was found."""
        try:
            found = read()
        except CorruptDataError:
            self.check(missing=True)  # that it is another one explains what is odd in it
            raise
        self.check(missing=not is_whole(found))
        return found

    def check_writing(self) -> None:
        """Before a change."""
        self._look()

    def _look(self) -> None:
        store = self._store
        now = store.stamp(self._key)
        if now is not None and now == self._seen:
            return
        raw, seen = fetch_version(store, self._key)
        where = f"{store.root}/{self._key}"
        if raw is None:
            # No NotFoundError, which mappings take for a single value that is missing.
            raise ConflictError("what was opened was removed meanwhile", key=where)
        if self._of(parse(raw, self._key)) != self._told:
            raise ConflictError("something else has taken the place of what was opened: open it again", key=where)
        self._seen = seen
