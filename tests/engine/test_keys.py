"""Keys as the engine's threads have them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from zvcore.engine.buffers import Keys
from zvcore.errors import InvalidKeyError

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
