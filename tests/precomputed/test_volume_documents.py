"""What the `info` of a volume says: scales that are added and replaced, members of others, documents that are wrong."""

from __future__ import annotations

import errno
import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.precomputed.volumes import MURMUR, create, info, open_, write_info
from zvcore.errors import (
    CodecNotFoundError,
    ConflictError,
    MetadataError,
    NotFoundError,
    ReadOnlyError,
    UnsupportedError,
)
from zvcore.precomputed import creating
from zvcore.precomputed.encodings import available_encodings
from zvcore.stores import LocalStore

if TYPE_CHECKING:
    from pathlib import Path


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
    mistaken: Any = volume
    with pytest.raises(TypeError, match=r"volume\[0\]"):
        mistaken[:2, :2]
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
        (info(scale_key="\ud800"), MetadataError, "not Unicode text"),
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


def test_encodings_are_found_by_entry_points() -> None:
    assert {"raw", "compressed_segmentation", "jpeg", "png"} <= set(available_encodings())


@pytest.mark.parametrize("options", [{"sharding": "advise"}, {"shards": (512, 512, 512)}])
def test_more_chunks_than_ids_can_name_are_refused_in_words(tmp_path: Path, options: dict[str, Any]) -> None:
    huge = {"shape": (2**40,) * 3, "chunks": (64, 64, 64), "dtype": "u1"}
    with pytest.raises(MetadataError, match="64 bits"):
        zvcore.create(tmp_path / "v", format="precomputed", **huge, **options)
    zvcore.create(tmp_path / "a", format="zarr3", **huge)
    with pytest.raises(MetadataError, match="64 bits"):
        zvcore.convert(tmp_path / "a", tmp_path / "b", format="precomputed", **options)
    assert not (tmp_path / "v").exists() and not (tmp_path / "b").exists()


@pytest.mark.parametrize("coarser", [False, True])
@pytest.mark.parametrize("fails", ["delete_prefix", "the last document"])
def test_a_scale_that_could_not_be_replaced_is_no_mixture_and_can_be_replaced_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, coarser: bool, fails: str
) -> None:
    """Chunks of the old scale are not to be read as values of the new one."""
    create(tmp_path, resolution=(8, 8, 40), mesh="mesh_dir")[...] = 5
    if coarser:
        create(tmp_path, resolution=(16, 16, 40))[...] = 6
    writes = 0
    change_info = creating.change_info

    def fail(*_: Any) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def fail_at_last(*arguments: Any) -> Any:
        nonlocal writes
        writes += 1
        return fail() if writes == 2 else change_info(*arguments)

    with monkeypatch.context() as patch:
        if fails == "delete_prefix":
            patch.setattr(LocalStore, "delete_prefix", fail)
        else:
            patch.setattr(creating, "change_info", fail_at_last)
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            create(tmp_path, resolution=(8, 8, 40), overwrite=True)
    document = json.loads((tmp_path / "info").read_text())
    assert [scale["key"] for scale in document["scales"]] == ["16_16_40"] * coarser
    assert not create(tmp_path, resolution=(8, 8, 40), overwrite=True)[...].any()
    document = json.loads((tmp_path / "info").read_text())
    assert document["mesh"] == "mesh_dir" and document["scales"][0]["key"] == "8_8_40"
    assert zvcore.verify(tmp_path).ok
