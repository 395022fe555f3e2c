"""Volumes against tensorstore and CloudVolume: what either writes is read by the others, voxel by voxel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorstore
from cloudvolume import CloudVolume

import zvcore
from zvcore.precomputed import ShardingSpec

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = (70, 45, 33)
CHUNK = (32, 16, 16)
OFFSET = (-5, 10, 20)
BOXES = ShardingSpec(2, "identity", 2, 2, "gzip", "gzip")
HASHED = ShardingSpec(2, "murmurhash3_x86_128", 2, 2, "gzip", "raw")
LEFT_OVER = ShardingSpec(0, "identity", 1, 1, "raw", "gzip")
SHARDINGS = {"files": None, "boxes": BOXES, "hashed": HASHED, "left over": LEFT_OVER}

# (encoding, data type, channels, whether CloudVolume reads it as the others do)
KINDS = [
    ("raw", "uint8", 1, True),
    ("raw", "float32", 2, True),
    ("raw", "uint64", 1, True),
    ("raw", "int16", 1, True),
    ("compressed_segmentation", "uint32", 1, True),
    ("compressed_segmentation", "uint64", 2, True),
    ("jpeg", "uint8", 1, True),
    # CloudVolume puts the channels of pictures where neither tensorstore nor Neuroglancer look for them, and takes
    # 16-bit pictures for twice as many pixels.
    ("jpeg", "uint8", 3, False),
    ("png", "uint8", 1, True),
    ("png", "uint8", 3, False),
    ("png", "uint16", 1, False),
    ("png", "uint16", 4, False),
]


@pytest.fixture(params=SHARDINGS)
def sharding(request: pytest.FixtureRequest) -> ShardingSpec | None:
    return SHARDINGS[request.param]


@pytest.fixture(params=KINDS, ids=lambda kind: f"{kind[0]}-{kind[1]}-{kind[2]}")
def kind(request: pytest.FixtureRequest) -> tuple[str, str, int, bool]:
    return request.param


def voxels(dtype: str, channels: int) -> np.ndarray[Any, Any]:
    generator = np.random.default_rng(0)
    coarse = generator.integers(1, 200, (14, 9, 7, channels))
    values = coarse.repeat(5, 0).repeat(5, 1).repeat(5, 2)[: SHAPE[0], : SHAPE[1], : SHAPE[2]]
    return np.asfortranarray(values.astype(dtype))


def create(path: Path, kind: tuple[str, str, int, bool], sharding: ShardingSpec | None, **options: Any) -> Any:
    return zvcore.create(
        path, format="precomputed", shape=(*SHAPE, kind[2]), dtype=kind[1], chunks=CHUNK, encoding=kind[0],
        voxel_offset=OFFSET, resolution=(8, 8, 40), sharding=sharding, **options,
    )  # fmt: skip


def by_tensorstore(path: Path, **options: Any) -> Any:
    store = {"driver": "file", "path": str(path)}
    return tensorstore.open({"driver": "neuroglancer_precomputed", "kvstore": store, **options}).result()


def test_others_read_ours(tmp_path: Path, kind: tuple[str, str, int, bool], sharding: ShardingSpec | None) -> None:
    a = create(tmp_path, kind, sharding, **({} if sharding is not None else {"codec": "raw"}))
    values = voxels(kind[1], kind[2])
    a[...] = values
    ours = a[...]
    if kind[0] != "jpeg":
        np.testing.assert_array_equal(ours, values)
    theirs = by_tensorstore(tmp_path)
    assert theirs.domain.origin == (*OFFSET, 0)
    np.testing.assert_array_equal(theirs.read().result(), ours)
    if kind[3]:
        np.testing.assert_array_equal(np.asarray(CloudVolume(f"file://{tmp_path}", progress=False)[:]), ours)


def test_cloud_volume_reads_our_compressed_files(tmp_path: Path, kind: tuple[str, str, int, bool]) -> None:
    if not kind[3]:
        pytest.skip("CloudVolume reads these in another way")
    a = create(tmp_path, kind, None)
    values = voxels(kind[1], kind[2])
    a[...] = values
    np.testing.assert_array_equal(np.asarray(CloudVolume(f"file://{tmp_path}", progress=False)[:]), a[...])
    if kind[:3:2] == ("compressed_segmentation", 2):
        return  # it packs the labels of one channel only
    theirs = CloudVolume(f"file://{tmp_path}", progress=False, fill_missing=True)
    theirs[:] = values[::-1]
    if kind[0] != "jpeg":
        np.testing.assert_array_equal(a[...], values[::-1])


def test_ours_reads_tensorstore(
    tmp_path: Path, kind: tuple[str, str, int, bool], sharding: ShardingSpec | None
) -> None:
    scale: dict[str, Any] = {
        "key": "a", "size": SHAPE, "resolution": [8, 8, 40], "chunk_size": CHUNK, "voxel_offset": OFFSET,
        "encoding": kind[0],
    }  # fmt: skip
    if sharding is not None:
        scale["sharding"] = sharding.to_json()
    if kind[0] == "compressed_segmentation":
        scale["compressed_segmentation_block_size"] = [8, 8, 8]
    metadata = {"data_type": kind[1], "num_channels": kind[2], "type": "image"}
    theirs = by_tensorstore(tmp_path, create=True, multiscale_metadata=metadata, scale_metadata=scale)
    values = voxels(kind[1], kind[2])
    theirs.write(values).result()
    want = theirs.read().result()
    a = zvcore.open(tmp_path, "r+", format="precomputed", scale="a")
    np.testing.assert_array_equal(a[...], want)
    # Each sees what the other changes.
    a.at[0:9, 12:20, 50:] = 7
    theirs[30:33, 40:44, 30:31] = 9
    if kind[0] != "jpeg":
        want[5:14, 2:10, 30:] = 7
        want[35:38, 30:34, 10:11] = 9
        np.testing.assert_array_equal(a[...], want)
    np.testing.assert_array_equal(by_tensorstore(tmp_path).read().result(), a[...])


# It packs the labels of one channel only, and writes shards only where they are boxes.
@pytest.mark.parametrize(
    "written", [kind for kind in KINDS if kind[3] and kind[:3:2] != ("compressed_segmentation", 2)]
)
@pytest.mark.parametrize("layout", ["files", "boxes"])
def test_ours_reads_cloud_volume(tmp_path: Path, written: tuple[str, str, int, bool], layout: str) -> None:
    kind, sharding = written, SHARDINGS[layout]
    path = f"file://{tmp_path}"
    info = CloudVolume.create_new_info(
        num_channels=kind[2], layer_type="image", data_type=kind[1], encoding=kind[0], resolution=[8, 8, 40],
        voxel_offset=OFFSET, chunk_size=CHUNK, volume_size=SHAPE,
    )  # fmt: skip
    if sharding is not None:
        info["scales"][0]["sharding"] = sharding.to_json()
    theirs = CloudVolume(path, info=info, progress=False)
    theirs.commit_info()
    values = voxels(kind[1], kind[2])
    if sharding is None:
        theirs[:] = values
    else:
        # A shard at a time is all that it can write.
        box = zvcore.open(tmp_path, format="precomputed", scale=0).shards
        for corner in np.ndindex(*[-(-n // step) for n, step in zip(SHAPE, box[:3], strict=True)]):
            part = tuple(
                slice(i * step, min((i + 1) * step, n)) for i, step, n in zip(corner, box, SHAPE, strict=False)
            )
            place = tuple(slice(s.start + o, s.stop + o) for s, o in zip(part, OFFSET, strict=True))
            theirs[place] = values[part]
    a = zvcore.open(tmp_path, "r+", format="precomputed", scale=0)
    got = a[...]
    np.testing.assert_array_equal(got, np.asarray(theirs[:]))
    if kind[0] != "jpeg":
        np.testing.assert_array_equal(got, values)
    # Its files have names of their own when it compresses them: changing one leaves no second.
    a[:5, :5, :5] = 3
    np.testing.assert_array_equal(np.asarray(CloudVolume(path, progress=False)[:]), a[...])


def test_scales_of_several_kinds_are_read_by_others(tmp_path: Path) -> None:
    raw = ("raw", "uint8", 1, True)
    first = create(tmp_path, raw, BOXES)
    second = zvcore.create(tmp_path, format="precomputed", shape=(35, 23, 33), dtype="uint8", chunks=(16, 16, 16),
                           resolution=(16, 16, 40), voxel_offset=(-3, 5, 20), codec="raw")  # fmt: skip
    first[...] = voxels("uint8", 1)
    second[...] = voxels("uint8", 1)[::2, ::2]
    for number, array in enumerate((first, second)):
        np.testing.assert_array_equal(by_tensorstore(tmp_path, scale_index=number).read().result(), array[...])
        np.testing.assert_array_equal(
            np.asarray(CloudVolume(f"file://{tmp_path}", mip=number, progress=False)[:]), array[...]
        )
