"""N5 datasets between zvcore, tensorstore and z5py: what either writes, the others read, as far as they claim to."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorstore
import z5py

import zvcore

if TYPE_CHECKING:
    from pathlib import Path

TYPES = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64"]
SHAPE = (13, 9, 5)
CHUNKS = (5, 4, 3)

RAW: dict[str, Any] = {"type": "raw"}
SHARED: dict[str, dict[str, Any]] = {
    "raw": RAW,
    "gzip": {"type": "gzip", "level": 5, "useZlib": False},
    "zlib": {"type": "gzip", "level": 1, "useZlib": True},
    "bzip2": {"type": "bzip2", "blockSize": 3},
    "xz": {"type": "xz", "preset": 2},
    "blosc": {"type": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
    "blosc zstd bits": {"type": "blosc", "cname": "zstd", "clevel": 1, "shuffle": 2, "blocksize": 0},
    "zstd": {"type": "zstd", "level": 3},
}
# How z5py is asked for each; of lz4 it writes a dialect of its own.
Z5: dict[str, dict[str, Any]] = {
    "raw": {"compression": "raw"},
    "gzip": {"compression": "gzip", "level": 5},
    "bzip2": {"compression": "bzip2", "level": 3},
    "xz": {"compression": "xz", "level": 2},
    "blosc": {"compression": "blosc", "codec": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0, "nthreads": 1},
    "lz4": {"compression": "lz4", "level": 6},
    "zstd": {"compression": "zstd", "level": 3},
}


def sample(dtype: str, shape: tuple[int, ...] = SHAPE) -> Any:
    rng = np.random.default_rng(1)
    values = rng.integers(0, 200, shape).astype(dtype)
    values[rng.random(shape) < 0.4] = 1
    if dtype.startswith("float"):
        values[:3] /= 7
    # A part that tools leave out.
    values[:5, :4, :3] = 0
    return values


def opened(path: Path, **options: Any) -> Any:
    spec = {"driver": "n5", "kvstore": {"driver": "file", "path": str(path)}, **options}
    return tensorstore.open(spec).result()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("codec", SHARED)
def test_tensorstore(codec: str, dtype: str, tmp_path: Path) -> None:
    values = sample(dtype)
    ours = zvcore.create(
        tmp_path / "ours", format="n5", shape=SHAPE, dtype=dtype, chunks=CHUNKS, codec=SHARED[codec], attrs={"a": 1}
    )
    ours[...] = values
    np.testing.assert_array_equal(opened(tmp_path / "ours").read().result(), values)
    # It writes blocks at the end whole: both kinds may stand in one dataset.
    theirs = opened(tmp_path / "ours")
    theirs[10:13, :4, :3].write(values[10:13, :4, :3][::-1]).result()
    mixed = values.copy()
    mixed[10:13, :4, :3] = values[10:13, :4, :3][::-1]
    np.testing.assert_array_equal(zvcore.open(tmp_path / "ours")[...], mixed)

    metadata = {"dimensions": SHAPE, "blockSize": CHUNKS, "dataType": dtype, "compression": SHARED[codec]}
    theirs = opened(tmp_path / "theirs", metadata=metadata, create=True)
    theirs.write(values).result()
    again = zvcore.open(tmp_path / "theirs", mode="r+")
    assert again.codec.to_n5() == SHARED[codec]
    np.testing.assert_array_equal(again[...], values)
    again[3:11, 2:7, 1:4] = 9
    values[3:11, 2:7, 1:4] = 9
    np.testing.assert_array_equal(opened(tmp_path / "theirs").read().result(), values)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("codec", Z5)
def test_z5py(codec: str, dtype: str, tmp_path: Path) -> None:
    # z5py's axes are the reversed ones.
    values = sample(dtype)
    file = z5py.File(str(tmp_path / "c.n5"), mode="a")
    dataset = file.create_dataset("g/theirs", shape=SHAPE, chunks=CHUNKS, dtype=dtype, n_threads=1, **Z5[codec])
    dataset[...] = values
    container = zvcore.open(tmp_path / "c.n5", mode="r+", order="C")
    theirs = container["g/theirs"]
    np.testing.assert_array_equal(theirs[...], values)
    assert theirs.shape == SHAPE

    if codec != "lz4":
        ours = container.create_dataset(
            "ours", shape=SHAPE, chunks=CHUNKS, dtype=dtype, codec=theirs.codec, attrs={"a": [1, "x"]}
        )
        ours[...] = values
        again = z5py.File(str(tmp_path / "c.n5"), mode="r")["ours"]
        np.testing.assert_array_equal(again[...], values)
        assert again.attrs["a"] == [1, "x"]
    # Changed by us, in its own dialect where it has one.
    theirs[3:11, 2:7, 1:4] = 9
    values[3:11, 2:7, 1:4] = 9
    np.testing.assert_array_equal(z5py.File(str(tmp_path / "c.n5"), mode="r")["g/theirs"][...], values)


def test_z5py_reads_our_zlib(tmp_path: Path) -> None:
    values = sample("int32")
    container = zvcore.open(tmp_path / "c.n5", "w", format="n5", order="C")
    container.create_dataset("d", shape=SHAPE, chunks=CHUNKS, dtype="int32", codec=SHARED["zlib"])[...] = values
    np.testing.assert_array_equal(z5py.File(str(tmp_path / "c.n5"), mode="r")["d"][...], values)


def test_z5py_groups_and_attributes(tmp_path: Path) -> None:
    container = zvcore.open(tmp_path / "c.n5", "w", format="n5")
    container.create_group("a/b", {"x": [1, 2.5], "y": {"z": None}})
    container.attrs["root"] = "µ"
    file = z5py.File(str(tmp_path / "c.n5"), mode="a")
    assert set(file.keys()) == {"a"}
    assert dict(file["a/b"].attrs) == {"x": [1, 2.5], "y": {"z": None}}
    assert file.attrs["root"] == "µ"
    file["a"].attrs["more"] = 3
    file.create_group("c").attrs["d"] = 4
    assert zvcore.open(tmp_path / "c.n5/a").get_attribute("more") == 3
    assert zvcore.open(tmp_path / "c.n5")["c"].attrs["d"] == 4
    assert json.loads((tmp_path / "c.n5/attributes.json").read_text())["n5"] == "4.0.0"


def test_z5py_variable_length(tmp_path: Path) -> None:
    dataset = z5py.File(str(tmp_path / "c.n5"), mode="a").create_dataset(
        "d", shape=(4, 6), chunks=(2, 3), dtype="uint16", compression="raw"
    )
    dataset.write_chunk((1, 0), np.arange(5, dtype="uint16"), True)
    ours = zvcore.open(tmp_path / "c.n5/d", mode="r+", order="C")
    block = ours.read_block((1, 0))
    assert block.mode == "varlength"
    assert block.data.tolist() == [0, 1, 2, 3, 4]
    ours.write_block((0, 1), [7, 8, 9, 10], mode="varlength")
    assert dataset.read_chunk((0, 1)).tolist() == [7, 8, 9, 10]


def test_what_others_cannot_read(tmp_path: Path) -> None:
    """Java's blosc, whose members tensorstore refuses, and gzip in two members, of which z5py makes zeros."""
    values = sample("uint16")
    java = {
        "type": "blosc", "cname": "blosclz", "clevel": 6, "shuffle": 0, "blocksize": 0, "nthreads": 1, "typesize": 1,
    }  # fmt: skip
    ours = zvcore.create(tmp_path / "d", format="n5", shape=SHAPE, dtype="uint16", chunks=CHUNKS, codec=java)
    ours[...] = values
    assert json.loads((tmp_path / "d/attributes.json").read_text())["compression"] == java
    with pytest.raises(ValueError, match=r"nthreads|typesize"):
        opened(tmp_path / "d")
    np.testing.assert_array_equal(zvcore.open(tmp_path / "d")[...], values)
