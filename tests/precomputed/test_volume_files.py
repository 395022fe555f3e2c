"""How chunks of volumes are stored: packed, compressed, in files as others name them; and chunks that are damaged."""

from __future__ import annotations

import gzip
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.precomputed.volumes import MURMUR, create, open_, voxels
from zvcore.choices import AUTO
from zvcore.errors import CorruptDataError, MetadataError, UnsupportedError
from zvcore.precomputed import ShardingSpec
from zvcore.stores import LocalStore, MemoryStore
from zvcore.stores.base import UnlistedError
from zvcore.stores.confined import ConfinedStore, Confinement
from zvcore.stores.late_writes import settle

if TYPE_CHECKING:
    from pathlib import Path


def test_how_chunks_are_compressed(tmp_path: Path) -> None:
    assert create(tmp_path / "a", sharding="advise").sharding.data_encoding == "gzip"
    assert create(tmp_path / "b", sharding="advise", codec="raw").sharding.data_encoding == "raw"
    assert create(tmp_path / "c", sharding="advise", codec="gzip").codec.name == "gzip"
    assert create(tmp_path / "d").codec.name == "gzip"
    assert create(tmp_path / "e", codec="raw").codec is None
    assert create(tmp_path / "f", codec=None).codec is None
    assert create(tmp_path / "g", encoding="png").codec is None
    assert create(MemoryStore()).codec is None


@pytest.mark.parametrize("codec", [AUTO, "gzip"])
def test_chunks_in_files_are_compressed_unless_it_is_not_wanted(tmp_path: Path, codec: Any) -> None:
    a = create(tmp_path, codec=codec)
    values = voxels((70, 45, 33, 1), "uint16")
    a[:40] = values[:40]
    again = open_(tmp_path, "r+", scale=0)
    again[40:] = values[40:]
    settle()
    names = [path.name for path in (tmp_path / "1_1_1").iterdir()]
    assert len(names) == 3 * 3 * 3 and all(name.endswith(".gz") for name in names)
    for array in (a, open_(tmp_path, scale=0), pickle.loads(pickle.dumps(a))):
        np.testing.assert_array_equal(array[...], values)
    data = again.read_encoded((0, 0, 0, 0))
    assert data is not None and gzip.decompress(data) == values[:32, :16, :16].tobytes(order="F")
    again.write_encoded((1, 0, 0, 0), data)
    np.testing.assert_array_equal(a[32:64, :16, :16], values[:32, :16, :16])
    assert again.delete_block((1, 0, 0, 0))
    assert not a[32:64, :16, :16].any()
    with pytest.raises(MetadataError):
        a.attrs["zvcore_compression"] = "none"


@pytest.mark.parametrize("region", [np.s_[...], np.s_[:20, :10, :10]])
def test_chunks_that_are_not_where_they_were(tmp_path: Path, region: Any) -> None:
    """An array that has found all of its chunks under plain names opens those at once from then on."""
    a = create(tmp_path, codec="raw")
    values = voxels((70, 45, 33, 1), "uint16")
    a[...] = values
    settle()
    a = open_(tmp_path, scale=0)
    looked: list[int] = []
    locate: Any = a.layout.locate
    a.layout.locate = lambda positions: looked.append(len(positions)) or locate(positions)
    for _ in range(3):
        np.testing.assert_array_equal(a[region], values[region])
    assert len(looked) == 1
    first = tmp_path / "1_1_1" / "0-32_0-16_0-16"
    packed = first.with_name(first.name + ".gz")
    packed.write_bytes(gzip.compress(first.read_bytes()))
    first.unlink()
    for _ in range(2):
        np.testing.assert_array_equal(a[region], values[region])
    packed.unlink()
    values[:32, :16, :16] = 0
    for _ in range(2):
        np.testing.assert_array_equal(a[region], values[region])
    first.write_bytes(b"")
    first.unlink()
    first.symlink_to("nowhere")
    with pytest.raises((OSError, CorruptDataError)):
        a[region]


@pytest.mark.parametrize("ending", [".gz", ".br"])
def test_files_that_others_compressed_are_read_and_stay_so(tmp_path: Path, ending: str) -> None:
    a = create(tmp_path, codec="raw")
    values = voxels((70, 45, 33, 1), "uint16")
    a[...] = values
    compress = gzip.compress if ending == ".gz" else pytest.importorskip("brotli").compress
    folder = tmp_path / "1_1_1"
    for path in list(folder.iterdir()):
        path.with_name(path.name + ending).write_bytes(compress(path.read_bytes()))
        path.unlink()
    b = open_(tmp_path, "r+", scale=0)
    np.testing.assert_array_equal(b[...], values)
    assert zvcore.verify(tmp_path).ok
    b[:5, :5, :5] = 9
    values[:5, :5, :5] = 9
    np.testing.assert_array_equal(open_(tmp_path, scale=0)[...], values)
    settle()
    assert {path.suffix for path in folder.iterdir()} == {ending}
    (folder / f"0-32_0-16_0-16{ending}").write_bytes(compress(bytes(10)))
    with pytest.raises(CorruptDataError, match=f"0-32_0-16_0-16{ending}"):
        b[0, 0, 0]
    (folder / f"0-32_0-16_0-16{ending}").write_bytes(compress(bytes(1 << 20)))
    with pytest.raises(CorruptDataError, match=f"0-32_0-16_0-16{ending}"):
        b[0, 0, 0]
    (folder / f"0-32_0-16_0-16{ending}").write_bytes(b"no stream at all")
    with pytest.raises(CorruptDataError, match=f"0-32_0-16_0-16{ending}"):
        b[0, 0, 0]
    assert [problem.where for problem in zvcore.verify(tmp_path).problems] == [f"1_1_1/0-32_0-16_0-16{ending}"]


@pytest.mark.parametrize("codec", ["raw", "gzip"])
@pytest.mark.parametrize("confined", [False, True])
def test_chunks_of_all_kinds_lie_side_by_side(tmp_path: Path, codec: str, confined: bool) -> None:
    brotli = pytest.importorskip("brotli")
    create(tmp_path, codec=codec)[...] = voxels((70, 45, 33, 1), "uint16")
    settle()
    values = voxels((70, 45, 33, 1), "uint16")
    folder = tmp_path / "1_1_1"
    for number, path in enumerate(sorted(folder.iterdir())):
        data = path.read_bytes() if codec == "raw" else gzip.decompress(path.read_bytes())
        place = path.with_suffix("")
        path.unlink()
        if number % 4 == 0:
            place.write_bytes(data)
        elif number % 4 == 1:
            place.with_name(f"{place.name}.gz").write_bytes(gzip.compress(data))
        elif number % 4 == 2:
            place.with_name(f"{place.name}.br").write_bytes(brotli.compress(data))
        else:
            low = [int(part.partition("-")[0]) for part in place.name.split("_")]
            high = [int(part.partition("-")[2]) for part in place.name.split("_")]
            values[low[0] : high[0], low[1] : high[1], low[2] : high[2]] = 0
    names = {path.name for path in folder.iterdir()}
    store = ConfinedStore(Confinement(tmp_path)) if confined else LocalStore(tmp_path)
    array = zvcore.open(store)[0]
    np.testing.assert_array_equal(array[...], values)
    for x in range(0, 70, 32):
        for y in range(0, 45, 16):
            np.testing.assert_array_equal(array[x : x + 32, y : y + 16, :16], values[x : x + 32, y : y + 16, :16])
    if confined:
        return
    # Written, all that are there stay what they are.
    open_(tmp_path, "r+", scale=0)[...] = values + np.uint16(1)
    settle()
    assert names <= {path.name for path in folder.iterdir()} and len([*folder.iterdir()]) == 27
    np.testing.assert_array_equal(open_(tmp_path, scale=0)[...], values + np.uint16(1))


def test_of_two_files_of_one_chunk_the_kind_of_the_scale_is_read(tmp_path: Path) -> None:
    for codec in ("raw", "gzip"):
        create(tmp_path / codec, codec=codec)[...] = np.uint16(5)
        settle()
        chunk = tmp_path / codec / "1_1_1" / "0-32_0-16_0-16"
        other = np.full((16, 16, 32), 6, "uint16").tobytes()
        if codec == "raw":
            chunk.with_name(f"{chunk.name}.gz").write_bytes(gzip.compress(other))
        else:
            chunk.write_bytes(other)
        assert (open_(tmp_path / codec, scale=0)[...] == 5).all()


def test_files_of_a_local_volume_are_looked_for_without_asking_for_each_in_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = voxels((70, 45, 33, 1), "uint16")
    create(tmp_path)[...] = values
    array = open_(tmp_path, scale=0)

    def asked(_: LocalStore, key: str) -> int:
        assert key == "info", "each chunk was asked for"
        return 0

    monkeypatch.setattr(LocalStore, "exists", asked)
    monkeypatch.setattr(LocalStore, "size", asked)
    np.testing.assert_array_equal(array[...], values)


def test_a_chunk_that_cannot_be_looked_for_is_an_error_and_no_hole(tmp_path: Path) -> None:
    create(tmp_path, codec="raw")[...] = np.uint16(5)
    settle()
    chunk = tmp_path / "1_1_1" / "0-32_0-16_0-16"
    chunk.unlink()
    chunk.symlink_to(chunk.name)
    with pytest.raises(OSError, match="0-32_0-16_0-16"):
        open_(tmp_path, scale=0)[...]


def test_new_chunks_are_stored_as_those_that_are_there(tmp_path: Path) -> None:
    """What somebody else made is not mixed: its reader may know one kind only."""
    for ending in ("", ".gz"):
        path = tmp_path / f"a{ending}"
        a = create(path, codec="raw")
        a[:32, :16, :16] = 5
        first = path / "1_1_1" / "0-32_0-16_0-16"
        if ending:
            first.with_name(first.name + ending).write_bytes(gzip.compress(first.read_bytes()))
            first.unlink()
        open_(path, "r+", scale=0)[32:64, :16, :16] = 6
        assert {one.suffix for one in first.parent.iterdir()} == {ending}


def test_files_compressed_in_ways_that_are_not_read(tmp_path: Path) -> None:
    a = create(tmp_path, codec="raw")
    a[...] = 5
    path = tmp_path / "1_1_1" / "0-32_0-16_0-16"
    path.rename(f"{path}.zst")
    with pytest.raises(UnsupportedError, match="compressed"):
        open_(tmp_path, scale=0)[0, 0, 0]


def test_labels_are_packed_unless_it_is_not_wanted(tmp_path: Path) -> None:
    assert create(tmp_path / "a", dtype="uint64", type="segmentation").encoding.name == "compressed_segmentation"
    assert create(tmp_path / "a", dtype="uint64", key="b").encoding.name == "compressed_segmentation"
    assert create(tmp_path / "c", dtype="uint64", type="segmentation", encoding="raw").encoding.name == "raw"
    assert create(tmp_path / "d", dtype="uint64", type="image").encoding.name == "raw"
    assert create(tmp_path / "e", dtype="uint16", type="segmentation").encoding.name == "raw"
    assert create(tmp_path / "f", dtype="uint32", type="segmentation", shape=(70, 45, 33, 2)).encoding.name == "raw"


def test_a_conversion_of_labels_packs_them(tmp_path: Path) -> None:
    labels = zvcore.create(tmp_path / "l.zarr", format="zarr3", shape=(32, 32, 32), dtype="uint32", chunks=(16, 16, 16))
    labels[...] = np.arange(4, dtype="uint32").repeat(8)
    zvcore.convert(tmp_path / "l.zarr", tmp_path / "out", format="precomputed")
    scale = open_(tmp_path / "out", scale=0)
    assert scale.encoding.name == "compressed_segmentation" and scale.codec.name == "gzip"
    np.testing.assert_array_equal(scale[..., 0].T, labels[...])


def test_a_conversion_keeps_files_as_they_are(tmp_path: Path) -> None:
    for codec in ("raw", "gzip"):
        a = create(tmp_path / codec, codec=codec)
        a[...] = 5
        report = zvcore.convert(tmp_path / codec, tmp_path / f"{codec}-copy", format="precomputed")
        assert report.copied == 27 and report.encoded == 0
        names = [{path.name for path in (tmp_path / one / "1_1_1").glob("[0-9]*")} for one in (codec, f"{codec}-copy")]
        assert names[0] == names[1]


@pytest.mark.parametrize("size", [0, 1, 100, 2 * 32 * 16 * 16 - 1, 2 * 32 * 16 * 16 + 1])
@pytest.mark.parametrize("sharding", [None, ShardingSpec(0, "identity", 0, 0), MURMUR])
def test_raw_chunks_of_a_wrong_length(tmp_path: Path, size: int, sharding: Any) -> None:
    a = create(tmp_path, sharding=sharding, **({"codec": "raw"} if sharding is None else {}))
    a[...] = 5
    data = bytes(size)
    if sharding is MURMUR:
        data = gzip.compress(data)
    a.write_encoded((0, 0, 0, 0), data)
    with pytest.raises(CorruptDataError) as caught:
        a[:5, :5, :5]
    assert caught.value.key is not None
    assert str(2 * 32 * 16 * 16) in str(caught.value)
    assert (a[32:] == 5).all()


@pytest.mark.parametrize(
    ("encoding", "dtype"), [("compressed_segmentation", "uint32"), ("png", "uint16"), ("jpeg", "uint8")]
)
@pytest.mark.parametrize(
    "data", [b"", b"\0" * 7, b"\0" * 40, b"\x89PNG\r\n\x1a\n" + bytes(50), b"\xff\xd8\xff\xc0\0\x0b"]
)
def test_encoded_chunks_that_are_none(tmp_path: Path, encoding: str, dtype: str, data: bytes) -> None:
    a = create(tmp_path, encoding=encoding, dtype=dtype, sharding=ShardingSpec(0, "identity", 0, 0))
    a.write_encoded((0, 0, 0, 0), data)
    with pytest.raises(CorruptDataError):
        a[0, 0, 0]


@pytest.mark.parametrize("encoding", ["png", "jpeg"])
def test_pictures_that_are_cut_off_or_of_another_size(tmp_path: Path, encoding: str) -> None:
    a = create(tmp_path, encoding=encoding, dtype="uint8")
    a[...] = voxels(a.shape, "uint8")
    good = a.read_encoded((0, 0, 0, 0))
    edge = a.read_encoded((2, 0, 0, 0))
    assert good is not None
    assert edge is not None
    # What follows the last scan lines is only an end mark.
    for length in [*range(0, len(good) - 20, 37), len(good) // 2]:
        a.write_encoded((0, 0, 0, 0), good[:length])
        with pytest.raises(CorruptDataError):
            a[tuple(n - 1 for n in a.chunks[:3])]
    a.write_encoded((0, 0, 0, 0), edge)
    with pytest.raises(CorruptDataError, match="not one of this chunk"):
        a[0, 0, 0]


def test_a_folder_of_packed_files_is_read_where_it_was_copied_into_an_object_store(tmp_path: Path) -> None:
    values = voxels((70, 45, 33, 1), "uint16")
    made = create(tmp_path)
    made[32:] = values[32:]
    settle()
    copy = MemoryStore()
    assert zvcore.copy(tmp_path, copy).ok
    there = zvcore.open(copy)[0]
    # What is asked for first is not there, neither packed nor plain, and tells nothing of the others.
    assert not there[:32].any()
    np.testing.assert_array_equal(there[32:], values[32:])
    assert zvcore.verify(copy).ok
    assert zvcore.verify(copy).counts["files"] == 18
    # Chunks stay what they are when they are written.
    zvcore.open(copy, mode="r+")[0][32:] = values[32:] + np.uint16(1)
    np.testing.assert_array_equal(zvcore.open(copy)[0][32:], values[32:] + np.uint16(1))
    assert zvcore.verify(copy).counts["files"] == 18 and zvcore.verify(copy).ok
    # New ones are stored as those that are there.
    zvcore.open(copy, mode="r+")[0][:32] = values[:32]
    assert all(name.endswith(".gz") for name in copy.list("1_1_1"))
    # One that is not packed would hide the others from readers that meet it first.
    first = "1_1_1/0-32_0-16_0-16"
    copy.put(first, gzip.decompress(copy.get(f"{first}.gz") or b""))
    copy.delete(f"{first}.gz")
    (problem,) = zvcore.verify(copy).problems
    assert "some chunks are packed" in problem.what and problem.found == "26 of 27 packed"


class Unlisted(MemoryStore):
    """Objects as web servers have them."""

    def list(self, prefix: str = "") -> Any:
        raise UnlistedError("no lists", key=prefix)

    def list_dir(self, prefix: str = "") -> Any:
        raise UnlistedError("no lists", key=prefix)


@pytest.mark.parametrize("kind", [MemoryStore, Unlisted])
@pytest.mark.parametrize("ending", [".gz", ".br", ""])
def test_chunks_are_found_where_the_first_of_those_that_are_read_is_not_stored(
    tmp_path: Path, kind: type[MemoryStore], ending: str
) -> None:
    """A read that began where nothing is stored took all of its chunks for missing."""
    compress = {"": bytes, ".gz": gzip.compress}.get(ending) or pytest.importorskip("brotli").compress
    values = voxels((70, 45, 33, 1), "uint16")
    values[:32] = 0
    create(tmp_path, codec="raw")[32:] = values[32:]
    settle()
    store = kind()
    store.put("info", (tmp_path / "info").read_bytes())
    for path in (tmp_path / "1_1_1").iterdir():
        store.put(f"1_1_1/{path.name}{ending}", compress(path.read_bytes()))
    np.testing.assert_array_equal(open_(store, scale=0)[...], values)
    there = open_(store, scale=0).read_blocks([(0, 0, 0, 0), (0, 1, 1, 0), (1, 1, 1, 0)])
    assert there[:2] == [None, None] and there[2] is not None
    if ending != ".br" and kind is MemoryStore:
        open_(store, "r+", scale=0)[:32] = np.uint16(7)
        values[:32] = 7
        np.testing.assert_array_equal(open_(store, scale=0)[...], values)


def test_in_object_stores_the_first_chunk_tells_once_that_names_are_plain() -> None:
    asked: list[str] = []

    class Counting(MemoryStore):
        def sizes(self, keys: Any) -> Any:
            asked.extend(keys := [*keys])
            return super().sizes(keys)

    store = Counting()
    values = voxels((70, 45, 33, 1), "uint16")
    create(store)[...] = values
    asked.clear()
    array = open_(store, scale=0)
    for _ in range(3):
        np.testing.assert_array_equal(array[...], values)
    assert len([key for key in asked if not key.endswith((".gz", ".br"))]) <= 1


@pytest.mark.parametrize("there", [False, True])
def test_files_of_brotli_are_found_that_come_while_an_array_is_open(tmp_path: Path, there: bool) -> None:
    brotli = pytest.importorskip("brotli")
    array = create(tmp_path, codec="raw")
    if there:
        array[:16, :16, :16] = 1
    assert array[69, 44, 32] == 0
    name = array.layout.chunk_name((2, 2, 2, 0))
    (tmp_path / "1_1_1").mkdir(exist_ok=True)
    (tmp_path / f"{name}.br").write_bytes(brotli.compress(np.full((6, 13, 1), 7, "<u2").tobytes()))
    assert (array[64:, 32:, 32:] == 7).all()
    array[69, 44, 32] = 9
    settle()
    assert array[64, 32, 32] == 7 and array[69, 44, 32] == 9 and not (tmp_path / name).exists()


@pytest.mark.parametrize("codec", ["raw", "gzip"])
def test_two_files_of_one_chunk_are_told(tmp_path: Path, codec: str) -> None:
    create(tmp_path, codec=codec)[...] = voxels((70, 45, 33, 1), "uint16")
    settle()
    name = "0-32_0-16_0-16"
    (there,) = (tmp_path / "1_1_1").glob(f"{name}*")
    data = there.read_bytes() if codec == "raw" else gzip.decompress(there.read_bytes())
    beside = there.with_name(f"{name}.gz" if codec == "raw" else name)
    beside.write_bytes(gzip.compress(data) if codec == "raw" else data)
    report = zvcore.verify(tmp_path)
    assert report.ok and [problem.kind for problem in report.problems] == ["disagreement"]
    data = bytes(len(data))
    beside.write_bytes(gzip.compress(data) if codec == "raw" else data)
    report = zvcore.verify(tmp_path)
    assert not report.ok and [problem.where for problem in report.problems] == [f"1_1_1/{name}.gz"]
    assert "with other values" in report.problems[0].what and report.counts["chunks not stored"] == 0
    assert not zvcore.repair(tmp_path).ok and there.exists() and beside.exists()
