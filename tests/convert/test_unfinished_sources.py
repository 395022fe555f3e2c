"""An unfinished conversion as a source, in an archive, and in the words of commands: nothing makes it look whole."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
import zipfile

import pytest

import zvcore
from tests.convert.interrupting import MEMORY, source
from zvcore.commands import cli
from zvcore.errors import ConflictError, UnfinishedConversionWarning, UnsupportedError


class Stop(Exception):
    pass


def stop_soon(done, total):
    if done:
        raise Stop("enough")


def interrupt(src, dst, **options):
    source(src)
    with pytest.raises(Stop):
        zvcore.convert(src, dst, **options, memory=MEMORY, threads=1, progress=stop_soon)


@pytest.fixture
def half(tmp_path):
    interrupt(tmp_path / "src", tmp_path / "half.zarr", format="zarr3", chunks=(16, 16, 16))
    return tmp_path / "half.zarr"


@pytest.fixture
def packed(half, tmp_path):
    """The same in an archive that another program has made, and in a folder of one."""
    with zipfile.ZipFile(tmp_path / "half.zip", "w") as root, zipfile.ZipFile(tmp_path / "deep.zip", "w") as deep:
        for path in sorted(half.rglob("*")):
            if path.is_file():
                root.write(path, str(path.relative_to(half)))
                deep.write(path, f"a/b/{path.relative_to(half)}")
    return [tmp_path / "half.zip", tmp_path / "deep.zip" / "a" / "b"]


def test_in_an_archive_it_is_as_unfinished(packed, capfd):
    for path in packed:
        assert zvcore.verify(path).status == "unfinished"
        assert zvcore.inspect(path)["unfinished"]["done"] > 0
        assert [cli.main([command, str(path)]) for command in ("verify", "info", "ls", "tree")] == [1, 1, 1, 1]
        with pytest.warns(UnfinishedConversionWarning, match="an unfinished conversion"):
            zvcore.open(path)
        with pytest.raises(UnsupportedError, match="nothing can be repaired"):
            zvcore.repair(path)


@pytest.mark.parametrize("options", [{"format": "n5"}, {"format": "precomputed"}, {"format": "npy"}], ids=str)
def test_a_copy_of_what_is_unfinished_names_what_it_will_lack(half, options, tmp_path, capfd):
    dst = tmp_path / ("copy.npy" if options["format"] == "npy" else "copy")
    with pytest.warns(UnfinishedConversionWarning):
        planned = zvcore.plan(half, dst, **options)
    assert any("unfinished conversion" in str(loss) for loss in planned.losses)
    with pytest.warns(UnfinishedConversionWarning), pytest.raises(UnsupportedError, match="unfinished conversion"):
        zvcore.convert(half, dst, **options, strict=True)
    assert not dst.exists()
    command = ["convert", str(half), str(dst), "--format", options["format"]]
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert cli.main([*command, "--strict"]) == 1 and not dst.exists()
        assert "would lack" in capfd.readouterr().err or options["format"] == "npy"
        assert cli.main([*command, "--json"]) == 0
    losses = [loss["what"] for loss in json.loads(capfd.readouterr().out)["losses"]]
    assert any(what.startswith("what is missing in the source, which is the destination of an") for what in losses)


def test_so_does_a_copy_of_a_group_with_an_unfinished_member(tmp_path):
    group = zvcore.open(tmp_path / "group", "w", format="zarr3")
    group.create_array("whole", shape=(4,), dtype="u1", chunks=(2,))[...] = 1
    interrupt(tmp_path / "src", tmp_path / "group" / "half", format="zarr3", chunks=(16, 16, 16))
    report = zvcore.convert(tmp_path / "group", tmp_path / "copy", format="n5")
    assert [loss.where for loss in report.losses if "unfinished" in loss.what] == ["half"]


@pytest.mark.filterwarnings("ignore::zvcore.errors.UnfinishedConversionWarning")
def test_a_copy_of_what_was_unfinished_is_no_copy_of_the_whole(half, tmp_path):
    def copied(**options):
        return zvcore.convert(half, tmp_path / "copy", format="n5", **options)

    assert copied().losses
    again = copied()
    assert again.already_finished and again.losses
    zvcore.convert(tmp_path / "src", half, format="zarr3", chunks=(16, 16, 16), memory=MEMORY, threads=1)
    with pytest.raises(ConflictError, match="overwrite=True replaces it"):
        copied()
    assert not copied(overwrite=True).losses
    assert (zvcore.open(half)[...] == zvcore.open(tmp_path / "copy")[...].T).all()


@pytest.mark.filterwarnings("ignore::zvcore.errors.UnfinishedConversionWarning")
def test_what_was_begun_from_what_was_unfinished_is_not_ended_from_the_whole(half, tmp_path):
    with pytest.raises(Stop):
        zvcore.convert(half, tmp_path / "copy", format="n5", memory=MEMORY, threads=1, progress=stop_soon)
    zvcore.convert(tmp_path / "src", half, format="zarr3", chunks=(16, 16, 16), memory=MEMORY, threads=1)
    with pytest.raises(ConflictError):
        zvcore.convert(half, tmp_path / "copy", format="n5", memory=MEMORY, threads=1)


def test_copies_of_what_is_whole_name_nothing(tmp_path):
    source(tmp_path / "src")
    assert not zvcore.convert(tmp_path / "src", tmp_path / "dst", format="zarr3").losses


@pytest.mark.parametrize(
    "command",
    [["cat", "HALF", "0:1,0:1,0:1"], ["cat", "HALF"], ["preview", "HALF", "-o", "TO.png"],
     ["convert", "HALF", "TO", "--format", "n5"], ["refs", "HALF", "-o", "TO.json"]],
    ids=" ".join,
)  # fmt: skip
def test_commands_warn_in_one_line_of_words(half, command, tmp_path):
    given = [word.replace("HALF", str(half)).replace("TO", str(tmp_path / "to")) for word in command]
    answer = subprocess.run([sys.executable, "-m", "zvcore", *given], capture_output=True, text=True, check=True)
    told = [line for line in answer.stderr.splitlines() if "unfinished conversion" in line and "lost" not in line]
    assert len(told) == 1 and ".py" not in answer.stderr
