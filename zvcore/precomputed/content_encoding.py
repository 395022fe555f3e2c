"""What others have compressed: files called `.gz`, and objects under plain names, as `Content-Encoding: gzip` tells
whoever asks a server for them.

CloudVolume stores files so in buckets: chunks, skeletons, fragments of meshes; others take zstd for it. Browsers unpack
what they get; libraries for object stores give it as it is, and copies on disks are no other. Its bytes tell as much: a
whole stream of gzip with the right checksum is nothing else, nor are whole frames of zstd. Streams of brotli begin with
nothing that would tell them from other bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore import codecs
from zvcore.codecs import Codec
from zvcore.errors import CorruptDataError, UnsupportedError, ZvcoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zvcore.stores import Store

__all__ = ["LONGEST_MARK", "Unpacking", "begins_packed", "stored_file", "stored_files", "unpacked"]

# How streams begin: of gzip also that it has deflated, which all of it has.
_MARKS = {b"\x1f\x8b\x08": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
LONGEST_MARK = 4


def _packer(data: Any) -> str | None:
    head = bytes(data[:LONGEST_MARK])
    return next((name for mark, name in _MARKS.items() if head.startswith(mark)), None)


def begins_packed(data: Any) -> bool:
    """Whether these bytes begin as what is packed does."""
    return _packer(data) is not None


def unpacked(data: Any, max_size: int | None = None) -> Any:
    """What is packed in `data`, or `data` itself."""
    packer = _packer(data)
    if packer is None:
        return data
    try:
        return codecs.get(packer).decode(data, max_size=max_size)
    except CorruptDataError:
        return data


def stored_file(store: Store, key: str) -> bytes | None:
    """The content of a file, whichever way it was compressed. In folders CloudVolume's have another name."""
    data = store.get(key)
    if data is not None:
        return bytes(unpacked(data))
    return _unpacked_file(store.get(f"{key}.gz"), key) if store.of_files else None


def stored_files(store: Store, keys: Sequence[str]) -> list[bytes | None]:
    """`stored_file` of each of these, which are asked for at once."""
    found = [None if data is None else bytes(unpacked(data)) for data in store.get_many(keys)]
    missing = [place for place, data in enumerate(found) if data is None] if store.of_files else []
    for place, packed in zip(missing, store.get_many([f"{keys[place]}.gz" for place in missing]), strict=True):
        found[place] = _unpacked_file(packed, keys[place])
    return found


def _unpacked_file(packed: Any, key: str) -> bytes | None:
    """What is in the packed file of this key, if there is one."""
    if packed is None:
        return None
    try:
        return bytes(codecs.from_neuroglancer("gzip").decode(packed))
    except ZvcoreError as error:
        raise error.located(key=f"{key}.gz", offset=0, length=len(packed))


class Unpacking(Codec):
    """For chunks of which some are packed, and others may not be."""

    name = "content-encoding"

    def _encode(self, data: memoryview) -> Any:
        raise UnsupportedError(
            "the chunks of this volume are compressed under plain names (as Content-Encoding tells), which is read but "
            "not written: others beside them would be taken for damaged"
        )

    def _decode(self, data: memoryview, max_size: int) -> Any:
        return unpacked(data, max_size)
