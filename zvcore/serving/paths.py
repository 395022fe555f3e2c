"""From the path in a URL to an open file, and never to one outside of the folder that is served."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

__all__ = ["Found", "Root", "is_shown", "split_path"]

# Names that begin with a dot are nobody's business, but for the metadata of Zarr v2.
_SHOWN = (b".zarray", b".zgroup", b".zattrs", b".zmetadata")
_MOST_PARTS = 64
_LONGEST_NAME = 255


def split_path(path: str) -> list[bytes] | None:
    """The names in a URL's path, decoded once; None if it is no path that may be asked for."""
    names = [name for name in unquote_to_bytes(path.split("?", 1)[0]).split(b"/") if name]
    return names if len(names) <= _MOST_PARTS and all(map(is_shown, names)) else None


def is_shown(name: bytes) -> bool:
    """Whether a file or folder of this name may be seen at all."""
    if len(name) > _LONGEST_NAME or any(c < 32 for c in name) or b"\\" in name or b"/" in name:
        return False
    return not name.startswith(b".") or name in _SHOWN


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
    """The folder that is served.

    Links are followed only as long as they lead to something in it. Between looking and opening somebody may put a link
    where a folder was: so the way without links is found first, and then walked folder by folder, refusing links.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.realpath(os.fsencode(path))
        self._descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        os.close(self._descriptor)

    def locate(self, names: list[bytes]) -> list[bytes] | None:
        """The way from the root to what these names lead to, without links; None if it lies outside or nowhere."""
        try:
            real = os.path.realpath(b"/".join([self.path, *names]), strict=True)
        except (OSError, ValueError):
            return None
        base = self.path.rstrip(b"/")
        if real == self.path:
            return []
        if not real.startswith(base + b"/"):
            return None
        way = real[len(base) + 1 :].split(b"/")
        return way if all(map(is_shown, way)) else None

    def open(self, names: list[bytes]) -> Found | None:
        """The file or folder; None if there is none that may be seen."""
        way = self.locate(names)
        if way is None:
            return None
        current = os.dup(self._descriptor)
        try:
            for place, name in enumerate(way):
                flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
                if place < len(way) - 1:
                    flags |= os.O_DIRECTORY
                below = os.open(name, flags, dir_fd=current)
                os.close(current)
                current = below
            status = os.fstat(current)
        except OSError as error:
            os.close(current)
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise
            return None
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            # A pipe or a device could keep us waiting for ever.
            os.close(current)
            return None
        return Found(current, status)

    def open_data(self, names: list[bytes]) -> Found | None:
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
