"""Every array format to every other, in files and in shards, whole and in part."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import zvcore
from tests.convert.interrupting import left_behind

SOURCES = {
    "zarr3": {"format": "zarr3", "codec": "gzip"},
    "zarr3 in shards": {"format": "zarr3", "shards": (64, 64, 64)},
    "zarr3 turned": {"format": "zarr3", "filters": [{"name": "transpose", "configuration": {"order": [2, 0, 1]}}]},
    "n5": {"format": "n5", "codec": "gzip"},
    "n5 lz4": {"format": "n5", "codec": "lz4"},
    "precomputed": {"format": "precomputed"},
    "precomputed in shards": {"format": "precomputed", "sharding": "advise"},
}
TARGETS = {
    "zarr3": {"format": "zarr3", "shards": False},
    "zarr3 in shards": {"format": "zarr3", "shards": (64, 64, 64)},
    "zarr3 other chunks": {"format": "zarr3", "chunks": (20, 30, 16), "shards": False, "codec": "zstd"},
    "n5": {"format": "n5"},
    "n5 other chunks": {"format": "n5", "chunks": (16, 16, 64), "codec": {"name": "zstd", "level": 1}},
    "precomputed": {"format": "precomputed", "shards": False},
    "precomputed in shards": {"format": "precomputed", "shards": (64, 64, 64)},
    "precomputed hashed": {
        "format": "precomputed",
        "sharding": {
            "@type": "neuroglancer_uint64_sharded_v1", "preshift_bits": 1, "hash": "murmurhash3_x86_128",
            "minishard_bits": 1, "shard_bits": 2,
        },
    },
}  # fmt: skip


def volume(dtype="uint8", shape=(70, 65, 50)):
    rng = np.random.default_rng(7)
    smooth = rng.normal(size=shape).cumsum(0).cumsum(1)
    smooth -= smooth.min()
    values = (smooth * (250 / smooth.max())).astype(dtype)
    values[:40, :40, :] = 0  # whole chunks of nothing
    return values


def write(path, values, format, **options):
    """`values` is (z, y, x)."""
    turned = values if format == "zarr3" else values.T
    array = zvcore.create(path, format=format, shape=turned.shape, dtype=values.dtype, chunks=(32, 32, 32), **options)
    array[...] = turned if format != "precomputed" else turned[..., None]


def read(path):
    opened = zvcore.open(path)
    if opened.kind == "image":
        return opened[0][...][..., 0].T
    if opened.kind == "group":
        # What was a volume is an image: a group of its levels.
        (opened,) = opened.values()
    return opened[...] if opened.format == "zarr3" else opened[...].T


@pytest.mark.parametrize("source", SOURCES)
def test_every_pair(source, tmp_path):
    values = volume()
    write(tmp_path / "src", values, **SOURCES[source])
    for i, target in enumerate(TARGETS.values()):
        report = zvcore.convert(tmp_path / "src", tmp_path / str(i), verify=True, **target)
        assert report.ok and report.verified
        assert np.array_equal(read(tmp_path / str(i)), values)
        assert not left_behind(tmp_path / str(i))


@pytest.mark.parametrize("dtype", ["uint16", "uint64", "float32"])
def test_byte_order_and_size(dtype, tmp_path):
    values = volume(dtype)
    write(tmp_path / "zarr3", values, "zarr3")
    for i, (source, target) in enumerate(itertools.permutations(["zarr3", "n5", "precomputed"], 2)):
        if not (tmp_path / source).exists():
            write(tmp_path / source, values, source)
        zvcore.convert(tmp_path / source, tmp_path / str(i), format=target)
        assert np.array_equal(read(tmp_path / str(i)), values)


def test_lz4_of_zarr_does_not_become_a_framing_that_no_program_of_n5_reads(tmp_path):
    values = np.arange(60, dtype="i4").reshape(6, 10)
    array = zvcore.create(
        tmp_path / "a.zarr", format="zarr2", shape=values.shape, dtype="i4", chunks=(4, 4), codec={"id": "lz4"}
    )
    array[...] = values
    zvcore.convert(tmp_path / "a.zarr", tmp_path / "a.n5", format="n5")
    made = zvcore.open(tmp_path / "a.n5")
    assert made.codec.name == "zstd" and np.array_equal(made[...].T, values)
