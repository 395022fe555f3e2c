"""Sound data that other implementations wrote is reported sound, by a full look and by a fast one."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorstore
import z5py
import zarr
from cloudvolume import CloudVolume, Mesh

import zvcore
from zvcore.precomputed import ShardingSpec

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).resolve().parent.parent
SHAPE, CHUNKS = (45, 33, 20), (16, 8, 10)
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
CRC = {"name": "crc32c"}
ZSTD = {"name": "zstd", "configuration": {"level": 1, "checksum": True}}
SPEC = ShardingSpec(1, "murmurhash3_x86_128", 1, 2, "gzip", "gzip")


def values(shape: tuple[int, ...] = SHAPE, dtype: str = "uint16") -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).integers(1, 60, shape).astype(dtype)


def sharded(inner: list[Any], location: str = "end", index: list[Any] | None = None) -> dict[str, Any]:
    return {
        "name": "sharding_indexed",
        "configuration": {
            "chunk_shape": list(CHUNKS), "codecs": inner, "index_codecs": index or [LITTLE, CRC],
            "index_location": location,
        },
    }  # fmt: skip


def tensorstore_zarr(codecs: list[Any]) -> Callable[[Path], Path]:
    def write(path: Path) -> Path:
        store = tensorstore.open(
            {
                "driver": "zarr3",
                "kvstore": {"driver": "file", "path": str(path)},
                "metadata": {
                    "shape": SHAPE,
                    "data_type": "uint16",
                    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [32, 16, 20]}},
                    "codecs": codecs,
                },
            },
            create=True,
        ).result()
        store.write(values()).result()
        return path

    return write


def tensorstore_n5(compression: dict[str, Any]) -> Callable[[Path], Path]:
    def write(path: Path) -> Path:
        store = tensorstore.open(
            {
                "driver": "n5",
                "kvstore": {"driver": "file", "path": str(path)},
                "metadata": {
                    "dimensions": SHAPE, "blockSize": CHUNKS, "dataType": "uint16", "compression": compression,
                },
            },
            create=True,
        ).result()  # fmt: skip
        store.write(values()).result()
        return path

    return write


def tensorstore_volume(sharding: ShardingSpec | None, encoding: str, dtype: str) -> Callable[[Path], Path]:
    def write(path: Path) -> Path:
        scale = {
            "size": SHAPE, "chunk_size": CHUNKS, "encoding": encoding, "resolution": [8, 8, 40],
            "voxel_offset": [-3, 4, 5],
            **({} if encoding == "raw" else {"compressed_segmentation_block_size": [8, 8, 8]}),
            **({} if sharding is None else {"sharding": sharding.to_json()}),
        }  # fmt: skip
        store = tensorstore.open(
            {
                "driver": "neuroglancer_precomputed",
                "kvstore": {"driver": "file", "path": str(path)},
                "multiscale_metadata": {"type": "image", "data_type": dtype, "num_channels": 1},
                "scale_metadata": scale,
            },
            create=True,
        ).result()
        store.write(values((*SHAPE, 1), dtype)).result()
        return path

    return write


def zarr_python(path: Path) -> Path:
    group = zarr.create_group(path)
    group.attrs["about"] = "a group"
    for name, options in {
        "plain": {},
        "sharded": {"shards": (32, 16, 20)},
        "dots": {"chunk_key_encoding": {"name": "v2", "separator": "."}},
        "checked": {"compressors": [zarr.codecs.GzipCodec(level=1), zarr.codecs.Crc32cCodec()]},
        "scalar": None,
        "deep/below": {"shards": (16, 8, 20), "compressors": None},
    }.items():
        if options is None:
            group.create_array(name, shape=(), dtype="f4")[...] = 2.5
        else:
            group.create_array(name, shape=SHAPE, dtype="u2", chunks=CHUNKS, **options)[...] = values()
    return path


def zarr_python_consolidated(path: Path) -> Path:
    zarr_python(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(path)
    return path


def zarr_python_strings(path: Path) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = zarr.create_array(path, shape=(9,), chunks=(4,), dtype="str")
        array[...] = np.array(["", "a", "ü" * 30, *map(str, range(6))])
    return path


def z5(path: Path) -> Path:
    with z5py.File(str(path), "w", use_zarr_format=False) as file:
        for name in ("raw", "gzip", "bzip2", "xz", "lz4", "blosc"):
            file.create_dataset(f"group/{name}", data=values(), chunks=CHUNKS, compression=name)
        file["group"].attrs["about"] = "a group"
    return path


def cloud_volume(compress: Any) -> Callable[[Path], Path]:
    def write(path: Path) -> Path:
        info = CloudVolume.create_new_info(
            num_channels=1, layer_type="image", data_type="uint16", encoding="raw", resolution=[8, 8, 40],
            voxel_offset=[0, 0, 0], chunk_size=CHUNKS, volume_size=SHAPE,
        )  # fmt: skip
        volume = CloudVolume(f"file://{path}", info=info, compress=compress, progress=False)
        volume.commit_info()
        volume[...] = values((*SHAPE, 1))
        return path

    return write


def zarr_vectors(shard_shape: Any) -> Callable[[Path], Path]:
    def write(path: Path) -> Path:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from zarr_vectors.types.polylines import write_polylines

            rng = np.random.default_rng(12)
            lines = [np.cumsum(rng.normal(size=(n, 3)), 0).astype("f4") * 3 for n in rng.integers(2, 25, 20)]
            options = {} if shard_shape is None else {"shard_shape": shard_shape}
            write_polylines(str(path), lines, chunk_shape=(10.0, 10.0, 10.0), **options)
        return path

    return write


WRITERS: dict[str, Callable[[Path], Path]] = {
    "java n5": lambda path: DATA / "n5" / "data" / "java" / "container.n5",
    "tensorstore zarr": tensorstore_zarr([LITTLE, ZSTD]),
    "tensorstore zarr, checksums": tensorstore_zarr([LITTLE, CRC]),
    "tensorstore zarr, shards": tensorstore_zarr([sharded([LITTLE, ZSTD])]),
    "tensorstore zarr, index first": tensorstore_zarr([sharded([LITTLE, CRC], "start", [LITTLE])]),
    "tensorstore n5, raw": tensorstore_n5({"type": "raw"}),
    "tensorstore n5, zstd": tensorstore_n5({"type": "zstd"}),
    "tensorstore n5, blosc": tensorstore_n5(
        {"type": "blosc", "cname": "zstd", "clevel": 1, "shuffle": 1, "blocksize": 0}
    ),
    "tensorstore volume": tensorstore_volume(None, "raw", "uint16"),
    "tensorstore volume, shards": tensorstore_volume(SPEC, "raw", "uint16"),
    "tensorstore volume, labels": tensorstore_volume(SPEC, "compressed_segmentation", "uint32"),
    "zarr-python": zarr_python,
    "zarr-python, consolidated": zarr_python_consolidated,
    "zarr-python, strings": zarr_python_strings,
    "z5py": z5,
    "CloudVolume": cloud_volume(None),
    "CloudVolume, compressed": cloud_volume("gzip"),
    "zarr-vectors": zarr_vectors(None),
    "zarr-vectors, shards": zarr_vectors(2),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("who", WRITERS)
def test_what_others_write_is_sound(who: str, tmp_path: Path) -> None:
    path = WRITERS[who](tmp_path / "data")
    for fast in (False, True):
        report = zvcore.verify(path, fast=fast)
        assert report.problems == []
        assert report.ok
        assert sum(number for what, number in report.counts.items() if what in LOOKED_AT) > 0, report.counts


# That something was looked at, each format says in its words.
LOOKED_AT = {"chunks", "blocks", "values", "files"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("who", WRITERS)
def test_what_others_write_can_be_inspected(who: str, tmp_path: Path) -> None:
    path = WRITERS[who](tmp_path / "data")
    from zvcore.commands.info import lines, total
    from zvcore.commands.terminal import plain

    found = zvcore.inspect(path)
    files, size = total(found)
    assert files > 0
    assert 0 < size <= sum(one.stat().st_size for one in Path(path).rglob("*") if one.is_file())
    assert next(lines(found, attributes=True)).startswith("format")
    assert plain(found)["format"] == found["format"]


def test_legacy_meshes_of_cloud_volume_are_sound(tmp_path: Path) -> None:
    path = tmp_path / "seg"
    zvcore.create(path, format="precomputed", shape=(20, 20, 10, 1), dtype="uint32")[...] = 7
    info = json.loads((path / "info").read_text())
    (path / "info").write_text(json.dumps({**info, "mesh": "mesh"}))
    (path / "mesh").mkdir()
    (path / "mesh" / "info").write_text(json.dumps({"@type": "neuroglancer_legacy_mesh"}))
    corners, faces = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], np.float32), np.array([[0, 1, 2]], np.uint32)
    CloudVolume(f"file://{path}", progress=False).mesh.put([Mesh(corners, faces, segid=5)])
    for place in (path, path / "mesh"):
        report = zvcore.verify(place)
        assert report.ok and (report.counts["meshes"], report.counts["fragments"]) == (1, 1), report
