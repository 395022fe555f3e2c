"""Options and names by which nothing can be made are wrong usage: exit status 2."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import numpy as np
import pytest

import zvcore
from zvcore.commands import cli

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def array(tmp_path: Path) -> str:
    values = np.ones((4, 8, 8), np.uint32)
    zvcore.create(tmp_path / "a.zarr", format="zarr3", shape=values.shape, dtype="u4", chunks=values.shape, data=values)
    return str(tmp_path / "a.zarr")


@pytest.mark.parametrize(("command", "name"), [("get", "o.npy"), ("preview", "o.png"), ("refs", "o.json")])
def test_a_file_in_a_folder_that_is_not_there(
    command: str, name: str, array: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([command, array, "-o", str(tmp_path / "gone" / name)]) == 2
    assert f"there is no folder {tmp_path / 'gone'}" in capsys.readouterr().err


def test_an_array_is_no_file_of_lines(array: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["get", array, "-o", str(tmp_path / "o.trk")]) == 2
    assert "only lines are written as" in capsys.readouterr().err


def test_a_sharding_that_is_none(array: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("zmesh")
    assert cli.main(["mesh", array, str(tmp_path / "m"), "--voxel-size", "1,1,1nm", "--sharding", "{}"]) == 2
    assert "sharding" in capsys.readouterr().err and not (tmp_path / "m").exists()
    # What is wrong with the data is not wrong usage.
    (tmp_path / "a.zarr" / "zarr.json").write_text("{")
    assert cli.main(["mesh", array, str(tmp_path / "m"), "--voxel-size", "1,1,1nm"]) == 1


@pytest.mark.parametrize("place", ["x.npy", "x.npy/", "plain"])
def test_a_file_is_not_served_and_not_called_missing(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.zeros(3))
    (tmp_path / "plain").write_text("text")
    assert cli.main(["serve", "--port", "0", place]) == 2
    assert f"{place} is a file; what is served is a folder, such as that around it: {tmp_path}\n" in (
        capsys.readouterr().err
    )


def test_an_archive_is_served(
    array: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from zvcore.serving.server import DataServer

    def interrupted(server: DataServer) -> None:
        assert server.root.look([b"zarr.json"]) is not None
        raise KeyboardInterrupt

    monkeypatch.setattr(DataServer, "serve_forever", interrupted)
    zvcore.copy(array, str(tmp_path / "a.zip"))
    assert cli.main(["serve", "--port", "0", str(tmp_path / "a.zip")]) == 0
    assert capsys.readouterr().out.startswith("http://127.0.0.1:")


def test_a_port_that_is_taken_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert cli.main(["serve", str(tmp_path), "--port", str(port)]) == 1
    assert f"cannot listen at 127.0.0.1, port {port}: " in capsys.readouterr().err


def test_a_host_that_there_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["serve", str(tmp_path), "--port", "0", "--host", "no host"]) == 2
    assert "zvcore serve: --host no host: " in capsys.readouterr().err
