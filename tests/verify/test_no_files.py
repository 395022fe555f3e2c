"""Names of objects that something else has than a readable file: nothing may take these for never stored."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import zvcore
from zvcore.commands import cli
from zvcore.errors import StoreError
from zvcore.report import Report, What
from zvcore.stores.late_writes import settle

VALUES = np.arange(1, 16**3 + 1, dtype=np.uint16).reshape(16, 16, 16)

# What each makes, and the key of one of its eight chunks, or shards.
KINDS = {
    "zarr3": ({"format": "zarr3", "chunks": (8, 8, 8)}, "c/1/0/0"),
    "zarr3 with dots": (
        {"format": "zarr3", "chunks": (8, 8, 8), "chunk_key_encoding": {"name": "v2", "separator": "."}}, "1.0.0",
    ),
    "zarr3 sharded": ({"format": "zarr3", "chunks": (4, 4, 4), "shards": (8, 8, 8)}, "c/1/0/0"),
    "zarr2": ({"format": "zarr2", "chunks": (8, 8, 8)}, "1.0.0"),
    "n5": ({"format": "n5", "chunks": (8, 8, 8)}, "1/0/0"),
    "precomputed": ({"format": "precomputed", "chunks": (8, 8, 8)}, "1_1_1/8-16_0-8_0-8.gz"),
    "precomputed sharded": ({"format": "precomputed", "chunks": (4, 4, 4), "shards": (8, 8, 8)}, "1_1_1/3.shard"),
}  # fmt: skip


def link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


# By what the object is replaced, and what is said of it.
OTHERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "dangling": (lambda path: path.symlink_to("../.git/annex/objects/gone"), "a link that leads to no file"),
    "circle": (link_to_itself, "a link that leads to no file"),
    "pipe": (os.mkfifo, "neither a file nor a folder"),
    "link to a pipe": (lambda path: (os.mkfifo(f"{path}.zv"), path.symlink_to(f"{path.name}.zv")), "a link that"),
    "folder": (Path.mkdir, "a folder"),
    "folder with a file": (lambda path: (path.mkdir(), (path / "x").touch()), "a folder"),
}


def made(path: Path, kind: str) -> Path:
    """A dataset of this kind; the path of one of its objects."""
    options, key = KINDS[kind]
    array = zvcore.create(path, shape=VALUES.shape, dtype=VALUES.dtype, **options)
    array[...] = VALUES.reshape(array.shape)
    settle()
    files = sorted(one for one in path.rglob("*") if one.is_file() and "precomputed" in kind and one.name != "info")
    return files[1] if files else path / key


def replaced(path: Path, kind: str, other: str) -> str:
    """Make one object something else; its key."""
    place = made(path, kind)
    place.unlink()
    OTHERS[other][0](place)
    return str(place.relative_to(path))


def values_of(path: Path) -> None:
    opened = zvcore.open(path)
    (opened if isinstance(opened, zvcore.Array) else opened[0])[...]


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_has_the_name_of_a_chunk_and_is_no_file_is_damage(
    tmp_path: Path, kind: str, other: str, fast: bool
) -> None:
    key = replaced(tmp_path / "a", kind, other)
    report = zvcore.verify(tmp_path / "a", fast=fast)
    assert report.status == "damaged"
    told = [one for one in report.problems if one.where == key]
    assert [(one.kind, one.fatal) for one in told] == [(What.STORE, True)]
    assert OTHERS[other][1] in told[0].what


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("kind", KINDS)
def test_it_does_not_read_as_never_stored(tmp_path: Path, kind: str, other: str) -> None:
    key = replaced(tmp_path / "a", kind, other)
    with pytest.raises(OSError) as caught:
        values_of(tmp_path / "a")
    assert key in str(caught.value)
    assert other == "circle" or isinstance(caught.value, StoreError)


def test_a_link_to_a_chunk_is_the_chunk_and_an_empty_folder_beside_them_is_nothing(tmp_path: Path) -> None:
    place = made(tmp_path / "a", "zarr3")
    place.rename(tmp_path / "far")
    place.symlink_to(tmp_path / "far")
    (tmp_path / "a/c/2/0").mkdir(parents=True)
    assert zvcore.verify(tmp_path / "a").problems == []
    np.testing.assert_array_equal(zvcore.open(tmp_path / "a")[...], VALUES)


def test_what_lies_in_a_linked_folder_is_looked_at_once(tmp_path: Path) -> None:
    replaced(tmp_path / "far", "zarr3", "dangling")
    (tmp_path / "a").mkdir()
    for name in ("zarr.json", "c", "again"):
        (tmp_path / "a" / name).symlink_to(tmp_path / "far" / ("c" if name == "again" else name))
    (tmp_path / "far/c/up").symlink_to("..")
    told = [one for one in zvcore.verify(tmp_path / "a").problems if one.kind is What.STORE]
    assert len(told) == 1
    assert told[0].where.endswith("1/0/0")


def test_only_what_was_asked_for_is_told(tmp_path: Path) -> None:
    replaced(tmp_path / "a", "zarr3", "dangling")
    assert zvcore.verify(tmp_path / "a/c/0").ok
    report = zvcore.verify(tmp_path / "a/c/1")
    assert [one.where for one in report.problems] == ["c/1/0/0"]
    itself = zvcore.verify(tmp_path / "a/c/1/0/0")
    assert [(one.kind, one.what) for one in itself.problems] == [(What.STORE, "this is a link that leads to nothing")]


def test_of_parts_one_tells_it(tmp_path: Path) -> None:
    replaced(tmp_path / "a", "zarr3", "dangling")
    reports = [zvcore.verify(tmp_path / "a", part=(number, 3)) for number in (1, 2, 3)]
    assert sorted(len(report.problems) for report in reports) == [0, 0, 1]


def test_repair_leaves_it_and_says_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    key = replaced(tmp_path / "a", "zarr3", "dangling")
    assert cli.main(["repair", str(tmp_path / "a")]) == 1
    assert f"remains: {key}" in capfd.readouterr().out
    assert (tmp_path / "a" / key).is_symlink()


@pytest.mark.parametrize("other", ["dangling", "circle", "pipe", "link to a pipe"])
@pytest.mark.parametrize("function", [zvcore.copy, zvcore.sync])
def test_a_copy_tells_what_it_has_not(tmp_path: Path, function: Callable[..., Report], other: str) -> None:
    key = replaced(tmp_path / "a", "zarr3", other)
    report = function(tmp_path / "a", tmp_path / "b", verify=True)
    told = [one for one in report.problems if one.fatal]
    assert (told[0].where, told[0].kind) == (key, What.STORE)
    assert OTHERS[other][1] in told[0].what
    assert report.counts["objects copied"] == 7
    # Without its document, what was copied is not taken for all of it.
    assert not (tmp_path / "b/zarr.json").exists()


def test_there_is_no_manifest_of_what_cannot_be_read(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    replaced(tmp_path / "a", "zarr3", "dangling")
    (tmp_path / "a/c/0/0/1").unlink()
    os.mkfifo(tmp_path / "a/c/0/0/1")
    assert cli.main(["manifest", str(tmp_path / "a")]) == 1
    told = capfd.readouterr().err
    assert "c/0/0/1" in told
    assert "c/1/0/0" in told
    assert not (tmp_path / "a/.zvcore-manifest.jsonl").exists()
