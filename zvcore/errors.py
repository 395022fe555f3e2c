"""Every error that zvcore raises on purpose.

Errors about stored bytes carry where the bytes lie and what was wrong with them, both in the text and as
attributes, so that a program can act on what a person reads.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

__all__ = [
    "AccessRefusedError",
    "CodecConflictError",
    "CodecNotFoundError",
    "ConflictError",
    "CorruptDataError",
    "DamagedMetadataWarning",
    "InvalidKeyError",
    "LostMetadataWarning",
    "MetadataError",
    "MisplacedChunksWarning",
    "MissingImagesWarning",
    "NotFoundError",
    "OutOfMemoryError",
    "OutdatedMetadataWarning",
    "PluginError",
    "ReadOnlyError",
    "StoreError",
    "UnfinishedConversionWarning",
    "UnfitValueError",
    "UnsupportedError",
    "ZvcoreError",
    "without_credentials",
]

# To the last @ in front of the path: passwords may have some, too.
_CREDENTIALS = re.compile(r"([A-Za-z0-9+.\-]{0,20})://[^/\s]*@")
# Where what stands before an @ is no secret, but says which place is meant, or is a part of a name.
_OTHERWISE = ("abfs", "abfss", "wasb", "wasbs", "github", "memory", "file")
# Where an address is signed, this is what it is worth.
_QUERY = re.compile(r"""(https?://[^\s?#"'<>]*)\?[^\s"'<>]+""", re.IGNORECASE)


def without_credentials(text: str) -> str:
    """The text without what addresses in it hold for those alone who asked: user names, passwords and signatures."""
    # Most have neither, and to look for these is much quicker.
    if "://" not in text or ("@" not in text and "?" not in text):
        return text
    return _QUERY.sub(r"\1?...", _CREDENTIALS.sub(_bare, text))


def _bare(found: re.Match[str]) -> str:
    return found[0] if found[1].lower() in _OTHERWISE else f"{found[1]}://"


class ZvcoreError(Exception):
    """Base of all errors of zvcore.

    The keyword arguments say where: `key` (the object in the store), `member` (of a document, as a JSON path), `chunk`
    (grid position or id), `offset` and `length` (byte range within the object), `codec` (which stage found the fault);
    and what: `expected`, `found`. Those that are given stand in the text and as attributes.
    `kind` is what reports call such a problem (`zvcore.report.What`).
    """

    kind: ClassVar[str] = "data"
    _fields = ("key", "member", "chunk", "offset", "length", "codec", "expected", "found")

    def __init__(
        self,
        message: str,
        *,
        key: str | None = None,
        member: str | None = None,
        chunk: Any = None,
        offset: int | None = None,
        length: int | None = None,
        codec: str | None = None,
        expected: Any = None,
        found: Any = None,
    ) -> None:
        message = self.message = without_credentials(message)
        self.key: str | None = _plain(key)
        self.member = member
        self.chunk = chunk
        self.offset = offset
        self.length = length
        self.codec = codec
        self.expected = _plain(expected)
        self.found = _plain(found)
        super().__init__(message)

    def __str__(self) -> str:
        where = []
        if self.key is not None:
            where.append(self.key)
        if self.chunk is not None:
            where.append(f"chunk {self.chunk}")
        if self.offset is not None:
            end = "" if self.length is None else f"..{self.offset + self.length}"
            where.append(f"bytes {self.offset}{end}")
        if self.codec is not None:
            where.append(self.codec)
        return ": ".join([*where, self.told])

    @property
    def told(self) -> str:
        """What is wrong, in words: all but where it is, unless that is a member of a document."""
        given = (("expected", self.expected), ("found", self.found))
        facts = ", ".join(f"{word} {value}" for word, value in given if value is not None)
        text = f"{self.message} ({facts})" if self.message and facts else self.message or facts
        return text if self.member is None else f"{self.member}: {text}"

    def located(self, **where: Any) -> ZvcoreError:
        """Fill in those of the fields that are still empty, and return self: each layer adds what it knows."""
        for name, value in where.items():
            if name not in self._fields:
                raise TypeError(f"unknown field {name!r}")
            if getattr(self, name) is None:
                setattr(self, name, _plain(value))
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.message, {name: getattr(self, name) for name in self._fields}))


def _plain(value: Any) -> Any:
    return without_credentials(value) if isinstance(value, str) else value


def _rebuild(cls: type[ZvcoreError], message: str, fields: dict[str, Any]) -> ZvcoreError:
    return cls(message, **fields)


class CorruptDataError(ZvcoreError):
    """Stored bytes are not what their format says they must be."""


class MetadataError(ZvcoreError, ValueError):
    """A metadata document (attributes.json, zarr.json, info) or a codec's configuration is wrong."""

    kind = "document"


class InvalidKeyError(ZvcoreError, ValueError):
    """A key that no object may have: it would lead out of its store, or nowhere."""

    kind = "document"


class UnsupportedError(ZvcoreError):
    """Valid data that asks for something zvcore does not do."""

    kind = "unsupported"


class UnfitValueError(UnsupportedError, ValueError):
    """A value that is to be written has no place in the type that is stored."""


class OutOfMemoryError(UnsupportedError, MemoryError):
    """A chunk, or what an array says that its chunks are, is larger than the memory that there is for it."""

    kind = "memory"


class PluginError(ZvcoreError):
    """An installed plugin cannot be used: it does not load, or another distribution provides one of the same name."""

    kind = "unsupported"


class CodecNotFoundError(PluginError):
    """No installed plugin provides the codec that a dataset names."""


class CodecConflictError(PluginError):
    """Two installed distributions provide a codec under the same name."""


class NotFoundError(ZvcoreError, KeyError):
    """What was asked for is not in the store."""

    kind = "missing"

    # KeyError would show the repr of the message.
    __str__ = ZvcoreError.__str__


class ConflictError(ZvcoreError):
    """Another writer changed the object in the meantime, or something already exists where one was to be made."""

    kind = "store"


class ReadOnlyError(ZvcoreError):
    """A write to something that was opened for reading."""


class StoreError(ZvcoreError, OSError):
    """The place where the objects are does not answer, refuses access, or fails."""

    kind = "store"

    # OSError would show an errno.
    __str__ = ZvcoreError.__str__


class AccessRefusedError(StoreError):
    """The place where the objects are answers, and refuses access."""


class DamagedMetadataWarning(UserWarning):
    """What a group tells of its members in their place is damaged, so that they are asked themselves."""


class LostMetadataWarning(UserWarning):
    """Something that an array says of itself has no place in the new array that holds its values."""


class MisplacedChunksWarning(UserWarning):
    """Chunks are there where no reader looks for them, so that the array reads as the fill value."""


class MissingImagesWarning(UserWarning):
    """The numbers by which the images of a stack are called have gaps; the images stand one behind the other."""


class OutdatedMetadataWarning(UserWarning):
    """A group tells of what lies in it, and could not be changed when that was: its members have what holds."""


class UnfinishedConversionWarning(UserWarning):
    """What was opened is the destination of a conversion that has not ended: missing chunks read as the fill value."""
