"""Lock files that came with the data, or that somebody wrote: what they say is done to their own object only."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from zvcore.stores import LocalStore
from zvcore.stores.lock_names import lock_path
from zvcore.stores.partial_writes import Note

if TYPE_CHECKING:
    from pathlib import Path


def lying(path: Path) -> bytes:
    """A note as a writer leaves one that died before it replaced the bytes from 4 on."""
    return Note.of_patch(os.fsencode(path), 4, [b"XXXX"]).pack()


@pytest.mark.parametrize("clean", [False, True])
def test_a_note_about_another_object_changes_nothing(tmp_path: Path, clean: bool) -> None:
    store = LocalStore(tmp_path)
    store.put("c/0", b"0123456789")
    store.put("c/1", b"0123456789")
    lock = tmp_path / os.fsdecode(os.path.relpath(lock_path(os.fsencode(tmp_path / "c/1")), os.fsencode(tmp_path)))
    lock.write_bytes(lying(tmp_path / "c/0"))
    if clean:
        store.clean(older_than=0)
    else:
        with store.lock("c/1"):
            pass
    assert store.get("c/0") == store.get("c/1") == b"0123456789"


def test_a_note_about_its_own_object_is_followed(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("c/0", b"0123456789")
    (tmp_path / "c/.0.zvlock").write_bytes(lying(tmp_path / "c/0"))
    with store.lock("c/0"):
        pass
    assert store.get("c/0") == b"0123XXXX89"


def test_a_note_about_a_file_that_was_replaced_changes_nothing(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("c/0", b"0123456789")
    note = lying(tmp_path / "c/0")
    kept = os.open(tmp_path / "c/0", os.O_RDONLY)  # so that its inode is not used again
    store.put("c/0", b"0123456789")
    (tmp_path / "c/.0.zvlock").write_bytes(note)
    with store.lock("c/0"):
        pass
    assert store.get("c/0") == b"0123456789"
    os.close(kept)
