"""What takes the place of a store, a level or an array, and fails at the last step: what was there stays."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore import zvf
from zvcore.stores import LocalStore, staging

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def write(path: Path, tag: int, **options: Any) -> None:
    places = np.random.default_rng(tag).random((20, 3)) * 100
    zvf.write_points(path, places, chunk_shape=(50.0, 50.0, 50.0), **options)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def failing(real: Callable[..., Any], chosen: Callable[..., bool], times: int = 1) -> Callable[..., Any]:
    """The function, which fails for the first calls that are chosen."""
    left = times

    def fails(*arguments: Any, **options: Any) -> Any:
        nonlocal left
        if left and chosen(*arguments):
            left -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(*arguments, **options)

    return fails


def named(name: str) -> Callable[..., bool]:
    """Whether the first path of a call has this name."""
    return lambda path, *_: os.path.basename(os.fsdecode(path)) == name


FAILURES: dict[str, tuple[Any, str, Callable[..., bool]]] = {
    "the document": (LocalStore, "put", lambda store, key, data: key == "zarr.json" and ".zvstage" not in store.root),
    "the old store goes": (os, "rename", lambda source, target: os.path.basename(os.fsdecode(source)) == "0"),
    "the new level": (os, "rename", named("new")),
}


@pytest.mark.parametrize("what", FAILURES)
def test_a_store_that_could_not_be_replaced_is_there_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    write(tmp_path / "s", 1)
    before = content(tmp_path / "s")
    owner, function, chosen = FAILURES[what]
    with monkeypatch.context() as patch:
        patch.setattr(owner, function, failing(getattr(owner, function), chosen))
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            write(tmp_path / "s", 2, overwrite=True)
    assert content(tmp_path / "s") == before
    assert zvcore.verify(tmp_path / "s").ok
    write(tmp_path / "s", 2, overwrite=True)
    assert content(tmp_path / "s") != before and zvcore.verify(tmp_path / "s").ok
    assert not (tmp_path / "s" / ".zvstage").exists()


def test_a_level_that_could_not_be_put_in_place_in_two_steps_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "s", 1)
    before = content(tmp_path / "s" / "0")
    with monkeypatch.context() as patch:
        patch.setattr(staging, "exchange", lambda first, second: False)
        patch.setattr(os, "rename", failing(os.rename, named("new")))
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            write(tmp_path / "s", 2, append=True)
    assert content(tmp_path / "s" / "0") == before
    assert zvcore.verify(tmp_path / "s").ok


def test_what_could_not_even_be_put_back_is_put_back_by_the_next_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "s", 1)
    before = content(tmp_path / "s")
    with monkeypatch.context() as patch:
        patch.setattr(staging, "exchange", lambda first, second: False)
        # The new level cannot be put in place, nor the old one back.
        patch.setattr(os, "rename", failing(os.rename, lambda source, target: target.endswith(b"/0"), 2))
        with pytest.raises(OSError, match=os.strerror(errno.EIO)) as caught:
            write(tmp_path / "s", 2, append=True)
    assert "the next writer will" in "".join(caught.value.__notes__)
    with staging.staging(LocalStore(tmp_path / "s")):
        pass
    assert content(tmp_path / "s" / "0") == {name[2:]: data for name, data in before.items() if name.startswith("0/")}


def test_nobody_takes_what_cannot_be_looked_at_for_something_to_drop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old level lies in the staging place alone, after a death between two renames, and the disk fails."""
    write(tmp_path / "s", 1)
    before = content(tmp_path / "s")
    store = LocalStore(tmp_path / "s")
    place = staging.Staging(store)
    place.make("0")
    os.rename(tmp_path / "s" / "0", tmp_path / "s" / ".zvstage" / "1" / "old")
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", failing(os.stat, named("old")))
        with pytest.raises(OSError, match=os.strerror(errno.EIO)), staging.staging(store):
            pass
    with staging.staging(store):
        pass
    assert content(tmp_path / "s") == before
