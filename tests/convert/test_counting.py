"""What a conversion says that it wrote, where part of it had to be done again."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.converting.outcome import store_values
from zvcore.report import Outcome
from zvcore.transfer import replacing

if TYPE_CHECKING:
    from pathlib import Path

WORDS = np.array([["a" * (i % 7 + 1) for i in range(256)] for _ in range(256)], dtype=object)
NUMBERS = np.arange(64**3, dtype="u4").reshape(64, 64, 64)


def stored(to: str, values: Any, failing: int, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Outcome:
    """Written at once, and by batches of which one finds no more files to open."""
    array = zvcore.create(to, format="zarr3", shape=values.shape, **options)
    replace_batch, outcome, calls = replacing._replace_batch, Outcome(), 0

    def replace(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == failing:
            raise OSError(errno.EMFILE, "Too many open files")
        return replace_batch(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(replacing, "BATCH_BYTES", 1 << 16)
        patch.setattr(replacing, "_replace_batch", replace)
        store_values(array, tuple((0, extent) for extent in values.shape), values, 1, outcome)
    assert calls > 2
    assert (array[...] == values).all()
    return outcome


@pytest.mark.parametrize("failing", [0, 2, 3])
def test_what_is_stored_again_for_want_of_open_files_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    options = {"dtype": str, "chunks": (16, 16), "shards": (64, 64)}
    outcome = stored(str(tmp_path / "a"), WORDS, failing, monkeypatch, **options)
    files = [path for path in (tmp_path / "a" / "c").rglob("*") if path.is_file() and path.name[0] != "."]
    assert (outcome.encoded, outcome.empty) == (256, 0)
    assert outcome.bytes_out == sum(path.stat().st_size for path in files)


def test_where_there_are_no_files_either(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"dtype": "u4", "chunks": (16, 16, 16), "shards": (32, 32, 32), "codec": "raw"}
    once, again = (stored(f"memory://counting{n}", NUMBERS, n, monkeypatch, **options) for n in (0, 2))
    assert (once.encoded, once.bytes_out) == (again.encoded, again.bytes_out)
    assert once.encoded == 64
