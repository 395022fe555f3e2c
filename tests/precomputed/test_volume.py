"""Volumes: what is written is read, whatever the layout, encoding, region; metadata, scales, absolute coordinates."""

from __future__ import annotations

import gzip
import json
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import zvcore
from zvcore.choices import AUTO
from zvcore.errors import (
    CodecNotFoundError,
    ConflictError,
    CorruptDataError,
    MetadataError,
    NotFoundError,
    ReadOnlyError,
    UnsupportedError,
)
from zvcore.precomputed import ShardedStore, ShardingSpec
from zvcore.precomputed.encodings import available_encodings
from zvcore.precomputed.shard_placement import VolumeShards
from zvcore.stores import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

MURMUR = ShardingSpec(1, "murmurhash3_x86_128", 2, 1, "gzip", "gzip")


def create(path: Any, **options: Any) -> Any:
    return zvcore.create(
        path, format="precomputed", **{"shape": (70, 45, 33), "dtype": "uint16", "chunks": (32, 16, 16), **options}
    )


def open_(path: Any, mode: Any = "r", **options: Any) -> Any:
    return zvcore.open(path, mode, format="precomputed", **options)


def voxels(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray[Any, Any]:
    generator = np.random.default_rng(seed)
    coarse = generator.integers(1, 200, tuple(-(-n // 5) for n in shape[:3]) + shape[3:])
    fine = coarse.repeat(5, 0).repeat(5, 1).repeat(5, 2)[tuple(slice(n) for n in shape)]
    return np.asfortranarray(fine.astype(dtype))


def test_the_published_bytes_of_raw_chunks(tmp_path: Path) -> None:
    values = np.arange(5 * 3 * 3 * 2, dtype="u2").reshape(5, 3, 3, 2)
    spec = ShardingSpec(0, "identity", 0, 0)
    a = create(tmp_path, shape=(5, 3, 3, 2), chunks=(2, 2, 2), voxel_offset=(-10, 20, 30), sharding=spec)
    a[...] = values
    kv = ShardedStore(tmp_path / "1_1_1", spec)
    assert kv.ids().tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14]
    assert np.frombuffer(kv[0], "<u2").tolist() == [0, 18, 6, 24, 2, 20, 8, 26, 1, 19, 7, 25, 3, 21, 9, 27]
    assert np.frombuffer(kv[14], "<u2").tolist() == [88, 89]
    plain = create(tmp_path, key="plain", shape=(5, 3, 3, 2), chunks=(2, 2, 2), voxel_offset=(-10, 20, 30), codec="raw")
    plain[...] = values
    names = sorted(path.name for path in (tmp_path / "plain").iterdir())
    assert names[:2] == ["-10--8_20-22_30-32", "-10--8_20-22_32-33"]
    assert "-6--5_22-23_32-33" in names
    assert (tmp_path / "plain" / "-6--5_22-23_32-33").read_bytes() == kv[14]


ENCODINGS = [
    ("raw", "uint8", 1, {}),
    ("raw", "float32", 3, {}),
    ("raw", "int64", 1, None),
    ("compressed_segmentation", "uint32", 2, {}),
    ("compressed_segmentation", "uint64", 1, {"compressed_segmentation_block_size": (8, 4, 3)}),
    ("png", "uint8", 3, {"png_level": 1}),
    ("png", "uint16", 2, {}),
]


@pytest.mark.parametrize(("encoding", "dtype", "channels", "options"), ENCODINGS)
@pytest.mark.parametrize("sharding", [None, "advise", MURMUR])
def test_round_trip(
    tmp_path: Path, encoding: str, dtype: str, channels: int, options: dict[str, Any] | None, sharding: Any
) -> None:
    shape = (70, 45, 33, channels)
    if options is None:
        with pytest.raises(MetadataError, match="data type"):
            create(tmp_path, shape=shape, dtype=dtype, encoding=encoding, sharding=sharding)
        return
    a = create(
        tmp_path, shape=shape, dtype=dtype, encoding=encoding, sharding=sharding, resolution=(8, 8, 40), **options
    )
    assert (a.shape, a.dtype, a.chunks, a.format) == (shape, np.dtype(dtype), (32, 16, 16, channels), "precomputed")
    values = voxels(shape, dtype)
    a[...] = values
    b = open_(tmp_path, "r+", scale="8_8_40")
    got = b[...]
    assert got.flags.f_contiguous
    np.testing.assert_array_equal(got, values)
    # A part that cuts through chunks and shards, at the edge too.
    region = (slice(20, 70), slice(3, 30), slice(30, 33))
    b[region] = values[region] + 1
    values[region] += 1
    np.testing.assert_array_equal(a[...], values)
    np.testing.assert_array_equal(a[-1, ::-2, 5:31:3], values[-1, ::-2, 5:31:3])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(a))[...], values)


@pytest.mark.parametrize("channels", [1, 3])
def test_jpeg_is_near(tmp_path: Path, channels: int) -> None:
    shape = (64, 40, 33, channels)
    a = create(tmp_path, shape=shape, dtype="uint8", encoding="jpeg", jpeg_quality=95, sharding="advise")
    values = np.asfortranarray(np.indices(shape)[:3].sum(0).astype("uint8"))
    a[...] = values
    got = open_(tmp_path, scale=0)[...]
    assert np.abs(got.astype(int) - values).max() <= 6
    assert json.loads((tmp_path / "info").read_text())["scales"][0]["jpeg_quality"] == 95
    # A picture is not compressed again.
    assert a.sharding.data_encoding == "raw"


def test_missing_chunks_are_zeros_and_zeros_are_not_stored(tmp_path: Path) -> None:
    a = create(tmp_path, sharding=MURMUR)
    assert not a[...].any()
    a[:32, :16, :16] = 7
    a[32:64] = 0
    assert len(ShardedStore(tmp_path / "1_1_1", MURMUR)) == 1
    assert a.block_exists((0, 0, 0, 0))
    assert not a.block_exists((1, 0, 0, 0))
    assert a[0, 0, 0, 0] == 7
    a[...] = 0
    assert not list((tmp_path / "1_1_1").glob("*.shard"))
    kept = open_(tmp_path, "r+", scale=0, write_empty_chunks=True)
    kept[...] = 0
    assert len(ShardedStore(tmp_path / "1_1_1", MURMUR)) == 27


def test_blocks(tmp_path: Path) -> None:
    a = create(tmp_path, sharding="advise")
    a.write_block((2, 2, 2, 0), np.full((6, 13, 1, 1), 9, "u2"))
    assert a.read_block((2, 2, 2, 0)).shape == (6, 13, 1, 1)
    data = a.read_encoded((2, 2, 2, 0))
    assert data is not None
    other = create(tmp_path / "other", sharding=MURMUR)
    other.write_encoded((2, 2, 2, 0), data)
    np.testing.assert_array_equal(a[...], other[...])
    assert a.delete_block((2, 2, 2, 0))
    assert not a.delete_block((2, 2, 2, 0))
    assert a.read_block((2, 2, 2, 0)) is None


def test_partial_writes_touch_only_their_shards(tmp_path: Path) -> None:
    a = create(tmp_path, shape=(128, 128, 64), chunks=(16, 16, 16), shards=(64, 64, 32), dtype="uint8")
    assert a.shards == (64, 64, 32, 1)
    a[...] = voxels((128, 128, 64, 1), "uint8")
    folder = tmp_path / "1_1_1"
    assert len(list(folder.iterdir())) == 8
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    a[60:70, 3, 3] = 255
    changed = {path.name for path in folder.iterdir() if path.read_bytes() != before[path.name]}
    assert len(changed) == 2


@pytest.mark.parametrize("encoding", ["raw", "compressed_segmentation"])
@pytest.mark.parametrize("packed", ["raw", "gzip"])
def test_new_shards_are_written_while_their_chunks_are_encoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: str, encoding: str
) -> None:
    values = voxels((70, 45, 33, 1), "uint32")
    values[:32, :32, :32] = 0  # a shard of which nothing is stored, and one with holes
    values[32:48, :16, :16] = 0

    def files(name: str) -> dict[str, bytes]:
        spec = ShardingSpec(2, "identity", 2, 3, packed, packed)
        a = create(
            tmp_path / name, shape=values.shape[:3], chunks=(16, 16, 16), dtype="uint32", sharding=spec,
            encoding=encoding,
        )  # fmt: skip
        a[...] = values
        np.testing.assert_array_equal(open_(tmp_path / name)[0][...], values)
        return {path.name: path.read_bytes() for path in (tmp_path / name / "1_1_1").iterdir()}

    def gathered(*_: object) -> None:
        raise AssertionError("values were gathered first")

    with monkeypatch.context() as patch:
        patch.setattr(VolumeShards, "pack_order", lambda *_: None)
        expected = files("gathered")
    monkeypatch.setattr(VolumeShards, "replace", gathered)
    found = files("packed")
    assert len(found) > 2
    assert found == expected


def test_writing_a_shard_that_is_there_keeps_what_else_lies_in_it(tmp_path: Path) -> None:
    spec = ShardingSpec(0, "identity", 1, 5, "raw", "raw")
    a = create(tmp_path, shape=(48, 48, 48), chunks=(16, 16, 16), dtype="uint8", sharding=spec)
    a[...] = 1
    # An id that no chunk of the grid has, in the same shard.
    store = ShardedStore(tmp_path / "1_1_1", spec, mode="r+")
    store.update([(63, b"kept")])
    a[...] = 2
    assert ShardedStore(tmp_path / "1_1_1", spec)[63] == b"kept"
    assert (a[...] == 2).all()


regions = st.tuples(*[st.tuples(st.integers(0, 40), st.integers(0, 40)) for _ in range(3)])


@given(
    shape=st.tuples(*[st.integers(1, 40)] * 3, st.integers(1, 2)),
    chunk=st.tuples(*[st.integers(1, 20)] * 3),
    offset=st.tuples(*[st.integers(-30, 30)] * 3),
    sharding=st.sampled_from([None, "advise", MURMUR]),
    writes=st.lists(regions, max_size=4),
)
def test_any_volume_is_like_numpy(
    shape: tuple[int, ...], chunk: tuple[int, ...], offset: tuple[int, ...], sharding: Any, writes: list[Any]
) -> None:
    store = MemoryStore()
    a = create(store, shape=shape, dtype="uint8", chunks=chunk, sharding=sharding, voxel_offset=offset)
    mirror = np.zeros(shape, "uint8")
    for number, region in enumerate(writes, 1):
        box = tuple(slice(*sorted((min(x, n), min(y, n)))) for (x, y), n in zip(region, shape, strict=False))
        a[box] = number
        mirror[box] = number
    np.testing.assert_array_equal(open_(store, scale=0)[...], mirror)
    np.testing.assert_array_equal(open_(store, scale=0).at[...], mirror)


# Coordinates


def test_absolute_coordinates(tmp_path: Path) -> None:
    a = create(tmp_path, voxel_offset=(-5, 10, 20))
    values = voxels((70, 45, 33, 1), "uint16")
    a[...] = values
    assert a.voxel_offset == (-5, 10, 20)
    assert a.bounds == ((-5, 65), (10, 55), (20, 53))
    np.testing.assert_array_equal(a.at[-5:7, 12:20], values[:12, 2:10])
    np.testing.assert_array_equal(a.at[-1, :, 52, 0], values[4, :, 32, 0])
    np.testing.assert_array_equal(a.at[::7, ..., 0], values[::7, ..., 0])
    a.at[60:, 54, 20] = 3
    assert (a[65:, 44, 0] == 3).all()
    for key in [np.s_[-6], np.s_[65], np.s_[0:66], np.s_[-6:0], np.s_[5:3], np.s_[:, 9], np.s_[::-1], np.s_[1.5]]:
        with pytest.raises(IndexError):
            a.at[key]
    for key in [np.s_[..., ...], np.s_[0, 10, 20, 0, 0]]:
        with pytest.raises(IndexError):
            a.at[key]


# Metadata


def test_info_and_scales(tmp_path: Path) -> None:
    fine = create(tmp_path, resolution=(8, 8, 40), attrs={"note": 5})
    create(tmp_path, resolution=(32, 32, 40), shape=(18, 12, 33))
    create(tmp_path, resolution=(16, 16, 40), shape=(35, 23, 33), sharding="advise", encoding="png")
    volume = open_(tmp_path)
    assert list(volume) == ["8_8_40", "16_16_40", "32_32_40"]
    assert len(volume) == 3
    assert "16_16_40" in volume
    assert "4_4_40" not in volume
    assert volume[0].shape == (70, 45, 33, 1)
    assert volume[-1].shape == (18, 12, 33, 1)
    assert volume["16_16_40"].encoding.name == "png"
    assert volume[1].sharding is not None
    assert volume.dtype == np.uint16
    assert volume.type == "image"
    assert volume.attrs["num_channels"] == 1
    assert fine.attrs["note"] == 5
    assert fine.resolution == (8, 8, 40)
    document = json.loads((tmp_path / "info").read_text())
    assert document["@type"] == "neuroglancer_multiscale_volume"
    assert document["scales"][0]["note"] == 5
    with pytest.raises(NotFoundError, match="8_8_40"):
        volume["4_4_40"]
    with pytest.raises(KeyError):
        volume[3]
    with pytest.raises(ReadOnlyError):
        volume[0][...] = 1
    with pytest.raises(ConflictError, match="8_8_40"):
        create(tmp_path, resolution=(8, 8, 40))
    with pytest.raises(MetadataError, match="same data"):
        create(tmp_path, resolution=(4, 4, 40), dtype="uint8")


def test_unknown_members_survive(tmp_path: Path) -> None:
    create(tmp_path, resolution=(8, 8, 40))
    document = json.loads((tmp_path / "info").read_text())
    document["mesh"] = "mesh_dir"
    document["mine"] = {"a": [1]}
    document["scales"][0]["mine"] = 7
    (tmp_path / "info").write_text(json.dumps(document))
    create(tmp_path, resolution=(16, 16, 40))
    new = json.loads((tmp_path / "info").read_text())
    assert new["mesh"] == "mesh_dir"
    assert new["mine"] == {"a": [1]}
    assert new["scales"][0] == document["scales"][0]


def test_replacing_a_scale(tmp_path: Path) -> None:
    a = create(tmp_path, resolution=(8, 8, 40))
    a[...] = 5
    other = create(tmp_path, resolution=(16, 16, 40))
    other[...] = 6
    b = create(tmp_path, resolution=(8, 8, 40), shape=(64, 64, 64), chunks=(64, 64, 64), overwrite=True)
    assert not b[...].any()
    assert not (tmp_path / "8_8_40").exists()
    assert (other[...] == 6).all()
    with pytest.raises(MetadataError, match="same data"):
        create(tmp_path, resolution=(8, 8, 40), dtype="uint8", overwrite=True)
    create(tmp_path / "one", resolution=(8, 8, 40))
    assert create(tmp_path / "one", resolution=(8, 8, 40), dtype="uint8", overwrite=True).dtype == np.uint8


def info(**changes: Any) -> dict[str, Any]:
    scale = {
        "key": "s", "size": [70, 45, 33], "resolution": [8, 8, 40], "encoding": "raw", "chunk_sizes": [[32, 16, 16]],
    }  # fmt: skip
    scale.update({name[6:]: value for name, value in changes.items() if name.startswith("scale_")})
    document = {"type": "image", "data_type": "uint8", "num_channels": 1, "scales": [scale]}
    document.update({name: value for name, value in changes.items() if not name.startswith("scale_")})
    return document


def write_info(folder: Path, document: Any) -> None:
    (folder / "info").write_text(document if isinstance(document, str) else json.dumps(document))


def test_what_may_be_left_out(tmp_path: Path) -> None:
    write_info(tmp_path, info(scale_sharding=None, data_type="UINT8", type="IMAGE"))
    a = open_(tmp_path, scale=0)
    assert a.voxel_offset == (0, 0, 0)
    assert a.sharding is None
    assert a.dtype == np.uint8
    write_info(tmp_path, info(scale_hidden=True))
    assert open_(tmp_path, scale=0).scale.hidden


@pytest.mark.parametrize(
    ("document", "error", "text"),
    [
        ("", MetadataError, "JSON"),
        ("[]", MetadataError, "object"),
        ("[" * 100000, MetadataError, "nested too deep"),
        (info(data_type="float64"), MetadataError, "data_type"),
        (info(data_type=None), MetadataError, "data_type"),
        (info(num_channels=0), MetadataError, "num_channels"),
        (info(num_channels=1.5), MetadataError, "num_channels"),
        (info(type=None), MetadataError, "type"),
        (info(scales=[]), MetadataError, "scales"),
        (info(scales={}), MetadataError, "scales"),
        (info(scales=[5]), MetadataError, "object"),
        (info(**{"@type": "neuroglancer_skeletons_x"}), MetadataError, "volume"),
        (info(redirect="gs://there"), UnsupportedError, "gs://there"),
        (info(scale_key=5), MetadataError, "key"),
        (info(scale_key=""), MetadataError, "key"),
        (info(scale_key="../x"), MetadataError, "leads out"),
        (info(scale_key="a/../../x"), MetadataError, "leads out"),
        (info(scale_key="/etc"), MetadataError, "folder"),
        (info(scale_key="a\\b"), MetadataError, "folder"),
        (info(scale_key="gs://x/y"), UnsupportedError, "gs://x/y"),
        (info(scale_size=[70, 45]), MetadataError, "size"),
        (info(scale_size=[70, 45, 0]), MetadataError, "size"),
        (info(scale_size=[70, 45, 1e3]), MetadataError, "size"),
        (info(scale_size=[2**80, 45, 1]), MetadataError, "size"),
        (info(scale_resolution=[8, 8, -1]), MetadataError, "resolution"),
        (info(scale_resolution="8"), MetadataError, "resolution"),
        (info(scale_voxel_offset=[0, 0, "1"]), MetadataError, "voxel_offset"),
        (info(scale_chunk_sizes=[]), MetadataError, "chunk_sizes"),
        (info(scale_chunk_sizes=[[0, 1, 1]]), MetadataError, "chunk_sizes"),
        (info(scale_encoding=None), MetadataError, "encoding"),
        (info(scale_encoding="unheard_of"), CodecNotFoundError, "unheard_of"),
        (info(scale_encoding="jpeg", data_type="uint16"), MetadataError, "uint8"),
        (info(scale_encoding="jpeg", num_channels=2), MetadataError, "channels"),
        (info(scale_encoding="jpeg", scale_jpeg_quality=101), MetadataError, "jpeg_quality"),
        (info(scale_encoding="png", data_type="uint32"), MetadataError, "uint16"),
        (info(scale_encoding="compressed_segmentation", data_type="uint32"), MetadataError, "block_size"),
        (
            info(scale_encoding="compressed_segmentation", scale_compressed_segmentation_block_size=[8, 8, 8]),
            MetadataError,
            "uint32",
        ),
        (info(scale_sharding={"@type": "x"}), MetadataError, "@type"),
        (info(scale_sharding=5), MetadataError, "sharding"),
        (
            info(scale_sharding=MURMUR.to_json(), scale_chunk_sizes=[[32, 16, 16], [64, 64, 1]]),
            MetadataError,
            "one chunk",
        ),
        (info(scale_sharding=MURMUR.to_json(), scale_size=[2**40, 2**40, 2**40]), MetadataError, "64 bits"),
    ],
)
def test_wrong_documents(tmp_path: Path, document: Any, error: type[Exception], text: str) -> None:
    write_info(tmp_path, document)
    with pytest.raises(error, match=text):
        open_(tmp_path, scale=0)


def test_a_broken_scale_takes_no_other_with_it(tmp_path: Path) -> None:
    document = info()
    document["scales"].append({**document["scales"][0], "key": "odd", "encoding": "unheard_of"})
    write_info(tmp_path, document)
    volume = open_(tmp_path)
    assert list(volume) == ["s", "odd"]
    assert volume[0].shape == (70, 45, 33, 1)
    with pytest.raises(CodecNotFoundError, match=r"installed: compressed_segmentation, compresso, crackle"):
        volume["odd"]


def test_no_volume(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="info"):
        open_(tmp_path)


def test_several_chunk_sizes_are_read_by_the_first(tmp_path: Path) -> None:
    a = create(tmp_path, dtype="uint8", key="s")
    a[...] = 5
    write_info(tmp_path, info(scale_chunk_sizes=[[32, 16, 16], [64, 64, 1]]))
    b = open_(tmp_path, "r+", scale=0)
    assert (b[...] == 5).all()
    with pytest.raises(ReadOnlyError):
        b[...] = 6


@pytest.mark.parametrize(
    "options",
    [
        {"shape": (5, 5)}, {"shape": (5, 5, 0)}, {"shape": (5, 5, 5.0)}, {"chunks": (5, 5)}, {"chunks": (5, 5, 5, 2)},
        {"dtype": "float64"}, {"dtype": "complex64"}, {"fill_value": 1}, {"key": "../x"}, {"voxel_offset": (1, 2)},
        {"resolution": (0, 1, 1)}, {"encoding": "jpeg"}, {"sharding": {"@type": "?"}}, {"shards": (33, 16, 16)},
        {"codec": "zstd"}, {"codec": "blosc", "sharding": "advise"}, {"codec": "raw", "sharding": MURMUR},
        {"encoding": "nope"}, {"jpeg_quality": 5}, {"sharding": "advise", "shards": (64, 32, 32)}, {"nonsense": 1},
    ],
)  # fmt: skip
def test_wrong_options_leave_nothing_behind(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError, UnsupportedError, CodecNotFoundError)):
        create(tmp_path, **options)
    assert not list(tmp_path.iterdir())


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


def test_encodings_are_found_by_entry_points() -> None:
    assert {"raw", "compressed_segmentation", "jpeg", "png"} <= set(available_encodings())


# Broken chunks


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
            a[0, 0, 0]
    a.write_encoded((0, 0, 0, 0), edge)
    with pytest.raises(CorruptDataError, match="not one of this chunk"):
        a[0, 0, 0]


def test_files_compressed_in_ways_that_are_not_read(tmp_path: Path) -> None:
    a = create(tmp_path, codec="raw")
    a[...] = 5
    path = tmp_path / "1_1_1" / "0-32_0-16_0-16"
    path.rename(f"{path}.zst")
    with pytest.raises(UnsupportedError, match="compressed"):
        open_(tmp_path, scale=0)[0, 0, 0]
