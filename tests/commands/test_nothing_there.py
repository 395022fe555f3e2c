"""That there is nothing at the path is a mistake of the command line, for every command: exit status 2."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import zvcore
from zvcore.commands import cli
from zvcore.errors import NotFoundError

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS = {
    "info": "info {}", "ls": "ls {}", "tree": "tree {}", "cat": "cat {}", "get": "get {} -o x.npy",
    "cp": "cp {} there", "sync": "sync {} there", "convert": "convert {} there --format n5",
    "downsample": "downsample {}", "mesh": "mesh {} there", "skeletonize": "skeletonize {} there",
    "migrate": "migrate {} --in-place", "verify": "verify {}", "manifest": "manifest {}", "refs": "refs {} -o x.json",
    "repair": "repair {}", "compact": "compact {}", "preview": "preview {} -o x.png", "serve": "serve {}",
    "bench": "bench {}",
}  # fmt: skip


def test_these_are_the_commands_that_read_a_path() -> None:
    assert {*COMMANDS} == {*cli.COMMANDS} - {"codecs", "completion"}


@pytest.mark.parametrize("place", ["nope", "nope/a", "./nope/"])
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_nothing_there_is_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(command.format(place).split()) == 2
    assert "there is no" in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    "place", ["file://{}/nope", "file://{}/no%70e/a", "nope.zip", "nope.zip/a", "memory://nobody-made-it"]
)
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_nothing_at_an_address_is_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(command.format(place.format(tmp_path)).split()) == 2
    assert "there is no" in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("command", ["info", "refs", "preview", "downsample"])
def test_a_part_that_is_missing_is_no_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """The dataset is there, and broken: it is not the command line that is wrong."""
    monkeypatch.chdir(tmp_path)
    zvcore.create("a", format="zarr3", shape=(4,), dtype="u1", chunks=(2,))
    (tmp_path / "a/zarr.json").write_text("{")
    assert cli.main(COMMANDS[command].format("a").split()) == 1


@pytest.mark.parametrize("place", ["nope", "memory://nobody-made-this/a"])
def test_the_error_names_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotFoundError, match="there is nothing here") as caught:
        zvcore.open(place)
    assert caught.value.key == (place if "://" in place else str(tmp_path / place))


@pytest.mark.parametrize("command", ["info", "cat", "verify", "repair"])
def test_an_empty_folder_is_not_called_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    assert cli.main([command, "empty"]) == 1
    told = "".join(capsys.readouterr())
    assert "no format that zvcore knows" in told and "this is a file" not in told


@pytest.mark.parametrize("command", COMMANDS)
def test_an_empty_path_is_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """As a script gives that has not set a variable."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(["" if word == "{}" else word for word in COMMANDS[command].split()]) == 2
    assert capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []


# The others take what there is, which is nothing.
@pytest.mark.parametrize("command", sorted({*COMMANDS} - {"cp", "sync", "manifest", "serve"}))
def test_an_empty_folder_is_no_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    assert cli.main(COMMANDS[command].format("empty").split()) == 1
    assert [one.name for one in tmp_path.rglob("*")] == ["empty"]


@pytest.mark.parametrize("command", sorted({*COMMANDS} - {"verify", "serve"}))
def test_a_link_to_nothing_is_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """To `verify`, it is damage that it tells of."""
    (tmp_path / "link").symlink_to("gone")
    monkeypatch.chdir(tmp_path)
    assert cli.main(COMMANDS[command].format("link").split()) == 2
    assert "there is nothing" in capsys.readouterr().err
    assert [one.name for one in tmp_path.iterdir()] == ["link"]


@pytest.mark.parametrize("format", ["zarr3", "n5"])
def test_what_is_there_and_cannot_be_migrated_is_not_called_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], format: str
) -> None:
    monkeypatch.chdir(tmp_path)
    zvcore.create("a", format=format, shape=(4,), dtype="u1", chunks=(2,))
    assert cli.main(["migrate", "--in-place", "a"]) == 1
    told = capsys.readouterr().err
    assert "there is nothing to migrate" in told
    assert "there is nothing at" not in told


@pytest.mark.parametrize("command", ["info", "verify", "repair"])
def test_arrays_that_lie_at_no_path_are_no_choice_of_a_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    with pytest.raises(SystemExit):
        cli.main([command, "--format", "borrowed", str(tmp_path)])
    assert "choose from" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["x.npy/", "plain", "plain/"])
def test_a_sound_file_is_not_called_damaged_by_a_slash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.zeros(3))
    (tmp_path / "plain").write_text("text")
    assert cli.main(["verify", place]) == 3
    assert "this is a file" in (told := capsys.readouterr().out) or "is a file; a store is a folder" in told
    assert "damaged" not in told
