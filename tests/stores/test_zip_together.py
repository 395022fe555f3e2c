"""Many objects of a zip archive are read together, wherever their bytes begin behind their headers."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest

from zvcore.errors import ConflictError, StoreError
from zvcore.stores import MemoryStore
from zvcore.stores.zip_store import ZipStore


class Counted(MemoryStore):
    """Tells how often it was asked for bytes."""

    asked = 0

    def get_ranges(self, *args: Any, **options: Any) -> list[memoryview] | None:
        self.asked += 1
        return super().get_ranges(*args, **options)


class OneWay(io.RawIOBase):
    """A file that cannot go back: what is written to it has sizes behind its entries, as streamed archives have."""

    def __init__(self, data: bytearray) -> None:
        self.data = data

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.data += data
        return len(data)


def of_others(kind: str, objects: dict[str, bytes]) -> bytes:
    data = bytearray()
    target: Any = OneWay(data) if kind == "streamed" else io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED if kind == "packed" else zipfile.ZIP_STORED) as made:
        for number, (key, value) in enumerate(objects.items()):
            info = zipfile.ZipInfo(key)
            info.compress_type = made.compression
            if kind == "extra" or (kind == "mixed" and number % 3):
                info.extra = b"\xfe\xca\x04\x00" + bytes(4)
            made.writestr(info, value)
    return bytes(data) or target.getvalue()


@pytest.mark.parametrize("kind", ["plain", "extra", "mixed", "streamed", "packed"])
def test_many_objects_are_read_together(kind: str) -> None:
    objects = {f"c/{i}": bytes([i]) * (i * 7 % 50) for i in range(100)}
    folder = Counted()
    folder.put("a.zip", of_others(kind, objects))
    store = ZipStore(folder, "a.zip")
    assert store.sizes(objects) == [len(data) for data in objects.values()]
    before = folder.asked
    assert [bytes(data or b"") for data in store.get_many([*objects, "c/7"])] == [*objects.values(), objects["c/7"]]
    # Once more where entries do not begin where most do.
    assert folder.asked - before <= 2
    assert [*store.get_many(["c/1", "none"])][1] is None

    before = folder.asked
    requests = [(key, [(len(data) // 2, len(data) // 3), (0, 0)], store.stamp(key)) for key, data in objects.items()]
    for (key, data), found in zip(objects.items(), store.get_ranges_many(requests), strict=True):
        assert found is not None
        assert [*map(bytes, found)] == [data[len(data) // 2 :][: len(data) // 3], b""], key
    assert folder.asked - before <= 1
    assert not [*store.damaged()]


class Ends(Counted):
    """Counts requests for the end of an object, which some servers do not understand."""

    understood = True

    def get(self, key: str, start: int = 0, length: int | None = None, *, stamp: Any = None) -> Any:
        self.asked += 1
        if start < 0 and not self.understood:
            raise StoreError("bytes=-65577: 416", key=key)
        return super().get(key, start, length, stamp=stamp)


@pytest.mark.parametrize("understood", [True, False])
def test_the_directory_is_read_with_the_end(understood: bool) -> None:
    objects = {f"c/{i}": bytes([i % 256]) * i for i in range(500)}
    folder = Ends()
    folder.understood = understood
    folder.put("a.zip", of_others("plain", objects))
    store = ZipStore(folder, "a.zip")
    assert sorted(store.list()) == sorted(objects)
    assert folder.asked <= 2 - understood
    large = {f"a long name of an object {i}": b"" for i in range(3000)}
    folder.put("b.zip", of_others("plain", large))
    folder.asked = 0
    assert sorted(ZipStore(folder, "b.zip").list()) == sorted(large)
    assert folder.asked <= 3 - understood


def test_an_archive_that_is_replaced_is_told_of_all_that_were_to_be_read_of_it() -> None:
    folder = MemoryStore()
    folder.put("a.zip", of_others("plain", {"a": b"12", "b": b"34"}))
    store = ZipStore(folder, "a.zip")
    requests = [(key, [(0, 2)], store.stamp(key)) for key in ("a", "b")]
    folder.put("a.zip", of_others("plain", {"a": b"56", "b": b"78"}))
    with pytest.raises(ConflictError, match="was replaced") as told:
        store.get_ranges_many(requests)
    assert told.value.key is None  # none of them holds any more
    with pytest.raises(ConflictError) as told:
        store.get_ranges_many(requests[1:])
    assert told.value.key == "b"
    found = store.snapshot("b")
    assert found is not None
    assert (bytes(found.data), found.stamp) == (b"78", store.stamp("b"))
