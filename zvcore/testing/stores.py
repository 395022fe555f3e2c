"""`check_store`, for the tests of store plugins."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from zvcore.errors import ConflictError, CorruptDataError, InvalidKeyError, ReadOnlyError, UnsupportedError, ZvcoreError
from zvcore.stores.writing import ANYTHING
from zvcore.testing.raising import refuses

if TYPE_CHECKING:
    from collections.abc import Callable

    from zvcore.stores import Store

__all__ = ["check_store"]

WRITERS = 4
CHANGES = 25
# Keys that lead out of the store, or nowhere.
HOSTILE = ("", "/", "/etc/passwd", "..", "../x", "a/../../x", "a/./b", "a//b", "a\0b", "a\\b", "\ud800", ".x.zvlock")


def check_store(open: Callable[[str], Store]) -> None:
    """Raise AssertionError, saying what is wrong, unless a store does everything that zvcore relies on.

    `open(mode)`, with "r" or "w", opens the same place each time, as a new store. The place is empty, and is
    left empty.
    """
    store = open("w")
    assert not store.read_only, "mode 'w' gives a store that can be written to"
    assert list(store.list()) == [], f"{store.root} must be empty for this test"
    try:
        _check_objects(store)
        _check_parts(store)
        _check_stamps(store, open("w"))
        _check_listing(store)
        _check_children(store)
        _check_keys(store)
        _check_conditions(store, open("w"))
        _check_many(store)
        _check_two_writers(open)
        _check_locks(store)
        _check_pieces(store)
        _check_reading_only(store, open("r"))
    finally:
        store.delete_prefix("")
    assert list(store.list()) == [], "delete_prefix('') empties a store"


def _bytes(store: Store, key: str) -> bytes | None:
    found = store.get(key)
    return None if found is None else bytes(found)


def _check_objects(store: Store) -> None:
    for ask in (store.get, store.size, store.stamp, lambda key: store.get_ranges(key, [(0, 1)])):
        assert ask("a/b") is None, "an object that is not there is None, not an error"
    assert not store.exists("a/b")
    assert store.delete("a/b") is False, "delete of what is not there is False"
    contents: list[Any] = [b"", b"hello", bytearray(b"hello"), [b"he", b"", memoryview(b"llo")], bytes(300_000)]
    for data in contents:
        whole = b"".join(data) if isinstance(data, list) else bytes(data)
        store.put("a/b", data)
        assert _bytes(store, "a/b") == whole, f"what was put is not what get gives ({len(whole)} bytes)"
        assert store.size("a/b") == len(whole), "size is not the number of bytes"
        assert store.exists("a/b")
    found = store.snapshot("a/b", -10)
    assert found is not None, "a snapshot of an object that is there"
    assert (bytes(found.data), found.size, found.stamp) == (bytes(10), 300_000, store.stamp("a/b"))
    assert [None if data is None else len(data) for data in store.get_many(["x", "a/b"])] == [None, 300_000]
    assert store.delete("a/b") is True, "delete of what is there is True"
    assert store.get("a/b") is None, "what was deleted is gone"


def _check_many(store: Store) -> None:
    store.put("many/old", b"older")
    stamp = store.stamp("many/old")
    store.put("many/old", b"newer")
    others = [f"many/{number}" for number in range(8)]
    wanted: list[Any] = [("many/old", b"mine", stamp), ("many/old", b"mine", None)]
    wanted += [(key, [key.encode(), b"!"], ANYTHING if number % 2 else None) for number, key in enumerate(others)]
    assert store.put_each(wanted) == [False, False] + [True] * 8, "put_each says what was stored"
    assert _bytes(store, "many/old") == b"newer", "put_each stores nothing under a condition that does not hold"
    names = [*others, "many/missing", "many/old"]
    expected = [*(key.encode() + b"!" for key in others), None, b"newer"]
    assert [None if data is None else bytes(data) for data in store.get_many(names)] == expected
    for name, data, found in zip(names, expected, store.snapshots(names), strict=True):
        assert (None if found is None else bytes(found.data)) == data, "snapshots are as many as keys"
        assert found is None or (found.size, found.stamp) == (len(bytes(found.data)), store.stamp(name))
    for key, told in zip(others, store.put_stamped([(key, b"again", ANYTHING) for key in others]), strict=True):
        assert told, "put_stamped says what was stored"
        if told is not True:
            read = partial(store.get_ranges, key, [(1, 3)], stamp=told)
            assert [*map(bytes, read() or ())] == [b"gai"], "put_stamped gives the stamp of what it put"
            store.put(key, b"other")
            refuses(ConflictError, read, "the stamp that put_stamped gave, of an older version")
            change = partial(store.put_if_unchanged, key, b"mine", told)
            refuses(ConflictError, change, "the stamp that put_stamped gave, of an older version")


def _check_parts(store: Store) -> None:
    data = bytes(range(100))
    store.put("x", data)
    for start, length in ((0, 0), (0, 10), (5, None), (90, 20), (100, 1), (200, None), (-7, None), (-300, None)):
        found = store.get("x", start, length)
        expected = data[start:] if length is None else data[start : start + length]
        assert found is not None and bytes(found) == expected, f"get('x', {start}, {length})"
    refuses(ValueError, lambda: store.get("x", 0, -1), "a negative length")
    ranges = [(99, 1), (5, 10), (0, 100), (7, 2), (100, 0), (5, 10)]
    parts = store.get_ranges("x", ranges)
    assert parts is not None
    assert [bytes(part) for part in parts] == [data[at : at + n] for at, n in ranges], f"get_ranges('x', {ranges})"
    for bad in ((100, 1), (99, 2), (2**62, 1)):
        error = refuses(CorruptDataError, partial(store.get_ranges, "x", [(0, 1), bad]), f"range {bad}")
        assert isinstance(error, ZvcoreError) and error.key == "x", "errors say which key"


def _check_stamps(store: Store, other: Store) -> None:
    store.put("x", b"00")
    seen = set()
    for number in range(20):
        store.put("x", b"%02d" % number)
        stamp = store.stamp("x")
        assert stamp is not None
        assert stamp == store.stamp("x"), "the stamp of an object that does not change stays the same"
        seen.add(stamp)
    assert len(seen) == 20, "a stamp changes whenever the content does, however quickly, also if its size does not"
    stamp = store.stamp("x")
    assert bytes(store.get("x", stamp=stamp) or b"") == b"19", "get with the right stamp"
    other.put("x", b"20")
    assert store.stamp("x") != stamp, "what another store has written is seen at once"
    for what, read in (
        ("get", lambda: store.get("x", stamp=stamp)),
        ("get of a part", lambda: store.get("x", 1, 1, stamp=stamp)),
        ("get_ranges", lambda: store.get_ranges("x", [(0, 1)], stamp=stamp)),
        ("snapshot", lambda: store.snapshot("x", stamp=stamp)),
    ):
        refuses(ConflictError, read, f"{what} with the stamp of an older version")


def _check_listing(store: Store) -> None:
    store.delete_prefix("")
    keys = ["a/b", "a/c/d", "a.b", "ab", "a-b/x", "zarr.json", "a/c/e/f/g", "ü/é", "a b", ".hidden/x", "%2e", "x?#"]
    for key in keys:
        store.put(key, key.encode())
    assert list(store.list()) == sorted(keys), "list() gives all keys, sorted"
    for prefix in ("a", "a/"):
        assert list(store.list(prefix)) == ["a/b", "a/c/d", "a/c/e/f/g"], (
            f"list({prefix!r}): what lies below a/, not ab"
        )
    assert list(store.list("a/b")) == list(store.list("missing")) == [], "an object is no folder"
    assert store.list_dir() == ([".hidden", "a", "a-b", "ü"], sorted(["%2e", "a b", "a.b", "ab", "x?#", "zarr.json"]))
    assert store.list_dir("a") == (["c"], ["b"]), "list_dir('a')"
    assert store.list_dir("missing") == ([], [])
    assert all(_bytes(store, key) == key.encode() for key in keys)
    assert store.delete_prefix("a") == 3, "delete_prefix says how many objects went"
    assert store.exists("ab") and store.exists("a.b"), "delete_prefix('a') keeps ab and a.b"
    assert store.delete_prefix("nothing/here") == 0


def _check_children(store: Store) -> None:
    child = store.child("folder/inner")
    child.put("x", b"1")
    assert _bytes(store, "folder/inner/x") == b"1", "child(prefix) is the store of what lies below the prefix"
    assert list(child.list()) == ["x"]
    assert child.object_id("x") == store.object_id("folder/inner/x"), "one object has one object_id"
    assert child.object_id("y") != store.object_id("y")
    assert child.delete_prefix("") == 1


def _check_keys(store: Store) -> None:
    before = list(store.list())
    uses: list[tuple[str, Callable[[str], Any]]] = [
        ("get", store.get),
        ("get_ranges", lambda key: store.get_ranges(key, [])),
        ("size", store.size),
        ("stamp", store.stamp),
        ("put", lambda key: store.put(key, b"x")),
        ("put_if_unchanged", lambda key: store.put_if_unchanged(key, b"x", None)),
        ("put_first", lambda key: store.put_first(key, b"x")),
        ("delete", store.delete),
        ("object_id", store.object_id),
    ]
    below: list[tuple[str, Callable[[str], Any]]] = [
        ("child", store.child),
        ("delete_prefix", store.delete_prefix),
        ("list_dir", store.list_dir),
    ]
    for key in HOSTILE:
        for name, use in uses:
            refuses(InvalidKeyError, partial(use, key), f"{name}({key!r})")
        if key:
            for name, use in below:
                refuses(InvalidKeyError, partial(use, key), f"{name}({key!r})")
    assert list(store.list()) == before, "keys that were refused left something"


def _check_conditions(store: Store, other: Store) -> None:
    store.put_if_unchanged("c/x", b"one", None)
    refuses(ConflictError, lambda: store.put_if_unchanged("c/x", b"two", None), "stamp None where an object is")
    first = store.stamp("c/x")
    other.put_if_unchanged("c/x", [b"t", b"wo"], first)
    assert _bytes(store, "c/x") == b"two"
    refuses(ConflictError, lambda: store.put_if_unchanged("c/x", b"three", first), "the stamp of an older version")
    store.delete("c/x")
    refuses(ConflictError, lambda: store.put_if_unchanged("c/x", b"three", first), "the stamp of what was deleted")
    assert store.get("c/x") is None, "a put that was refused has stored nothing"
    store.put_first("c/x", [b"fi", b"rst"])
    refuses(ConflictError, lambda: other.put_first("c/x", b"second"), "put_first where an object is")
    assert _bytes(store, "c/x") == b"first"
    store.delete("c/x")


def _with_line(line: bytes, old: bytes | None) -> bytes:
    return (old or b"") + line


def _check_two_writers(open: Callable[[str], Store]) -> None:
    """Each adds its own lines to one object; in the end all of them must be there."""
    errors: list[BaseException] = []
    begin = threading.Barrier(WRITERS)

    def write(number: int) -> None:
        try:
            store = open("w")
            begin.wait()
            for count in range(CHANGES):
                line = b"%d.%d\n" % (number, count)
                store.change("lines", partial(_with_line, line))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise AssertionError(f"writers at the same time: {errors[0]}") from errors[0]
    lines = (_bytes(open("r"), "lines") or b"").split()
    assert len(lines) == len({*lines}) == WRITERS * CHANGES, "changes of writers at the same time were lost"


def _check_locks(store: Store) -> None:
    if not store.can_lock:
        refuses(UnsupportedError, lambda: store.lock("x"), "lock, where can_lock is False")
        return
    with store.lock("x"):
        store.put("x", b"locked")
        found: list[str] = []

        def try_it() -> None:
            try:
                with store.lock("x", timeout=0.05):
                    found.append("entered")
            except ConflictError:
                found.append("refused")

        thread = threading.Thread(target=try_it)
        thread.start()
        thread.join()
        assert found == ["refused"], "two threads hold one lock"
    with store.lock("x", timeout=0.05):
        pass


def _check_pieces(store: Store) -> None:
    with store.writer("pieces") as writer:
        writer.write_at(3, b"def")
        assert store.get("pieces") is None, "what is being written is not seen before it is whole"
        writer.write_at(0, b"abc")
    assert _bytes(store, "pieces") == b"abcdef"
    with store.writer("pieces") as writer:
        writer.write_at(0, b"other")
        writer.discard()
    assert _bytes(store, "pieces") == b"abcdef", "a writer that was discarded has stored something"
    in_place: list[Callable[[], None]] = [
        lambda: store.append("pieces", b"g", 6),
        lambda: store.patch("pieces", 0, b"A"),
    ]
    for call in in_place:
        if not store.supports_patch:
            refuses(UnsupportedError, call, "append and patch, where supports_patch is False")
        else:
            call()
    if store.supports_patch:
        assert _bytes(store, "pieces") == b"Abcdefg", "append and patch"


def _check_reading_only(store: Store, reader: Store) -> None:
    store.put("x", b"old")
    assert reader.read_only, "mode 'r' gives a store that is read only"
    assert _bytes(reader, "x") == b"old"
    writes: list[Callable[[], Any]] = [
        lambda: reader.put("x", b"new"),
        lambda: reader.put_if_unchanged("y", b"new", None),
        lambda: reader.delete("x"),
        lambda: reader.delete_prefix(""),
        lambda: reader.child("folder").put("x", b"new"),
    ]
    for write in writes:
        refuses(ReadOnlyError, write, "a write to a store that was opened for reading")
    assert _bytes(reader, "x") == b"old"
