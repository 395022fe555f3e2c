"""Chunks that are decoded and encoded one after the other: between all grids that do not cut each other."""

from __future__ import annotations

import errno
import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import zvcore
from tests.convert.interrupting import left_behind
from tests.examples import examples
from zvcore.converting import recode as recoding
from zvcore.converting.note import FINISHED
from zvcore.converting.recode import Recode
from zvcore.converting.view import make_view, parse_region
from zvcore.engine import Buffers, StaleSourcesError
from zvcore.engine.cells import Cells
from zvcore.engine.chunks import Chunks
from zvcore.engine.packer import Packer
from zvcore.engine.recode import recode_chunks
from zvcore.engine.selection import Selection
from zvcore.engine.sinks import Gathered
from zvcore.engine.work import Work
from zvcore.errors import CorruptDataError
from zvcore.format import get_format
from zvcore.stores import MemoryStore


@pytest.fixture
def recoded(monkeypatch) -> list[Any]:
    """The boxes that were written so."""
    boxes: list[Any] = []
    store = Recode.store

    def noted(self: Recode, box: Any, threads: int | None) -> int:
        boxes.append(box)
        return store(self, box, threads)

    monkeypatch.setattr(Recode, "store", noted)
    return boxes


DTYPES = ("u1", "<u2", "<i4", "<f4", "<f8", "?")


@st.composite
def conversions(draw) -> dict[str, Any]:
    """Any array and what it shall become; along each axis one chunk is a multiple of the other."""
    rank = draw(st.integers(1, 3))
    small = [draw(st.integers(1, 4)) for _ in range(rank)]
    factors = [draw(st.integers(1, 3)) for _ in range(rank)]
    larger_source = [draw(st.booleans()) for _ in range(rank)]
    source = [n * (f if larger else 1) for n, f, larger in zip(small, factors, larger_source, strict=True)]
    target = [n * (1 if larger else f) for n, f, larger in zip(small, factors, larger_source, strict=True)]
    shape = [draw(st.integers(1, 3 * max(a, b))) for a, b in zip(source, target, strict=True)]
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    formats = ["zarr3"] if dtype.kind == "b" else ["zarr3", "n5"]
    starts = [draw(st.integers(0, (n - 1) // chunk)) * chunk for n, chunk in zip(shape, source, strict=True)]
    return {
        "dtype": dtype,
        "source": draw(st.sampled_from(formats)),
        "target": draw(st.sampled_from(formats)),
        "shape": tuple(shape),
        "chunks": tuple(source),
        "to": tuple(target),
        "shards": tuple(n * draw(st.integers(1, 3)) for n in target) if draw(st.booleans()) else None,
        "start": tuple(starts),
        "fill": draw(st.sampled_from([0, 1])),
        "holes": draw(st.booleans()),
        "options": draw(
            st.sampled_from([{}, {"endian": "big"}, {"order_in_shard": "morton"}, {"write_empty_chunks": True}])
        ),
        "memory": draw(st.sampled_from([1 << 30, 4096])),
        "pad": draw(st.booleans()),
    }  # fmt: skip


@examples(60, deadline=None, suppress_health_check=list(HealthCheck))
@given(what=conversions(), seed=st.integers(0, 1 << 30))
def test_like_numpy(tmp_path_factory, what, seed):
    folder = tmp_path_factory.mktemp("recode")
    rng = np.random.default_rng(seed)
    dtype = what["dtype"]
    if what["source"] == "n5":
        what = {**what, "shape": what["shape"], "fill": 0}
    values = rng.integers(0, 2, what["shape"]).astype(dtype)
    if what["holes"]:
        values[tuple(slice(chunk, 2 * chunk) for chunk in what["chunks"])] = what["fill"]
    made: dict[str, Any] = {"pad_edges": what["pad"]} if what["source"] == "n5" else {"fill_value": what["fill"]}
    source = zvcore.create(
        folder / "src",
        format=what["source"],
        shape=values.shape,
        dtype=dtype,
        chunks=what["chunks"],
        codec="gzip",
        **made,
    )
    source[...] = values
    region = tuple(slice(start, None) for start in what["start"])
    turned = what["source"] != what["target"]
    options: dict[str, Any] = {}
    if what["target"] == "zarr3":
        # The order of chunks in a shard is for shards, and bytes have an order where there are several.
        for name, value in what["options"].items():
            if name == "write_empty_chunks" or (name == "endian" and dtype.itemsize > 1):
                options[name] = value
            if name == "order_in_shard" and what["shards"]:
                options[name] = value
        if what["shards"]:
            options["shards"] = what["shards"][::-1] if turned else what["shards"]
    else:
        options["pad_edges"] = what["pad"]
    chunks = what["to"][::-1] if turned else what["to"]
    report = zvcore.convert(
        source, folder / "dst", format=what["target"], chunks=chunks, codec="zstd", region=region,
        memory=what["memory"], **options,
    )  # fmt: skip
    found = np.asarray(zvcore.open(folder / "dst")[...])
    expected = values[region]
    np.testing.assert_array_equal(found, expected.T if turned else expected)
    assert not report.copied
    grid = math.prod(-(-n // c) for n, c in zip(found.shape, chunks, strict=True))
    assert report.encoded + report.empty == grid
    assert report.values == expected.nbytes
    assert zvcore.verify(folder / "dst").ok


@pytest.mark.parametrize("shards", [None, (16, 16, 16), (32, 8, 16)])
@pytest.mark.parametrize("chunks", [(4, 4, 4), (8, 8, 8), (16, 4, 8)])
def test_it_is_used(tmp_path, recoded, chunks, shards):
    """For grids that fit, with and without shards, whatever the threads; and the report is the same as without."""
    values = np.random.default_rng(0).integers(0, 9, (40, 30, 20), "uint16")
    values[8:16, :8, :8] = 0
    source = zvcore.create(
        tmp_path / "src", format="n5", shape=values.shape, dtype="u2", chunks=(8, 8, 8), codec="gzip"
    )
    source[...] = values
    if shards is not None and any(a % b for a, b in zip(shards, chunks, strict=True)):
        shards = tuple(math.lcm(a, b) for a, b in zip(shards, chunks, strict=True))
    reports = []
    for threads in (1, 4):
        report = zvcore.convert(
            source, tmp_path / str(threads), format="zarr3", chunks=chunks, shards=shards or False, codec="zstd",
            threads=threads,
        )  # fmt: skip
        reports.append(report.to_json())
        np.testing.assert_array_equal(zvcore.open(tmp_path / str(threads))[...], values.T)
    assert recoded
    plain = zvcore.convert(
        zvcore.open(tmp_path / "1"), tmp_path / "back", format="n5", chunks=(8, 8, 8), codec="gzip", threads=2
    )
    np.testing.assert_array_equal(zvcore.open(tmp_path / "back")[...], values)
    assert plain.encoded == 4 * 5 * 3 - plain.empty
    for name in ("bytes_in", "bytes_out", "encoded", "empty", "values"):
        assert reports[0][name] == reports[1][name]
    size = sum(path.stat().st_size for path in (tmp_path / "src").glob("*/*/*"))
    assert reports[0]["bytes_in"] == size


def test_the_same_files_as_without(tmp_path, monkeypatch):
    values = np.random.default_rng(0).integers(0, 9, (50, 30, 20), "uint16")
    source = zvcore.create(
        tmp_path / "src", format="n5", shape=values.shape, dtype="u2", chunks=(8, 8, 8), codec="gzip"
    )
    source[...] = values
    options = {"format": "zarr3", "chunks": (4, 8, 8), "shards": (16, 16, 16), "codec": "zstd"}
    zvcore.convert(source, tmp_path / "ours", **options)
    monkeypatch.setattr(Recode, "applies", False)
    zvcore.convert(source, tmp_path / "other", **options)
    files = [path for path in (tmp_path / "ours").rglob("*") if path.is_file() and path.name != FINISHED]
    names = [path.relative_to(tmp_path / "ours") for path in files]
    assert len(names) == 2 * 2 * 4 + 1
    for name in names:
        assert (tmp_path / "ours" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()


@pytest.mark.parametrize("codec", ["zstd", {"name": "numcodecs.zlib", "level": 1}], ids=str)
def test_a_broken_chunk_is_named(tmp_path, recoded, codec):
    """Also by codecs that run in Python; no shard that needs it is there, and nothing else is left."""
    source = zvcore.create(
        tmp_path / "src", format="n5", shape=(32, 32, 32), dtype="u2", chunks=(8, 8, 8), codec="gzip"
    )
    source[...] = np.random.default_rng(0).integers(0, 999, source.shape)
    chunk = tmp_path / "src/3/2/1"
    chunk.write_bytes(chunk.read_bytes()[:60])
    with pytest.raises(CorruptDataError) as caught:
        zvcore.convert(
            source, tmp_path / "dst", format="zarr3", chunks=(8, 8, 8), shards=(32, 32, 32), codec=codec, threads=2
        )
    assert recoded
    assert caught.value.key == "3/2/1" and caught.value.chunk == (3, 2, 1)
    left = {path.name for path in (tmp_path / "dst").rglob("*") if path.is_file()}
    assert left == {"zarr.json", ".zvcore-convert.json"}


def test_a_python_codec_on_both_sides(tmp_path, recoded):
    values = np.random.default_rng(0).integers(0, 9, (20, 20), "int32")
    codec = {"name": "numcodecs.zlib", "level": 1}
    source = zvcore.create(tmp_path / "src", format="zarr3", shape=values.shape, dtype="i4", chunks=(8, 8), codec=codec)
    source[...] = values
    zvcore.convert(source, tmp_path / "dst", format="zarr3", chunks=(4, 8), codec={**codec, "level": 9})
    assert recoded
    np.testing.assert_array_equal(zvcore.open(tmp_path / "dst")[...], values)


def test_a_place_that_cannot_be_written_is_named(tmp_path, recoded):
    source = zvcore.create(tmp_path / "src", format="n5", shape=(16, 16), dtype="u1", chunks=(8, 8), codec="gzip")
    source[...] = 1
    target = tmp_path / "dst"
    target.mkdir()
    # A file where a folder of chunks belongs.
    (target / "c").write_bytes(b"")
    for shards in (False, (16, 16)):
        with pytest.raises(OSError, match="c/") as caught:
            zvcore.convert(source, target, format="zarr3", chunks=(8, 8), shards=shards, codec="zstd", resume=False,
                           threads=1)  # fmt: skip
        assert caught.value.errno == errno.ENOTDIR
        (target / "zarr.json").unlink()
        (target / ".zvcore-convert.json").unlink()


def test_stores_that_are_no_folders():
    values = np.random.default_rng(0).integers(0, 9, (20, 30), "uint16")
    source = zvcore.create(MemoryStore(), format="n5", shape=values.shape, dtype="u2", chunks=(8, 8), codec="gzip")
    source[...] = values
    for shards in (False, (16, 16)):
        target = MemoryStore()
        zvcore.convert(source, target, format="zarr3", chunks=(4, 8), shards=shards, codec="zstd", verify=True)
        np.testing.assert_array_equal(zvcore.open(target)[...], values.T)


# --- the engine by itself


CELLS = ("source_selection", "target_selection", "axis_of", "begin", "extent", "source_first", "target_first", "single")


def recode(**changed: Any) -> tuple[Buffers, int, int]:
    """(what comes of four cells of one chunk each, how many stored bytes were read, how many there are)."""
    arrays = [
        zvcore.create(MemoryStore(), format="zarr3", shape=(8, 8), dtype="u1", chunks=(4, 4), codec="gzip")
        for _ in range(2)
    ]
    arrays[0][...] = np.arange(64).reshape(8, 8)
    positions = np.array(list(itertools.product(range(2), range(2))), np.int64)
    selection = Selection.basic(..., (8, 8))
    source, target = (array.layout for array in arrays)
    blobs = [memoryview(source.store.get(key)) for key in source.placement.keys(positions)]
    sources = source.locate(positions)
    sources.blobs = blobs
    columns = {
        "source_selection": selection, "target_selection": selection, "axis_of": np.arange(2), "begin": 4 * positions,
        "extent": np.full((4, 2), 4), "source_first": np.arange(5), "target_first": np.arange(5), "single": True,
        "target_chain": None, **changed,
    }  # fmt: skip
    gathered = Gathered(4)
    nbytes = recode_chunks(
        Cells(*(columns[name] for name in CELLS)),
        Chunks(source.prepared, positions, sources),
        Chunks(target.prepared, positions, chain=columns["target_chain"]),
        gathered,
        Work(),
    )
    return gathered.chunks, nbytes, sum(map(len, blobs))


def test_cells():
    for single in (True, False):
        made, nbytes, stored = recode(single=single)
        assert nbytes == stored
        decoded = [zvcore.codecs.get("gzip").decode(chunk) for chunk in made]
        assert bytes(decoded[3]) == np.arange(64, dtype="u1").reshape(8, 8)[4:, 4:].tobytes()


CHANGES = [
    {"begin": np.zeros((4, 2), np.int64)},
    {"extent": np.full((4, 2), 3)},
    {"extent": np.full((4, 2), 5)},
    {"extent": np.full((3, 2), 4)},
    {"source_first": np.array([0, 2, 1, 3, 4])},
    {"source_first": np.array([0, 1, 2, 3, 5])},
    {"source_first": np.array([0, 2, 2, 3, 4]), "single": False},
    {"target_first": np.array([0, 2, 2, 3, 4])},
    {"target_first": np.array([0, 2, 2, 3, 4]), "single": False},
    {"axis_of": np.array([0, -1])},
    {"axis_of": np.array([0, 2])},
    {"axis_of": np.array([1, 0])},
    {"axis_of": np.array([0])},
    {"source_selection": Selection.basic((slice(0, 4), slice(None)), (8, 8))},
    {"source_selection": Selection.basic((slice(None, None, 2), slice(None)), (8, 8))},
    {"source_selection": Selection.basic(..., (8,))},
    {"target_chain": np.array([0, 0, 0, 1], np.uint8)},
    {"target_chain": np.zeros(3, np.uint8)},
]


@pytest.mark.parametrize(
    "changed", CHANGES, ids=[f"{number} {' '.join(change)}" for number, change in enumerate(CHANGES)]
)
def test_cells_that_do_not_fit(changed):
    """Nothing is written outside of a cell's memory, whatever the caller says."""
    with pytest.raises(ValueError):
        recode(**changed)


def test_what_is_recoded():
    """Neither grid may cut the other's chunks, and values stay what they are."""
    source = zvcore.create(MemoryStore(), format="n5", shape=(64, 64), dtype="u2", chunks=(16, 16), codec="gzip")

    def opened(chunks: tuple[int, int], region: Any = ..., limit: int = 1 << 20, **options: Any) -> bool:
        view = make_view(source, get_format("zarr3"), parse_region(region, source.shape), **options)
        target = zvcore.create(
            MemoryStore(), format="zarr3", shape=view.shape, dtype=view.value_dtype, chunks=chunks, codec="gzip"
        )
        return Recode(view, target, None, False, limit).applies

    assert opened((16, 16)) and opened((4, 16)) and opened((32, 8)) and opened((64, 64))
    assert not opened((16, 24))
    assert not opened((16, 16), dtype=np.dtype("u1"))
    assert not opened((16, 16), limit=500)
    assert opened((16, 16), np.s_[16:, 32:]) and not opened((16, 16), np.s_[16:, 8:])
    assert opened((16,), np.s_[16:, 33]) is False or opened((16,), np.s_[16:, 32])


@pytest.mark.parametrize("shards", [(8, 8), None])
def test_a_source_that_is_replaced_while_it_is_read_is_read_again(tmp_path, monkeypatch, shards):
    values = np.random.default_rng(0).integers(0, 99, (16, 24), np.uint8)
    source = zvcore.create(
        tmp_path / "a", format="zarr3", shape=(16, 24), dtype="u1", chunks=(4, 4), shards=shards, codec="gzip"
    )
    source[...] = values
    packed = []

    def first_stale(*arguments: Any) -> Any:
        if len(packed) < 2:
            packed.append(any(isinstance(argument, Packer) for argument in arguments))
            raise StaleSourcesError
        return recode_chunks(*arguments)

    monkeypatch.setattr(recoding, "recode_chunks", first_stale)
    zvcore.convert(tmp_path / "a", tmp_path / "b", chunks=(4, 4), codec="zstd", format="zarr3", threads=1)
    assert packed == [shards is not None] * 2
    # Nothing is left of the shards that were begun in vain.
    assert not left_behind(tmp_path / "b")
    assert np.array_equal(zvcore.open(tmp_path / "b")[...], values)
