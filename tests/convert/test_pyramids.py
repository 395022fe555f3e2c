"""Coarser levels: against tensorstore, against slow Python, at odd ends, in one go and level by level."""

from __future__ import annotations

import numpy as np
import pytest
import tensorstore
from hypothesis import given
from hypothesis import strategies as st

import zvcore
from tests.examples import examples
from zvcore.converting.coarse import downsampled
from zvcore.errors import UnsupportedError
from zvcore.stores import LocalStore

INTEGERS = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]


def boxes(values, factors):
    counts = [-(-n // f) for n, f in zip(values.shape, factors, strict=True)]
    for place in np.ndindex(*counts):
        yield place, values[tuple(slice(i * f, (i + 1) * f) for i, f in zip(place, factors, strict=True))]


def oracle(values, factors, method):
    """One voxel after the other, with Python's integers."""
    out = np.empty([-(-n // f) for n, f in zip(values.shape, factors, strict=True)], values.dtype)
    for place, box in boxes(values, factors):
        items = box.ravel().tolist()
        if method == "mean" and values.dtype.kind in "iu":
            quotient, rest = divmod(sum(items), len(items))
            twice = 2 * rest - len(items)
            out[place] = quotient + (twice > 0 or (twice == 0 and quotient % 2))
        elif method == "mean":
            out[place] = sum(items) / len(items)
        else:
            found, counts = np.unique(box, return_counts=True)
            out[place] = found[np.argmax(counts)]
    return out


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("method", ["mean", "mode"])
def test_whole_range_of_integers(dtype, method):
    bounds = np.iinfo(dtype)
    rng = np.random.default_rng(1)
    values = rng.integers(bounds.min, bounds.max, (5, 7, 9), dtype=dtype, endpoint=True)
    values[:2, :2, :2] = bounds.max
    values[2:4, :2, :2] = bounds.min
    values[:, 4:, :] = rng.integers(0, 3, (5, 3, 9))
    for factors in [(2, 2, 2), (1, 2, 2), (3, 2, 4), (2, 1, 1), (5, 7, 9), (1, 1, 3)]:
        assert np.array_equal(downsampled(values, factors, method), oracle(values, factors, method)), factors


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_means_of_floats(dtype):
    values = np.random.default_rng(2).normal(size=(5, 6, 7)).astype(dtype)
    found = downsampled(values, (2, 2, 2), "mean")
    assert found.dtype == values.dtype
    assert np.allclose(found, oracle(values, (2, 2, 2), "mean"), rtol=1e-6 if dtype != "float16" else 1e-3)
    with pytest.raises(UnsupportedError):
        downsampled(values, (2, 2, 2), "mode")


def test_booleans_have_the_most_frequent():
    values = np.random.default_rng(2).random((5, 6, 7)) > 0.5
    assert np.array_equal(downsampled(values, (2, 2, 2), "mean"), oracle(values, (2, 2, 2), "mode"))


@examples(60, deadline=None)
@given(
    st.lists(st.integers(1, 7), min_size=1, max_size=5).map(tuple),
    st.data(),
    st.sampled_from(["uint8", "int16", "uint64"]),
    st.sampled_from(["mean", "mode"]),
    st.sampled_from("CF"),
)
def test_any_shape_and_factors(shape, data, dtype, method, order):
    factors = tuple(data.draw(st.integers(1, 3)) if i < 3 else 1 for i in range(len(shape)))
    factors = tuple(data.draw(st.permutations(factors)))
    values = np.random.default_rng(len(shape)).integers(0, 4, shape).astype(dtype)
    values = np.asarray(values, order=order)
    found = downsampled(values, factors, method, threads=3)
    assert np.array_equal(found, oracle(values, factors, method))


@pytest.mark.parametrize(
    ("dtype", "method"),
    [("uint8", "mean"), ("uint16", "mean"), ("int32", "mean"), ("uint64", "mode"), ("uint8", "mode")],
)
def test_as_tensorstore_has_it(dtype, method):
    values = np.random.default_rng(4).integers(0, 6 if method == "mode" else 250, (13, 14, 15)).astype(dtype)
    peer = tensorstore.downsample(tensorstore.array(values), [2, 2, 2], method).read().result()
    assert np.array_equal(downsampled(values, (2, 2, 2), method), peer)


def test_threads_share_large_arrays():
    values = np.random.default_rng(4).integers(0, 250, (65, 256, 256)).astype("uint8")
    assert np.array_equal(downsampled(values, (2, 2, 2), "mean", 4), downsampled(values, (2, 2, 2), "mean", 1))


def stored(path, values, fmt="n5", **options):
    turned = values.T if fmt != "zarr3" else values
    array = zvcore.create(path, format=fmt, shape=turned.shape, dtype=values.dtype, **options)
    array[...] = turned
    return path


def levels_of(path):
    opened = zvcore.open(path)
    arrays = [opened[name] for name in opened]
    if arrays[0].format == "precomputed":
        return [array[..., 0].T for array in arrays]
    return [array[...] if array.format == "zarr3" else array[...].T for array in arrays]


HASHED = {
    "@type": "neuroglancer_uint64_sharded_v1", "preshift_bits": 0, "hash": "murmurhash3_x86_128", "minishard_bits": 1,
    "shard_bits": 2,
}  # fmt: skip
TARGETS = {
    "zarr3 in shards": {"format": "zarr3", "shards": (32, 32, 32)},
    "zarr3": {"format": "zarr3", "chunks": (10, 12, 14)},
    "zarr3 in odd chunks": {"format": "zarr3", "chunks": (9, 9, 9)},
    "n5": {"format": "n5"},
    "precomputed": {"format": "precomputed"},
    "precomputed in shards": {"format": "precomputed", "shards": (32, 32, 32)},
    "precomputed hashed": {"format": "precomputed", "sharding": HASHED},
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("memory", [1 << 30, 1 << 17])
def test_pyramids_of_every_format(target, memory, tmp_path):
    values = np.random.default_rng(0).integers(0, 250, (70, 65, 51)).astype("uint8")
    src = stored(tmp_path / "src", values, chunks=(16, 16, 16), codec="gzip")
    report = zvcore.convert(src, tmp_path / "dst", levels=3, memory=memory, verify=True, **TARGETS[target])
    assert report.verified
    found = levels_of(tmp_path / "dst")
    assert len(found) == 4
    expected = values
    for level in found:
        assert np.array_equal(level, expected)
        expected = oracle(expected, (2, 2, 2), "mean")


def test_labels_are_not_mixed(tmp_path):
    values = np.random.default_rng(0).integers(0, 5, (40, 30, 20)).astype("uint64") * 10**17
    src = stored(tmp_path / "src", values, chunks=(16, 16, 16))
    zvcore.convert(src, tmp_path / "dst", format="precomputed", levels=2, encoding="compressed_segmentation")
    assert zvcore.open(tmp_path / "dst").type == "segmentation"
    expected = values
    for level in levels_of(tmp_path / "dst"):
        assert np.array_equal(level, expected)
        expected = oracle(expected, (2, 2, 2), "mode")


def test_factors_and_method(tmp_path):
    values = np.random.default_rng(0).integers(0, 5, (40, 30, 20)).astype("uint8")
    src = stored(tmp_path / "src", values, "zarr3", chunks=(16, 16, 16))
    zvcore.convert(src, tmp_path / "dst", format="n5", levels=2, factors=(4, 2, 1), method="mode")
    expected = values
    for level in levels_of(tmp_path / "dst"):
        assert np.array_equal(level, expected)
        expected = oracle(expected, (1, 2, 4), "mode")
    assert zvcore.open(tmp_path / "dst").multiscale()[2].factors == (16, 4, 1)


def test_the_source_is_read_once(tmp_path, monkeypatch):
    from zvcore.stores.memory import MemoryStore

    values = np.random.default_rng(0).integers(0, 250, (64, 64, 64)).astype("uint8")
    stored("memory://pyramid-source", values, chunks=(16, 16, 16), codec="gzip")
    read: list[str] = []
    original = MemoryStore.get_many

    def counting(self, keys):
        keys = list(keys)
        read.extend(keys)
        return original(self, keys)

    monkeypatch.setattr(MemoryStore, "get_many", counting)
    zvcore.convert("memory://pyramid-source", tmp_path / "dst", format="zarr3", chunks=(32, 32, 32), levels=3)
    assert len(read) == 64 and len(set(read)) == 64


@pytest.mark.parametrize("fmt", ["zarr3", "n5", "precomputed"])
def test_levels_added_later(fmt, tmp_path):
    values = np.random.default_rng(0).integers(0, 250, (70, 65, 51)).astype("uint8")
    src = stored(tmp_path / "src", values, chunks=(16, 16, 16))
    zvcore.convert(src, tmp_path / "at once", format=fmt, levels=3)
    zvcore.convert(src, tmp_path / "later", format=fmt, levels=1)
    report = zvcore.downsample(tmp_path / "later", levels=2, verify=True)
    assert report.verified
    first, second = zvcore.open(tmp_path / "at once"), zvcore.open(tmp_path / "later")
    assert list(first) == list(second)
    assert all(np.array_equal(first[name][...], second[name][...]) for name in first)
    if fmt == "precomputed":
        assert first.info == second.info
    elif fmt == "n5":
        assert first.multiscale() == second.multiscale()
    else:
        both = [group.attrs["ome"]["multiscales"][0]["datasets"] for group in (first, second)]
        assert both[0] == both[1]


def test_an_array_alone_needs_a_destination(tmp_path):
    values = np.zeros((8, 8, 8), "uint8")
    src = stored(tmp_path / "src", values, "zarr3")
    with pytest.raises(UnsupportedError, match="dst"):
        zvcore.downsample(src)
    zvcore.downsample(src, tmp_path / "dst", levels=1)
    assert list(zvcore.open(tmp_path / "dst")) == ["0", "1"]
    with pytest.raises(TypeError, match="only with a destination"):
        zvcore.downsample(tmp_path / "dst", chunks=(2, 2, 2))


@pytest.mark.parametrize(
    ("dtype", "method"),
    [("U3", None), ("S3", "mode"), ("string", None), ("complex64", "mean"), ("M8[s]", "mode"), ("float16", "mode"),
     ("V3", None), ([("a", "u1")], "mode"), (bytes, None)],
)  # fmt: skip
def test_levels_that_cannot_be_made_are_refused_before_anything_is_removed(tmp_path, dtype, method):
    src = zvcore.create(tmp_path / "src", format="zarr3", shape=(8, 8), dtype=dtype, chunks=(4, 4))
    stored(tmp_path / "dst", np.arange(6, dtype="u1"), "zarr3", chunks=(3,))
    asked = {"format": "zarr3", "levels": 1, "method": method, "overwrite": True}
    for ask in (zvcore.plan, zvcore.convert):
        with pytest.raises(UnsupportedError, match=f"no {method or 'mean'} is made of values of"):
            ask(src, tmp_path / "dst", **asked)
        assert zvcore.open(tmp_path / "dst")[...].tolist() == [*range(6)]
    assert zvcore.verify(tmp_path / "dst").ok


def test_a_pyramid_stays_sound_when_a_level_more_cannot_be_made(tmp_path):
    src = stored(tmp_path / "src", np.zeros((8, 8), "float16"), "zarr3", chunks=(4, 4))
    zvcore.convert(src, tmp_path / "dst", format="zarr3", levels=1)
    with pytest.raises(UnsupportedError, match="no mode is made"):
        zvcore.downsample(tmp_path / "dst", levels=1, method="mode")
    assert zvcore.verify(tmp_path / "dst").ok
    assert list(zvcore.open(tmp_path / "dst")) == ["0", "1"]


def test_levels_coarser_along_four_axes_are_refused_before_anything_is_written(tmp_path):
    src = stored(tmp_path / "src", np.zeros((4, 4, 4, 4), "u1"), "zarr3", chunks=(2, 2, 2, 2))
    with pytest.raises(UnsupportedError, match="three axes at most"):
        zvcore.convert(src, tmp_path / "dst", format="zarr3", levels=1, factors=(2, 2, 2, 2))
    assert not (tmp_path / "dst").exists()


def test_booleans_that_are_any_byte_are_true_alike(tmp_path):
    src = zvcore.create(tmp_path / "src", format="zarr3", shape=(6,), dtype="bool", chunks=(6,), codec=None)
    src.write_encoded((0,), bytes([0, 0, 1, 2, 3, 4]))
    report = zvcore.convert(src, tmp_path / "dst", format="zarr3", levels=1, factors=(6,), verify=True)
    assert report.verified and zvcore.open(tmp_path / "dst/1")[...].tolist() == [True]


def test_an_interrupt_when_all_is_done_says_that_the_same_again_adds_further_levels(tmp_path, monkeypatch):
    volume = zvcore.create(
        tmp_path / "a", format="precomputed", shape=(8, 8, 8, 1), dtype="u1", chunks=(8, 8, 8), resolution=(1, 1, 1)
    )
    volume[0][...] = 7

    def interrupted(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "finish", interrupted)
        with pytest.raises(KeyboardInterrupt) as caught:
            zvcore.downsample(tmp_path / "a")
    assert caught.value.__notes__ == ["all levels are made: the same, run again, would add further ones"]
    assert len(zvcore.open(tmp_path / "a").info["scales"]) == 2
