"""Commands whose stdout is closed, as `>&-` leaves it: there is no `sys.stdout` then."""

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
@pytest.mark.parametrize("command", ["cat --raw a.zarr", "get a.zarr -o -"])
def test_bytes_for_nobody_are_wrong_usage(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout", None)
    assert cli.main(command.split()) == 2
    assert "stdout is closed" in capsys.readouterr().err
