"""JSON in lines: what Python's own encoder writes, and nothing that crashes of what is no JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zvcore import documents
from zvcore.documents.lines import in_lines
from zvcore.documents.values import DEEPEST
from zvcore.errors import MetadataError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=30,
)


@given(st.dictionaries(st.text(), VALUES))
def test_documents_are_written_as_json_writes_them_in_lines(document: dict[str, Any]) -> None:
    assert documents.encode(document) == json.dumps(document, indent=2).encode()


@given(st.text(alphabet='[]{}",\\:ab ', max_size=60))
def test_what_is_no_json_is_spread_all_the_same(text: str) -> None:
    assert in_lines(text.encode()).replace(b"\n", b"").replace(b" ", b"") == text.replace(" ", "").encode()


def test_what_is_nested_as_deep_as_can_be() -> None:
    deep: Any = 1
    for _ in range(DEEPEST - 1):
        deep = [deep]
    assert documents.encode({"a": deep}) == json.dumps({"a": deep}, indent=2).encode()
    with pytest.raises(MetadataError, match="too deep"):
        documents.encode({"a": [[deep]]})
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueError, match=r"(?i)circular"):
        documents.encode({"a": loop})
