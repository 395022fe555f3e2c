"""Verifying much data shows how far it is: with a bar on a terminal, with lines in a log where it takes long."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore import zvf
from zvcore.commands.cli import main
from zvcore.progress import shown

if TYPE_CHECKING:
    from pathlib import Path

ARRAYS: dict[str, dict[str, Any]] = {
    "zarr3": {"format": "zarr3", "chunks": (8, 8, 8)},
    "zarr3 shards": {"format": "zarr3", "chunks": (8, 8, 8), "shards": (16, 16, 16)},
    "n5": {"format": "n5", "chunks": (8, 8, 8)},
    "precomputed": {"format": "precomputed", "chunks": (8, 8, 8), "codec": "raw"},
    "precomputed shards": {"format": "precomputed", "chunks": (8, 8, 8), "codec": "gzip", "shards": (16, 16, 16)},
}


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("kind", ARRAYS)
def test_every_object_is_reported(tmp_path: Path, kind: str, fast: bool) -> None:
    array = zvcore.create(tmp_path / "it", shape=(32, 32, 32), dtype="u1", **ARRAYS[kind])
    array[...] = 1
    told: list[tuple[int, int]] = []
    assert zvcore.verify(tmp_path / "it", fast, progress=lambda *one: told.append(one)).ok
    # Documents are among those that there are.
    assert told[-1] == ((8 if "shards" in kind else 64), (8 if "shards" in kind else 64) + 1)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    told.clear()
    key = next(path for path in (tmp_path / "it").rglob("*") if path.is_file() and path.suffix != ".json"
               and path.name != "info")  # fmt: skip
    assert zvcore.verify(key, fast, progress=lambda *one: told.append(one)).ok
    assert told == [(1, 1)]


def test_members_of_groups_and_cells_are_counted(tmp_path: Path) -> None:
    group = zvcore.open(tmp_path / "group", "w", format="zarr3")
    for name in ("a", "b/c"):
        group.create_dataset(name, shape=(4,), dtype="u1", chunks=(2,))[...] = 1
    zvf.write_points(tmp_path / "points", np.random.default_rng(0).random((100, 3)) * 10, chunk_shape=(5.0, 5.0, 5.0))
    told: list[tuple[int, int]] = []
    zvcore.verify(tmp_path / "group", progress=lambda *one: told.append(one))
    assert told[-1][0] == 4
    told.clear()
    zvcore.verify(tmp_path / "points", progress=lambda *one: told.append(one))
    assert 8 <= told[-1][0] <= told[-1][1]


def command(*arguments: str, terminal: bool) -> tuple[str, str]:
    """(stdout, stderr) of a command whose stderr is a terminal, or a pipe."""
    line = [sys.executable, "-m", "zvcore", *arguments]
    if not terminal:
        done = subprocess.run(line, capture_output=True, text=True, check=True)
        return done.stdout, done.stderr
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    try:
        process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=theirs)
        os.close(theirs)
        seen = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # Linux says so that nobody is at the other end
                break
            if not part:
                break
            seen += part
        assert process.stdout is not None
        out = process.stdout.read().decode()
        process.stdout.close()
        assert process.wait() == 0
        return out, seen.decode()
    finally:
        os.close(ours)


@pytest.mark.parametrize("kind", ["zarr3 shards", "n5"])
def test_a_bar_on_a_terminal_only(tmp_path: Path, kind: str) -> None:
    array = zvcore.create(tmp_path / "it", shape=(32, 32, 32), dtype="u1", **ARRAYS[kind])
    array[...] = 1
    path = str(tmp_path / "it")
    out, words = command("verify", path, terminal=True)
    assert "verifying" in words and "object" in words and out.startswith(f"{path}: sound")
    assert command("verify", path, terminal=False) == (out, "")
    assert command("verify", "-q", path, terminal=True) == ("", "")


def test_what_is_counted_at_the_same_time(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that cannot be counted, or never end, stop nothing."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)

    def broken() -> Any:
        yield 1
        raise OSError("no list")

    def endless() -> Any:
        while True:
            yield 1

    for parts in (broken(), endless(), range(3), 3):
        with shown(True, parts, "looking", "thing") as advance:
            advance(2)
            advance(1)
    assert capsys.readouterr().err.count("looking") >= 4
    monkeypatch.setitem(sys.modules, "tqdm", None)
    for parts in (3, iter([1])):
        with shown(True, parts, "looking", "thing") as advance:
            advance(3)
    assert "looking: 3 of 3 things" in (words := capsys.readouterr().err) and "looking: 3 things" in words


def test_a_log_gets_a_line_every_few_seconds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("zvcore.progress.time.monotonic", lambda: now)
    with shown(True, 8, "converting") as advance:
        for _ in range(8):
            now += 2.5
            advance(1)
    assert capsys.readouterr().err.splitlines() == [
        "converting: 2 of 8 parts, 5 s, about 15 s left",
        "converting: 4 of 8 parts, 10 s, about 10 s left",
        "converting: 6 of 8 parts, 15 s, about 5 s left",
        "converting: 8 of 8 parts, 20 s",
    ]
    with shown(True, iter([1, 2]), "looking", "thing") as advance:
        now += 7200
        advance(1)
    assert "looking: 1" in (words := capsys.readouterr().err) and "2 h 0 min" in words
    for progress in (True, False):
        with shown(progress, 8, "converting") as advance:
            now += 1 if progress else 100
            advance(8)
    assert capsys.readouterr().err == ""


def test_a_conversion_shows_progress_in_a_log_unless_it_is_quiet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zvcore.progress.LINE_SECONDS", 0)
    array = zvcore.create(tmp_path / "it", format="zarr3", shape=(8, 8), dtype="u1", chunks=(4, 4))
    array[...] = 1
    for quiet in ([], ["-q"]):
        assert main(["convert", *quiet, str(tmp_path / "it"), str(tmp_path / f"to{len(quiet)}"), "--format", "n5"]) == 0
        assert ("converting: 1 of 1 parts" in capsys.readouterr().err) == (not quiet)
