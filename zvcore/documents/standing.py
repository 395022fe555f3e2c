"""Whether what was opened is still there, and still what it was: others may remove, replace or resize it meanwhile."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

from zvcore.documents.document import fetch_version
from zvcore.errors import ConflictError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from zvcore.documents.document import Document
    from zvcore.layout import Layout
    from zvcore.stores.files import Watched

__all__ = ["Standing", "Unwatched", "standing_of"]


class _Described(Protocol):
    """An array, as far as it is asked here."""

    @property
    def layout(self) -> Layout: ...

    def _laid_out(self, content: dict[str, Any]) -> Layout:
        """The layout that a document gives; NotFoundError where it tells of no such array any longer."""
        ...

    def _described(self, content: dict[str, Any]) -> Any:
        """What a document says of how chunks are stored, apart from the array's shape."""
        ...


class Unwatched:
    """The state of an array without a document of its own."""

    watched = None

    def check_written(self, array: _Described) -> None: ...

    def check_read(self, array: _Described, found: Sequence[npt.NDArray[Any]]) -> None: ...

    def check_source(self, array: _Described, forced: bool = False) -> None: ...


# Over a network, to look is a request: it is done this many seconds after the last look, and not for each write.
_PAUSE = 1.0
# Nothing that a store says of a version.
_UNKNOWN: Any = object()


class Standing:
    """The state of the document of an array when it was last looked at.

    watched  the document as a file, which reads look at themselves
    """

    __slots__ = ("_content", "_document", "_far", "_looked", "_other", "_seen", "watched")

    def __init__(self, array: _Described, document: Document) -> None:
        store = document.store
        self._document = document
        # What the array was made of.
        self._content = document.content
        self._far = store.remote or store.blind or not store.can_lock
        self._looked = document.since if self._far else 0.0
        # Of which version that is. _UNKNOWN: it is to be looked at. None: only others tell of this array.
        self._seen: Any = document.stamp
        # What the document gave then, if that was another shape than the array's.
        self._other: Layout | None = None
        if self._seen is None and (self._far or store.stamp(document.key) is not None):
            self._seen = _UNKNOWN
        self.watched = None if self._far else store.watched(document.key)
        self._expect()

    def __reduce__(self) -> tuple[Any, ...]:
        seen = () if self._seen is _UNKNOWN or self._other is not None else (self._seen,)
        return (_restored, (self._document, self._content, self._far, seen, self.watched))

    def check_written(self, array: _Described) -> None:
        """Before a write: raise where readers would not find what is written, or something else than was written."""
        layout = self._changed(array)
        if layout is None:
            return
        units = array.layout.shard_shape or array.layout.form.shape
        for old, new, unit in zip(array.layout.shape, layout.shape, units, strict=True):
            # What is written where the old end cut an object would take the place of what is there behind it.
            if new < old or (new > old and (old % unit or not layout.regular)):
                raise self._resized(array.layout, layout)

    def check_read(self, array: _Described, found: Sequence[npt.NDArray[Any]]) -> None:
        """After a read: raise where what was found may be nothing but what is missing by now."""
        if not self._far or any(values.size and array.layout.is_empty(values) for values in found):
            self.check_source(array)

    def check_source(self, array: _Described, forced: bool = False) -> None:
        """`check_read`, whatever was found; `forced`: also if the document was looked at a moment ago."""
        if forced:
            self._looked = -_PAUSE
        layout = self._changed(array)
        if layout is not None and any(new < old for old, new in zip(array.layout.shape, layout.shape, strict=True)):
            raise self._resized(array.layout, layout)

    def _changed(self, array: _Described) -> Layout | None:
        """The layout that the document gives now, if it is of another shape; None also where it is not to be asked."""
        if self._seen is None:
            return None
        if not self._far:
            return self._looked_at(array)
        last, now = self._looked, time.monotonic()
        if now - last < _PAUSE:
            return self._other
        # Before, so that of several threads one looks.
        self._looked = now
        try:
            return self._looked_at(array)
        except BaseException:
            # Whoever is refused, or was not answered, and tries again, is not let through for not having looked.
            self._looked = last
            raise

    def _looked_at(self, array: _Described) -> Layout | None:
        store, key = self._document.store, self._document.key
        if self._seen is _UNKNOWN and store.remote and store.creates:
            # It would be read in any case, which tells its version too where tags are of one version each.
            raw, now = fetch_version(store, key)
            content: dict[str, Any] | None = self._document.parse(raw)
        else:
            now = store.stamp(key)
            if now is not None and store.same(now, self._seen):
                return self._other
            content = None
        settled = now is not None and store.settled(now)
        if content is None:
            content = self._document.latest()
        other = None
        if content != self._content:
            layout = array._laid_out(content)
            is_other = array._described(content) != array._described(self._content)
            if is_other or len(layout.shape) != len(array.layout.shape):
                what = "another array has taken the place of the one that was opened: open it again"
                raise ConflictError(what, key=f"{store.root}/{key}")
            other = None if layout.shape == array.layout.shape else layout
        self._other = other
        self._seen = now if settled else _UNKNOWN
        self._expect()
        return self._other

    def _expect(self) -> None:
        if self.watched is not None:
            seen = None if self._other is not None or self._seen is _UNKNOWN else self._seen
            self.watched.stamp = self._document.store.watched_stamp(seen)

    def _resized(self, old: Layout, new: Layout) -> ConflictError:
        what = "the array was given another shape meanwhile: refresh() it"
        key = f"{self._document.store.root}/{self._document.key}"
        return ConflictError(what, key=key, expected=old.shape, found=new.shape)


def standing_of(array: _Described, document: Document | None) -> Standing | Unwatched:
    """The state of an array that this document describes; None: nobody tells of it, in a way that can be
    looked at.
    """
    return Unwatched() if document is None else Standing(array, document)


def _restored(
    document: Document, content: dict[str, Any], far: bool, seen: tuple[Any, ...], watched: Watched | None
) -> Standing:
    """In another process: what it was when it was sent. Far away that is looked at before anything is written."""
    made = object.__new__(Standing)
    made._document, made._content, made._far = document, content, far
    made._looked = -_PAUSE
    made._seen, made._other = seen[0] if seen else _UNKNOWN, None
    # The same that the array's reads look at.
    made.watched = watched
    made._expect()
    return made
