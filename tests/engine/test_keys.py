"""Keys as the engine's threads have them."""

from __future__ import annotations

import errno
import os
import pickle
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.signals import with_a_signal
from zvcore.engine.buffers import Keys
from zvcore.engine.paths import existing
from zvcore.errors import InvalidKeyError

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ["a", "c/0/1/2", "ü/é", "zarr.json", "\udcff"]


def test_names_come_back() -> None:
    for keys in (Keys.of(NAMES), pickle.loads(pickle.dumps(Keys.of(NAMES)))):
        assert list(keys) == NAMES
        assert [keys[i] for i in range(len(NAMES))] == NAMES
        assert keys[-1] == NAMES[-1]
    assert list(Keys.of([])) == []
    assert list(Keys.format(np.array([[1, 2], [-3, 40]]), ["c/", "/", ""])) == ["c/1/2", "c/-3/40"]


@pytest.mark.parametrize("name", ["", "/a", "..", "a/../../b", "a//b", "a/", "a\0b", "a\\b", ".a.zvlock", "\ud800"])
def test_names_that_lead_out_of_a_store(name: str) -> None:
    with pytest.raises(InvalidKeyError):
        Keys.of(["good", name, "good"])


def test_formatted_names_that_lead_out_of_a_store() -> None:
    with pytest.raises(InvalidKeyError, match=r"'\.\./1'"):
        Keys.format(np.array([[1]]), ["../", ""])


def test_a_pool_that_does_not_fit() -> None:
    pool = np.frombuffer(b"a\0bc\0", np.uint8)
    assert list(Keys(pool, np.array([1, 4]))) == ["a", "bc"]
    for ends in ([1, 3], [4, 1], [1, 5], [1, 1], [-1, 4], [2**62]):
        with pytest.raises(ValueError, match=r"do not fit their pool|empty|NUL"):
            Keys(pool, np.array(ends))


def test_which_objects_there_are(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("a", "folder/\u00e9"):
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "gone").symlink_to("missing")
    os.mkfifo(tmp_path / "pipe")
    names = ["a", "missing", "folder", "folder/\u00e9", "a/below", "link", "gone", "pipe", "n" * 256, "d/" * 2100 + "e"]
    found = existing(Keys.of(names), os.fsencode(tmp_path))
    assert [name for name, there in zip(names, found, strict=True) if there] == ["a", "folder/\u00e9", "link"]
    assert existing(Keys.of([]), os.fsencode(tmp_path)).tolist() == []


def test_an_object_that_cannot_be_looked_for_is_named(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "a").touch()
    with pytest.raises(OSError, match="circle") as caught:
        existing(Keys.of(["a", "circle", "a"]), os.fsencode(tmp_path))
    assert (caught.value.errno, caught.value.filename) == (errno.ELOOP, str(tmp_path / "circle"))


def test_signals_are_seen_while_objects_are_looked_for(tmp_path: Path) -> None:
    """A server of files may need minutes for all: Ctrl-C must not wait for it."""
    keys = Keys.of([*map(str, range(5000)), "last"])
    found = with_a_signal(partial(existing, keys, os.fsencode(tmp_path)), (tmp_path / "last").touch)
    assert np.flatnonzero(found).tolist() == [5000]
    with pytest.raises(KeyboardInterrupt):
        with_a_signal(partial(existing, keys, os.fsencode(tmp_path)), interrupted)


def interrupted() -> None:
    raise KeyboardInterrupt
