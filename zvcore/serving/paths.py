"""From the path in a URL to an open file, and never to one outside of the folder that is served."""

from __future__ import annotations

import errno
import os
import re
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from zvcore.errors import InvalidKeyError
from zvcore.serving.limits import LARGEST_READ
from zvcore.stores.confined import ConfinedStore, Confinement

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Found", "Root", "is_shown", "split_path"]

# Names that begin with a dot are not served, except the metadata of Zarr v2.
_SHOWN = (b".zarray", b".zgroup", b".zattrs", b".zmetadata")
_MOST_PARTS = 64
# Any byte but those that control terminals or separate names.
_NAME = re.compile(rb"[^\x00-\x1f/\\]{0,255}")


def split_path(path: str) -> list[bytes] | None:
    """The names in a URL's path, decoded once; None if it is not a path that may be requested."""
    names = [name for name in unquote_to_bytes(path.split("?", 1)[0]).split(b"/") if name]
    return names if len(names) <= _MOST_PARTS and all(map(is_shown, names)) else None


def may_be_read(name: bytes) -> bool:
    """Whether zvcore may read a file or folder of this name for what it shows: notes about unfinished work too."""
    return is_shown(name) or name.startswith(b".zvcore-") or (name.startswith(b".") and name.endswith(b".zvlock"))


def is_shown(name: bytes) -> bool:
    """Whether a file or folder of this name may be seen at all."""
    return _NAME.fullmatch(name) is not None and (not name.startswith(b".") or name in _SHOWN)


@dataclass
class Found:
    """An open file or folder. `encoding`: the file holds what was asked for in this content coding."""

    descriptor: int
    status: os.stat_result
    encoding: str | None = None

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    def close(self) -> None:
        os.close(self.descriptor)


class Root:
    """The folder that is served: its files and folders by name, and the stores in it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._folder = Confinement(path)
        self.path = self._folder.path

    def close(self) -> None:
        self._folder.close()

    def store(self, names: Sequence[bytes]) -> ConfinedStore:
        """What lies below a folder, as a store."""
        return ConfinedStore(self._folder, names, may_be_read, LARGEST_READ)

    def look(self, names: Sequence[bytes]) -> os.stat_result | None:
        """What is known of a file or folder; None if there is none that may be seen."""
        try:
            return self._folder.look(names, is_shown)
        except (OSError, InvalidKeyError):
            return None

    def open(self, names: Sequence[bytes]) -> Found | None:
        """The file or folder; None if there is none that may be seen."""
        try:
            return Found(*self._folder.open(names, is_shown))
        except InvalidKeyError:
            return None
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise
            return None

    def entries(self, names: Sequence[bytes]) -> Iterator[os.DirEntry[str]]:
        """The entries of a folder itself, not reached through links; OSError if there is no such folder."""
        descriptor, _ = self._folder.open_here(names)
        try:
            with os.scandir(descriptor) as listing:
                yield from listing
        finally:
            os.close(descriptor)

    def open_data(self, names: Sequence[bytes]) -> Found | None:
        """Like `open`; for a file that is not there, one named .gz beside it is taken: CloudVolume stores chunks so."""
        found = self.open(names)
        if found is not None or not names:
            return found
        packed = self.open([*names[:-1], names[-1] + b".gz"])
        if packed is None:
            return None
        if packed.is_folder:
            packed.close()
            return None
        packed.encoding = "gzip"
        return packed
