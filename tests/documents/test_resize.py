"""`resize` in the formats that have it: attributes, what lies outside, and what a crash leaves."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.errors import CorruptDataError, MetadataError, NotFoundError, ReadOnlyError, UnsupportedError
from zvcore.stores import MemoryStore
from zvcore.stores.late_writes import settle

if TYPE_CHECKING:
    from pathlib import Path

BYTES = {"name": "bytes", "configuration": {"endian": "little"}}


def sharding(chunk: int, codecs: list[Any]) -> list[Any]:
    index = [BYTES, {"name": "crc32c"}]
    configuration = {"chunk_shape": [chunk, chunk], "codecs": codecs, "index_codecs": index}
    return [{"name": "sharding_indexed", "configuration": configuration}]


KINDS: dict[str, dict[str, Any]] = {
    "n5": {"format": "n5", "chunks": (4, 4)},
    "zarr3": {"format": "zarr3", "chunks": (4, 4), "fill_value": 7},
    "v2 keys": {"format": "zarr3", "chunks": (4, 4), "fill_value": 7, "chunk_key_encoding": "v2"},
    "empty chunks": {"format": "zarr3", "chunks": (4, 4), "fill_value": 7, "write_empty_chunks": True},
    "text": {"format": "zarr3", "chunks": (4, 4), "dtype": str},
    "transposed": {
        "format": "zarr3",
        "chunks": (4, 4),
        "filters": [{"name": "transpose", "configuration": {"order": [1, 0]}}],
    },
    "shards": {"format": "zarr3", "chunks": (2, 2), "shards": (4, 4), "fill_value": 7},
    "append": {"format": "zarr3", "chunks": (2, 2), "shards": (4, 4), "write_mode": "append"},
    "inplace": {
        "format": "zarr3", "chunks": (2, 2), "shards": (4, 4), "write_mode": "inplace", "index_location": "start",
    },
}  # fmt: skip
ZARR = [kind for kind in KINDS if kind != "n5"]


def made(where: Any, kind: str, shape: tuple[int, ...] = (10, 10)) -> Any:
    return zvcore.create(where, **{"shape": shape, "dtype": "u1", **KINDS[kind]})


def values_of(array: Any) -> Any:
    values = np.arange(1, 101).reshape(10, 10)
    return values.astype(str) if array.dtype.kind == "T" else values.astype("u1")


@pytest.fixture(params=["files", "memory", "memory without locks"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "files":
        return tmp_path / "a"
    store = MemoryStore()
    store.can_lock = request.param == "memory"
    return store


@pytest.mark.parametrize("kind", KINDS)
def test_attributes_set_since_opening_survive(where: Any, kind: str) -> None:
    array = made(where, kind)
    other = zvcore.open(where, mode="r+")
    array.attrs["mine"] = 1
    other.attrs["theirs"] = 2
    attrs = array.attrs
    array.resize((12, 12))
    assert dict(array.attrs) == dict(zvcore.open(where).attrs) == {"mine": 1, "theirs": 2}
    assert array.attrs is attrs
    array.attrs["after"] = 3
    assert zvcore.open(where).shape == (12, 12)
    assert len(zvcore.open(where).attrs) == 3


@pytest.mark.parametrize("kind", ZARR)
@pytest.mark.parametrize("small", [(4, 10), (10, 5), (3, 3), (1, 9), (0, 10), (8, 8), (5, 12)])
def test_what_lay_outside_does_not_come_back(where: Any, kind: str, small: tuple[int, int]) -> None:
    array = made(where, kind)
    values = values_of(array)
    array[...] = values
    array.resize(small)
    kept = tuple(slice(min(n, 10)) for n in small)
    assert np.array_equal(array[kept], values[kept])
    array.resize((13, 12))
    expected = np.full((13, 12), array.fill_value, array.dtype)
    expected[kept] = values[kept]
    for found in (array, zvcore.open(where)):
        assert np.array_equal(found[...], expected)
    assert zvcore.verify(where).ok


def test_shards_in_shards_are_cut_too(where: Any) -> None:
    array = made(where, "zarr3")
    document = dict(array.metadata.document)
    document["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": [8, 8]}}
    document["codecs"] = sharding(4, sharding(2, [BYTES]))
    array.layout.store.put("zarr.json", json.dumps(document).encode())
    array = zvcore.open(where, mode="r+")
    array[...] = values_of(array)
    array.resize((5, 3))
    array.resize((10, 10))
    expected = np.full((10, 10), 7, "u1")
    expected[:5, :3] = values_of(array)[:5, :3]
    assert np.array_equal(zvcore.open(where)[...], expected)


def test_zarr_python_reads_what_was_resized(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    for kind in ("zarr3", "shards"):
        array = made(tmp_path / kind, kind)
        array[...] = values_of(array)
        array.resize((5, 5))
        array.resize((10, 10))
        theirs = zarr.open_array(str(tmp_path / kind))
        assert np.array_equal(theirs[...], array[...])
        theirs.resize((12, 3))
        array.refresh()
        assert array.shape == (12, 3) and np.array_equal(theirs[...], array[...])


@pytest.mark.parametrize("kind", KINDS)
def test_objects_outside_are_removed(tmp_path: Path, kind: str) -> None:
    array = made(tmp_path / "a", kind)
    array[...] = values_of(array)
    array.resize((4, 4))
    document = "attributes.json" if kind == "n5" else "zarr.json"
    stored = {str(path.relative_to(tmp_path / "a")) for path in (tmp_path / "a").rglob("*") if path.is_file()}
    assert len(stored) == 2 and document in stored


def test_chunks_that_were_never_stored_are_not_made(tmp_path: Path) -> None:
    array = zvcore.create(
        tmp_path / "a", format="zarr3", shape=(10**12, 7), dtype="u1", chunks=(4, 4), write_empty_chunks=True
    )
    array[0] = 1
    array.resize((10**12 - 1, 6))
    settle()
    assert sorted(path.name for path in (tmp_path / "a/c/0").iterdir()) == ["0", "1"]
    array.resize((10**12, 7))
    assert array[0].tolist() == [1] * 6 + [0]


def test_growing_looks_at_nothing_that_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = made(tmp_path / "a", "zarr3")
    monkeypatch.setattr(type(array.layout.store), "list", None)
    array.resize((20, 10))
    assert array.shape == (20, 10)


@pytest.mark.parametrize("kind", ["zarr3", "shards", "n5"])
def test_a_resize_that_died_is_finished_by_the_same_one(tmp_path: Path, kind: str) -> None:
    array = made(tmp_path / "a", kind)
    values = values_of(array)
    array[...] = values
    name = "attributes.json" if kind == "n5" else "zarr.json"
    document = json.loads((tmp_path / "a" / name).read_text())
    document["dimensions" if kind == "n5" else "shape"] = [5, 5]
    (tmp_path / "a" / name).write_text(json.dumps(document))  # as far as it came
    array = zvcore.open(tmp_path / "a", mode="r+")
    assert np.array_equal(array[...], values[:5, :5])
    report = zvcore.verify(tmp_path / "a")
    assert report.ok and any("outside" in problem.what for problem in report.problems)
    array.resize((5, 5))
    assert not zvcore.verify(tmp_path / "a").problems
    array.resize((10, 10))
    expected = np.full((10, 10), array.fill_value, "u1")
    edge = 8 if kind == "n5" else 5  # N5 leaves blocks that the end cuts alone
    expected[:edge, :edge] = values[:edge, :edge]
    assert np.array_equal(array[...], expected)


@pytest.mark.parametrize("kind", ["zarr3", "shards"])
def test_a_chunk_that_cannot_be_read_stops_nothing(tmp_path: Path, kind: str) -> None:
    array = zvcore.create(tmp_path / "a", **{**KINDS[kind], "codec": "gzip"}, shape=(10, 10), dtype="u1")
    array[...] = 1
    for path in (tmp_path / "a/c/1").iterdir():
        path.write_bytes(b"nonsense")
    array.resize((6, 9))
    assert array.shape == (6, 9)
    assert (array[:4] == 1).all()
    array.resize((10, 10))
    assert array[0].tolist() == [1] * 9 + [array.fill_value]
    with pytest.raises(CorruptDataError):
        array[4]


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_shapes_change_nothing(where: Any, kind: str) -> None:
    array = made(where, kind)
    for shape, error in (
        ((5,), MetadataError),
        ((5, -1), MetadataError),
        ((5, 5.5), TypeError),
        ((5, True), TypeError),
        (5, MetadataError),
        ((5, 2**70), (MetadataError, UnsupportedError)),
    ):
        with pytest.raises(error):
            array.resize(shape)
    assert array.shape == zvcore.open(where).shape == (10, 10)
    with pytest.raises(ReadOnlyError):
        zvcore.open(where).resize((5, 5))


def test_an_array_that_became_a_group_is_gone(tmp_path: Path) -> None:
    array = made(tmp_path / "a", "zarr3")
    (tmp_path / "a/zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    for change in (lambda: array.resize((5, 5)), array.refresh):
        with pytest.raises(NotFoundError, match="gone"):
            change()


def test_a_volume_keeps_its_size(tmp_path: Path) -> None:
    array = zvcore.create(tmp_path / "v", format="precomputed", shape=(8, 8, 8), dtype="u1", chunks=(4, 4, 4))
    before = (tmp_path / "v/info").read_bytes()
    with pytest.raises(UnsupportedError, match="shape of a precomputed array is fixed"):
        array.resize((4, 4, 4, 1))
    assert (tmp_path / "v/info").read_bytes() == before
