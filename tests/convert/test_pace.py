"""Units are as large as a thread can encode in a few seconds, by what codecs say of themselves: nothing is timed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore import codecs
from zvcore.converting.pace import UNIT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SIDE = 64
VALUES = np.random.default_rng(5).integers(0, 200, (SIDE,) * 3).astype("u1")
CHUNK = 16**3


@pytest.fixture
def slow() -> Iterator[Any]:
    """A codec that says of itself that it encodes four of the chunks in the time of a unit."""

    class Slow(codecs.Codec):
        name = "slow_of_tests"
        encoding_rate = 4 * CHUNK / UNIT_SECONDS

        def _encode(self, data: memoryview) -> bytes:
            return bytes(data)

        def _decode(self, data: memoryview, max_size: int) -> bytes:
            return bytes(data)

    codecs.register(Slow.name, Slow)
    yield Slow
    codecs.unregister(Slow.name)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    array = zvcore.create(
        tmp_path / "src", format="zarr3", shape=VALUES.shape, dtype="u1", chunks=(16,) * 3, codec="raw"
    )
    array[...] = VALUES
    return tmp_path / "src"


def test_a_unit_is_what_one_thread_encodes_in_time(source: Path, tmp_path: Path, slow: Any) -> None:
    assert zvcore.plan(source, tmp_path / "dst", format="zarr3", codec="lz4").units == 1
    plan = zvcore.plan(source, tmp_path / "dst", format="zarr3", codec=slow.name)
    assert plan.units == SIDE**3 / (4 * CHUNK)
    report = zvcore.convert(source, tmp_path / "dst", format="zarr3", codec=slow.name, verify=True)
    assert report.verified and report.units == plan.units


def test_no_unit_is_smaller_than_an_object(source: Path, tmp_path: Path, slow: Any) -> None:
    options: dict[str, Any] = {"format": "zarr3", "codec": slow.name, "shards": (32, 32, 32)}
    assert zvcore.plan(source, tmp_path / "dst", **options).units == 8
    assert zvcore.convert(source, tmp_path / "dst", **options, verify=True).verified


@pytest.mark.parametrize("chunks", [(32, 32, 32), (24, 24, 24), (8, 8, 8)])
def test_units_that_cut_chunks_of_the_source_lose_nothing(chunks: Any, source: Path, tmp_path: Path, slow: Any) -> None:
    zvcore.convert(source, tmp_path / "large", format="zarr3", chunks=(64, 64, 64), codec="zstd")
    report = zvcore.convert(
        tmp_path / "large", tmp_path / "dst", format="zarr3", chunks=chunks, codec=slow.name, verify=True
    )
    assert report.verified and report.units >= 8
    assert np.array_equal(zvcore.open(tmp_path / "dst")[...], VALUES)


def test_levels_that_take_long_are_made_of_what_is_written(source: Path, tmp_path: Path, slow: Any) -> None:
    options: dict[str, Any] = {"format": "zarr3", "levels": 2}
    fast = zvcore.plan(source, tmp_path / "dst", **options, codec="lz4", memory=1 << 20)
    slowly = zvcore.plan(source, tmp_path / "dst", **options, codec=slow.name, memory=1 << 20)
    assert fast.arrays[1].units == 0
    assert slowly.arrays[1].units > 0 and slowly.units > fast.units
    assert zvcore.convert(source, tmp_path / "dst", **options, codec=slow.name, verify=True).verified


def test_chunks_that_are_copied_as_stored_take_no_time(source: Path, tmp_path: Path, slow: Any) -> None:
    zvcore.convert(source, tmp_path / "slow", format="zarr3", codec=slow.name)
    plan = zvcore.plan(tmp_path / "slow", tmp_path / "dst", format="zarr3")
    assert plan.arrays[0].how == "verbatim" and plan.units == 1


def test_what_is_done_of_a_slow_conversion_is_not_done_again(source: Path, tmp_path: Path, slow: Any) -> None:
    def interrupt(done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        zvcore.convert(source, tmp_path / "dst", format="zarr3", codec=slow.name, progress=interrupt, threads=1)
    report = zvcore.convert(source, tmp_path / "dst", format="zarr3", codec=slow.name, threads=2)
    assert 3 <= report.resumed < report.units == 16
    assert np.array_equal(zvcore.open(tmp_path / "dst")[...], VALUES)


@pytest.mark.parametrize(
    ("name", "effort", "least", "most"),
    [("zstd", "level", 3, 19), ("gzip", "level", 1, 9), ("lz4", "level", 0, 12), ("blosc", "clevel", 1, 9)],
)
def test_more_effort_is_never_faster(name: str, effort: str, least: int, most: int) -> None:
    more = {"cname": "zstd"} if name == "blosc" else {}
    rates = [codecs.get(name, **{effort: level}, **more).encoding_rate for level in range(least, most + 1)]
    assert rates == sorted(rates, key=lambda rate: -rate) and rates[0] > rates[-1]


def test_a_volume_at_a_high_level_is_cut_into_small_units(tmp_path: Path) -> None:
    source = zvcore.create(
        tmp_path / "src", format="zarr3", shape=(512, 512, 512), dtype="u1", chunks=(64,) * 3, codec="lz4"
    )
    source[:1, :1, :1] = 1
    usual = zvcore.plan(tmp_path / "src", tmp_path / "dst", format="zarr3", codec={"name": "zstd", "level": 3})
    slowest = zvcore.plan(tmp_path / "src", tmp_path / "dst", format="zarr3", codec={"name": "zstd", "level": 19})
    assert usual.units == 1
    # 128 MiB at two or three million bytes in a second.
    assert 9 <= slowest.units <= 32


@pytest.mark.parametrize(("codec", "most"), [("gzip:7", 1), ("zstd:15", 8)])
def test_levels_in_between_are_not_taken_for_the_slowest(tmp_path: Path, codec: str, most: int) -> None:
    """Tables of older and slower encoders cut them into more units than five seconds of work ask for."""
    source = zvcore.create(tmp_path / "src", format="zarr3", shape=(512,) * 3, dtype="u1", chunks=(64,) * 3)
    name, level = codec.split(":")
    plan = zvcore.plan(source, tmp_path / "dst", format="zarr3", codec={"name": name, "level": int(level)})
    assert plan.units <= most
