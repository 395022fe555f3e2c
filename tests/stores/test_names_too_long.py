"""Names that no file can have: an error that says which, and how long they may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import zvcore
from zvcore.errors import InvalidKeyError
from zvcore.stores import LocalStore, MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

LONG = "k" * 300


def test_what_is_asked_for_is_not_there_and_what_is_written_is_refused(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    for key in (LONG, f"a/{LONG}", f"{LONG}/a"):
        assert store.get(key) is None
        assert store.size(key) is None
        assert not store.exists(key)
        assert not store.delete(key)
        for write in (store.put, lambda key, data: store.put_if_unchanged(key, data, None)):
            with pytest.raises(InvalidKeyError, match=r"at most 255 bytes, found 300") as caught:
                write(key, b"x")
            assert LONG in str(caught.value.key)
    with pytest.raises(InvalidKeyError, match="255"):
        store.make_folder(LONG)
    with pytest.raises(InvalidKeyError, match="255"):
        store.writer(LONG)
    with pytest.raises(InvalidKeyError, match="255"), store.lock(f"{LONG}/a"):
        pass
    store = MemoryStore()
    store.put(LONG, b"x")
    assert store.get(LONG) == b"x"


@pytest.mark.parametrize("format", ["zarr3", "n5", "zarr2"])
def test_a_member_with_such_a_name_is_refused(tmp_path: Path, format: str) -> None:
    group = zvcore.open(tmp_path / "g", "w", format=format)
    with pytest.raises(InvalidKeyError, match="at most 255 bytes"):
        group.create_dataset(LONG, shape=(4,), dtype="u1", chunks=(4,))


@pytest.mark.parametrize("more", [{}, {"sharding": "advise"}])
def test_a_scale_with_such_a_key_is_refused(tmp_path: Path, more: dict[str, str]) -> None:
    with pytest.raises(InvalidKeyError, match="at most 255 bytes, found 300"):
        a = zvcore.create(
            tmp_path / "v", format="precomputed", shape=(4, 4, 4), dtype="u1", chunks=(4, 4, 4), key=LONG, **more
        )
        a[...] = 1
