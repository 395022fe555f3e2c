"""Forging in several processes: the same bytes, whichever process is killed; and on a cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.forging.segments import BOX, balls, volume
from tests.processes import PATIENCE
from zvcore.converting.note import FINISHED, read_note
from zvcore.errors import ConflictError, UnsupportedError, ZvcoreError
from zvcore.forging.helpers import apart
from zvcore.precomputed import Meshes
from zvcore.stores import LocalStore, open_store
from zvcore.stores.late_writes import settle

if TYPE_CHECKING:
    from pathlib import Path

DYING = """
import os, signal, sys
import zvcore

def tell(done, total):
    if (total == 27) == (sys.argv[3] == "boxes") and done >= int(sys.argv[4]):
        os.kill(os.getpid(), signal.SIGKILL)

options = {"box": (16, 15, 14), "progress": tell, "threads": int(sys.argv[5])}
options["sharding"] = {"@type": "neuroglancer_uint64_sharded_v1", "preshift_bits": 0, "hash": "identity",
                       "minishard_bits": 0, "shard_bits": 3, "minishard_index_encoding": "gzip", "data_encoding": "raw"}
zvcore.mesh(sys.argv[1], sys.argv[2], **options)
"""
SPEC = {
    "@type": "neuroglancer_uint64_sharded_v1", "preshift_bits": 0, "hash": "identity", "minishard_bits": 0,
    "shard_bits": 3, "minishard_index_encoding": "gzip", "data_encoding": "raw",
}  # fmt: skip


def killed(seg: Path, dst: Path, step: str, after: int, threads: int) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", DYING, str(seg), str(dst), step, str(after), str(threads)],
        capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    # What it says comes to an end when its helpers, too, have ended.
    assert answer.returncode == -signal.SIGKILL, answer.stderr


def contents(folder: Path) -> dict[str, bytes]:
    LocalStore(folder).put_back()  # what a process kept that was killed goes
    settle()
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def seg(tmp_path_factory: pytest.TempPathFactory) -> Path:
    labels = balls()
    labels[20:24, 20:24, 3:6] = 2
    labels[30:36, 2:9, 3:9] = 4
    return volume(tmp_path_factory.mktemp("seg") / "seg", labels)


@pytest.fixture(scope="module")
def sound(seg: Path) -> dict[str, bytes]:
    zvcore.mesh(seg, seg.parent / "sound", box=BOX, threads=1, sharding=SPEC)
    return contents(seg.parent / "sound")


@pytest.mark.parametrize(("step", "after", "threads"), [("boxes", 5, 1), ("boxes", 20, 2), ("objects", 1, 1)])
def test_a_killed_forging_is_resumed_and_gives_the_same_bytes(
    step: str, after: int, threads: int, seg: Path, sound: dict[str, bytes], tmp_path: Path
) -> None:
    dst = tmp_path / "dst"
    killed(seg, dst, step, after, threads)
    assert read_note(open_store(dst)) is not None
    assert {problem.status for problem in zvcore.verify(dst).problems} == {"unfinished"}
    # Something else is not mixed with it.
    with pytest.raises(ConflictError, match="another"):
        zvcore.mesh(seg, dst, box=BOX, lods=2, sharding=SPEC, threads=1)
    report = zvcore.mesh(seg, dst, box=BOX, sharding=SPEC, threads=threads)
    # The first box is noted at once; all are when they are done.
    assert (1 if step == "boxes" else 27) <= report.resumed < report.units
    assert {name: data for name, data in contents(dst).items() if name != FINISHED} == {
        name: data for name, data in sound.items() if name != FINISHED
    }
    assert zvcore.verify(dst).ok and list(Meshes(dst)) == [2, 3, 4, 7, 2**64 - 1]


def test_several_processes_give_the_same_bytes(seg: Path, sound: dict[str, bytes], tmp_path: Path) -> None:
    told = []
    zvcore.mesh(seg, tmp_path / "dst", box=BOX, threads=3, sharding=SPEC, progress=lambda *one: told.append(one))
    assert contents(tmp_path / "dst") == sound
    assert told[-1][0] == told[-1][1] and (27, 27) in told


def test_an_error_in_a_helper_is_the_one_that_is_raised_and_what_was_done_is_kept(tmp_path: Path) -> None:
    labels = balls("int32").astype("int32")
    array = zvcore.create(tmp_path / "a.zarr", format="zarr3", shape=labels.shape, dtype="int32", chunks=(16, 16, 16))
    array[...] = labels
    array[39, 35, 31] = -1
    with pytest.raises(UnsupportedError, match="no negative ids") as found:
        zvcore.mesh(tmp_path / "a.zarr", tmp_path / "dst", box=BOX, threads=2)
    assert "run again, resumes it" in found.value.__notes__[0]
    array[39, 35, 31] = 0
    report = zvcore.mesh(tmp_path / "a.zarr", tmp_path / "dst", box=BOX, threads=2)
    assert report.ok and report.resumed > 0


class Dying:
    """Work whose second unit ends the process."""

    spread = False
    unit_memory = 1

    def __len__(self) -> int:
        return 3

    def run(self, unit: int, threads: int | None) -> Any:
        if unit == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return unit, os.getpid()


def test_a_helper_that_dies_is_named_and_the_next_unit_gets_another() -> None:
    with apart(Dying()) as work:
        number, first = work.run(0, None)
        assert number == 0 and first != os.getpid()
        assert work.run(0, None) == (0, first)
        with pytest.raises(ZvcoreError, match="has ended") as found:
            work.run(1, None)
        assert found.value.chunk == "unit 1" and found.value.found == f"status {-signal.SIGKILL}"
        number, second = work.run(2, None)
        assert number == 2 and second not in (first, os.getpid())
    with pytest.raises(ProcessLookupError):
        os.kill(second, 0)


def test_meshes_on_a_cluster(seg: Path, sound: dict[str, bytes], tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        zvcore.mesh(seg, tmp_path / "dst", box=BOX, client=client, sharding=SPEC)
    assert contents(tmp_path / "dst") == sound


def test_what_lies_in_memory_is_forged_in_this_process() -> None:
    array = zvcore.create(zvcore.stores.MemoryStore(), format="zarr3", shape=(9, 9, 9), dtype="uint8", chunks=(4, 4, 4))
    array[2:7, 2:7, 2:7] = 1
    store = zvcore.stores.MemoryStore()
    zvcore.mesh(array, store, box=(4, 4, 4), threads=2)
    assert list(Meshes(store)) == [1] and np.isfinite(Meshes(store)[1].vertices).all()
