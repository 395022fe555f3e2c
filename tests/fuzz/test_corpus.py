"""What fuzzing has gathered, and what it has found, once more: nothing but the errors meant for stored bytes comes."""

from __future__ import annotations

import pytest

from fuzz import corpus
from fuzz.targets import REFUSALS, TARGETS, Target, attempt


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus(name: str) -> None:
    target = TARGETS[name]
    inputs = [*target.seeds(), *corpus.load(name)]
    taken = sum(attempt(target, data) for data in inputs)
    assert taken, "not even the examples are taken: the target is of no use"


def test_archives_belong_to_targets() -> None:
    assert {path.stem for path in corpus.FOLDER.glob("*.zip")} <= TARGETS.keys()


def test_a_fault_is_no_refusal() -> None:
    """The harness would see an IndexError, a MemoryError, a struct.error, and a wrong result."""

    def wrong(data: bytes) -> None:
        assert data[5] != 7

    target = Target("wrong", wrong, list)
    for data, error in ((b"", IndexError), (bytes([7] * 6), AssertionError)):
        with pytest.raises(error):
            attempt(target, data)
    assert not any(issubclass(kind, REFUSALS) for kind in (MemoryError, OverflowError, IndexError, RecursionError))
