"""Verification on a cluster of processes finds what it finds here, also when a worker is killed while it works."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from distributed import Client, LocalCluster, default_client

import zvcore
import zvcore.distributed
from zvcore.commands import cli

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def group(tmp_path: Path) -> Path:
    """Arrays with and without shards, and a chunk and a shard that are damaged."""
    values = np.random.default_rng(0).integers(0, 9, (60, 60, 40)).astype("u2")
    root = zvcore.open(tmp_path / "group", "w", format="zarr3")
    root.create_array("files", shape=values.shape, dtype="u2", chunks=(10, 10, 10), codec="gzip")[...] = values
    root.create_array("shards", shape=values.shape, dtype="u2", chunks=(10, 10, 10), shards=(20, 20, 20), codec="gzip")[
        ...
    ] = values
    for key in ("files/c/3/1/2", "shards/c/2/0/1"):
        file = tmp_path / "group" / key
        data = bytearray(file.read_bytes())
        data[300] ^= 255
        file.write_bytes(data)
    return tmp_path / "group"


def test_a_cluster_finds_the_same(group: Path, client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    here = zvcore.verify(group)
    there = zvcore.verify(group, client=client)
    assert len(here.problems) == 2
    assert sorted(map(str, there.problems)) == sorted(map(str, here.problems))
    for what in ("arrays", "groups", "chunks", "shards"):
        assert there.counts[what] == here.counts[what]
    only = zvcore.verify(group / "shards/c/2/0/1", client=client)
    assert [problem.where for problem in only.problems] == ["c/2/0/1"]
    assert cli.main(["verify", "--dask", client.scheduler.address, str(group)]) == 1
    assert "files/c/3/1/2" in capsys.readouterr().out
    # The command's own client is gone, and Dask does not go on using it.
    assert default_client() is client


def test_a_killed_worker_costs_nothing_but_time(group: Path, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    run_tasks = zvcore.distributed.run_tasks
    killed: list[int] = []

    def killing(*arguments: Any) -> Iterator[Any]:
        for answer in run_tasks(*arguments):
            if not killed:
                killed.append(next(iter(client.run(os.getpid).values())))
                os.kill(killed[0], signal.SIGKILL)
            yield answer

    monkeypatch.setattr(zvcore.distributed, "run_tasks", killing)
    there = zvcore.verify(group, client=client)
    here = zvcore.verify(group)
    assert killed
    assert sorted(map(str, there.problems)) == sorted(map(str, here.problems))
    assert there.counts["chunks"] == here.counts["chunks"]
