"""Every command that writes, asked to be durable: a power cut after it takes nothing back."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
import pytest

import zvcore
from tests.faults.powercut.disk import Disk
from tests.faults.powercut.recording import Call, record_run
from zvcore import zvf
from zvcore.commands import EXPORTING, WRITING

if TYPE_CHECKING:
    from pathlib import Path

# What is there before, in the folder that the power cut may change, by the places in `sources`; then the command, with
# SRC for the sources and DST for that folder.
COMMANDS = {
    "convert, zarr2": ("", "convert SRC/a.n5 DST/o --format zarr2"),
    "convert, a pyramid, consolidated, with a manifest": (
        "",
        "convert SRC/a.n5 DST/o --format zarr3 --manifest --ome --levels 1 --consolidate",
    ),
    "convert, shards and levels": ("", "convert SRC/a.n5 DST/o --format precomputed --sharding advise --levels 1"),
    "convert, BigDataViewer": ("", "convert SRC/a.n5 DST/o --format bdv"),
    "convert, a segmentation": ("", "convert SRC/seg DST/o --format precomputed"),
    "convert, npy": ("", "convert SRC/a.n5 DST/o.npy"),
    "convert, nifti": ("", "convert SRC/a.n5 DST/o.nii.gz"),
    "convert, tiff": ("", "convert SRC/a.n5 DST/o.tif"),
    "convert, lines": ("", "convert SRC/lines DST/o.trk"),
    "convert, skeletons": ("", "convert SRC/lines DST/o --format precomputed"),
    "convert, annotations": ("", "convert SRC/points DST/o --format precomputed"),
    "convert, a table": ("", "convert SRC/points DST/o.csv"),
    "convert, a zip": ("", "convert SRC/a.n5 DST/o.zarr.zip --format zarr3"),
    "cp": ("", "cp SRC/a.n5 DST/o"),
    "cp, a zip": ("", "cp SRC/a.n5 DST/o.zip"),
    "sync": ("", "sync SRC/a.n5 DST/o"),
    "downsample": ("volume", "downsample DST/volume"),
    "mesh": ("seg", "mesh DST/seg"),
    "mesh, legacy": ("", "mesh SRC/seg DST/o --legacy"),
    "skeletonize": ("seg", "skeletonize DST/seg"),
    "migrate": ("old", "migrate DST/old --in-place --format zarr3"),
    "manifest": ("a.n5", "manifest DST/a.n5"),
    "repair": ("damaged", "repair DST/damaged"),
    "compact": ("loose", "compact DST/loose"),
    "get": ("", "get SRC/a.n5 -o DST/o.npy"),
    "get, over a file": ("o.nii", "get SRC/a.n5 -o DST/o.nii"),
    "get, a table": ("", "get SRC/points -o DST/o.csv"),
    "get, lines": ("", "get SRC/lines -o DST/o.tck"),
    "refs": ("", "refs SRC/loose -o DST/o.json"),
    "refs, tables": ("", "refs SRC/loose -o DST/o.parquet"),
    "refs, tables, in folders that are made": ("", "refs SRC/loose -o DST/new/er/o.parquet"),
    "preview": ("", "preview SRC/a.n5 -o DST/o.png"),
}
NEEDS = {
    "mesh": "zmesh", "skeletonize": "kimimaro", "tiff": "tifffile", "nifti": "nibabel", "over a file": "nibabel",
    "lines": "nibabel", "tables": "pyarrow",
}  # fmt: skip


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sources")
    values = np.random.default_rng(0).integers(0, 3, (16, 16, 16), "u4")
    zvcore.create(folder / "a.n5", format="n5", shape=values.shape, dtype="u4", chunks=(8, 8, 8))[...] = values
    volume = {"format": "precomputed", "shape": (64, 64, 64), "chunks": (32, 32, 32), "dtype": "u4"}
    zvcore.create(folder / "volume", **volume)[...] = 1
    labels = zvcore.create(folder / "seg", **volume, type="segmentation", resolution=(1000, 1000, 1000))
    labels[8:50, 20:40, 20:40] = 7
    rng = np.random.default_rng(0)
    zvf.write_polylines(folder / "lines", [rng.random((9, 3), "f4") for _ in range(5)], chunk_shape=(2,) * 3)
    zvf.write_points(folder / "points", rng.random((50, 3), "f4"), chunk_shape=(2,) * 3)
    zvcore.create(folder / "old", format="zarr2", shape=(8, 8), dtype="u4", chunks=(4, 4))[...] = 1
    shards = {"format": "zarr3", "shape": (32, 32), "dtype": "u4", "chunks": (16, 16), "shards": (32, 32)}
    for name in ("damaged", "loose"):
        zvcore.create(folder / name, **shards, codec="crc32c")[...] = 1
    zvcore.open(folder / "loose", mode="r+", write_mode="append")[:16, :16] = 5
    shard = folder / "damaged/c/0/0"
    raw = bytearray(shard.read_bytes())
    raw[1100] ^= 1
    shard.write_bytes(raw)
    (folder / "o.nii").write_bytes(b"an older file")
    return folder


def known(disk: Disk, folder: Path) -> None:
    """Tell the disk what lies in a folder, for sure."""
    disk.take_root(folder.stat().st_ino)
    for path in sorted(folder.rglob("*")):
        inode = path.stat().st_ino
        disk.take(Call("m" if path.is_dir() else "c", inode, 0, str(path.relative_to(folder)), "", b""))
        if path.is_file():
            disk.take(Call("w", inode, 0, "", "", path.read_bytes()))
    disk.sync_all()


def lasting(files: dict[str, bytes]) -> dict[str, bytes]:
    """Without locks, and what is left of unfinished work, which do no harm."""
    return {name: data for name, data in files.items() if ".zvtmp" not in name and not name.endswith(".zvlock")}


def prepared(sources: Path, folder: Path, more: list[str]) -> dict[str, list[str]]:
    """A folder for each command, with what it finds there; the words of those whose libraries are installed."""
    commands = {}
    for number, (name, (before, command)) in enumerate(COMMANDS.items()):
        if any(word in name and find_spec(module) is None for word, module in NEEDS.items()):
            continue
        place = folder / str(number)
        place.mkdir(parents=True)
        if before and (sources / before).is_dir():
            shutil.copytree(sources / before, place / before)
        elif before:
            shutil.copy(sources / before, place / before)
        commands[name] = [
            word.replace("SRC", str(sources)).replace("DST", str(place)) for word in [*command.split(), *more]
        ]
    return commands


@pytest.fixture(scope="module", params=["option", "environment"])
def done(
    request: pytest.FixtureRequest, sources: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, list[str]], Disk, Path]:
    """The commands, each with what it says of success; the disk afterwards, and the folder."""
    folder = tmp_path_factory.mktemp(request.param) / "dst"
    commands = prepared(sources, folder, ["--fsync"] if request.param == "option" else [])
    disk = Disk(ordered=False)
    known(disk, folder)
    script = f"import sys; from zvcore.commands.cli import main\nsys.exit(max(map(main, {[*commands.values()]})))"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZVCORE_FSYNC", "1" if request.param == "environment" else "0")
        calls = record_run(folder, ["-c", script])
    for call in calls:
        disk.take(call)
    return commands, disk, folder


@pytest.mark.parametrize("name", COMMANDS)
def test_what_a_command_has_written_stays(done: tuple[dict[str, list[str]], Disk, Path], name: str) -> None:
    commands, disk, above = done
    if name not in commands:
        pytest.skip("a library is missing")
    number = str([*COMMANDS].index(name))
    folder = above / number
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert disk.live(number).files == found, "the recorder has missed something"
    left = disk.state([0] * len(disk.pending), number)
    assert lasting(dict(left.files)) == lasting(found)
    assert len(lasting(found)) > 0


def test_every_command_that_writes_is_tried() -> None:
    assert {command.split()[0] for _, command in COMMANDS.values()} == {*WRITING, *EXPORTING}
