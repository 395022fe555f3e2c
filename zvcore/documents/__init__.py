"""The JSON documents that describe arrays, groups and volumes: read, changed, shown as attributes.

What a format's document holds, the format says (see `members`); how it is read within limits, changed under a lock or
by compare-and-swap, and what errors call its parts, is decided here.
"""

from zvcore.documents.attributes import Attributes
from zvcore.documents.document import (
    LARGEST_TOLD,
    Document,
    change,
    encode,
    fetch,
    fetch_version,
    parse,
    parse_any,
    read,
)
from zvcore.documents.values import as_json, copied, is_number, shown, whole_if_possible

__all__ = [
    "LARGEST_TOLD",
    "Attributes",
    "Document",
    "as_json",
    "change",
    "copied",
    "encode",
    "fetch",
    "fetch_version",
    "is_number",
    "parse",
    "parse_any",
    "read",
    "shown",
    "whole_if_possible",
]
