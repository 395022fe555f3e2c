"""What the head of an answer says of an object."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zvcore.stores.http_heads import version_in

NAMES = st.sampled_from([b"ETag", b"etag", b"Last-Modified", b"x-amz-version-id", b"X-Etag", b"Content-Length"])
SPACE = st.sampled_from([b"", b" ", b"\t ", b"  "])
VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=12).map(
    lambda text: text.encode("latin-1")
)
FIELDS = st.lists(st.tuples(SPACE, NAMES, SPACE, SPACE, VALUES, SPACE), max_size=6)


@given(FIELDS)
def test_fields_are_found_as_when_lines_are_taken_one_by_one(fields: list[tuple[bytes, ...]]) -> None:
    lines = [before + name + behind + b":" + at + value + end for before, name, behind, at, value, end in fields]
    told: dict[bytes, str] = {}
    for line in lines:
        name, _, value = line.partition(b":")
        told[name.strip().lower()] = value.strip().decode("latin-1")
    found = version_in(b"\r\n".join([b"HTTP/1.1 200 OK", *lines]), b"x-amz-version-id", 7)
    assert (found.e_tag, found.number, found.size) == (told.get(b"etag"), told.get(b"x-amz-version-id"), 7)


@pytest.mark.parametrize("field", [b"ETag: a%sb", b"%sETag: a", b"ETag%s: a", b"ETag:%sa"])
def test_a_server_that_sends_a_great_deal_of_nothing(field: bytes) -> None:
    """It took a time that grew with the square of it: with this much, hours."""
    version_in(b"HTTP/1.1 200 OK\r\n" + field % (b" " * 1_000_000) + b"\r\n", b"x-amz-version-id", 7)
