"""Meshes and skeletons beside CloudVolume, on the same folders.

    pytest bench/test_meshes.py --benchmark-enable      times
    python -m bench.test_meshes [word]                  ratios, the competitors taking turns

CloudVolume reads multi-resolution meshes and does not write them; what both write are legacy meshes and skeletons in
files of their own. What makes meshes of volumes is igneous, in a Python of its own: `bench.igneous_peer` says how.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zvcore
from bench.contest import Contest, entrants, run_alone
from bench.igneous_peer import Peer
from bench.scale import pick
from zvcore.precomputed import (
    Level,
    Manifest,
    Skeleton,
    VertexAttribute,
    write_mesh_fragments,
    write_meshes,
    write_skeletons,
)

MANIFESTS = pick(5000, 200)
SURFACES = pick(100, 10)
BONES = pick(2000, 100)
RADIUS = VertexAttribute("radius")
Functions = dict[str, Callable[[], Any]]


@lru_cache
def scratch() -> Path:
    """A folder for this run, in memory where there is such a place."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="zvcore-bench-", dir=memory if memory.is_dir() else None))


def volume(name: str) -> Path:
    """A segmentation without a voxel, whose document names meshes and skeletons."""
    folder = scratch() / name
    if not (folder / "info").exists():
        zvcore.create(
            folder, format="precomputed", shape=(64, 64, 64), dtype="uint64", type="segmentation", mesh="mesh",
            skeletons="skeletons", resolution=(8, 8, 8),
        )  # fmt: skip
    return folder


def cloud(folder: Path) -> Any:
    from cloudvolume import CloudVolume

    return CloudVolume(f"file://{folder}", progress=False)


def manifest(generator: np.random.Generator) -> Manifest:
    """Three levels of up to 64, 8 and 1 fragments, without the fragments themselves."""
    levels = []
    for number, side in enumerate((4, 2, 1)):
        count = int(generator.integers(side, side**3 + 1))
        positions = generator.permutation(side**3)[:count]
        cells = np.stack(np.unravel_index(np.sort(positions), (side,) * 3), 1).astype("u4")
        levels.append(Level(2.0**number, np.zeros(3, "f4"), cells, np.zeros(count, "u4")))
    return Manifest(np.full(3, 100, "f4"), np.zeros(3, "f4"), levels)


@lru_cache
def manifests() -> dict[int, Manifest]:
    generator = np.random.default_rng(0)
    return {id * 7919: manifest(generator) for id in range(1, MANIFESTS + 1)}


@lru_cache
def surfaces() -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Wavy planes of 64 x 64 vertices."""
    generator = np.random.default_rng(0)
    side = 64
    x, y = np.meshgrid(np.arange(side), np.arange(side), indexing="ij")
    corner = (np.arange(side - 1)[:, None] * side + np.arange(side - 1)).reshape(-1)
    faces = np.concatenate([corner[:, None] + [0, side, 1], corner[:, None] + [side, side + 1, 1]]).astype("u4")
    made = {}
    for id in range(1, SURFACES + 1):
        z = 8 * np.sin(x / generator.uniform(3, 9)) * np.cos(y / generator.uniform(3, 9))
        vertices = np.stack([x * 8.0, y * 8.0, z + 100], 2).reshape(-1, 3).astype("f4")
        made[id * 7919] = vertices, faces
    return made


@lru_cache
def bones() -> dict[int, Skeleton]:
    """Paths that wander, each vertex joined to the one before."""
    generator = np.random.default_rng(0)
    made = {}
    for id in range(1, BONES + 1):
        count = int(generator.integers(5, 100))
        vertices = np.cumsum(generator.integers(-3, 4, (count, 3)) * 8, 0).astype("f4")
        edges = np.stack([np.arange(1, count), np.arange(count - 1)], 1).astype("u4")
        made[id * 7919] = Skeleton(vertices, edges, {"radius": np.ones(count, "f4")})
    return made


def decoding_contest() -> Functions:
    from cloudvolume.datasource.precomputed.mesh.multilod import MultiLevelPrecomputedMeshManifest as Theirs

    stored = {id: one.to_bytes() for id, one in manifests().items()}
    return {
        "zvcore": lambda: [Manifest.from_bytes(data) for data in stored.values()],
        "cloud-volume": lambda: [Theirs.from_binary(data, id) for id, data in stored.items()],
    }


def manifests_contest() -> Functions:
    folder = volume("manifests")
    if not (folder / "mesh/info").exists():
        items = ((id, one, b"") for id, one in manifests().items())
        write_mesh_fragments(folder / "mesh", items, sharding=advised())
    wanted = list(manifests())[:: pick(10, 2)]
    theirs = cloud(folder).mesh
    return {
        "zvcore": lambda: zvcore.open(folder).meshes().get_many(wanted),
        "cloud-volume": lambda: [theirs.get_manifest(id) for id in wanted],
    }


def advised() -> Any:
    from zvcore.precomputed import ShardingSpec

    return ShardingSpec.advise(count=MANIFESTS, bytes=1000 * MANIFESTS, data_encoding="raw")


def meshes_contest() -> Functions:
    folder = volume("meshes")
    if not (folder / "mesh/info").exists():
        write_meshes(folder / "mesh", surfaces())
    wanted = list(surfaces())[:20]
    theirs = cloud(folder).mesh

    def ours() -> None:
        meshes = zvcore.open(folder).meshes()
        for id in wanted:
            assert len(meshes[id].faces)

    return {"zvcore": ours, "cloud-volume": lambda: theirs.get(wanted)}


def legacy_contest() -> Functions:
    from cloudvolume import Mesh

    folder = volume("legacy")
    theirs = cloud(volume("their legacy")).mesh
    theirs.meta.info["@type"] = "neuroglancer_legacy_mesh"
    meshes = [Mesh(*one, segid=id) for id, one in surfaces().items()]

    return {
        "zvcore": lambda: write_meshes(folder / "mesh", surfaces(), kind="legacy", overwrite=True),
        # It does not look for older meshes, and gets all at once, since each call starts threads of its own.
        "cloud-volume": lambda: theirs.put(meshes, compress=False, skip_delete=True),
    }


def bones_contest() -> Functions:
    folder = volume("bones")
    if not (folder / "skeletons/info").exists():
        write_skeletons(folder / "skeletons", bones(), vertex_attributes=[RADIUS])
    wanted = list(bones())[:: pick(4, 2)]
    theirs = cloud(folder).skeleton
    return {
        "zvcore": lambda: zvcore.open(folder).skeletons().get_many(wanted),
        "cloud-volume": lambda: theirs.get(wanted),
    }


def write_bones_contest() -> Functions:
    from cloudvolume import Skeleton as Theirs

    folder = volume("our bones")
    theirs = cloud(volume("their bones")).skeleton
    attribute = {"id": "radius", "data_type": "float32", "num_components": 1}
    theirs.meta.info["vertex_attributes"] = [attribute]
    given = [
        Theirs(one.vertices, one.edges, one.attributes["radius"], segid=id, extra_attributes=[attribute])
        for id, one in bones().items()
    ]
    return {
        "zvcore": lambda: write_skeletons(folder / "skeletons", bones(), vertex_attributes=[RADIUS], overwrite=True),
        "cloud-volume": lambda: theirs.upload(given),
    }


SIDE = pick(160, 48)


@lru_cache
def cells() -> np.ndarray:
    """A volume full of segments that meet along wavy faces."""
    places = np.indices((SIDE,) * 3, "f4")
    waves = 60 * np.sin(places[0] / 7) * np.cos(places[1] / 9)
    labels, nearest = np.zeros((SIDE,) * 3, "u8"), np.full((SIDE,) * 3, np.inf, "f4")
    for number, seed in enumerate(np.random.default_rng(0).random((SIDE // 4, 3)) * SIDE):
        far = sum((places[axis] - seed[axis]) ** 2 for axis in range(3)) + waves * (number % 2)
        labels[far < nearest] = number + 1
        nearest = np.minimum(nearest, far)
    return labels


def segmentation(name: str) -> Path:
    folder = scratch() / name
    if not (folder / "info").exists():
        array = zvcore.create(
            folder, format="precomputed", shape=(SIDE,) * 3, dtype="uint64", type="segmentation",
            resolution=(8, 8, 40), chunks=(64, 64, 64),
        )  # fmt: skip
        array[..., 0] = cells()
    return folder


def forging_contest(simplify: int) -> Functions:
    """Both by zmesh, in one process, in eight boxes."""
    ours, peer = segmentation("our cells"), Peer(os.environ["ZVCORE_BENCH_IGNEOUS"])
    asked: dict[str, Any] = {"box": [SIDE // 2] * 3, "lods": 1, "simplify": simplify, "max_error": 40.0}
    theirs = f"file://{segmentation('their cells')}"
    return {
        "zvcore": lambda: zvcore.mesh(ours, scratch() / f"forged-{uuid.uuid4()}", threads=1, **asked),
        "igneous": lambda: peer.forge(path=theirs, folder=f"forged-{uuid.uuid4()}", **asked),
    }


PEERS = ("zvcore", "cloud-volume")
CONTESTS = [
    Contest(f"decode {MANIFESTS} manifests", PEERS, decoding_contest),
    Contest("get manifests from shards", PEERS, manifests_contest),
    Contest("get 20 meshes from shards", PEERS, meshes_contest),
    Contest("write legacy meshes", PEERS, legacy_contest, writes=True),
    Contest("get skeletons in files", PEERS, bones_contest),
    Contest("write skeletons in files", PEERS, write_bones_contest, writes=True),
]
# If the peer is installed.
CONTESTS = CONTESTS if importlib.util.find_spec("cloudvolume") else []
if "ZVCORE_BENCH_IGNEOUS" in os.environ:
    CONTESTS += [
        Contest(f"forge meshes of {SIDE} voxels a side", ("zvcore", "igneous"), lambda: forging_contest(1)),
        Contest(
            f"forge and simplify meshes of {SIDE} voxels a side", ("zvcore", "igneous"), lambda: forging_contest(100)
        ),
    ]


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_contest(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    try:
        run_alone(CONTESTS, seconds=8.0)
    finally:
        shutil.rmtree(scratch(), ignore_errors=True)
