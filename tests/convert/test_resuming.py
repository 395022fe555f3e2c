"""Conversions that are killed, and go on: real processes, SIGKILL."""

from __future__ import annotations

import json

import numpy as np
import pytest

import zvcore
from tests.convert.interrupting import MEMORY, killed, left_behind, source
from zvcore.converting.journal import Journal, fingerprint
from zvcore.converting.note import KEY, read_note
from zvcore.errors import ConflictError, MetadataError
from zvcore.stores import open_store


@pytest.mark.parametrize(
    "options",
    [
        {"format": "zarr3", "shards": [32, 32, 32]},
        {"format": "zarr3", "shards": [16, 16, 16], "codec": "zstd", "levels": 2},
        {"format": "n5", "chunks": [24, 24, 24]},
        {"format": "precomputed", "chunks": [8, 8, 8], "levels": 1},
    ],
    ids=["copied", "pyramid", "files", "volume"],
)
def test_a_killed_conversion_is_resumed(options, tmp_path):
    values = source(tmp_path / "src")
    src, dst = tmp_path / "src", tmp_path / "dst"
    killed(src, dst, options, 5)
    assert json.loads((dst / KEY).read_text())["task"]
    # What is there is whole, or not there at all.
    for path in dst.rglob("*"):
        if path.is_file() and not path.name.startswith("."):
            assert path.stat().st_size
    # Nothing is wrong with it but that it is not complete.
    problems = zvcore.verify(dst).problems
    assert problems and {problem.status for problem in problems} == {"unfinished"}
    report = zvcore.convert(src, dst, **options, memory=MEMORY, verify=True)
    assert report.verified and report.resumed >= 1
    assert report.resumed < report.units
    opened = zvcore.open(dst)
    if options.get("levels"):
        opened = opened[next(iter(opened))]
    found = opened[...]
    if options["format"] == "precomputed":
        found = found[..., 0]
    assert np.array_equal(found if options["format"] == "zarr3" else found.T, values)
    assert not left_behind(dst)


def test_killed_again_and_again(tmp_path):
    values = source(tmp_path / "src")
    options = {"format": "zarr3", "shards": [32, 32, 32], "codec": "zstd"}
    killed(tmp_path / "src", tmp_path / "dst", options, 4)
    killed(tmp_path / "src", tmp_path / "dst", options, 9)
    report = zvcore.convert(tmp_path / "src", tmp_path / "dst", **options, memory=MEMORY)
    assert report.resumed
    assert np.array_equal(zvcore.open(tmp_path / "dst")[...], values)


def test_what_was_done_is_not_done_again(tmp_path):
    source(tmp_path / "src")
    options = {"format": "zarr3", "shards": (32, 32, 32)}

    class Stop(Exception):
        pass

    def stop(done, total):
        if done == 6:
            raise Stop

    with pytest.raises(Stop):
        zvcore.convert(tmp_path / "src", tmp_path / "dst", **options, memory=MEMORY, threads=1, progress=stop)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "dst" / "c").rglob("*") if path.is_file()}
    report = zvcore.convert(tmp_path / "src", tmp_path / "dst", **options, memory=MEMORY, threads=1)
    assert report.resumed >= 6
    same = [path for path, stamp in before.items() if path.stat().st_mtime_ns == stamp]
    assert len(same) >= 6


def test_another_conversion_is_not_resumed(tmp_path):
    values = source(tmp_path / "src")
    killed(tmp_path / "src", tmp_path / "dst", {"format": "zarr3", "shards": [32, 32, 32]}, 4)
    with pytest.raises(ConflictError, match="another conversion"):
        zvcore.convert(tmp_path / "src", tmp_path / "dst", format="zarr3", shards=(64, 64, 64))
    report = zvcore.convert(tmp_path / "src", tmp_path / "dst", format="zarr3", shards=(64, 64, 64), overwrite=True)
    assert not report.resumed
    array = zvcore.open(tmp_path / "dst")
    assert array.shards == (64, 64, 64) and np.array_equal(array[...], values)


def test_begun_again_when_asked(tmp_path):
    source(tmp_path / "src")
    options = {"format": "zarr3", "shards": [32, 32, 32]}
    killed(tmp_path / "src", tmp_path / "dst", options, 4)
    with pytest.raises(ConflictError, match="overwrite"):
        zvcore.convert(tmp_path / "src", tmp_path / "dst", **options, memory=MEMORY, resume=False)
    report = zvcore.convert(tmp_path / "src", tmp_path / "dst", **options, memory=MEMORY, resume=False, overwrite=True)
    assert not report.resumed


def test_a_finished_conversion_is_not_overwritten(tmp_path):
    source(tmp_path / "src")
    zvcore.convert(tmp_path / "src", tmp_path / "dst", format="zarr3")
    with pytest.raises(ConflictError, match="overwrite"):
        zvcore.convert(tmp_path / "src", tmp_path / "dst", format="zarr3", codec="zstd")


def test_source_and_destination_are_two_places(tmp_path):
    source(tmp_path / "src")
    for dst in (tmp_path / "src", tmp_path / "src" / "below", tmp_path):
        with pytest.raises(ConflictError, match=r"same place|lies among the chunks of an array"):
            zvcore.convert(tmp_path / "src", dst, format="zarr3", overwrite=True)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        '{"version": 2}',
        '{"version": 1, "mark": "MARK"}',
        '{"version": 1, "mark": "MARK", "done": {"0": 3}}',
        '{"version": 1, "mark": "MARK", "done": {"0": [[3, 2]]}}',
        '{"version": 1, "mark": "MARK", "done": {"0": [[0, 5], [4, 8]]}}',
        '{"version": 1, "mark": "MARK", "done": {"0": [[true, 5]]}}',
        '{"version": 1, "mark": "MARK", "done": {"0": [[-1, 5]]}}',
    ],
)
def test_damaged_journals(text, tmp_path):
    source(tmp_path / "src")
    store = open_store(tmp_path / "dst", "w")
    task = {}
    store.put(KEY, text.replace("MARK", fingerprint(task)).encode())
    with pytest.raises((MetadataError, ConflictError)):
        Journal(store, task, read_note(store))


def test_spans_of_done_units(tmp_path):
    store = open_store(tmp_path, "w")
    journal = Journal(store, {}, None)
    rng = np.random.default_rng(0)
    units = rng.permutation(200)[:150]
    for unit in units.tolist():
        journal.add("a", unit)
        journal.add("a", unit)
    assert journal.done("a") == 150 and journal.done("b") == 0
    assert list(journal.left("a", 200)) == sorted({*range(200)} - {*units.tolist()})
    assert list(journal.left("a", 90)) == sorted({*range(90)} - {*units.tolist()})
    assert list(journal.left("b", 3)) == [0, 1, 2]
