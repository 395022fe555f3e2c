"""What the server asks of the place that it serves: a folder of this machine, or any address."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Hashable, Sequence
    from typing import IO

    from zvcore.stores import Store

__all__ = ["Found", "Place", "Seen", "Want"]

T = TypeVar("T")
R = TypeVar("R")


class Seen(NamedTuple):
    """What is known of a file or folder without opening it. `version` differs when the content does."""

    is_folder: bool
    version: Hashable


class Want(NamedTuple):
    """What a request will ask of what it opens, for places far away, where a guess saves a request.

    folder  it is about a folder
    whole   it is about all of a file, and not only of parts, or of what is known of it
    """

    folder: bool = False
    whole: bool = False


class Found(ABC):
    """An open file or folder.

    size      the bytes of a file
    tag       its entity tag; None: nothing tells versions of it apart
    changed   when it was last changed, in seconds; None: nobody knows
    encoding  the file holds what was asked for in this content coding
    """

    is_folder: bool = False
    size: int = 0
    tag: str | None = None
    changed: float | None = None
    encoding: str | None = None

    @abstractmethod
    def begin(self, start: int, stop: int) -> None:
        """Make sure, as far as that is possible, that these bytes can be sent: before anything is promised."""

    def first(self, count: int) -> bytes:
        """So many bytes from its beginning, or as many as it has."""
        with self.file() as file:
            return file.read(count)

    def few(self, start: int, stop: int) -> bytes | None:
        """A range of the file, as much of it as is there, if that is best sent together with the head of an answer."""
        return None

    @abstractmethod
    def send(self, connection: socket.socket, start: int, stop: int) -> int:
        """Send a range of the file: how many bytes of it could be sent."""

    @abstractmethod
    def file(self) -> IO[bytes]:
        """The file, to be read from its beginning."""

    @abstractmethod
    def entries(self, most: int) -> list[tuple[bytes, bool]]:
        """(name, whether it is a folder) of what a folder holds, as far as that may be seen."""

    @abstractmethod
    def close(self) -> None: ...


class Place(ABC):
    """What is served, by the names on the way to it from its root.

    far   every question is a request over a network: several are asked at once, and none that need not be
    """

    far: bool = False

    @abstractmethod
    def store(self, names: Sequence[bytes]) -> Store:
        """What lies below a folder, as a store."""

    @abstractmethod
    def look(self, names: Sequence[bytes]) -> Seen | None:
        """What is known of a file, or near by of a folder; None if there is none that may be seen."""

    @abstractmethod
    def open(self, names: Sequence[bytes], want: Want) -> Found | None:
        """The file or folder; None if there is none that may be seen."""

    @abstractmethod
    def listing(self, names: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
        """(names of folders, names of files) in a folder, not those that links lead to; OSError if there is none."""

    @abstractmethod
    def stored_size(self, names: Sequence[bytes], seconds: float) -> tuple[int, int, bool] | None:
        """(bytes, files, whether all were counted in time) at or below this; None: it would take too many requests."""

    @abstractmethod
    def unfinished(self) -> str | None:
        """What there is to say of an unfinished conversion in which the whole place lies."""

    def forget(self, names: Sequence[bytes]) -> None:
        """A file has turned out to be another one than was believed."""
        return

    def each(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """What `function` gives for each item; far away, several calls run at once."""
        return [function(item) for item in items]

    def open_data(self, names: Sequence[bytes], want: Want) -> Found | None:
        """Like `open`; for a file that is not there, one named .gz beside it is taken: CloudVolume stores chunks so.

        A file that is packed under its plain name, as in buckets, says so.
        """
        found = self.open(names, want)
        if found is not None and not found.is_folder and names:
            self._tell_packed(found, names)
        if found is not None or not names or (self.far and want.folder):
            return found
        packed = self.open([*names[:-1], names[-1] + b".gz"], want)
        if packed is None:
            return None
        if packed.is_folder:
            packed.close()
            return None
        packed.encoding = "gzip"
        return packed

    def _tell_packed(self, found: Found, names: Sequence[bytes]) -> None:
        from zvcore.serving.packed_names import is_packed

        try:
            if is_packed(names[-1], found, lambda: self.look([*names[:-1], b"info"]) is not None):
                found.encoding = "gzip"
        except BaseException:
            found.close()
            raise

    @abstractmethod
    def close(self) -> None: ...
