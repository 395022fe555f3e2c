"""Arrays that others have removed, replaced or resized since they were opened are not read or written in silence."""

from __future__ import annotations

import pickle
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.settling import wait_until_settled
from zvcore.errors import ConflictError, NotFoundError
from zvcore.stores import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KINDS: dict[str, dict[str, Any]] = {
    "zarr3": {},
    "zarr3 shards": {"shards": (8, 8, 8)},
    "zarr3 rectilinear": {"chunks": ([4, 4], 4, 4)},
    "zarr2": {},
    "n5": {},
    "precomputed": {},
    "precomputed shards": {"sharding": "advise"},
}
RESIZED = ["zarr3", "zarr3 shards", "zarr2", "n5"]


def made(path: Any, kind: str, n: int = 8, dtype: str = "u2") -> Any:
    options = {"shape": (n, 8, 8), "dtype": dtype, "chunks": (4, 4, 4), "overwrite": True, **KINDS[kind]}
    array = zvcore.create(path, format=kind.split()[0], **options)
    array[...] = 7
    return array


def opened(path: Any, mode: str = "r+") -> Any:
    found = zvcore.open(path, mode)
    return found if isinstance(found, zvcore.Array) else found[0]


def reads(array: Any) -> list[Callable[[], Any]]:
    return [
        lambda: array[...],
        lambda: array[0, 0, 0],
        lambda: array.read(np.s_[2], out=np.empty(array.shape[1:], array.dtype)),
        lambda: array.oindex[[1, 2]],
        lambda: array.vindex[[1], [2], [3], [0]] if array.ndim == 4 else array.vindex[[1], [2], [3]],
    ]


def opened_and_read(path: Any, kind: str, known: bool) -> Any:
    """With `known`, all that reads leave behind for the next ones is there."""
    if not known:
        return opened(path)
    wait_until_settled(path)
    array = opened(path)
    for _ in range(2):
        for call in reads(array)[:-1] if kind == "zarr3 rectilinear" else reads(array):
            assert np.all(call() == 7)
    return array


def writes(array: Any) -> list[Callable[[], Any]]:
    first = (0,) * array.ndim
    return [
        lambda: array.__setitem__(..., 3),
        lambda: array.write(np.s_[0, 0, 0], 3),
        lambda: array.oindex.__setitem__([1, 2], 3),
        lambda: array.write_encoded(first, b"x"),
        lambda: array.delete_block(first),
    ]


def gathers(array: Any) -> None:
    with array.shard_writer() as writer:
        writer[...] = 3


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_an_array_that_was_removed(tmp_path: Path, kind: str, known: bool) -> None:
    place = tmp_path / "a"
    made(place, kind)
    array = opened_and_read(place, kind, known)
    copies = [array, pickle.loads(pickle.dumps(array))]
    assert (array[...] == 7).all()
    shutil.rmtree(place)
    for one in copies:
        for call in [*reads(one), *writes(one)]:
            if kind == "zarr3 rectilinear" and getattr(call, "__name__", "") == "gathered":
                continue
            with pytest.raises(NotFoundError):
                call()
    assert not place.exists()


@pytest.mark.parametrize("kind", KINDS)
def test_attributes_of_an_array_that_was_removed(tmp_path: Path, kind: str) -> None:
    """They would be those of something that is not there, or of a group."""
    made(tmp_path / "a", kind)
    array = opened(tmp_path / "a")
    array.attrs["x"] = 1
    shutil.rmtree(tmp_path / "a")
    with pytest.raises(NotFoundError):
        array.attrs["x"] = 2
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_another_array_in_its_place(tmp_path: Path, kind: str, known: bool) -> None:
    place = tmp_path / "a"
    made(place, kind)
    array = opened_and_read(place, kind, known)
    made(place, kind, dtype="f4")
    # Points of a rectilinear array are told to be damaged.
    asked = reads(array)[:-1] if kind == "zarr3 rectilinear" else reads(array)
    for call in [*asked, *writes(array)]:
        with pytest.raises(ConflictError, match="another array has taken the place"):
            call()
    assert (opened(place)[...] == 7).all()


@pytest.mark.parametrize("kind", RESIZED)
def test_writers_of_shards(tmp_path: Path, kind: str) -> None:
    array = made(tmp_path / "a", kind)
    made(tmp_path / "a", kind, dtype="f4")
    with pytest.raises(ConflictError, match="another array has taken the place"):
        gathers(array)
    shutil.rmtree(tmp_path / "a")
    with pytest.raises(NotFoundError):
        gathers(array)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("kind", RESIZED)
def test_an_array_that_has_become_smaller(tmp_path: Path, kind: str, known: bool) -> None:
    place = tmp_path / "a"
    made(place, kind)
    array, other = opened_and_read(place, kind, known), opened(place)
    other.resize((4, 8, 8))
    for call in [*reads(array), *writes(array)]:
        with pytest.raises(ConflictError, match="another shape meanwhile: refresh"):
            call()
    assert zvcore.verify(place).ok and (opened(place)[...] == 7).all()
    array.refresh()
    array[...] = 9
    assert array.shape == (4, 8, 8) and (other[...] == 9).all()


@pytest.mark.parametrize("kind", RESIZED)
def test_an_array_that_has_grown(tmp_path: Path, kind: str) -> None:
    """Old handles go on where their end cuts no chunk; else they would overwrite what lies behind it."""
    place = tmp_path / "a"
    made(place, kind)
    array, other = opened(place), opened(place)
    other.resize((14, 8, 8))
    other[8:] = 5
    assert (array[...] == 7).all()
    array[...] = 6
    late = opened(place)
    other.resize((16, 8, 8))
    other[14:] = 4
    with pytest.raises(ConflictError, match=r"refresh\(\) it \(expected \(14, 8, 8\), found \(16, 8, 8\)\)"):
        late[12:14] = 1
    np.testing.assert_array_equal(other[:, 0, 0], [6] * 8 + [5] * 6 + [4] * 2)
    late.refresh()
    late[12:14] = 1
    np.testing.assert_array_equal(other[:, 0, 0], [6] * 8 + [5] * 4 + [1] * 2 + [4] * 2)


@pytest.mark.parametrize("kind", KINDS)
def test_attributes_and_what_is_made_again_as_it_was_are_no_change(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "a"
    made(place, kind)
    array, other = opened(place), opened(place)
    other.attrs["name"] = "of others"
    array[...] = 3
    array.attrs["mine"] = 1
    assert (array[...] == 3).all()
    made(place, kind)
    assert (array[...] == 7).all()
    array[...] = 3
    assert (opened(place)[...] == 3).all()


def test_another_scale_of_a_volume_is_no_change(tmp_path: Path) -> None:
    made(tmp_path, "precomputed")
    array = opened(tmp_path)
    zvcore.create(tmp_path, format="precomputed", shape=(4, 4, 4), dtype="u2", resolution=(2, 2, 2))
    array[...] = 3
    assert (array[...] == 3).all()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "zarr3 rectilinear"])
def test_far_away_it_is_looked_at_now_and_then(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    store = MemoryStore()
    made(store, kind)
    monkeypatch.setattr(MemoryStore, "remote", True)
    array = opened(store)
    asked: list[str] = []
    stamp = MemoryStore.stamp
    monkeypatch.setattr(MemoryStore, "stamp", lambda self, key: (asked.append(key), stamp(self, key))[1])
    document = array._document.key
    assert (array[...] == 7).all()
    array[:1] = 7
    assert document not in asked
    monkeypatch.setattr("zvcore.documents.standing._PAUSE", 0)
    assert (array[...] == 7).all()
    assert document not in asked, "only what may be missing is asked about"
    array[:1] = 7
    assert document in asked
    store.delete_prefix("")
    with pytest.raises(NotFoundError):
        array[...]
    with pytest.raises(NotFoundError):
        array[:1] = 7
    assert not [*store.list()]


def test_what_a_damaged_read_means(tmp_path: Path) -> None:
    """Chunks of another array are no damage of this one."""
    place = tmp_path / "a"
    array = zvcore.create(place, format="zarr3", shape=(4,), dtype="u2", chunks=(4,), codec="gzip")
    array[...] = 1
    zvcore.create(place, format="zarr3", shape=(4,), dtype="u8", chunks=(4,), codec=None, overwrite=True)[...] = 1
    with pytest.raises(ConflictError, match="another array has taken the place"):
        array[...]


@pytest.mark.parametrize("kind", RESIZED)
def test_the_document_is_read_once_for_each_of_its_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr("zvcore.stores.local.LocalStore.settled", lambda self, stamp: True)
    made(tmp_path / "a", kind)
    array, other = opened(tmp_path / "a"), opened(tmp_path / "a")
    read: list[int] = []
    latest = type(array._document).latest
    monkeypatch.setattr(type(array._document), "latest", lambda self: (read.append(1), latest(self))[1])
    for change in (lambda: other.resize((12, 8, 8)), lambda: other.attrs.update(a=1)):
        change()
        read.clear()
        for _ in range(3):
            array[0] = 3
            assert (array[0] == 3).all()
        assert len(read) <= 1


@pytest.mark.parametrize("change", ["removed", "replaced", "resized"])
def test_far_away_whoever_tries_at_once_again_is_refused_again(monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    store = MemoryStore()
    made(store, "zarr3")
    monkeypatch.setattr(MemoryStore, "remote", True)
    array = opened(store)
    if change == "removed":
        store.delete_prefix("")
    elif change == "replaced":
        made(store, "zarr3", dtype="f4")
    else:
        opened(store).resize((4, 8, 8))
    before = {key: bytes(store.get(key) or b"") for key in store.list()}
    # The first of these looks; for those that follow at once the answer is the same, with no need to ask.
    array.standing._looked = -1e9
    for call in writes(array):
        with pytest.raises((ConflictError, NotFoundError)):
            call()
    assert {key: bytes(store.get(key) or b"") for key in store.list()} == before


def test_far_away_an_array_that_has_grown_is_written_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each write is told what the last look has found, without another one."""
    store = MemoryStore()
    made(store, "zarr3")
    monkeypatch.setattr(MemoryStore, "remote", True)
    array = opened(store)
    opened(store).resize((10, 8, 8))
    array.standing._looked = -1e9
    asked: list[str] = []
    stamp = MemoryStore.stamp
    monkeypatch.setattr(MemoryStore, "stamp", lambda self, key: (asked.append(key), stamp(self, key))[1])
    for _ in range(3):
        array[:4] = 3
    assert asked.count(array._document.key) <= 1
    assert (opened(store)[:8] == np.repeat([3, 7], 4)[:, None, None]).all()


def test_a_document_that_is_too_young_when_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However old it has become until it was read: it may have changed in between without another stamp."""
    made(tmp_path / "a", "zarr3")
    array, other = opened(tmp_path / "a"), opened(tmp_path / "a")
    read: list[int] = []
    latest = type(array._document).latest
    other.resize((12, 8, 8))
    monkeypatch.setattr(type(array._document), "latest", lambda self: (read.append(1), latest(self))[1])
    monkeypatch.setattr("zvcore.stores.local.LocalStore.settled", lambda self, stamp: bool(read))
    for _ in range(3):
        array[0] = 3
    assert len(read) == 2


def test_what_was_sent_to_another_process_looks_at_its_document_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path / "a", "zarr3")
    wait_until_settled(tmp_path / "a")
    array = pickle.loads(pickle.dumps(opened(tmp_path / "a")))
    assert (array[...] == 7).all()
    asked: list[Any] = []
    monkeypatch.setattr(type(array.standing), "check_read", lambda *given: asked.append(given))
    assert (array[...] == 7).all()
    assert not asked
    monkeypatch.undo()
    made(tmp_path / "a", "zarr3", dtype="f4")
    with pytest.raises(ConflictError, match="another array has taken the place"):
        array[...]


@pytest.mark.parametrize("change", ["removed", "replaced", "none"])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_what_was_sent_before_is_held_against_what_is_there(
    tmp_path: Path, kind: str, known: bool, change: str
) -> None:
    place = tmp_path / "a"
    made(place, kind)
    sent = pickle.dumps(opened_and_read(place, kind, known))
    if change == "removed":
        shutil.rmtree(place)
    elif change == "replaced":
        made(place, kind, dtype="i2")[...] = -1
    wait_until_settled(tmp_path)
    array = pickle.loads(sent)
    asked = reads(array)[:-1] if kind == "zarr3 rectilinear" else reads(array)
    if change == "none":
        assert all((call() == 7).all() for call in asked)
        array[0] = 3
        assert (opened(place)[0] == 3).all()
        return
    for call in [*asked, *writes(array)]:
        with pytest.raises((ConflictError, NotFoundError)):
            call()


@pytest.mark.parametrize("kind", ["zarr3", "zarr2", "n5", "precomputed"])
def test_what_was_sent_and_is_as_it_was_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    made(tmp_path / "a", kind)
    wait_until_settled(tmp_path / "a")
    array = pickle.loads(pickle.dumps(opened(tmp_path / "a")))
    read: list[int] = []
    latest = type(array._document).latest
    monkeypatch.setattr(type(array._document), "latest", lambda self: (read.append(1), latest(self))[1])
    assert (array[...] == 7).all()
    array[0] = 3
    assert read == []


@pytest.mark.parametrize("sent", [False, True])
@pytest.mark.parametrize("change", ["removed", "replaced"])
def test_a_volume_that_was_opened_before(tmp_path: Path, change: str, sent: bool) -> None:
    """Its scales are made of the `info` as it was then."""
    made(tmp_path / "a", "precomputed")
    wait_until_settled(tmp_path / "a")
    volume = zvcore.open(tmp_path / "a", "r+")
    bytes_of_it = pickle.dumps(volume)
    shutil.rmtree(tmp_path / "a")
    if change == "replaced":
        made(tmp_path / "a", "precomputed", dtype="i2")[...] = -1
    wait_until_settled(tmp_path)
    array = (pickle.loads(bytes_of_it) if sent else volume)[0]
    for call in [*reads(array), *writes(array)]:
        with pytest.raises((ConflictError, NotFoundError)):
            call()


def test_far_away_what_was_sent_is_looked_at_before_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path / "a", "zarr3")
    monkeypatch.setattr("zvcore.stores.LocalStore.remote", True)
    sent = pickle.dumps(opened(tmp_path / "a"))
    made(tmp_path / "a", "zarr3", dtype="i2")[...] = -1
    for call in writes(pickle.loads(sent)):
        with pytest.raises(ConflictError, match="another array has taken the place"):
            call()


def test_far_away_a_volume_that_was_opened_long_ago_is_looked_at_before_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path / "a", "precomputed")
    monkeypatch.setattr("zvcore.stores.LocalStore.remote", True)
    volume = zvcore.open(tmp_path / "a", "r+")
    volume._document.since -= 60
    made(tmp_path / "a", "precomputed", dtype="i2")[...] = -1
    for call in writes(volume[0]):
        with pytest.raises(ConflictError, match="another array has taken the place"):
            call()
