"""`zvcore bench` on datasets of every format: what it reads, which libraries take part, what it prints."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.processes import PATIENCE
from zvcore.commands import cli, measuring

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def values() -> Any:
    return np.random.default_rng(0).integers(0, 300, (40, 36, 32)).astype("u2")


def make(path: Path, format: str, values: Any) -> str:
    chunks = (16, 16, 16)
    codec = None if format == "precomputed" else "gzip"
    array = zvcore.create(path, format=format, shape=values.shape, dtype="u2", chunks=chunks, codec=codec)
    array[...] = values.reshape(array.shape)
    return str(path)


def bench(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert cli.main(["bench", "--seconds", "0", "--json", *arguments]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("format", ["zarr3", "n5", "precomputed"])
def test_arrays(tmp_path: Path, values: Any, format: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = make(tmp_path / "a", format, values)
    rows = bench(capsys, path, "--threads", "1")
    whos = {row["who"] for row in rows if row["task"] == "region"}
    assert {"zvcore", "tensorstore", "stored bytes alone"} <= whos
    assert {row["task"] for row in rows} == {"region", "chunk", "box"}
    assert all(0 < row["best"] <= row["median"] and row["threads"] == 1 for row in rows)
    region = next(row for row in rows if row["task"] == "region" and row["who"] == "zvcore")
    assert region["bytes"] == values.nbytes
    assert {row["who"] for row in bench(capsys, path, "--alone", "--cold")} == {"zvcore"}


def test_memory_bounds_what_is_read_at_once(tmp_path: Path, values: Any) -> None:
    array = zvcore.open(make(tmp_path / "a", "zarr3", values))
    for memory in (1, 8192, 40000, 10**9):
        region = measuring.some_of(array, memory)
        assert array[region].nbytes <= max(memory, 8192)
        assert all(part.start % 16 == 0 for part in region)
    assert array[measuring.some_of(array, 10**9)].shape == array.shape


def test_a_tool_that_reads_other_values_takes_no_part(
    tmp_path: Path, values: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path / "a", "zarr3", values)
    array = zvcore.open(path)
    assert set(measuring.other_readers(array, path)) == {"tensorstore", "zarr-python"}
    monkeypatch.setattr(measuring, "zarr_reader", lambda *_: lambda region: array[region] + 1)
    assert set(measuring.other_readers(array, path)) == {"tensorstore"}


def test_vectors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [np.random.default_rng(i).random((9, 3)).astype("f4") for i in range(7)]
    zvcore.zvf.write_polylines(tmp_path / "v", lines, chunk_shape=(0.5,) * 3)
    rows = bench(capsys, str(tmp_path / "v"))
    assert [row["task"] for row in rows] == ["level", "objects"]
    assert all(row["bytes"] == 7 * 9 * 12 for row in rows)


def test_a_table_for_people_and_groups_refused(tmp_path: Path, values: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = make(tmp_path / "g" / "a", "n5", values)
    assert cli.main(["bench", "--seconds", "0", "--alone", "--threads", "1", path]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["what", "threads", "who"]
    assert len(lines) == 4 + 1
    assert cli.main(["bench", str(tmp_path / "g"), "--seconds", "0"]) in (1, 2)
    assert "zvcore" in capsys.readouterr().err


def test_a_pipe_in_the_folder_does_not_stop_the_cache_from_being_emptied(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    program = "import sys; from zvcore.stores.plain_files import drop_from_cache; drop_from_cache(sys.argv[1])"
    subprocess.run([sys.executable, "-c", program, tmp_path], check=True, timeout=PATIENCE)


@pytest.mark.parametrize("goes_on", [False, True], ids=["fails", "goes on"])
def test_ctrl_c_is_not_lost_in_a_library_that_is_being_loaded(tmp_path, monkeypatch, goes_on):
    """Native modules make an ImportError of it: the measuring went on without that library."""
    array = zvcore.create(tmp_path / "a", format="zarr3", shape=(8,), dtype="u1", chunks=(4,))

    def loaded(*_):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            if not goes_on:
                raise ImportError("initialization failed") from None
        return lambda region: array[region]

    monkeypatch.setattr(measuring, "tensorstore_reader", loaded)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        measuring.other_readers(array, str(tmp_path / "a"))
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    "wrong", [["--seconds", "nan"], ["--seconds", "-1"], ["--seconds", "inf"], ["--memory", "-3"], ["--memory", "0"]]
)
def test_measures_that_are_none_are_refused(tmp_path, capsys, wrong):
    """They were taken for the least, or for ever."""
    zvcore.create(tmp_path / "a", format="zarr3", shape=(8,), dtype="u1", chunks=(4,))
    with pytest.raises(SystemExit) as caught:
        cli.main(["bench", str(tmp_path / "a"), "--alone", *wrong])
    assert caught.value.code == 2 and f"not {wrong[1]!r}" in capsys.readouterr().err


def test_an_empty_array_is_not_measured(tmp_path, capsys):
    """It ended with numpy's "high <= 0"."""
    zvcore.create(tmp_path / "a", format="zarr3", shape=(0, 8), dtype="u1", chunks=(4, 4))
    assert cli.main(["bench", str(tmp_path / "a"), "--seconds", "0"]) == 2
    assert "has no values that could be read" in capsys.readouterr().err
