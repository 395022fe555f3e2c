"""Data sets that somebody else made, with links in them that lead out: nothing of what lies there is given out.

Outside lie the same data sets with values that are a secret. One thing at a time is exchanged for a link to its fellow.
"""

from __future__ import annotations

import json
import os
import shutil
import zlib
from typing import TYPE_CHECKING

import numpy as np
import pytest

import zvcore
from tests.serving.conftest import Client, served
from zvcore import zvf
from zvcore.precomputed import ShardingSpec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SHAPE = (4, 8, 16)
SECRET = 0xA7
POINT = 33.25


def make_datasets(root: Path, value: int, coordinate: float) -> None:
    axes = {"dimension_names": ("z", "y", "x")}
    common = {"shape": SHAPE, "dtype": "uint8", "chunks": SHAPE, "codec": None}
    zvcore.create(root / "plain.zarr", format="zarr3", **common, **axes)[...] = value
    zvcore.create(root / "sharded.zarr", format="zarr3", shards=SHAPE, **common, **axes)[...] = value
    group = zvcore.open(root / "n5", "w", format="n5")
    group.create_dataset("s0", shape=SHAPE, dtype="uint8", chunks=SHAPE, codec=None)[...] = value
    for name, options in (("volume", {}), ("shards", {"sharding": ShardingSpec(0, "identity", 0, 0, "raw", "raw")})):
        made = zvcore.create(
            root / name, format="precomputed", shape=SHAPE, dtype="uint8", chunks=SHAPE, codec=None,
            type="image", resolution=(1, 1, 1), key="scale", **options,
        )  # fmt: skip
        made[...] = value
    points = np.full((10, 3), coordinate, "f4")
    zvf.write_points(root / "points", points, chunk_shape=(100, 100, 100))
    zvf.write_polylines(root / "lines", [points], chunk_shape=(100, 100, 100))


def everything(client: Client) -> Iterator[bytes]:
    """All that a page of whichever origin can learn: pages, pictures' pixels, views, files."""
    for path in ("/", "/.zvcore/datasets.json"):
        answer = client.ask(path)
        assert answer.status == 200
        yield answer.body
    for name in ("plain.zarr", "sharded.zarr", "n5/s0", "volume", "shards", "points", "lines"):
        picture = client.ask(f"/.zvcore/preview/{name}/picture.png").body
        start = picture.find(b"IDAT")
        if start > 0:
            yield zlib.decompressobj().decompress(picture[start + 4 :])
        base = f"/.zvcore/view/{name}/-/"
        info = client.ask(base + "info")
        yield info.body
        if info.status == 200:
            for scale in json.loads(info.body).get("scales", ()):
                ranges = "_".join(f"0-{n}" for n in scale["size"])
                yield client.ask(f"{base}{scale['key']}/{ranges}").body
        for rest in ("0", "properties/info", "all/0_0_0", "by_id/0"):
            yield client.ask(base + rest).body


LINKS = [
    "plain.zarr", "plain.zarr/c", "plain.zarr/c/0/0/0", "plain.zarr/zarr.json",
    "sharded.zarr", "sharded.zarr/c/0", "sharded.zarr/c/0/0/0", "sharded.zarr/zarr.json",
    "n5", "n5/s0", "n5/s0/0", "n5/s0/0/0/0", "n5/s0/attributes.json",
    "volume", "volume/scale", "volume/scale/0-4_0-8_0-16", "volume/info",
    "shards", "shards/scale", "shards/scale/*.shard", "shards/info",
    "points", "points/0", "points/0/*/c", "points/0/*/c/*", "points/0/*/c/*/*", "points/0/*/c/*/*/*",
    "points/zarr.json", "points/0/*/zarr.json",
    "lines", "lines/0", "lines/0/*/c", "lines/0/*/c/*", "lines/0/*/c/*/*/*", "lines/0/*/zarr.json", "lines/*/*/*/*",
]  # fmt: skip


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(what is the attacker's, what is secret)."""
    base = tmp_path_factory.mktemp("confinement")
    for name, value, coordinate in (("mine", 0x11, 5.0), ("secret", SECRET, POINT)):
        (base / name).mkdir()
        make_datasets(base / name, value, coordinate)
    return base / "mine", base / "secret"


def holds_secret(text: bytes) -> bool:
    return bytes([SECRET]) * 16 in text or np.full(3, POINT, "<f4").tobytes() in text


def test_the_secret_would_be_seen_if_it_were_given_out(both: tuple[Path, Path]) -> None:
    with served(both[1]) as client:
        assert sum(map(holds_secret, everything(client))) >= 7
    with served(both[0]) as client:
        assert not any(map(holds_secret, everything(client)))


@pytest.mark.parametrize("pattern", LINKS)
def test_links_that_lead_out(both: tuple[Path, Path], tmp_path: Path, pattern: str) -> None:
    mine, secret = both
    root = tmp_path / "root"
    shutil.copytree(mine, root)
    absolute = bool(len(pattern) % 2)
    exchanged = [*root.glob(pattern)]
    assert exchanged
    for place in exchanged:
        fellow = secret / place.relative_to(root)
        assert fellow.exists()
        shutil.rmtree(place) if place.is_dir() else place.unlink()
        place.symlink_to(fellow if absolute else os.path.relpath(fellow, place.parent))
    with served(root) as client:
        for body in everything(client):
            assert not holds_secret(body)
        for place in exchanged:
            assert client.ask(f"/{place.relative_to(root)}").status == 500


def test_a_document_that_leads_out_is_of_the_format_that_it_marks(both: tuple[Path, Path], tmp_path: Path) -> None:
    mine, secret = both
    shutil.copytree(mine / "plain.zarr", tmp_path / "root/plain.zarr")
    document = tmp_path / "root/plain.zarr/zarr.json"
    document.unlink()
    document.symlink_to(secret / "plain.zarr/zarr.json")
    with served(tmp_path / "root") as client:
        page = client.ask("/").body
        assert b"Zarr v3" in page and b"Zarr Vectors" not in page
        assert b"leads out" in page


def test_a_chunk_that_leads_out_is_an_error_and_no_empty_block(both: tuple[Path, Path], tmp_path: Path) -> None:
    mine, secret = both
    shutil.copytree(mine, tmp_path / "root")
    chunk = tmp_path / "root/plain.zarr/c/0/0/0"
    chunk.unlink()
    chunk.symlink_to(secret / "plain.zarr/c/0/0/0")
    with served(tmp_path / "root") as client:
        answer = client.ask("/.zvcore/view/plain.zarr/-/0/0-16_0-8_0-4")
        assert answer.status == 500
        assert b"leads out" in answer.body and str(secret).encode() not in answer.body


def test_data_sets_are_followed_within_the_root(both: tuple[Path, Path], tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(both[0], root)
    (root / "elsewhere").mkdir()
    for name in ("plain.zarr/c", "volume/scale", "points/0"):
        (root / name).rename(root / "elsewhere" / name.replace("/", "-"))
        (root / name).symlink_to(f"../elsewhere/{name.replace('/', '-')}")
    with served(root) as client:
        for name, box in (("plain.zarr", "0-16_0-8_0-4"), ("volume", "0-4_0-8_0-16")):
            body = client.ask(f"/.zvcore/view/{name}/-/0/{box}").body
            assert body == bytes([0x11]) * 512
        assert client.ask("/.zvcore/view/points/-/all/0_0_0").status == 200


def test_packed_chunks_are_decoded_in_views(both: tuple[Path, Path], tmp_path: Path) -> None:
    """CloudVolume's: the store of the views is one of files, although no native code opens them by path."""
    import gzip

    root = tmp_path / "root"
    shutil.copytree(both[0], root)
    chunk = root / "volume/scale/0-4_0-8_0-16"
    (chunk.parent / (chunk.name + ".gz")).write_bytes(gzip.compress(chunk.read_bytes()))
    chunk.unlink()
    with served(root) as client:
        assert client.ask("/.zvcore/view/volume/-/0/0-4_0-8_0-16").body == bytes([0x11]) * 512
        (chunk.parent / (chunk.name + ".gz")).rename(chunk.parent / (chunk.name + ".br"))
        assert client.ask("/.zvcore/view/volume/-/0/0-4_0-8_0-16").status == 500


@pytest.mark.parametrize("name", ["info", "zarr.json", "attributes.json", ".zarray"])
def test_a_pipe_where_a_document_should_be(both: tuple[Path, Path], tmp_path: Path, name: str) -> None:
    root = tmp_path / "root"
    shutil.copytree(both[0] / "plain.zarr", root / "plain.zarr")
    (root / "any").mkdir()
    os.mkfifo(root / "any" / name)
    # Within a data set, too.
    (root / "plain.zarr/c/0/0/0").unlink()
    os.mkfifo(root / "plain.zarr/c/0/0/0")
    with served(root) as client:
        assert b"plain.zarr" in client.ask("/").body
        listed = json.loads(client.ask("/.zvcore/datasets.json").body)["datasets"]
        assert "plain.zarr" in [one["path"] for one in listed]
        for path in (f"/any/{name}", "/.zvcore/view/any/-/info", "/.zvcore/preview/any/picture.png"):
            assert client.ask(path).status in (404, 500)
        assert client.ask("/.zvcore/view/plain.zarr/-/0/0-16_0-8_0-4").body == bytes(512)
