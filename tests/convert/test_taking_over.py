"""Stored chunks go from files to files as they are, thread by thread, and nothing of a shard is gathered."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.converting.gather import Gather
from zvcore.converting.recode import Recode
from zvcore.converting.verbatim import Verbatim
from zvcore.errors import CorruptDataError

if TYPE_CHECKING:
    from pathlib import Path

VALUES = np.arange(50 * 30, dtype="u2").reshape(50, 30)
CODECS: dict[str, Any] = {
    "raw": None, "zstd": "zstd", "blosc": "blosc", "gzip": {"name": "gzip", "level": 1},
    "several": [{"name": "gzip", "level": 1}, "crc32c"],
}  # fmt: skip


def source(path: Path, **options: Any) -> Any:
    array = zvcore.create(
        path, **{"format": "zarr3", "shape": (50, 30), "dtype": "u2", "chunks": (4, 7), "fill_value": 9, **options}
    )
    array[...] = VALUES
    return array


@pytest.fixture
def nothing_is_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    def gathered(*arguments: Any) -> Any:
        raise AssertionError("chunks were gathered")

    for way in (Verbatim, Recode, Gather):
        monkeypatch.setattr(way, "chunks", gathered)
    for way in (Recode, Gather):
        monkeypatch.setattr(way, "write", gathered)


@pytest.mark.usefixtures("nothing_is_gathered")
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("shards", [None, (8, 14), (52, 35)])
@pytest.mark.parametrize("codec", CODECS)
def test_chunks_become_chunks_and_shards(tmp_path: Path, codec: str, shards: Any, threads: int) -> None:
    old = source(tmp_path / "old", codec=CODECS[codec])
    for place in ((0, 0), (12, 4), (2, 2), (3, 2), (2, 3), (3, 3)):
        old.delete_block(place)
    report = zvcore.convert(tmp_path / "old", tmp_path / "new", format="zarr3", shards=shards, threads=threads)
    assert (report.copied, report.encoded, report.empty) == (13 * 5 - 6, 0, 6)
    stored = sum(one.stat().st_size for one in (tmp_path / "old" / "c").rglob("*") if one.is_file())
    written = sum(one.stat().st_size for one in (tmp_path / "new" / "c").rglob("*") if one.is_file())
    assert (report.bytes_in, report.bytes_out, report.values) == (stored, written, VALUES.nbytes)
    new = zvcore.open(tmp_path / "new")
    assert (new[...] == old[...]).all()
    assert new.read_encoded((5, 1)) == old.read_encoded((5, 1))
    assert zvcore.verify(tmp_path / "new").problems == []
    # Of the shard (1, 1) nothing is stored.
    assert shards != (8, 14) or not (tmp_path / "new" / "c" / "1" / "1").exists()


@pytest.mark.usefixtures("nothing_is_gathered")
def test_shards_become_shards_of_another_size_and_chunks(tmp_path: Path) -> None:
    source(tmp_path / "old", shards=(8, 14), codec="zstd")
    wanted: list[Any] = [(24, 7), False]
    for number, shards in enumerate(wanted):
        report = zvcore.convert(tmp_path / "old", tmp_path / str(number), format="zarr3", shards=shards)
        assert (report.copied, report.encoded) == (13 * 5, 0)
        assert (zvcore.open(tmp_path / str(number))[...] == VALUES).all()


@pytest.mark.usefixtures("nothing_is_gathered")
def test_what_is_larger_than_one_part_is_not_gathered_either(tmp_path: Path) -> None:
    source(tmp_path / "old")
    report = zvcore.convert(tmp_path / "old", tmp_path / "new", format="zarr3", shards=(52, 35), memory=1000)
    assert report.copied == 13 * 5
    assert (zvcore.open(tmp_path / "new")[...] == VALUES).all()


@pytest.mark.parametrize("shards", [None, (8, 14)])
@pytest.mark.parametrize("codec", ["raw", "zstd", "blosc"])
def test_a_chunk_that_was_cut_is_an_error_that_names_it(tmp_path: Path, codec: str, shards: Any) -> None:
    old = source(tmp_path / "old", codec=CODECS[codec])
    old.write_encoded((3, 1), old.read_encoded((3, 1))[:-1])
    with pytest.raises(CorruptDataError) as caught:
        zvcore.convert(tmp_path / "old", tmp_path / "new", format="zarr3", shards=shards)
    assert caught.value.key == "c/3/1"
    assert not [one for one in (tmp_path / "new").rglob("*") if ".zvtmp" in one.name]


def test_chunks_with_another_fill_value_or_that_may_not_be_left_out_are_not_missing(tmp_path: Path) -> None:
    old = source(tmp_path / "old")
    old.delete_block((0, 0))
    expected = VALUES.copy()
    expected[:4, :7] = 9
    wanted: list[dict[str, Any]] = [{"fill_value": 1}, {"write_empty_chunks": True}]
    for number, options in enumerate(wanted):
        report = zvcore.convert(tmp_path / "old", tmp_path / str(number), format="zarr3", shards=(8, 14), **options)
        assert (report.copied, report.encoded) == (13 * 5 - 1, 1)
        assert (zvcore.open(tmp_path / str(number))[...] == expected).all()


def test_what_cannot_be_written_is_told_of_the_destination(tmp_path: Path) -> None:
    source(tmp_path / "old")
    zvcore.create(tmp_path / "new", format="zarr3", shape=(50, 30), dtype="u2", chunks=(4, 7), fill_value=9)
    view_to = zvcore.open(tmp_path / "new", mode="r+")
    (tmp_path / "new" / "c").write_bytes(b"no folder")
    from zvcore.converting.copying import plan_copy
    from zvcore.converting.view import whole

    work = plan_copy(whole(zvcore.open(tmp_path / "old")), view_to, False, 1 << 20, local=True)
    with pytest.raises(OSError, match="c/"):
        work.run(0, 1)


@pytest.mark.parametrize("codec", [None, "zstd"])
@pytest.mark.parametrize("shards", [None, (8,)])
def test_a_chunk_that_no_chunk_can_be_as_large_as_is_not_read(tmp_path: Path, codec: Any, shards: Any) -> None:
    zvcore.create(tmp_path / "from", format="zarr2", data=np.arange(16, dtype="u1"), chunks=(4,), codec=codec)
    os.truncate(tmp_path / "from" / "2", 1 << 42)
    with pytest.raises(CorruptDataError, match=r"2: chunk \(2,\): the stored object is larger than its chunk can be"):
        zvcore.convert(tmp_path / "from", tmp_path / "to", format="zarr3", chunks=(4,), shards=shards)
