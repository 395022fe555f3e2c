"""Which files hold what their names say under a content coding, as buckets keep what CloudVolume has put into them.

A stream of gzip may also be what was meant: chunks of Zarr and N5 are such streams. So only names are looked at that
precomputed data alone have, and only a file that is one whole stream of gzip is taken for packed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zvcore.errors import CorruptDataError, UnsupportedError
from zvcore.serving.unpacking import Unpacked

if TYPE_CHECKING:
    from collections.abc import Callable

    from zvcore.serving.place import Found

__all__ = ["is_packed"]

_MAGIC = b"\x1f\x8b\x08"
# Chunks of a volume and cells of annotations; manifests of meshes, and their fragments.
_CHUNK = re.compile(rb"-?\d{1,20}--?\d{1,20}(_-?\d{1,20}--?\d{1,20}){2}|-?\d{1,20}(_-?\d{1,20})+")
_MESH = re.compile(rb"\d{1,20}:\d{1,20}(:[^/]*)?")
# Skeletons, annotations by id: chunks of Zarr are called so too, but not beside an `info`.
_ID = re.compile(rb"\d{1,20}")


def is_packed(name: bytes, found: Found, has_info: Callable[[], bool]) -> bool:
    """Whether a file of this name is a stream of gzip that stands for what is packed in it."""
    plain = name == b"info" or _CHUNK.fullmatch(name) or _MESH.fullmatch(name)
    if not plain and not _ID.fullmatch(name):
        return False
    if found.first(len(_MAGIC)) != _MAGIC:
        return False
    if not plain and not has_info():
        return False
    try:
        Unpacked(found)
    except UnsupportedError:
        return True  # too large to look through
    except CorruptDataError:
        return False
    return True
