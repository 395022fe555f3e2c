"""igneous, which makes meshes of volumes, in a Python of its own: its requirements go with nobody else's.

    python -m venv /tmp/igneous && /tmp/igneous/bin/pip install igneous-pipeline
    ZVCORE_BENCH_IGNEOUS=/tmp/igneous/bin/python python -m bench.test_meshes forge

As a script it takes requests, one line of JSON each, and answers each with the seconds of processor time that it took.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import weakref
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Peer:
    """igneous in a process of the Python that has it, which has everything imported when the first request comes."""

    def __init__(self, python: str) -> None:
        self.process = subprocess.Popen(
            [python, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        # It ends when there will be no more requests.
        weakref.finalize(self, self.process.communicate)

    def forge(self, **request: Any) -> float:
        """Seconds of processor time."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{json.dumps(request)}\n")
        self.process.stdin.flush()
        return float(json.loads(self.process.stdout.readline()))


def forge(path: str, folder: str, box: list[int], lods: int, simplify: int, max_error: float) -> None:
    """Make multi-resolution meshes in shards of a volume."""
    tasks, queues = import_module("igneous.task_creation"), import_module("taskqueue")
    from cloudvolume import CloudVolume

    volume = CloudVolume(path, progress=False)
    # Where its second step looks for what the first has made.
    volume.info["mesh"] = folder
    volume.commit_info()
    steps: list[Callable[[], Any]] = [
        lambda: tasks.create_meshing_tasks(
            path, mip=0, shape=box, mesh_dir=folder, sharded=True, simplification=simplify > 1,
            max_simplification_error=max_error, progress=False,
        ),
        lambda: tasks.create_sharded_multires_mesh_tasks(path, num_lod=lods - 1, mesh_dir=folder, progress=False),
    ]  # fmt: skip
    for created in steps:
        with queues.LocalTaskQueue(parallel=1, progress=False) as queue:
            queue.insert_all(created())


def main() -> None:
    import_module("igneous.task_creation")

    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        started = time.process_time()
        forge(**request)
        print(json.dumps(time.process_time() - started), file=answers, flush=True)


if __name__ == "__main__":
    main()
