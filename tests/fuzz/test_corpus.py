"""What fuzzing has gathered, and what it has found, once more: nothing but the errors meant for stored bytes comes."""

from __future__ import annotations

import pytest

from fuzz import corpus
from fuzz.harness import REFUSALS, Target, all_targets, attempt

TARGETS = all_targets()


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if not target.needs])
def test_the_corpus(name: str) -> None:
    replay(name)


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.needs])
def test_the_corpus_of_what_libraries_read(name: str) -> None:
    pytest.importorskip("h5py")  # so that tests/needs.py sees that there are libraries
    pytest.importorskip(TARGETS[name].needs)
    replay(name)


def replay(name: str) -> None:
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
