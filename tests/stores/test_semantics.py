"""What every store promises, on each of them."""

from __future__ import annotations

import itertools
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zvcore.errors import (
    ConflictError,
    CorruptDataError,
    InvalidKeyError,
    NotFoundError,
    ReadOnlyError,
    UnsupportedError,
    ZvcoreError,
)
from zvcore.stores import LocalStore, MemoryStore, Store
from zvcore.stores.ranges import coalesce

if TYPE_CHECKING:
    from collections.abc import Callable


def test_put_get_delete(store: Store) -> None:
    assert store.get("a/b/c") is None
    assert store.size("a/b/c") is None
    assert store.stamp("a/b/c") is None
    assert not store.exists("a/b/c")
    assert not store.delete("a/b/c")
    store.put("a/b/c", b"hello")
    assert store.get("a/b/c") == b"hello"
    assert store.size("a/b/c") == 5
    assert store.exists("a/b/c")
    store.put("a/b/c", b"")
    assert store.get("a/b/c") == b""
    assert store.size("a/b/c") == 0
    assert store.delete("a/b/c")
    assert store.get("a/b/c") is None


@pytest.mark.parametrize(
    ("start", "length", "expected"),
    [
        (0, None, b"0123456789"),
        (0, 0, b""),
        (3, None, b"3456789"),
        (3, 4, b"3456"),
        (8, 10, b"89"),
        (10, 1, b""),
        (11, None, b""),
        (2**63, None, b""),
        (2**70, 2**70, b""),
        (1, 2**70, b"123456789"),
        (-3, None, b"789"),
        (-10, None, b"0123456789"),
        (-11, None, b"0123456789"),
        (-(2**70), None, b"0123456789"),
    ],
)
def test_get_parts(store: Store, start: int, length: int | None, expected: bytes) -> None:
    store.put("x", b"0123456789")
    for _ in range(2):  # the second time from what may be kept open
        assert store.get("x", start, length) == expected
    assert store.get("y", start, length) is None


@pytest.mark.parametrize(("start", "length"), [(0, -1), (-1, 1), (-5, 0)])
def test_get_refuses_parts_that_make_no_sense(store: Store, start: int, length: int) -> None:
    with pytest.raises(ValueError, match=r"range has no negative length|takes no length"):
        store.get("x", start, length)


def test_get_ranges(store: Store) -> None:
    data = random.Random(1).randbytes(300_000)
    store.put("x", data)
    ranges = [(299_999, 1), (5, 10), (0, 300_000), (7, 2), (300_000, 0), (150_000, 3), (5, 10), (200_000, 0)]
    answer = store.get_ranges("x", ranges)
    assert answer is not None
    assert [bytes(view) for view in answer] == [data[o : o + n] for o, n in ranges]
    assert all(isinstance(view, memoryview) and view.format == "B" and view.ndim == 1 for view in answer)
    assert store.get_ranges("x", []) == []
    assert store.get_ranges("y", ranges) is None
    assert store.get_ranges("y", []) is None


@pytest.mark.parametrize("bad", [(10, 1), (11, 0), (0, 11), (9, 2), (2**63 - 1, 2**63 - 1), (2**64 - 1, 1), (2**64, 0)])
def test_get_ranges_past_the_end(store: Store, bad: tuple[int, int]) -> None:
    store.put("dir/x", b"0123456789")
    with pytest.raises(CorruptDataError) as caught:
        store.get_ranges("dir/x", [(0, 1), bad])
    assert caught.value.key == "dir/x"
    assert (caught.value.offset, caught.value.length) == bad
    assert "10 bytes" in str(caught.value)


@pytest.mark.parametrize("bad", [(-1, 1), (0, -1), (-5, -5)])
def test_get_ranges_negative(store: Store, bad: tuple[int, int]) -> None:
    store.put("x", b"0123456789")
    with pytest.raises(ValueError, match="cannot have offset"):
        store.get_ranges("x", [bad])


def test_get_many(store: Store) -> None:
    for i in range(0, 20, 2):
        store.put(f"c/{i}", b"%d" % i)
    answers = list(store.get_many(f"c/{i}" for i in range(20)))
    assert answers == [b"%d" % i if i % 2 == 0 else None for i in range(20)]


@pytest.mark.parametrize(
    "data",
    [
        [],
        [b""],
        [b"ab", bytearray(b"cd"), memoryview(b"xefx")[1:3], np.frombuffer(b"gh", "u1")],
        (np.arange(4, dtype=">u4"), b"", np.zeros((0, 3))),
        [b"x"] * 5000,
    ],
    ids=["none", "empty", "kinds", "numbers", "many"],
)
def test_put_parts(store: Store, data: list[bytes]) -> None:
    store.put("x", data)
    expected = b"".join(part.tobytes() if isinstance(part, np.ndarray) else bytes(part) for part in data)
    assert store.get("x") == expected


def test_put_single_buffers(store: Store) -> None:
    array = np.arange(1000, dtype="<u2").reshape(10, 100)
    store.put("x", array)
    assert store.get("x") == array.tobytes()
    store.put("x", bytearray(b"abc"))
    assert store.get("x") == b"abc"


def test_what_is_stored_does_not_change_with_the_buffer(store: Store) -> None:
    data = bytearray(b"abc")
    store.put("x", data)
    data[:] = b"xyz"
    assert store.get("x") == b"abc"


@pytest.mark.parametrize(
    "bad", ["text", 5, None, [b"ok", "text"], np.arange(10)[::2], np.asfortranarray(np.ones((3, 4)))]
)
def test_put_refuses_what_is_no_buffer(store: Store, bad: object) -> None:
    store.put("x", b"old")
    with pytest.raises((TypeError, ValueError, BufferError)):
        store.put("x", bad)  # type: ignore[arg-type]
    assert store.get("x") == b"old"
    assert list(store.list()) == ["x"]


def test_stamp_changes_with_the_content(store: Store) -> None:
    seen = set()
    for i in range(50):
        store.put("x", b"%02d" % i)
        stamp = store.stamp("x")
        assert stamp == store.stamp("x")
        seen.add(stamp)
    assert len(seen) == 50
    if store.supports_patch:
        for i in range(50):
            store.patch("x", 0, b"%02d" % i)
            seen.add(store.stamp("x"))
        store.delete("x")
        store.put("x", b"00")
        seen.add(store.stamp("x"))
        assert len(seen) == 101
    assert None not in seen


def test_reading_a_version(store: Store) -> None:
    store.put("x", b"0123456789")
    stamp = store.stamp("x")
    assert store.get("x", stamp=stamp) == b"0123456789"
    assert store.get("x", 1, 2, stamp=stamp) == b"12"
    assert store.get_ranges("x", [(1, 2)], stamp=stamp) == [b"12"]
    for change in (lambda: store.put("x", b"9876543210"), lambda: store.patch("x", 0, b"5")):
        if not store.supports_patch and store.get("x") != b"0123456789":
            break
        change()
        for read in (
            lambda s: store.get("x", stamp=s),
            lambda s: store.get("x", 1, 2, stamp=s),
            lambda s: store.get_ranges("x", [(1, 2)], stamp=s),
        ):
            with pytest.raises(ConflictError) as caught:
                read(stamp)
            assert caught.value.key == "x"
            read(store.stamp("x"))
        stamp = store.stamp("x")


def test_put_if_unchanged(store: Store) -> None:
    store.put_if_unchanged("a/x", b"one", None)
    with pytest.raises(ConflictError, match="a/x: the object exists already"):
        store.put_if_unchanged("a/x", b"two", None)
    first = store.stamp("a/x")
    assert first is not None
    store.put_if_unchanged("a/x", [b"t", b"wo"], first)
    assert store.get("a/x") == b"two"
    with pytest.raises(ConflictError, match="changed by someone else"):
        store.put_if_unchanged("a/x", b"three", first)
    store.delete("a/x")
    with pytest.raises(ConflictError):
        store.put_if_unchanged("a/x", b"three", first)
    assert store.get("a/x") is None


def test_put_if_unchanged_under_the_lock(changeable: Store) -> None:
    store = changeable
    with store.lock("x"):
        store.put_if_unchanged("x", b"one", None)
        store.put_if_unchanged("x", b"two", store.stamp("x"))
    assert store.get("x") == b"two"
    assert list(store.list()) == ["x"]


def test_several_locks_at_once(changeable: Store) -> None:
    """All of them are held, and none where one of them cannot be."""
    store = changeable

    def is_free(key: str) -> bool:
        try:
            with store.lock(key, timeout=0):
                return True
        except ConflictError:
            return False

    with ThreadPoolExecutor(1) as other:
        with store.lock_all(["a", "b/c"]):
            assert [other.submit(is_free, key).result() for key in ("0", "a", "b/c")] == [True, False, False]
            for key in ("a", "b/c"):
                with pytest.raises(RuntimeError, match="holds the lock already"), store.lock_all(["0", key]):
                    pass
            store.put_if_unchanged("a", b"1", None)
            assert [other.submit(is_free, key).result() for key in ("0", "a", "b/c")] == [True, False, False]
        with store.lock_all(["d", "d"]):
            assert not other.submit(is_free, "d").result()
        with store.lock_all([]):
            assert all(other.submit(is_free, key).result() for key in ("0", "a", "b/c", "d"))


def test_append_and_patch(changeable: Store) -> None:
    store = changeable
    store.put("x", b"0123")
    store.append("x", [b"45", b"", b"6"], at=4)
    store.append("x", b"7", at=7)
    assert store.get("x") == b"01234567"
    store.patch("x", 2, [b"a", b"b"])
    store.patch("x", 8, b"")
    store.patch("x", 0, b"A")
    assert store.get("x") == b"A1ab4567"


def test_append_and_patch_refuse(changeable: Store) -> None:
    store = changeable
    store.put("x", b"0123")
    for at in (0, 3, 5):
        with pytest.raises(ConflictError) as caught:
            store.append("x", b"zz", at=at)
        assert (caught.value.key, caught.value.found) == ("x", 4)
    for offset in (3, 4, 5, 2**62, 2**63 - 1):
        with pytest.raises(CorruptDataError):
            store.patch("x", offset, b"zz")
    for offset in (-1, 2**63, 2**70):
        with pytest.raises(ValueError, match="no object has an offset"):
            store.patch("x", offset, b"")
        with pytest.raises(ValueError, match="no object has an offset"):
            store.append("x", b"", at=offset)
    assert store.get("x") == b"0123"
    for change in (lambda: store.append("y", b"", at=0), lambda: store.patch("y", 0, b"")):
        with pytest.raises(NotFoundError):
            change()
    assert list(store.list()) == ["x"]


def test_list(store: Store) -> None:
    keys = ["a/b", "a/c/d", "a.b", "ab", "a-b/x", "zarr.json", "a/c/e/f/g", "ü/é", "a/.zattrs", ".hidden/x"]
    for key in keys:
        store.put(key, key.encode())
    assert list(store.list()) == sorted(keys)
    assert list(store.list("a")) == list(store.list("a/")) == ["a/.zattrs", "a/b", "a/c/d", "a/c/e/f/g"]
    assert list(store.list("a/c")) == ["a/c/d", "a/c/e/f/g"]
    assert list(store.list("a/b")) == []
    assert list(store.list("missing")) == []
    assert store.list_dir() == ([".hidden", "a", "a-b", "ü"], ["a.b", "ab", "zarr.json"])
    assert store.list_dir("a") == (["c"], [".zattrs", "b"])
    assert store.list_dir("missing") == ([], [])
    assert store.list_dir("zarr.json") == ([], [])


def test_delete_prefix(store: Store) -> None:
    for key in ("a/b", "a/c/d", "ab/c", "a.b"):
        store.put(key, b"x")
    assert store.delete_prefix("a") == 2
    assert list(store.list()) == ["a.b", "ab/c"]
    assert store.list_dir() == (["ab"], ["a.b"])
    assert store.delete_prefix("a/") == 0
    assert store.delete_prefix("nothing/here") == 0
    assert store.delete_prefix("") == 2
    assert store.list_dir() == ([], [])
    store.put("again", b"x")
    assert list(store.list()) == ["again"]


def test_child(store: Store) -> None:
    child = store.child("a/b")
    child.put("x", b"1")
    assert store.get("a/b/x") == b"1"
    assert list(child.list()) == ["x"]
    assert child.object_id("x") == store.object_id("a/b/x")
    assert child.stamp("x") == store.stamp("a/b/x")
    assert child.child("c/").object_id("y") == store.object_id("a/b/c/y")
    assert store.child("").object_id("y") == store.object_id("y")
    store.put("top", b"")
    assert child.delete_prefix("") == 1
    assert list(store.list()) == ["top"]
    assert child.root.startswith(store.root)
    assert child.root.endswith("a/b")


HOSTILE = [
    "",
    "/",
    "/etc/passwd",
    "..",
    "../x",
    "a/../../x",
    "a/..",
    "a/./b",
    ".",
    "./a",
    "a//b",
    "a/",
    "a/b//",
    "a\0b",
    "a\0/../x",
    "\\",
    "..\\x",
    "a\\..\\..\\b",
    "a/\\b",
    "\ud800",
    "a/\udfff/b",
    ".x.zvlock",
    "a/.0123456789abcdef.zvtmp",
    ".x.zvtmp/b",
]


@pytest.mark.parametrize("key", HOSTILE, ids=ascii)
def test_hostile_keys(store: Store, tmp_path: Path, key: str) -> None:
    uses: list[Callable[[], object]] = [
        lambda: store.get(key),
        lambda: store.get(key, 1, 2),
        lambda: store.get_ranges(key, []),
        lambda: store.size(key),
        lambda: store.stamp(key),
        lambda: store.exists(key),
        lambda: store.put(key, b"x"),
        lambda: store.put_if_unchanged(key, b"x", None),
        lambda: store.append(key, b"x", 0),
        lambda: store.patch(key, 0, b"x"),
        lambda: store.delete(key),
        lambda: store.lock(key).__enter__(),
        lambda: store.object_id(key),
        lambda: list(store.get_many([key])),
    ]
    if key not in ("", "a/"):  # which are prefixes
        uses += [
            lambda: list(store.list(key)),
            lambda: store.list_dir(key),
            lambda: store.delete_prefix(key),
            lambda: store.child(key),
        ]
    for use in uses:
        with pytest.raises(InvalidKeyError) as caught:
            use()
        assert isinstance(caught.value, ValueError)
        assert isinstance(caught.value, ZvcoreError)
    assert list(store.list()) == []
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


@pytest.mark.parametrize("key", [None, 5, b"a", ("a",), Path("a")])
def test_keys_are_text(store: Store, key: Any) -> None:
    for use in (store.get, store.size, store.stamp, store.delete, store.lock, store.list_dir, store.child):
        with pytest.raises(TypeError, match="is a str, not"):
            use(key)


@pytest.mark.parametrize(
    "key", ["...", "..a", "a..", ".a", "a/.../b", "x.zvtmp", "zvlock", ".zvlock", "~", "a b", "%2e%2e", "c:d"]
)
def test_harmless_keys(store: Store, key: str) -> None:
    store.put(key, b"x")
    assert store.get(key) == b"x"
    assert list(store.list()) == [key]
    assert store.delete(key)


class Minimal(MemoryStore):
    """What a store of objects that cannot be changed or locked inherits."""

    can_lock = supports_patch = False
    append, patch, lock, exists = Store.append, Store.patch, Store.lock, Store.exists  # type: ignore[assignment]


def test_what_a_store_need_not_do() -> None:
    store = Minimal("minimal")
    store.put("x", b"1")
    for use in (lambda: store.append("x", b"", 1), lambda: store.patch("x", 0, b""), lambda: store.lock("x")):
        with pytest.raises(UnsupportedError, match=r"x: memory://minimal: objects here cannot be"):
            use()
    assert store.exists("x")
    assert not store.exists("y")
    store.close()
    assert store.get("x") == b"1"


@pytest.mark.parametrize("as_child", [False, True])
def test_read_only(store: Store, as_child: bool) -> None:
    if isinstance(store, LocalStore):
        reader: Store = LocalStore(store.root, read_only=True)
    else:
        store = MemoryStore("read-only test")
        reader = MemoryStore("read-only test", read_only=True)
    store.put("x", b"old")
    if as_child:
        reader = reader.child("").child("")
    writes: list[Callable[[], object]] = [
        lambda: reader.put("x", b"new"),
        lambda: reader.put_if_unchanged("x", b"new", reader.stamp("x")),
        lambda: reader.put_if_unchanged("y", b"new", None),
        lambda: reader.append("x", b"new", 3),
        lambda: reader.patch("x", 0, b"new"),
        lambda: reader.delete("x"),
        lambda: reader.delete("missing"),
        lambda: reader.delete_prefix(""),
        lambda: reader.lock("x").__enter__(),
    ]
    for write in writes:
        with pytest.raises(ReadOnlyError):
            write()
    assert reader.get("x") == b"old"
    assert "read-only" in repr(reader)


@given(st.data())
def test_coalescing_gives_back_every_range(data: st.DataObject) -> None:
    size = data.draw(st.integers(0, 400))
    ranges = data.draw(
        st.lists(st.integers(0, size).flatmap(lambda o: st.tuples(st.just(o), st.integers(0, size - o))), max_size=30)
    )
    gap = data.draw(st.integers(0, 50))
    limit = data.draw(st.integers(1, 200))
    spans = coalesce("k", ranges, size, gap, limit)
    assert sorted(i for _, _, members in spans for i in members) == list(range(len(ranges)))
    for start, stop, members in spans:
        for index in members:
            offset, length = ranges[index]
            assert start <= offset
            assert offset + length <= stop
    for one, other in itertools.pairwise(spans):
        assert one[1] <= other[0]
    # Bytes that nobody asked for come in runs of at most the gap.
    wanted = {i for o, n in ranges for i in range(o, o + n)}
    for start, stop, members in spans:
        runs = [len([*run]) for hit, run in itertools.groupby(range(start, stop), wanted.__contains__) if not hit]
        assert all(run <= gap * len(members) for run in runs)


def test_ranges_of_a_longer_version_are_a_conflict_and_no_damage(store: Store) -> None:
    store.put("x", b"a" * 100)
    stamp = store.stamp("x")
    assert store.get_ranges("x", [(90, 10)], stamp=stamp) == [b"a" * 10]
    store.put("x", b"b" * 10)
    with pytest.raises(ConflictError):
        store.get_ranges("x", [(0, 4), (90, 10)], stamp=stamp)
    with pytest.raises(CorruptDataError):
        store.get_ranges("x", [(0, 4), (90, 10)], stamp=store.stamp("x"))
