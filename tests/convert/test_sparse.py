"""Huge arrays of which little is stored: work follows what is there, and plans do not grow with the grid."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import zvcore
from tests.processes import PATIENCE
from zvcore.converting import present
from zvcore.converting.converting import Converting
from zvcore.converting.planning import Request
from zvcore.errors import UnsupportedError
from zvcore.exchange import Target
from zvcore.format import get_format
from zvcore.stores import LocalStore, open_store

LENGTH = 103079215104
PLACES = (0, 5_000_000_003, 77_000_000_000, LENGTH - 1)


@pytest.fixture
def volume(tmp_path):
    """10^10 chunks, of which four are stored."""
    made = zvcore.create(
        tmp_path / "v", format="precomputed", shape=(LENGTH, 12, 8, 1), dtype="u1", chunks=(10, 12, 8, 1),
        resolution=(8, 8, 8),
    )  # fmt: skip
    for value, x in enumerate(PLACES, 1):
        made[x, 3, 4, 0] = value
    return tmp_path / "v"


@pytest.mark.parametrize(
    "options",
    [
        {"format": "n5"},
        {"format": "zarr3", "shards": (8, 12, 100_000), "verify": True},
        {"format": "zarr3", "dtype": "u2"},
    ],
    ids=str,
)
def test_the_work_follows_what_is_there(options, volume, tmp_path):
    report = zvcore.convert(volume, tmp_path / "dst", **options)
    assert report.ok and report.encoded + report.copied == len(PLACES) >= report.units
    assert report.encoded + report.copied + report.empty >= LENGTH // 10
    (array,) = zvcore.open(tmp_path / "dst").values()
    found = [array[4, 3, x] if options["format"] == "zarr3" else array[x, 3, 4] for x in PLACES]
    assert found == [1, 2, 3, 4]


def test_a_pyramid_of_it(volume, tmp_path):
    report = zvcore.convert(volume, tmp_path / "dst", format="zarr3", levels=2, method="mode", memory=1 << 24)
    group = zvcore.open(tmp_path / "dst")
    assert report.ok and group["2"].shape == (2, 3, LENGTH // 4)
    for x in PLACES:
        here = x // 4 * 4
        assert group["2"][1, 0, x // 4] == 0
        assert group["0"][4, 3, here : here + 4].any()


@pytest.mark.parametrize(
    ("format", "sharded"),
    [("zarr3", False), ("zarr3", True), ("n5", False), ("precomputed", False), ("precomputed", True)],
)
def test_units_that_have_nothing_to_do_are_left_out(format, sharded, tmp_path, monkeypatch):
    """As if the grid were large: what arrives is the same, and resuming knows its units again."""
    monkeypatch.setattr(present, "_FEW", 0)
    values = np.zeros((70, 66, 64), "u1")
    for corner in [(0, 0, 0), (33, 7, 50), (69, 65, 63)]:
        values[tuple(slice(n, n + 5) for n in corner)] = 9
    options = {"shards": (32, 32, 32)} if sharded else {}
    shape = (*values.shape, 1) if format == "precomputed" else values.shape
    chunks = (8, 8, 8, 1) if format == "precomputed" else (8, 8, 8)
    if sharded and format == "precomputed":
        options["shards"] = (32, 32, 32)
    source = zvcore.create(tmp_path / "src", format=format, shape=shape, dtype="u1", chunks=chunks, **options)
    source[...] = values.reshape(shape)
    turned = values if format == "zarr3" else values.T
    for number, target in enumerate([
        {"format": "zarr3"}, {"format": "n5", "region": np.s_[3:60, 4:66]}, {"format": "zarr3", "chunks": (5, 7, 9)},
        {"format": "zarr3", "levels": 2}, {"format": "precomputed", "sharding": "advise"},
    ]):  # fmt: skip
        dst = tmp_path / str(number)
        report = zvcore.convert(tmp_path / "src", dst, **target, memory=1 << 17, verify=True)
        assert report.verified, target
        if target == {"format": "zarr3"}:
            plan = zvcore.plan(tmp_path / "src", tmp_path / "other", **target, memory=1 << 17)
            assert report.units < plan.units
            made = zvcore.open(dst)
            assert np.array_equal((made if made.kind == "array" else made["0"])[...], turned)
        if "levels" in target:
            monkeypatch.setattr(present, "_FEW", 1 << 20)
            zvcore.convert(tmp_path / "src", tmp_path / "all", **target, memory=1 << 17)
            monkeypatch.setattr(present, "_FEW", 0)
            for level in ("0", "1", "2"):
                assert np.array_equal(zvcore.open(dst)[level][...], zvcore.open(tmp_path / "all")[level][...])


class Stop(Exception):
    pass


@pytest.mark.parametrize("grown", [False, True])
def test_it_is_resumed_unless_the_source_has_changed_meanwhile(grown, tmp_path, monkeypatch):
    monkeypatch.setattr(present, "_FEW", 0)
    source = zvcore.create(tmp_path / "src", format="n5", shape=(64, 64, 64), dtype="u1", chunks=(8, 8, 8))
    for n in range(0, 64, 8):
        source[n, n, n] = 1 + n
    given = {"format": "zarr3", "codec": "zstd", "chunks": (6, 6, 6), "memory": 1 << 13, "threads": 1}

    def stop(done, total):
        if done >= total - 5:
            raise Stop

    with pytest.raises(Stop):
        zvcore.convert(tmp_path / "src", tmp_path / "dst", **given, progress=stop)
    if grown:
        source[0, 0, 60] = 99
    report = zvcore.convert(tmp_path / "src", tmp_path / "dst", **given)
    assert bool(report.resumed) is not grown
    assert np.array_equal(zvcore.open(tmp_path / "dst")[...], source[...].T)


@pytest.mark.parametrize("why", ["fill", "empty chunks", "unlisted"])
def test_all_units_are_done_where_something_may_have_to_be_written(why, tmp_path, monkeypatch):
    monkeypatch.setattr(present, "_FEW", 0)
    source = zvcore.create(
        tmp_path / "src", format="zarr3", shape=(64, 64), dtype="u1", chunks=(8, 8), fill_value=5 * (why == "fill")
    )
    source[0, 0] = 7
    options = {"write_empty_chunks": True} if why == "empty chunks" else {}
    if why == "unlisted":

        def unlisted(*_):
            raise UnsupportedError("not here")

        monkeypatch.setattr(LocalStore, "list", unlisted)
        monkeypatch.setattr("zvcore.converting.converting.Converting.check", lambda *_: None)
    format = "n5" if why == "fill" else "zarr3"
    report = zvcore.convert(source, tmp_path / "dst", format=format, chunks=(4, 4), memory=1 << 9, **options)
    assert report.units > 4
    assert np.array_equal(np.asarray(zvcore.open(tmp_path / "dst")[...]), source[...].T if why == "fill" else source)


PLANNING = """
import resource, sys, time
import zvcore

resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
plan = zvcore.plan(sys.argv[1], sys.argv[2], **eval(sys.argv[3]))
print(plan.units, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize(
    ("options", "units"),
    [
        ({"format": "zarr3", "shards": (64, 64, 64), "chunks": (32, 32, 32), "memory": 1 << 19}, 215**3),
        ({"format": "zarr3", "shards": (64, 64, 64), "chunks": (32, 32, 32), "levels": 2}, 1000),
        ({"format": "precomputed", "sharding": {
            "@type": "neuroglancer_uint64_sharded_v1", "hash": "murmurhash3_x86_128", "preshift_bits": 0,
            "minishard_bits": 6, "shard_bits": 23}, "chunks": (32, 32, 32)}, 1 << 23),
    ],
    ids=["shards", "pyramid", "hashed"],
)  # fmt: skip
def test_a_plan_of_ten_million_shards_is_small(options, units, tmp_path):
    n = 215 * 64
    zvcore.create(tmp_path / "src", format="n5", shape=(n, n, n), dtype="u1", chunks=(64, 64, 64))
    answer = subprocess.run(
        [sys.executable, "-c", PLANNING, str(tmp_path / "src"), str(tmp_path / "dst"), repr(options)],
        capture_output=True, text=True, check=True, timeout=PATIENCE,
    )  # fmt: skip
    found, kilobytes = map(int, answer.stdout.split())
    assert found >= units and kilobytes < 200 << 10
    assert not (tmp_path / "dst").exists()


def test_units_of_hashed_shards_beyond_those_that_there_are_have_nothing_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr("zvcore.converting.cutting._COUNTED", 100)
    values = np.random.default_rng(0).integers(0, 9, (64, 64, 64), "u1")
    source = zvcore.create(tmp_path / "src", format="n5", shape=values.shape, dtype="u1", chunks=(8, 8, 8))
    source[...] = values
    sharding = {
        "@type": "neuroglancer_uint64_sharded_v1", "hash": "murmurhash3_x86_128", "preshift_bits": 2,
        "minishard_bits": 1, "shard_bits": 7,
    }  # fmt: skip
    report = zvcore.convert(tmp_path / "src", tmp_path / "dst", format="precomputed", sharding=sharding, verify=True)
    assert report.verified and report.units == 128
    assert len(list((tmp_path / "dst" / "1_1_1").glob("*.shard"))) < 128
    assert np.array_equal(zvcore.open(tmp_path / "dst")[0][..., 0], values)
    assert zvcore.verify(tmp_path / "dst").ok


def test_a_unit_of_a_large_array_lies_where_its_number_says(tmp_path):
    """Cells that threads share are larger than those of other units."""
    array = zvcore.create(tmp_path / "src", format="n5", shape=(1 << 30,), dtype="u1", chunks=(1 << 16,), codec="gzip")
    conversion = Converting(
        array, open_store(tmp_path / "dst", "w"), Request(Target(get_format("zarr3"), codec="zstd")),
        memory=1 << 30, overwrite=False, resume=True,
    )  # fmt: skip
    conversion.prepare()
    work = conversion.made.steps[0].work
    assert work.spread
    boxes = [work.cut.box(unit) for unit in range(len(work))]
    assert [first for ((first, _),) in boxes] == list(range(0, 1 << 30, work.cell[0]))
    assert boxes[-1][0][1] == 1 << 30
