"""Datasets against a numpy mirror: shapes, block sizes, types, compressions, regions; edges, blocks, resizing."""

import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import zvcore
from tests.examples import examples
from zvcore.errors import ConflictError, MetadataError, NotFoundError, ReadOnlyError, UnsupportedError
from zvcore.n5 import Block
from zvcore.stores import MemoryStore

TYPES = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64"]
CODECS = [
    "raw",
    "gzip",
    {"name": "gzip", "use_zlib": True, "level": 1},
    "bzip2",
    {"name": "xz", "preset": 1},
    "lz4",
    {"name": "lz4", "block_size": 64},
    "blosc",
    {"name": "blosc", "cname": "zstd", "shuffle": "bitshuffle"},
    "zstd",
]
# One folder per example would make the tests slow; an example needs only a store of its own.
relaxed = examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def sample(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    size = int(np.prod(shape))
    values = rng.integers(0, 256, size * np.dtype(dtype).itemsize, dtype=np.uint8).view(dtype)
    values[rng.random(size) < 0.5] = 1
    return values.reshape(shape)


def same(a, b):
    """Bit for bit, so that NaNs count too."""
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape
    assert a.dtype == b.dtype
    assert a.tobytes() == b.tobytes()


@st.composite
def arrays(draw):
    rank = draw(st.integers(1, 4))
    shape = tuple(draw(st.integers(0 if rank > 1 else 1, [40, 14, 8, 5][rank - 1])) for _ in range(rank))
    chunks = tuple(draw(st.integers(1, 9)) for _ in range(rank))
    options = {
        "order": draw(st.sampled_from("FC")),
        "pad_edges": draw(st.booleans()),
        "write_empty_blocks": draw(st.booleans()),
    }
    return shape, chunks, draw(st.sampled_from(TYPES)), draw(st.sampled_from(CODECS)), options


@st.composite
def regions(draw, shape):
    region = []
    for n in shape:
        if n and draw(st.booleans()):
            region.append(draw(st.integers(-n, n - 1)))
        else:
            start, stop = sorted((draw(st.integers(0, n)), draw(st.integers(0, n))))
            region.append(slice(start, stop, draw(st.sampled_from([None, 1, 2, 3]))))
    return tuple(region)


@relaxed
@given(st.data())
def test_mirror(data):
    shape, chunks, dtype, codec, options = data.draw(arrays())
    store = MemoryStore()
    array = zvcore.create(store, format="n5", shape=shape, dtype=dtype, chunks=chunks, codec=codec, **options)
    mirror = np.zeros(shape, dtype, order=options["order"])
    for step in range(3):
        region = data.draw(regions(shape))
        values = sample(mirror[region].shape, dtype, step)
        array[region] = values
        mirror[region] = values
        reading = data.draw(regions(shape))
        same(array[reading], mirror[reading])
    same(array[...], mirror)
    # The reversed view of the same bytes, reopened.
    other = "C" if options["order"] == "F" else "F"
    turned = zvcore.open(store, format="n5", order=other)
    same(turned[...], mirror.T)
    order = range(mirror.ndim)[::-1]
    same(zvcore.open(store, format="n5")[...], mirror if options["order"] == "F" else mirror.transpose(order))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("codec", CODECS, ids=str)
def test_every_type_in_every_compression(dtype, codec, tmp_path):
    array = zvcore.create(tmp_path / "d", format="n5", shape=(9, 7, 5), dtype=dtype, chunks=(4, 4, 4), codec=codec)
    values = sample((9, 7, 5), dtype)
    array[...] = values
    again = zvcore.open(tmp_path / "d")
    same(again[...], values)
    assert again[...].flags.f_contiguous
    assert again.codec == array.codec
    same(again[3:9:2, 1, ::-1], values[3:9:2, 1, ::-1])


def test_extremes(tmp_path):
    for dtype in TYPES:
        if dtype.startswith("float"):
            quiet = np.array([np.nan, -0.0, np.inf, -np.inf, np.finfo(dtype).tiny / 4, np.finfo(dtype).max], dtype)
            bits = quiet.view(f"u{quiet.itemsize}")
            bits[0] |= 5  # a payload
            values = quiet
        else:
            values = np.array([np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 1, 2, 3], dtype)
        array = zvcore.create(tmp_path / dtype, format="n5", shape=(6,), dtype=dtype, chunks=(4,), codec="raw")
        array[...] = values
        same(array[...], values)


def test_minus_zero_is_not_nothing(tmp_path):
    array = zvcore.create(tmp_path / "d", format="n5", shape=(4,), dtype="f4", chunks=(2,), codec="raw")
    array[:2] = -0.0
    assert array.block_exists(0)
    assert np.signbit(array[:2]).all()


class TestCreating:
    def test_document(self, tmp_path):
        array = zvcore.create(
            tmp_path / "d", format="n5", shape=(10, 20), dtype=">u2", chunks=(5, 6),
            codec={"name": "gzip", "level": 3}, attrs={"a": 1},
        )  # fmt: skip
        assert json.loads((tmp_path / "d/attributes.json").read_text()) == {
            "n5": "4.0.0",
            "dataType": "uint16",
            "compression": {"type": "gzip", "level": 3, "useZlib": False},
            "blockSize": [5, 6],
            "dimensions": [10, 20],
            "a": 1,
        }
        assert array.format == "n5"
        assert array.dtype == np.dtype("u2")

    @pytest.mark.parametrize(
        ("codec", "members"),
        [
            (None, {"type": "raw"}),
            ("raw", {"type": "raw"}),
            ("gzip", {"type": "gzip", "level": 6, "useZlib": False}),
            ("bzip2", {"type": "bzip2", "blockSize": 9}),
            ("xz", {"type": "xz", "preset": 6}),
            ("lz4", {"type": "lz4", "blockSize": 65536}),
            ("zstd", {"type": "zstd", "level": 3}),
            ("blosc", {"type": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}),
            ([{"name": "zstd", "level": 1}], {"type": "zstd", "level": 1}),
            ({"type": "lz4", "blockSize": 1024}, {"type": "lz4", "blockSize": 1024}),
            (zvcore.codecs.get("bzip2", block_size=2), {"type": "bzip2", "blockSize": 2}),
            (
                {"type": "blosc", "cname": "zstd", "clevel": 1, "shuffle": 0, "blocksize": 0, "nthreads": 1},
                {"type": "blosc", "cname": "zstd", "clevel": 1, "shuffle": 0, "blocksize": 0, "nthreads": 1},
            ),
        ],
        ids=str,
    )
    def test_compression(self, codec, members, tmp_path):
        zvcore.create(tmp_path / "d", format="n5", shape=(2,), dtype="u2", codec=codec)
        assert json.loads((tmp_path / "d/attributes.json").read_text())["compression"] == members

    def test_order_c(self, tmp_path):
        array = zvcore.create(tmp_path / "d", format="n5", shape=(4, 5, 6), dtype="u1", chunks=(2, 3, 4), order="C")
        array[3, 4, 5] = 7
        assert array.shape == (4, 5, 6)
        plain = zvcore.open(tmp_path / "d")
        assert plain.shape == (6, 5, 4)
        assert plain.chunks == (4, 3, 2)
        assert plain[5, 4, 3] == 7
        assert list(array.blocks()) == [(1, 1, 1)]
        assert (tmp_path / "d/1/1/1").exists()
        with pytest.raises(ValueError, match="order is"):
            zvcore.open(tmp_path / "d", order="A")

    def test_refused(self, tmp_path):
        for options, error in [
            ({"fill_value": 5}, MetadataError),
            ({"dtype": bool}, UnsupportedError),
            ({"dtype": "c8"}, UnsupportedError),
            ({"chunks": (0,)}, MetadataError),
            ({"chunks": (2, 2)}, MetadataError),
            ({"chunks": (2**32,)}, MetadataError),
            ({"shape": (-1,)}, MetadataError),
            ({"codec": ["gzip", "zstd"]}, UnsupportedError),
            ({"codec": "nobody"}, zvcore.errors.CodecNotFoundError),
            ({"attrs": {"dimensions": [1]}}, MetadataError),
            ({"n5_version": "9.0.0"}, MetadataError),
        ]:
            with pytest.raises(error):
                zvcore.create(tmp_path / "d", format="n5", **{"shape": (4,), "dtype": "u1", "chunks": (2,), **options})
            assert not (tmp_path / "d").exists()

    def test_overwriting(self, tmp_path):
        array = zvcore.create(tmp_path / "d", format="n5", shape=(4,), dtype="u1", chunks=(2,))
        array[...] = 1
        with pytest.raises(ConflictError, match="already"):
            zvcore.create(tmp_path / "d", format="n5", shape=(4,), dtype="u1")
        assert zvcore.open(tmp_path / "d")[...].tolist() == [1, 1, 1, 1]
        zvcore.create(tmp_path / "d", format="n5", shape=(4,), dtype="u1", chunks=(2,), overwrite=True)
        assert zvcore.open(tmp_path / "d")[...].tolist() == [0, 0, 0, 0]
        zvcore.open(tmp_path / "c", "w", format="n5").create_group("g")
        with pytest.raises(ConflictError, match="other things"):
            zvcore.create(tmp_path / "c", format="n5", shape=(4,), dtype="u1")

    def test_default_chunks(self, tmp_path):
        array = zvcore.create(tmp_path / "d", format="n5", shape=(1000, 1000, 1000), dtype="u2")
        assert 2**18 <= np.prod(array.chunks) * 2 <= 2**20


class TestEdges:
    def test_cropped_or_padded(self, tmp_path):
        for padded, size in ((False, 2), (True, 3)):
            array = zvcore.create(
                tmp_path / str(padded), format="n5", shape=(5,), dtype="u1", chunks=(3,), codec="raw", pad_edges=padded
            )
            array[...] = [1, 2, 3, 4, 5]
            stored = array.read_encoded(1)
            assert stored[:8].hex() == f"000000010000000{size}"
            assert stored[8:] == bytes([4, 5, 0][:size])
            assert array[...].tolist() == [1, 2, 3, 4, 5]

    def test_larger_than_the_block_size(self, tmp_path):
        array = zvcore.create(tmp_path / "d", format="n5", shape=(4, 4), dtype="u1", chunks=(2, 2), codec="raw")
        big = np.arange(1, 21, dtype=np.uint8).reshape((4, 5), order="F")
        array.write_encoded((1, 0), bytes.fromhex("000000020000000400000005") + big.tobytes("F"))
        assert array[2:, :2].tolist() == big[:2, :2].tolist()
        assert array.read_block((1, 0)).tolist() == big[:2, :2].tolist()
        assert not array[2:, 2:].any()
        array[3, 1] = 99
        assert array[2:, :2].tolist() == [[1, 5], [2, 99]]

    def test_smaller_than_the_block_size(self, tmp_path):
        array = zvcore.create(tmp_path / "d", format="n5", shape=(4,), dtype="u1", chunks=(4,), codec="raw")
        array.write_encoded(0, bytes.fromhex("00000001000000020708"))
        assert array[...].tolist() == [7, 8, 0, 0]
        array[3] = 1
        assert array[...].tolist() == [7, 8, 0, 1]

    def test_a_longer_block_is_replaced_by_a_shorter(self, tmp_path):
        array = zvcore.create(tmp_path / "d", format="n5", shape=(512,), dtype="u2", chunks=(512,), codec="gzip")
        array[...] = sample((512,), "u2")
        before = len(array.read_encoded(0))
        array[...] = 1
        assert len(array.read_encoded(0)) < before
        assert array[...].tolist() == [1] * 512


class TestBlocks:
    def test_missing(self, tmp_path):
        array = zvcore.create(tmp_path / "d", format="n5", shape=(6, 6), dtype="i4", chunks=(2, 2))
        assert not array[...].any()
        array[0, 0] = 1
        assert array.block_exists((0, 0))
        assert not array.block_exists((1, 0))
        assert array.read_block((1, 0)) is None
        assert array.block_mode((1, 0)) is None
        assert array.block_mode((0, 0)) == "default"
        assert list(array.blocks()) == [(0, 0)]
        assert array.delete_block((0, 0))
        assert not array.delete_block((0, 0))
        assert not array[...].any()
        with pytest.raises(IndexError):
            array.block_exists((3, 0))
        with pytest.raises(IndexError):
            array.block_exists((0,))

    def test_zeros_are_not_stored_unless_wanted(self, tmp_path):
        for wanted in (False, True):
            array = zvcore.create(
                tmp_path / str(wanted), format="n5", shape=(4,), dtype="u1", chunks=(2,), write_empty_blocks=wanted
            )
            array[...] = 1
            array[...] = 0
            assert array.block_exists(0) is wanted

    def test_modes(self, tmp_path):
        array = zvcore.create(tmp_path / "d", format="n5", shape=(5, 3), dtype="i2", chunks=(3, 3), codec="gzip")
        array.write_block((0, 0), np.full((3, 3), 7, np.int16))
        array.write_block((1, 0), [-1, 2, 30000], mode="varlength")
        with pytest.raises(zvcore.errors.CorruptDataError, match=r"1/0.*variable length.*read_block"):
            array[...]
        assert array[:3].tolist() == [[7] * 3] * 3
        block = array.read_block((1, 0))
        assert block == Block("varlength", np.array([-1, 2, 30000], np.int16), (2, 3))
        assert block != Block("varlength", np.array([-1, 2, 30000], np.int16), (3, 3))
        array.write_block((1, 0), [1], mode="varlength", shape=(9, 9))
        assert array.read_block((1, 0)).shape == (9, 9)
        turned = zvcore.open(tmp_path / "d", mode="r+", order="C")
        turned.write_block((0, 1), [], mode="varlength", shape=(4, 8))
        assert array.read_block((1, 0)) == Block("varlength", np.zeros(0, np.int16), (8, 4))
        array.write_block((1, 0), b"abc", mode="object")
        assert array.read_block((1, 0)) == Block("object", b"abc")
        with pytest.raises(zvcore.errors.CorruptDataError, match="object mode"):
            array[3:]
        array.write_block((0, 0), array.read_block((1, 0)))
        assert array.block_mode((0, 0)) == "object"

    def test_as_many_values_as_places(self, tmp_path):
        """Then a block of variable length is an array too; its mode still shows."""
        array = zvcore.create(tmp_path / "d", format="n5", shape=(3,), dtype="u2", chunks=(3,), codec="raw")
        array.write_block(0, [4, 5, 6], mode="varlength")
        assert array[...].tolist() == [4, 5, 6]
        assert array.read_block(0).mode == "varlength"

    def test_label_multisets_are_no_numbers(self, tmp_path):
        array = zvcore.create(
            tmp_path / "d", format="n5", shape=(3,), dtype="u1", chunks=(3,), attrs={"isLabelMultiset": True}
        )
        array.write_block(0, [1, 2, 3], mode="varlength")
        with pytest.raises(UnsupportedError, match=r"label multisets.*read_block"):
            array[...]
        assert array.read_block(0).data.tolist() == [1, 2, 3]

    @pytest.mark.parametrize("codec", CODECS, ids=str)
    def test_modes_in_every_compression(self, codec, tmp_path):
        texts = zvcore.create(tmp_path / "s", format="n5", shape=(4,), dtype="string", chunks=(2,), codec=codec)
        assert texts.data_type == "string"
        for words in ([], [""], ["", ""], ["a"], ["µ" * 1000, "", "b" * 70000]):
            texts.write_block(1, words)
            assert texts.read_block(1) == Block("varlength", words, (2,))
        things = zvcore.create(tmp_path / "o", format="n5", shape=(4,), dtype="object", chunks=(2,), codec=codec)
        for data in (b"", b"x", bytes(range(256)) * 300):
            things.write_block(0, data)
            assert things.read_block(0) == Block("object", data)
        numbers = zvcore.create(tmp_path / "n", format="n5", shape=(4,), dtype="f8", chunks=(2,), codec=codec)
        for count in (0, 1, 3, 20000):
            numbers.write_block(0, np.arange(count) / 3, mode="varlength")
            assert numbers.read_block(0) == Block("varlength", np.arange(count) / 3, (2,))

    def test_wrong_blocks(self, tmp_path):
        array = zvcore.create(tmp_path / "d", format="n5", shape=(3,), dtype="u1", chunks=(3,))
        for values, options, error in [
            ([256], {"mode": "varlength"}, TypeError),
            ([-1], {"mode": "varlength"}, TypeError),
            ([0.5], {"mode": "varlength"}, TypeError),
            ([[1]], {"mode": "varlength"}, ValueError),
            ([1], {"mode": "varlength", "shape": (1, 1)}, MetadataError),
            ("text", {"mode": "object"}, TypeError),
            ([1, 2, 3], {"mode": "other"}, ValueError),
            ([1, 2, 3], {"shape": (3,)}, TypeError),
            ([1, 2], {}, ValueError),
        ]:
            with pytest.raises(error):
                array.write_block(0, values, **options)
        texts = zvcore.create(tmp_path / "s", format="n5", shape=(3,), dtype="string")
        for wrong, error in (("abc", TypeError), ([1], TypeError), (["a\0b"], ValueError)):
            with pytest.raises(error):
                texts.write_block(0, wrong)
        for use in (lambda: texts[...], lambda: texts.__setitem__(0, "a")):
            with pytest.raises(UnsupportedError, match="read_block"):
                use()
        assert not list(array.blocks())
        assert not list(texts.blocks())

    def test_read_only(self, tmp_path):
        zvcore.create(tmp_path / "d", format="n5", shape=(3,), dtype="u1", chunks=(3,))[...] = 1
        array = zvcore.open(tmp_path / "d")
        for use in (
            lambda: array.write_block(0, [1, 2, 3]),
            lambda: array.write_block(0, [1], mode="varlength"),
            lambda: array.delete_block(0),
            lambda: array.resize((4,)),
            lambda: array.__setitem__(0, 1),
        ):
            with pytest.raises(ReadOnlyError):
                use()


class TestResizing:
    @pytest.mark.parametrize("order", "FC")
    def test_shrinks_and_grows(self, order, tmp_path):
        array = zvcore.create(tmp_path / "d", format="n5", shape=(6, 9), dtype="u1", chunks=(2, 3), order=order)
        values = sample((6, 9), "u1")
        array[...] = values
        array.resize((3, 4))
        assert array.shape == (3, 4)
        same(np.asarray(array[...], order="C"), np.asarray(values[:3, :4], order="C"))
        assert sorted(array.blocks()) == [(0, 0), (0, 1), (1, 0), (1, 1)]
        array.resize((6, 9))
        expected = np.zeros_like(values)
        expected[:4, :6] = values[:4, :6]
        same(np.asarray(array[...], order="C"), expected)

    def test_cropped_blocks_grow_with_it(self, tmp_path):
        array = zvcore.create(tmp_path / "d", format="n5", shape=(3,), dtype="u1", chunks=(2,), codec="raw")
        array[...] = [1, 2, 3]
        array.resize((5,))
        assert array[...].tolist() == [1, 2, 3, 0, 0]
        array[3] = 4
        assert array[...].tolist() == [1, 2, 3, 4, 0]

    def test_keeps_blocks_if_asked(self, tmp_path):
        array = zvcore.create(tmp_path / "d", format="n5", shape=(4,), dtype="u1", chunks=(2,))
        array[...] = 1
        array.resize((2,), keep_blocks=True)
        array.resize((4,))
        assert array[...].tolist() == [1, 1, 1, 1]

    @pytest.mark.parametrize("order", "FC")
    def test_blocks_outside_are_not_among_those_that_are_read(self, order, tmp_path):
        array = zvcore.create(tmp_path / "d", format="n5", shape=(8, 8), dtype="u1", chunks=(4, 4), order=order)
        array[...] = 1
        array.resize((4, 8), keep_blocks=True)
        assert sorted(array.blocks()) == [(0, 0), (0, 1)]
        assert [array.read_block(place).shape for place in array.blocks()] == [(4, 4), (4, 4)]
        assert sum(path.is_file() for path in (tmp_path / "d").rglob("*")) == 5
        array.resize((8, 8))
        assert len(list(array.blocks())) == 4 and array[...].all()

    def test_others_see_it_after_a_refresh(self, tmp_path):
        array = zvcore.create(tmp_path / "d", format="n5", shape=(4,), dtype="u1", chunks=(2,))
        other = zvcore.open(tmp_path / "d")
        array.resize((7,))
        assert other.shape == (4,)
        other.refresh()
        assert other.shape == (7,)
        with pytest.raises(MetadataError, match="number of dimensions"):
            array.resize((7, 1))
        (tmp_path / "d/attributes.json").unlink()
        for use in (other.refresh, lambda: array.resize((8,))):
            with pytest.raises(NotFoundError, match="gone"):
                use()


def test_rank_0(tmp_path):
    """As tensorstore has it: one block, "0"."""
    array = zvcore.create(tmp_path / "d", format="n5", shape=(), dtype="u2", chunks=(), codec="raw")
    array[...] = 5
    assert (tmp_path / "d/0").read_bytes().hex() == "000000000005"
    assert zvcore.open(tmp_path / "d")[...] == 5
    assert list(array.blocks()) == [()]


def test_pickled(tmp_path):
    array = zvcore.create(tmp_path / "d", format="n5", shape=(4, 3), dtype="u2", chunks=(2, 2), order="C", codec="lz4")
    array[...] = 3
    array.attrs["a"] = 1
    copy = pickle.loads(pickle.dumps(array))
    same(copy[...], array[...])
    assert copy.order == "C"
    assert dict(copy.attrs) == {"a": 1}
    copy[0] = 9
    assert array[0, 0] == 9


def test_many_threads(tmp_path):
    array = zvcore.create(tmp_path / "d", format="n5", shape=(64, 64), dtype="u4", chunks=(8, 8), codec="gzip")

    def work(place):
        array[place[0] * 8 : place[0] * 8 + 8, place[1] * 8 : place[1] * 8 + 8] = place[0] * 8 + place[1] + 1
        return array.read_block(place)

    with ThreadPoolExecutor(8) as pool:
        blocks = list(pool.map(work, np.ndindex(8, 8)))
    assert [int(block[0, 0]) for block in blocks] == list(range(1, 65))
    expected = np.kron(np.arange(1, 65, dtype=np.uint32).reshape(8, 8), np.ones((8, 8), np.uint32))
    same(np.ascontiguousarray(array[...]), expected)


def test_writes_to_parts_of_one_block_are_not_lost(tmp_path):
    array = zvcore.create(tmp_path / "d", format="n5", shape=(64,), dtype="u1", chunks=(64,), codec="zstd")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: array.__setitem__(i, i + 1), range(64)))
    assert array[...].tolist() == list(range(1, 65))


def test_a_conversion_notes_that_z5py_reads_no_arrays_without_axes(tmp_path) -> None:
    zvcore.open(tmp_path / "g", "w", format="zarr3")
    for name, values in (("a", np.array(5, "u1")), ("b", np.arange(4, dtype="u1"))):
        zvcore.create(tmp_path / "g" / name, format="zarr3", data=values)
    plan = zvcore.plan(tmp_path / "g", tmp_path / "g.n5")
    report = zvcore.convert(tmp_path / "g", tmp_path / "g.n5")
    for one in (plan, report):
        assert [(note.where, "z5py does not read" in note.what) for note in one.notes] == [("a", True)]
    assert zvcore.open(tmp_path / "g.n5")["a"][()] == 5
