"""How igneous.zip was made, by igneous-pipeline 4.37.0 in an environment of its own: python make_igneous.py FOLDER

A ball of segment 1001 and a bar of segment 2**40 + 7, with meshes and skeletons in shards and in files.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import igneous.task_creation as tasks
import numpy as np
from cloudvolume import CloudVolume
from taskqueue import LocalTaskQueue


def segments() -> np.ndarray:
    """Labels by x, y, z."""
    x, y, z = np.indices((32, 32, 32))
    labels = np.zeros((32, 32, 32), np.uint64)
    labels[(x - 12) ** 2 + (y - 12) ** 2 + (z - 15) ** 2 < 10**2] = 1001
    labels[(x - 26) ** 2 + (y - 26) ** 2 < 4**2] = 2**40 + 7
    return labels


def done(created: object) -> None:
    with LocalTaskQueue(parallel=1, progress=False) as queue:
        queue.insert_all(created)


def main(root: Path) -> None:
    for name in ("sharded", "unsharded"):
        sharded = name == "sharded"
        path = f"file://{root / name}"
        CloudVolume.from_numpy(
            segments()[..., None], vol_path=path, resolution=(8, 8, 40), chunk_size=(32, 32, 32),
            layer_type="segmentation",
        )  # fmt: skip
        done(tasks.create_meshing_tasks(path, mip=0, shape=(16, 16, 32), mesh_dir="mesh", sharded=sharded))
        merge = tasks.create_sharded_multires_mesh_tasks if sharded else tasks.create_unsharded_multires_mesh_tasks
        done(merge(path, num_lod=2, min_chunk_size=(4, 4, 4), mesh_dir="mesh"))
        done(
            tasks.create_skeletonizing_tasks(
                path, mip=0, shape=(16, 16, 32), sharded=sharded, dust_threshold=10,
                teasar_params={"scale": 1.5, "const": 10},
            )
        )  # fmt: skip
        join = tasks.create_sharded_skeleton_merge_tasks if sharded else tasks.create_unsharded_skeleton_merge_tasks
        done(join(path, dust_threshold=0, tick_threshold=0))
    shutil.make_archive(str(root), "zip", root)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
