"""Chunks of HDF5 that the engine reads by itself, and that conversions copy as they are stored."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr

import zvcore
from zvcore.borrowed.blocks import BlockLayout
from zvcore.borrowed.flat import FlatLayout
from zvcore.borrowed.stored import StoredLayout
from zvcore.errors import CorruptDataError, NotFoundError, UnsupportedError, ZvcoreError

if TYPE_CHECKING:
    from pathlib import Path

h5py = pytest.importorskip("h5py")

DATA = np.random.default_rng(2).integers(0, 500, (40, 50, 60)).astype("u2")


def made(path: Path, data: np.ndarray[Any, Any] = DATA, **options: Any) -> str:
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=data, **options)
    return f"{path}:/x"


FILTERS: list[dict[str, Any]] = [
    {"compression": "gzip"},
    {"compression": "gzip", "shuffle": True},
    {"compression": "gzip", "shuffle": True, "fletcher32": True},
    {"shuffle": True},
    {},
]


def title(options: dict[str, Any]) -> str:
    return "-".join(options) or "plain"


@pytest.mark.parametrize("options", FILTERS, ids=title)
@pytest.mark.parametrize("dtype", ["u1", "<u2", ">f4", "?", "<c8", "S5"])
def test_the_engine_reads_what_h5py_wrote(tmp_path: Path, options: dict[str, Any], dtype: str) -> None:
    data = DATA.astype(dtype)
    array = zvcore.open(made(tmp_path / "a.h5", data, chunks=(16, 16, 16), **options))
    assert isinstance(array.layout, StoredLayout) and array.chunks == (16, 16, 16)
    assert np.array_equal(array[...], data)
    assert np.array_equal(array[3:35, ::7, 59], data[3:35, ::7, 59])


@pytest.mark.parametrize("options", FILTERS, ids=title)
@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_chunks_are_copied_as_they_are_stored(tmp_path: Path, options: dict[str, Any], format: str) -> None:
    source = made(tmp_path / "a.h5", chunks=(16, 16, 16), **options)
    sharded = {"shards": (32, 32, 32)} if format == "zarr3" else {}
    report = zvcore.convert(source, tmp_path / "out", format=format, verify=True, **sharded)
    assert report.ok and report.copied == 3 * 4 * 4 and report.encoded == 0
    assert np.array_equal(zarr.open_array(tmp_path / "out", mode="r")[...], DATA)
    again = zvcore.convert(source, tmp_path / "zstd", format=format, codec="zstd")
    assert again.encoded == 48 and np.array_equal(zvcore.open(tmp_path / "zstd")[...], DATA)


def test_the_plan_says_who_cannot_read_it(tmp_path: Path) -> None:
    source = made(tmp_path / "a.h5", chunks=(16, 16, 16), compression="gzip", shuffle=True)
    plan = str(zvcore.plan(source, tmp_path / "out", format="zarr3"))
    assert "numcodecs.shuffle" in plan and "numcodecs.zlib" in plan


def test_n5_takes_whole_blocks_as_they_are(tmp_path: Path) -> None:
    source = made(tmp_path / "a.h5", DATA[:32, :48, :48].astype(">u2"), chunks=(16, 16, 16), compression="gzip")
    report = zvcore.convert(source, tmp_path / "out.n5", format="n5")
    assert report.copied == 18
    assert np.array_equal(zvcore.open(tmp_path / "out.n5")[...].T, DATA[:32, :48, :48])


def test_what_is_not_stored_is_the_fill_value_here_and_there(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("x", (100, 100), "f4", chunks=(10, 10), fillvalue=-1, compression="gzip")
        made[95:, 5] = 3
    array = zvcore.open(f"{tmp_path}/a.h5:/x")
    assert array.fill_value == -1 and array[0, 0] == -1 and array[99, 5] == 3
    report = zvcore.convert(array, tmp_path / "out", format="zarr3")
    assert report.copied == 1 and report.empty == 99
    assert np.array_equal(zvcore.open(tmp_path / "out")[...], array[...])


def test_chunks_that_skip_filters_are_read_and_encoded_again(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("x", data=np.arange(6, dtype="<u2"), chunks=(2,), compression="gzip", shuffle=True)
        made.id.write_direct_chunk((2,), np.array([7, 8], "<u2").tobytes(), filter_mask=3)
    array = zvcore.open(f"{tmp_path}/a.h5:/x")
    assert array[...].tolist() == [0, 1, 7, 8, 4, 5]
    report = zvcore.convert(array, tmp_path / "out", format="zarr3")
    assert (report.copied, report.encoded) == (2, 1)
    assert zvcore.open(tmp_path / "out")[...].tolist() == [0, 1, 7, 8, 4, 5]


def test_what_the_engine_does_not_know_is_left_to_h5py(tmp_path: Path) -> None:
    odd = h5py.h5t.NATIVE_UINT16.copy()
    odd.set_precision(12)
    with h5py.File(tmp_path / "a.h5", "w", userblock_size=0) as file:
        file.create_dataset("lzf", data=DATA, chunks=(16, 16, 16), compression="lzf")
        file.create_dataset("scaled", data=DATA, chunks=(16, 16, 16), scaleoffset=0)
        place = h5py.h5s.create_simple((4,))
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((2,))
        h5py.Dataset(h5py.h5d.create(file.id, b"odd", odd, place, properties))[...] = [1, 2, 3, 4000]
    with h5py.File(tmp_path / "b.h5", "w", userblock_size=512) as file:
        file.create_dataset("x", data=DATA, chunks=(16, 16, 16))
    for name in ("lzf", "scaled"):
        array = zvcore.open(f"{tmp_path}/a.h5:/{name}")
        assert isinstance(array.layout, BlockLayout) and np.array_equal(array[...], DATA)
    assert zvcore.open(f"{tmp_path}/a.h5:/odd")[...].tolist() == [1, 2, 3, 4000]
    assert np.array_equal(zvcore.open(f"{tmp_path}/b.h5:/x")[...], DATA)


@pytest.mark.parametrize("dtype", ["<u2", ">u2", ">f4", "<f8", ">c8", "bool", "S3", ">i8"])
def test_values_without_chunks_are_read_from_where_they_lie(tmp_path: Path, dtype: str) -> None:
    values = (np.arange(5 * 6 * 7).reshape(5, 6, 7) % 100).astype(dtype)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["before"] = np.arange(33)
        file["x"] = values
    array = zvcore.open(f"{tmp_path}/a.h5:/x")
    assert isinstance(array.layout, FlatLayout)
    assert array.dtype == values.dtype.newbyteorder("=")
    for key in (..., 3, np.s_[1:, ::-2, 3:5], np.s_[:, :, 6]):
        assert np.array_equal(array[key], values[key])
    assert zvcore.verify(f"{tmp_path}/a.h5:/x").ok
    zvcore.convert(array, tmp_path / "out", format="zarr3")
    assert np.array_equal(zvcore.open(tmp_path / "out")[...], values)
    raw = (tmp_path / "a.h5").read_bytes()
    (tmp_path / "a.h5").write_bytes(raw[:-5])
    with pytest.raises(ZvcoreError):
        zvcore.open(f"{tmp_path}/a.h5:/x")[...]


def test_values_without_chunks_that_lie_nowhere_or_in_a_header(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("never written", (4, 5), "u2", fillvalue=7)
        file.create_dataset("empty", (0, 5), "u2")
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_layout(h5py.h5d.COMPACT)
        place = h5py.h5s.create_simple((4,))
        made = h5py.h5d.create(file.id, b"compact", h5py.h5t.NATIVE_UINT16, place, properties)
        h5py.Dataset(made)[...] = [1, 2, 3, 4]
    with h5py.File(tmp_path / "b.h5", "w", userblock_size=512) as file:
        file["x"] = DATA
    assert (zvcore.open(f"{tmp_path}/a.h5:/never written")[...] == np.full((4, 5), 7)).all()
    assert zvcore.open(f"{tmp_path}/a.h5:/empty")[...].shape == (0, 5)
    assert zvcore.open(f"{tmp_path}/a.h5:/compact")[...].tolist() == [1, 2, 3, 4]
    assert np.array_equal(zvcore.open(f"{tmp_path}/b.h5:/x")[...], DATA)


def test_an_index_that_leads_out_of_the_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    place = made(path, np.arange(64, dtype="u1"), chunks=(64,), compression="gzip")
    with h5py.File(path) as file:
        info = file["x"].id.get_chunk_info(0)
    raw = bytearray(path.read_bytes())
    at = raw.find(info.byte_offset.to_bytes(8, "little"))
    while at >= 0:
        raw[at : at + 8] = (1 << 40).to_bytes(8, "little")
        at = raw.find(info.byte_offset.to_bytes(8, "little"))
    path.write_bytes(raw)
    with pytest.raises(ZvcoreError):
        zvcore.open(place)[...]
    assert not zvcore.verify(place).ok


def test_a_file_that_was_replaced_is_not_mixed_with_the_old_one(tmp_path: Path) -> None:
    array = zvcore.open(made(tmp_path / "a.h5", chunks=(16, 16, 16), compression="gzip"))
    assert array[0, 0, 0] == DATA[0, 0, 0]
    made(tmp_path / "b.h5", DATA[:20], chunks=(4, 4, 4), compression="gzip")
    (tmp_path / "b.h5").rename(tmp_path / "a.h5")
    with pytest.raises(CorruptDataError, match="another one"):
        array[...]


@pytest.mark.parametrize("shape", [(0, 4), (1, 1), (3, 5)])
def test_small_and_empty_ones(tmp_path: Path, shape: tuple[int, ...]) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=np.ones(shape, "i4"), chunks=(2, 4), maxshape=(None, None), compression="gzip")
    array = zvcore.open(f"{tmp_path}/a.h5:/x")
    assert array[...].shape == shape and (array[...] == 1).all()
    assert zvcore.convert(array, tmp_path / "out", format="zarr3").ok


def test_checking_takes_as_long_as_what_is_stored_and_not_as_what_is_claimed(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("x", (10**6, 10**6, 10**5), "u1", chunks=(16, 16, 16), compression="gzip")
        made[16 * 5 : 16 * 7, :16, 16:32] = 1
        file.create_dataset("y", (10**7, 10**7, 10**7), "u1", chunks=(16, 16, 16), compression="gzip")
    report = zvcore.verify(f"{tmp_path}/a.h5:/x")
    assert report.ok and report.counts["chunks"] == 2
    assert isinstance(zvcore.open(f"{tmp_path}/a.h5:/y").layout, BlockLayout)
    assert len(zvcore.references(f"{tmp_path}/a.h5:/x")["refs"]) == 4


def test_each_damaged_chunk_is_told(tmp_path: Path) -> None:
    place = made(tmp_path / "a.h5", chunks=(16, 16, 16), compression="gzip")
    raw = bytearray((tmp_path / "a.h5").read_bytes())
    with h5py.File(tmp_path / "a.h5") as file:
        for number in (3, 9):
            info = file["x"].id.get_chunk_info(number)
            raw[info.byte_offset : info.byte_offset + 8] = b"\xff" * 8
    (tmp_path / "a.h5").write_bytes(raw)
    problems = zvcore.verify(place).problems
    assert len(problems) == 2 and all(problem.offset is not None for problem in problems)


def test_masks_of_filters_that_there_are_not_do_not_count(tmp_path: Path) -> None:
    """A mask has 32 bits, however few filters a data set has."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("x", (300,), "u1", chunks=(1,), compression="gzip")
        for place in range(300):
            data = zlib.compress(bytes([place % 256]))
            made.id.write_direct_chunk((place,), data, filter_mask=place << 1)
    array = zvcore.open(f"{tmp_path / 'a.h5'}:/x")
    assert isinstance(array.layout, StoredLayout)
    assert array[...].tolist() == [place % 256 for place in range(300)]


def test_more_kinds_of_chunks_than_the_engine_tells_apart(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((1,))
        for _ in range(9):
            properties.set_deflate(1)
        made = h5py.h5d.create(file.id, b"x", h5py.h5t.NATIVE_UINT8, h5py.h5s.create_simple((300,)), properties)
        for place in range(300):
            data = bytes([place % 256])
            for _ in range(9 - place.bit_count()):
                data = zlib.compress(data)
            made.write_direct_chunk((place,), data, filter_mask=place)
    assert zvcore.open(f"{tmp_path / 'a.h5'}:/x")[...].tolist() == [place % 256 for place in range(300)]


@pytest.mark.parametrize("libver", ["earliest", "v108", "v110", "latest"])
@pytest.mark.parametrize("maxshape", [(4, None, 20), (4, 40, None), (None, 40, 20), (None, 40, None), None])
@pytest.mark.parametrize("grown", [False, True], ids=["made", "grown"])
def test_one_unlimited_axis_wherever_it_is(tmp_path: Path, libver: str, maxshape: Any, grown: bool) -> None:
    """HDF5 2.0 tells permuted places of chunks if the only unlimited axis is not the first."""
    data = np.arange(4 * 40 * 20, dtype="u2").reshape(4, 40, 20)
    with h5py.File(tmp_path / "a.h5", "w", libver=libver) as file:
        begun = data[:, :8, :8] if grown and maxshape else data
        made = file.create_dataset("x", data=begun, maxshape=maxshape, chunks=(2, 8, 3))
        if made.shape != data.shape:
            made.resize(data.shape)
            made[...] = data
    place = f"{tmp_path}/a.h5:/x"
    array = zvcore.open(place)
    assert np.array_equal(array[...], data) and np.array_equal(array[1:3, 5:30, 7], data[1:3, 5:30, 7])
    assert zvcore.convert(place, tmp_path / "out", format="zarr3", verify=True).ok
    assert np.array_equal(zarr.open_array(tmp_path / "out", mode="r")[...], data)
    if libver == "earliest" or maxshape is None or maxshape[0] is None:
        assert isinstance(array.layout, StoredLayout)
        assert len(zvcore.references(place)["refs"]) == 2 + 2 * 5 * 7
        return
    with pytest.raises(UnsupportedError, match="one axis is unlimited and not the first"):
        zvcore.references(place)


def test_a_chunk_beyond_what_a_data_set_may_grow_to_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    place = made(path, np.arange(64, dtype="u1"), chunks=(8,), compression="gzip", maxshape=(80,))
    with h5py.File(path) as file:
        info = file["x"].id.get_chunk_info(7)
    assert info.chunk_offset == (56,)
    raw = path.read_bytes()
    entry = info.size.to_bytes(4, "little") + bytes(4) + (56).to_bytes(8, "little")
    assert raw.count(entry) == 1
    path.write_bytes(raw.replace(entry, entry[:8] + (800).to_bytes(8, "little")))
    with pytest.raises(CorruptDataError, match="beyond what the data set may grow to"):
        zvcore.open(place)[...]
    assert not zvcore.verify(place).ok


def test_chunks_are_found_as_the_library_finds_them_one_by_one(tmp_path: Path) -> None:
    """Those of a part of the array, and those that a larger shape has left behind."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        values = file.create_dataset("x", (9, 7, 5), "i4", chunks=(2, 3, 5), maxshape=(None, 20, 5))
        values[2:5, 4:] = np.arange(3 * 3 * 5).reshape(3, 3, 5)
        values.resize((9, 20, 5))
        values[0, 19] = 1
        values.resize((9, 7, 5))
        wanted = values[...]
        places = [values.id.get_chunk_info(number) for number in range(values.id.get_num_chunks())]
    array = zvcore.open(f"{tmp_path / 'a.h5'}:/x")
    assert (array[...] == wanted).all()
    index = array.layout.index
    grid = (5, 3, 1)
    inside = {
        int(np.ravel_multi_index([at // n for at, n in zip(one.chunk_offset, (2, 3, 5), strict=True)], grid)): one
        for one in places
        if all(at < n for at, n in zip(one.chunk_offset, (9, 7, 5), strict=True))
    }
    assert index.numbers.tolist() == sorted(inside)
    assert index.offsets.tolist() == [inside[number].byte_offset for number in sorted(inside)]
    assert index.lengths.tolist() == [inside[number].size for number in sorted(inside)]


def test_links_that_lead_nowhere_are_said_to(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(3)
        file["soft"], file["dangling"] = h5py.SoftLink("/x"), h5py.SoftLink("/y")
        file["far"] = h5py.ExternalLink("elsewhere.h5", "/x")
    path = tmp_path / "a.h5"
    assert zvcore.open(f"{path}:/soft")[...].tolist() == [0, 1, 2]
    for name in ("dangling", "nothing", "x/y"):
        with pytest.raises(NotFoundError):
            zvcore.open(f"{path}:/{name}")
    with pytest.raises(UnsupportedError, match="another file"):
        zvcore.open(f"{path}:/far")
