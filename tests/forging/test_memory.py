"""Volumes that memory does not hold: forging takes no more for larger ones, and what crosses many boxes stays whole."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

import zvcore
from tests.forging.segments import ball, edges_with_two_faces
from tests.forging.test_skeletons import components
from tests.processes import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

SIDE, SLAB = 80, 128
FEW, MANY = 6, 40
# What the larger volume may add; all its labels are twenty times as much.
BOUND = 12 << 20
ROD = 9

CODE = """
import sys
import zvcore

def most():
    # Not ru_maxrss: after a vfork that of the process that started this one counts as well.
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) * 1024

forge, options = {"mesh": (zvcore.mesh, {}), "skeletonize": (zvcore.skeletonize, {"const": 20})}[sys.argv[1]]
found = []
for volume in sys.argv[2:]:
    forge(volume, threads=1, box=(48, 48, 96), memory=1 << 20, dust=0, **options)
    found.append(most())
print(*found)
"""


def volume(path: Path, slabs: int) -> Path:
    """A rod through the first slabs, which is as long in every volume, and a few balls in each slab."""
    array = zvcore.create(
        path, format="precomputed", shape=(SIDE, SIDE, slabs * SLAB), dtype="uint64", type="segmentation",
        resolution=(4, 4, 4), chunks=(40, 40, 64),
    )  # fmt: skip
    shape = (SIDE, SIDE, SLAB)
    around = ball((SIDE, SIDE), (45, 47), 8)[..., None]
    places = [(12, 12, 20), (64, 20, 62), (20, 60, 100)]
    some = [ball(shape, at, 9) for at in places]
    for slab in range(slabs):
        labels = np.zeros(shape, "uint64")
        depth = np.arange(slab * SLAB, (slab + 1) * SLAB)
        labels[around & (depth > 3) & (depth < FEW * SLAB - 4)] = ROD
        for number, where in enumerate(some):
            labels[where] = 100 + len(some) * slab + number
        array[:, :, slab * SLAB : (slab + 1) * SLAB, 0] = labels
    return path


@pytest.mark.slow
@pytest.mark.parametrize("what", ["mesh", "skeletonize"])
def test_larger_volumes_take_no_more_memory(what: str, tmp_path: Path) -> None:
    small, large = volume(tmp_path / "small", FEW), volume(tmp_path / "large", MANY)
    assert SIDE * SIDE * SLAB * MANY * 8 > 20 * BOUND
    answer = subprocess.run(
        [sys.executable, "-c", CODE, what, str(small), str(large)],
        capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    before, after = map(int, answer.stdout.split())
    assert after - before < BOUND
    opened = zvcore.open(large)
    if what == "mesh":
        meshes = opened.meshes()
        assert len(meshes) == 1 + 3 * MANY
        assert all(edges_with_two_faces(meshes[id].faces) for id in meshes)
        assert np.ptp(meshes[ROD].vertices[:, 2]) == pytest.approx((SLAB * FEW - 8) * 4, abs=1)
    else:
        skeletons = opened.skeletons()
        assert len(skeletons) == 1 + 3 * MANY
        assert components(skeletons[ROD]) == 1
        assert np.ptp(skeletons[ROD].vertices[:, 2]) > (SLAB * FEW - 8 - 40) * 4
