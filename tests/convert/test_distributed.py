"""Conversions on a cluster of processes, one of which dies while it works."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time

import numpy as np
import pytest
from distributed import Client, LocalCluster

import zvcore
from tests.convert.interrupting import left_behind
from zvcore.converting.converting import Converting
from zvcore.converting.planning import Request
from zvcore.distributed import run_tasks
from zvcore.exchange import Target
from zvcore.format import get_format
from zvcore.stores import open_store

MEMORY = 1 << 18


@pytest.fixture(scope="module")
def client():
    # Without an address the port is 8787, which may be taken: the warning about that would end the test.
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0") as cluster:
        with Client(cluster) as made:
            yield made


@pytest.fixture
def source(tmp_path):
    values = np.random.default_rng(5).integers(1, 250, (128, 96, 100)).astype("uint16")
    array = zvcore.create(
        tmp_path / "src", format="n5", shape=values.shape[::-1], dtype="uint16", chunks=(16, 16, 16), codec="gzip"
    )
    array[...] = values.T
    return values


def test_shards_on_workers(client, source, tmp_path):
    report = zvcore.convert(
        tmp_path / "src", tmp_path / "dst", format="zarr3", shards=(32, 32, 32), memory=MEMORY, client=client,
        verify=True,
    )  # fmt: skip
    assert report.verified and report.units > 10
    assert np.array_equal(zvcore.open(tmp_path / "dst")[...], source)


def test_one_that_fails_on_workers_is_unfinished(client, source, tmp_path):
    class Stop(Exception):
        pass

    def tell(done, total):
        if done >= 3:
            raise Stop("enough")

    options = {"format": "zarr3", "shards": (32, 32, 32), "memory": MEMORY, "client": client}
    with pytest.raises(Stop):
        zvcore.convert(tmp_path / "src", tmp_path / "dst", **options, progress=tell)
    for report in (zvcore.verify(tmp_path / "dst"), zvcore.verify(tmp_path / "dst", client=client)):
        assert report.status == "unfinished" and "failed: Stop: enough" in report.problems[-2].what
    assert zvcore.convert(tmp_path / "src", tmp_path / "dst", **options).resumed >= 3
    assert zvcore.verify(tmp_path / "dst", client=client).ok


def test_a_pyramid_on_workers(client, source, tmp_path):
    options = {"format": "precomputed", "chunks": (16, 16, 16), "levels": 2, "memory": MEMORY}
    zvcore.convert(tmp_path / "src", tmp_path / "here", **options)
    report = zvcore.convert(tmp_path / "src", tmp_path / "there", **options, client=client, verify=True)
    assert report.verified
    here, there = zvcore.open(tmp_path / "here"), zvcore.open(tmp_path / "there")
    assert here.info == there.info
    for key in here:
        assert np.array_equal(here[key][...], there[key][...])


def test_levels_on_workers(client, source, tmp_path):
    zvcore.convert(tmp_path / "src", tmp_path / "dst", format="precomputed", chunks=(16, 16, 16))
    report = zvcore.downsample(tmp_path / "dst", levels=2, client=client, memory=MEMORY, verify=True)
    assert report.verified and len(zvcore.open(tmp_path / "dst")) == 3


def test_a_worker_dies(client, source, tmp_path):
    """It is killed from outside, in the middle of the work."""
    workers = client.run(os.getpid)
    killed = []

    def kill(done, total):
        if done >= 3 and not killed:
            killed.append(next(iter(workers.values())))
            os.kill(killed[0], signal.SIGKILL)

    report = zvcore.convert(
        tmp_path / "src", tmp_path / "dst", format="zarr3", shards=(16, 16, 16), codec={"name": "zstd", "level": 12},
        memory=MEMORY, client=client, progress=kill,
    )  # fmt: skip
    assert killed and report.ok
    assert np.array_equal(zvcore.open(tmp_path / "dst")[...], source)
    assert zvcore.verify(tmp_path / "dst").ok
    assert not left_behind(tmp_path / "dst")
    client.wait_for_workers(2)


def test_tasks_are_small(source, tmp_path):
    request = Request(Target(get_format("zarr3"), shards=(32, 32, 32)), levels=2)
    job = Converting(
        zvcore.open(tmp_path / "src"), open_store(tmp_path / "dst", "w"), request, memory=MEMORY, overwrite=False,
        resume=True,
    )  # fmt: skip
    job.prepare()
    for step in job.made.steps:
        packed = pickle.dumps(step.work)
        assert len(packed) < 16_000
        assert len(pickle.loads(packed)) == len(step.work)


def one_more(number, path):
    if number == 13 and not os.path.exists(path):
        with open(path, "w"):
            pass
        os.kill(os.getpid(), signal.SIGKILL)
    return number + 1


def test_a_task_that_kills_its_worker_once(client, tmp_path):
    answers = dict(run_tasks(client, one_more, range(40), str(tmp_path / "died")))
    assert answers == {number: number + 1 for number in range(40)}
    client.wait_for_workers(2)


def failing(number):
    if number == 3:
        raise ValueError("three")
    time.sleep(0.01)
    return number


def test_an_error_on_a_worker_comes_back(client):
    before = threading.active_count()
    with pytest.raises(ValueError, match="three"):
        list(run_tasks(client, failing, range(1000)))
    assert threading.active_count() <= before + 2
