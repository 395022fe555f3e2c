"""Commands whose stdout or stderr is closed, as `>&-` leaves it (there is none then), or has few letters."""

import io
import subprocess
import sys
from pathlib import Path

import pytest

import zvcore
from zvcore.commands import cli


@pytest.fixture
def array(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zvcore.create(tmp_path / "a.zarr", format="zarr3", shape=(4,), dtype="u1", chunks=(2,), shards=(4,))[...] = 1
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("array")
@pytest.mark.parametrize(
    "command", ["cat a.zarr 0", "cat --json a.zarr", "info a.zarr", "info a.zarr/c/0", "tree a.zarr"]
)
def test_words_for_nobody_are_no_failure(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", None)
    assert cli.main(command.split()) == 0


@pytest.mark.usefixtures("array")
@pytest.mark.parametrize(
    ("command", "status"),
    [("verify a.zarr", 0), ("get a.zarr -o b.npy", 0), ("convert a.zarr b.n5 --format n5", 0), ("info nothing", 2)],
)
def test_words_do_not_go_among_the_data_where_stderr_is_closed(
    command: str, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr", None)
    assert cli.main(command.split()) == status
    told = capsys.readouterr().out
    assert told == "" or (command.startswith("verify") and told.startswith("a.zarr: sound"))


def test_names_that_the_terminal_has_no_letters_for_are_shown_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zvcore.create(tmp_path / "\u03b1.zarr", format="zarr3", shape=(4,), dtype="u1", chunks=(2,))
    for name, shown in (("ascii", b"\\u03b1.zarr"), ("cp1253", b"\xe1.zarr"), ("latin-1", b"\\u03b1.zarr")):
        out = io.TextIOWrapper(io.BytesIO(), encoding=name)
        monkeypatch.setattr("sys.stdout", out)
        for command in ("ls", "tree", "info"):
            assert cli.main([command, str(tmp_path)]) == 0
        out.flush()
        assert out.buffer.getvalue().count(shown) == 3


@pytest.mark.usefixtures("array")
@pytest.mark.parametrize("command", ["cat --raw a.zarr", "get a.zarr -o -"])
def test_bytes_for_nobody_are_wrong_usage(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout", None)
    assert cli.main(command.split()) == 2
    assert "stdout is closed" in capsys.readouterr().err


@pytest.mark.usefixtures("array")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
@pytest.mark.parametrize("command", ["--help", "info --help", "convert --help", "--version", "info a.zarr", "codecs"])
def test_an_answer_that_cannot_be_written_is_a_failure(command: str) -> None:
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "zvcore", *command.split()], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert ended.returncode == 1 and b"No space left on device" in ended.stderr


def test_help_for_nobody_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", None)
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    assert ended.value.code == 0
