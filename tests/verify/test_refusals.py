"""Objects that the system does not give out: each is told of, and nothing else is passed over for them."""

import json
import os
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zvcore
from zvcore.commands import cli
from zvcore.report import What
from zvcore.stores import LocalStore
from zvcore.stores.base import Refused
from zvcore.stores.confined import ConfinedStore
from zvcore.stores.late_writes import settle

VALUES = np.arange(1, 16**3 + 1, dtype=np.uint16).reshape(16, 16, 16)
# A regular file that not even root may read: that is a mode of 000 to a test that root runs.
SECRET = "/proc/sys/vm/compact_memory"


def may_be_read(path: str) -> bool:
    try:
        with open(path, "rb"):
            return True
    except FileNotFoundError:
        return True
    except OSError:
        return False


needs_secret = pytest.mark.skipif(may_be_read(SECRET), reason="every file that is known here may be read")

DOCUMENTS = ("zarr.json", ".zarray", ".zattrs", "attributes.json", "info")
KINDS = {
    "zarr3": {"format": "zarr3", "chunks": (8, 8, 8), "codec": "gzip"},
    "zarr3 sharded": {"format": "zarr3", "chunks": (4, 4, 4), "shards": (8, 8, 8), "codec": "gzip"},
    "zarr2": {"format": "zarr2", "chunks": (8, 8, 8), "codec": "gzip"},
    "n5": {"format": "n5", "chunks": (8, 8, 8), "codec": "gzip"},
    "precomputed": {"format": "precomputed", "chunks": (8, 8, 8)},
    "precomputed sharded": {"format": "precomputed", "chunks": (4, 4, 4), "shards": (8, 8, 8)},
}  # fmt: skip


def made(path: Path, kind: str) -> list[Path]:
    """A dataset of this kind; the paths of its chunks, or shards."""
    array = zvcore.create(path, shape=VALUES.shape, dtype=VALUES.dtype, **KINDS[kind])
    array[...] = VALUES.reshape(array.shape)
    settle()
    return sorted(one for one in path.rglob("*") if one.is_file() and one.name not in DOCUMENTS)


def hurt(path: Path, kind: str) -> tuple[str, list[str]]:
    """(the key of an object that may not be read, the keys of two that are damaged) of a new dataset."""
    first, second, third, *_ = made(path, kind)
    for one in (first, third):
        one.write_bytes(b"\x01")
    second.unlink()
    second.symlink_to(SECRET)
    return str(second.relative_to(path)), [str(one.relative_to(path)) for one in (first, third)]


@needs_secret
@pytest.mark.parametrize("kind", KINDS)
def test_an_object_that_may_not_be_read_is_told_of_with_all_other_problems(tmp_path: Path, kind: str) -> None:
    secret, damaged = hurt(tmp_path / "a", kind)
    report = zvcore.verify(tmp_path / "a")
    told = {one.where: one for one in report.problems if one.fatal}
    assert told.keys() == {secret, *damaged}
    assert told[secret].kind is What.STORE
    assert "Permission" in told[secret].what
    assert all(told[key].kind is not What.STORE for key in damaged)


@needs_secret
@pytest.mark.parametrize("kind", ["zarr3", "zarr3 sharded", "n5", "precomputed"])
def test_a_repair_takes_out_what_is_damaged_and_not_what_may_not_be_read(tmp_path: Path, kind: str) -> None:
    secret, damaged = hurt(tmp_path / "a", kind)
    report = zvcore.repair(tmp_path / "a")
    assert {one.where for one in report.losses} == {*damaged}
    assert (tmp_path / "a" / secret).is_symlink()
    assert [one.kind for one in zvcore.verify(tmp_path / "a").problems if one.fatal] == [What.STORE]


@needs_secret
def test_a_manifest_is_compared_with_all_that_may_be_read(tmp_path: Path) -> None:
    chunks = made(tmp_path / "a", "zarr3")
    zvcore.make_manifest(tmp_path / "a")
    chunks[0].unlink()
    chunks[0].symlink_to(SECRET)
    chunks[5].unlink()
    report = zvcore.verify(tmp_path / "a")
    gone = [one.where for one in report.problems if one.kind is What.GONE]
    assert gone == [str(chunks[5].relative_to(tmp_path / "a"))]
    assert What.STORE in {one.kind for one in report.problems}


@needs_secret
def test_a_copy_names_what_may_not_be_read_and_goes_on(tmp_path: Path) -> None:
    secret, _ = hurt(tmp_path / "a", "zarr3")
    report = zvcore.copy(LocalStore(tmp_path / "a"), tmp_path / "b")
    told = [one for one in report.problems if one.fatal]
    assert [(one.where, one.kind) for one in told] == [(secret, What.STORE)]
    assert "Permission" in told[0].what
    assert report.counts["objects copied"] == 7


class Left:
    """What finds no room where the system copies is left to those who say so."""

    def __init__(self, *asked: Any, **_: Any) -> None:
        self.count = len(asked[-1])

    def work(self) -> bool:
        return False

    def stop(self) -> None: ...

    def outcomes(self) -> list[None]:
        return [None] * self.count


def test_a_disk_that_is_full_ends_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path / "a", "zarr3")

    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(LocalStore, "put_data", full)
    monkeypatch.setattr("zvcore.stores.between_folders.FileCopies", Left)
    with pytest.raises(OSError, match=os.strerror(28)):
        zvcore.copy(tmp_path / "a", tmp_path / "b")


@needs_secret
def test_a_member_that_may_not_be_read_is_told_of_beside_the_others(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    group = zvcore.open(tmp_path / "g", "w", format="zarr3")
    for name in ("a", "b", "c"):
        group.create_array(name, shape=(4,), dtype="u1", codec="gzip")[...] = 1
    settle()
    (tmp_path / "g/b/zarr.json").unlink()
    (tmp_path / "g/b/zarr.json").symlink_to(SECRET)
    (tmp_path / "g/c/c/0").write_bytes(b"no gzip")
    told = {one.where: one.kind for one in zvcore.verify(tmp_path / "g").problems if one.fatal}
    assert told == {"b/zarr.json": What.STORE, "c/c/0": What.DATA}
    members = zvcore.inspect(tmp_path / "g")["members"]
    assert [members[name]["kind"] for name in ("a", "b", "c")] == ["array", "broken", "array"]
    shutil.copytree(tmp_path / "g/b", tmp_path / "several/b.zarr", symlinks=True)
    shutil.copytree(tmp_path / "g/a", tmp_path / "several/a.zarr")
    for command in (["info"], ["ls", "-l"], ["tree"]):
        assert cli.main([*command, str(tmp_path / "several")]) == 1
        said = capfd.readouterr().out
        assert "broken" in said
        assert "uint8" in said


# --- several paths


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here: a sound dataset, an archive that is cut off, and a damaged dataset."""
    monkeypatch.chdir(tmp_path)
    made(tmp_path / "good.zarr", "zarr3")
    made(tmp_path / "damaged.zarr", "zarr3")[0].write_bytes(b"no gzip")
    with zipfile.ZipFile("bad.zip", "w") as archive:
        archive.write("good.zarr/zarr.json", "zarr.json")
    whole = Path("bad.zip").read_bytes()
    Path("bad.zip").write_bytes(whole[: len(whole) // 2])


@pytest.mark.usefixtures("places")
def test_a_damaged_archive_does_not_keep_others_from_being_looked_at(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["verify", "good.zarr", "bad.zip", "damaged.zarr"]) == 1
    said = capfd.readouterr().out
    assert "good.zarr: sound" in said
    assert "bad.zip: NOT sound" in said
    assert "damaged.zarr: NOT sound" in said
    assert cli.main(["verify", "--json", "good.zarr", "bad.zip", "damaged.zarr"]) == 1
    answers = json.loads(capfd.readouterr().out)
    assert [(one["path"], one["status"]) for one in answers] == [
        ("good.zarr", "sound"), ("bad.zip", "damaged"), ("damaged.zarr", "damaged")
    ]  # fmt: skip


@pytest.mark.usefixtures("places")
def test_what_is_not_there_does_not_keep_others_from_being_looked_at(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["verify", "nope", "damaged.zarr", "neither"]) == 2
    said = capfd.readouterr()
    assert "damaged.zarr: NOT sound" in said.out
    assert "there is nothing at nope" in said.err
    assert "there is nothing at neither" in said.err
    assert cli.main(["verify", "--json", "good.zarr", "nope"]) == 2
    good, nope = json.loads(capfd.readouterr().out)
    assert good["status"] == "sound"
    assert nope == {"path": "nope", "error": "there is nothing at nope"}


@pytest.mark.usefixtures("places")
def test_a_repair_that_cannot_begin_is_answered_in_json(capfd: pytest.CaptureFixture[str]) -> None:
    Path("good.zarr/zarr.json").write_text("{")
    assert cli.main(["repair", "--json", "good.zarr"]) == 1
    answer = json.loads(capfd.readouterr().out)
    assert (answer["ok"], answer["sound"]) == (False, False)
    assert answer["remaining"][0]["kind"] == "document"
    assert (answer["ok"], answer["status"], answer["sound"]) == (False, "damaged", False)
    assert answer["problems"] == answer["remaining"] and answer["kinds"] == {"document": 1}


@needs_secret
def test_a_shard_that_may_not_be_read_keeps_none_of_the_others_from_being_made_smaller(tmp_path: Path) -> None:
    array = zvcore.create(
        tmp_path / "a", format="zarr3", data=VALUES, chunks=(4, 4, 4), shards=(8, 8, 8), codec=None,
        write_mode="inplace", dead_bytes_threshold=1.0,
    )  # fmt: skip
    del array
    array = zvcore.open(tmp_path / "a", "r+", write_mode="append", dead_bytes_threshold=1.0)
    array[...] = VALUES[::-1]
    settle()
    shards = sorted(one for one in (tmp_path / "a" / "c").rglob("*") if one.is_file())
    shards[0].unlink()
    shards[0].symlink_to(SECRET)
    report = zvcore.compact(tmp_path / "a")
    assert [problem.kind for problem in report.problems] == [What.STORE] and not report.ok
    assert report.counts["shards rewritten"] == 7 and report.counts["bytes saved"] > 0


@needs_secret
@pytest.mark.parametrize("kind", ["zarr3", "precomputed sharded"])
def test_no_manifest_without_what_may_not_be_read_all_of_which_is_named(tmp_path: Path, kind: str) -> None:
    objects = made(tmp_path / "a", kind)
    for one in objects[1:3]:
        one.unlink()
        one.symlink_to(SECRET)
    with pytest.raises(zvcore.errors.StoreError, match="no manifest without it") as caught:
        zvcore.make_manifest(tmp_path / "a")
    named = [str(one.relative_to(tmp_path / "a")) for one in objects[1:3]]
    assert caught.value.key == named[0] and caught.value.__notes__[0].startswith(named[1])
    assert not (tmp_path / "a" / ".zvcore-manifest.jsonl").exists()


def test_a_folder_that_may_not_be_looked_into_is_told_of_with_all_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zvcore.open(tmp_path / "g", "w", format="zarr3")
    for name in "ab":
        made(tmp_path / "g" / name, "zarr3")
    next(one for one in (tmp_path / "g" / "b" / "c").rglob("*") if one.is_file()).write_bytes(b"\1")
    listing = LocalStore.list_readable

    def closed(self: LocalStore, refused: Refused, prefix: str = "") -> Iterator[str]:
        error = PermissionError(13, "Permission denied", str(tmp_path / "g" / "a" / "c"))
        for key in listing(self, refused, prefix):
            if "a/c" in f"{self.root}/{key}":
                refused(key.rpartition("c/")[0] + "c", error)
            else:
                yield key

    monkeypatch.setattr(LocalStore, "list_readable", closed)
    told = {one.where for one in zvcore.verify(tmp_path / "g").problems if one.fatal}
    assert "a/c" in told and any(one.startswith("b/c/") for one in told)


@needs_secret
@pytest.mark.parametrize("kind", KINDS)
def test_a_repaired_copy_is_made_without_what_may_not_be_read_which_is_told(tmp_path: Path, kind: str) -> None:
    secret, damaged = hurt(tmp_path / "a", kind)
    objects = {one for one in (tmp_path / "a").rglob("*") if one.is_file() and one.name not in DOCUMENTS}
    gone = max(objects - {tmp_path / "a" / key for key in (secret, *damaged)})
    gone.unlink()
    gone.symlink_to("nowhere")  # as git-annex leaves it
    report = zvcore.repair(tmp_path / "a", tmp_path / "b")
    lost = {one.where: one.kind for one in report.losses}
    assert lost[secret] is What.STORE and all(key in lost for key in damaged)
    assert lost[str(gone.relative_to(tmp_path / "a"))] is What.STORE
    assert zvcore.verify(tmp_path / "b").ok
    shutil.rmtree(tmp_path / "b")
    assert cli.main(["repair", str(tmp_path / "a"), "-o", str(tmp_path / "b")]) == 1


@needs_secret
def test_a_document_that_may_not_be_read_does_not_keep_others_from_being_looked_after(tmp_path: Path) -> None:
    zvcore.open(tmp_path / "g", "w", format="zarr3")
    made(tmp_path / "g" / "a", "zarr3 sharded")
    _, damaged = hurt(tmp_path / "g" / "b", "zarr3 sharded")
    (tmp_path / "g" / "a" / "zarr.json").unlink()
    (tmp_path / "g" / "a" / "zarr.json").symlink_to(SECRET)
    assert "a/zarr.json" in {one.where for one in zvcore.compact(tmp_path / "g").problems}
    for out in (tmp_path / "copy", None):
        report = zvcore.repair(tmp_path / "g", out)
        assert "a/zarr.json" in {one.where for one in report.problems}
        assert {f"b/{key}" for key in damaged} <= {one.where for one in report.losses}


def test_a_folder_that_may_not_be_looked_into_is_told_of_by_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path / "a", "zarr3")
    listing, entering = LocalStore._listing, ConfinedStore._enter

    def refuse(prefix: str) -> None:
        if prefix.rstrip("/") == "c/0":
            raise PermissionError(13, "Permission denied", b"0")

    monkeypatch.setattr(LocalStore, "_listing", lambda self, prefix: (refuse(prefix), listing(self, prefix))[1])
    monkeypatch.setattr(ConfinedStore, "_enter", lambda self, prefix: (refuse(prefix), entering(self, prefix))[1])
    told = [(one.where, one.kind) for one in zvcore.copy(tmp_path / "a", tmp_path / "b").problems if one.fatal]
    assert told == [("c/0", What.STORE)]
    report = zvcore.sync(tmp_path / "a", tmp_path / "c", delete=True)
    assert not report.ok and report.counts["objects copied"] == 4
    report = zvcore.repair(tmp_path / "a", tmp_path / "d")
    assert [one.where for one in report.losses] == ["c/0"]
    assert (zvcore.open(tmp_path / "d")[8:] == VALUES[8:]).all()
