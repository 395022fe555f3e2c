"""XML from strangers: of a bounded size, and without document types, whose entities can stand for gigabytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from zvcore.errors import MetadataError, UnsupportedError

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

__all__ = ["local_name", "parse_xml"]

# The largest document, how deep elements may lie in each other, and how many there may be.
_LARGEST = 64 << 20
_DEEPEST = 100
_MOST = 5_000_000


def parse_xml(raw: bytes | memoryview | str, key: str) -> Element:
    """The root of a document; names are as they stand there, with their prefixes."""
    from xml.parsers import expat

    if len(raw) > _LARGEST:
        raise UnsupportedError("XML of this size", key=key, expected=f"at most {_LARGEST} bytes", found=len(raw))
    builder = _Builder(key)
    # What the declaration says of the encoding holds for bytes, and no longer for a text.
    parser = expat.ParserCreate("utf-8" if isinstance(raw, str) else None)
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.tree.data
    parser.StartDoctypeDeclHandler = builder.doctype
    try:
        parser.Parse(raw if isinstance(raw, str) else bytes(raw), True)
    except expat.ExpatError as error:
        raise MetadataError(
            f"this is no XML: {expat.ErrorString(error.code)}", key=key, offset=parser.ErrorByteIndex
        ) from error
    except (LookupError, UnicodeError, ValueError) as error:
        raise MetadataError(f"this is no XML: {error}", key=key) from error
    root: Element = builder.tree.close()
    return root


def local_name(element: Element) -> str:
    """The name of an element without the prefix of its namespace."""
    return str(element.tag).rpartition(":")[2]


class _Builder:
    def __init__(self, key: str) -> None:
        from xml.etree.ElementTree import TreeBuilder

        self.key = key
        self.tree: Any = TreeBuilder()
        self._depth = self._count = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self._count += 1
        if self._depth > _DEEPEST or self._count > _MOST:
            raise UnsupportedError(
                "XML with elements as many or as deep as these", key=self.key,
                expected=f"at most {_MOST}, {_DEEPEST} deep",
            )  # fmt: skip
        self.tree.start(name, attributes)

    def end(self, name: str) -> None:
        self._depth -= 1
        self.tree.end(name)

    def doctype(self, *_: Any) -> NoReturn:
        raise UnsupportedError("XML with a document type, which may define entities without end", key=self.key)
