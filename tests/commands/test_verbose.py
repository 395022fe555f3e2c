"""What zvcore says of what it does: with -v, and through `logging`."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

import zvcore
from tests.processes import PATIENCE, run
from zvcore import progress
from zvcore.commands.cli import main
from zvcore.errors import ConflictError
from zvcore.stores import LocalStore
from zvcore.stores.again import again

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    a = zvcore.create(tmp_path / "a.n5", format="n5", shape=(64, 64), dtype="u2", chunks=(16, 16))
    a[...] = np.arange(64 * 64).reshape(64, 64)
    return tmp_path / "a.n5"


def test_v_says_what_a_conversion_does(data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", str(data), str(tmp_path / "b.zarr"), "--format", "zarr3", "-v"]) == 0
    told = capfd.readouterr().err
    assert "the format is n5" in told
    assert "1 of 1 units are to be done" in told
    assert "16 computed" in told
    assert "zvcore.opening: read" not in told


def test_vv_names_documents_and_units(data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["-vv", "convert", str(data), str(tmp_path / "b.zarr"), "--format", "zarr3"]) == 0
    told = capfd.readouterr().err
    assert f"read attributes.json of {data}" in told
    assert "unit 0 is done" in told


def test_without_it_nothing_is_logged_and_no_handler_is_left(data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(data), "-v"]) == 0
    capfd.readouterr()
    assert main(["info", str(data)]) == 0
    assert capfd.readouterr().err == ""
    assert not logging.getLogger("zvcore").handlers


def test_a_repair_is_logged(data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    block = data / "0" / "1"
    block.write_bytes(block.read_bytes()[:-3])
    with caplog.at_level(logging.INFO, "zvcore.care"):
        zvcore.repair(data, tmp_path / "sound.n5")
    assert any("0/1" in text and text.startswith("repaired") for text in caplog.messages)


def test_waiting_for_a_lock_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = LocalStore(tmp_path)
    waits = threading.Event()

    class Watching(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            waits.set()

    def take() -> None:
        with store.lock("a/b"):
            pass

    logger, watching = logging.getLogger("zvcore.stores"), Watching()
    logger.addHandler(watching)
    try:
        with caplog.at_level(logging.INFO, "zvcore.stores"):
            with store.lock("a/b"):
                other = threading.Thread(target=take)
                other.start()
                assert waits.wait(PATIENCE)
            other.join(PATIENCE)
    finally:
        logger.removeHandler(watching)
    assert any(text.startswith("waiting for the lock of a/b") for text in caplog.messages)
    assert any(text.startswith("took the lock of a/b after") for text in caplog.messages)


def test_what_is_tried_again_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    tries = iter([ConflictError("changed"), None])
    with caplog.at_level(logging.INFO, "zvcore.stores"):
        for attempt in again("some/key"):
            with attempt:
                if (error := next(tries)) is not None:
                    raise error
    assert any(text.startswith("trying some/key again") for text in caplog.messages)


def test_a_program_without_logging_does_not_come_to_import_it_by_us(data: Path) -> None:
    told = run(
        """
        import sys
        import zvcore.logs
        log = zvcore.logs.Log("opening")
        had = "logging" in sys.modules
        log.info("nobody %s", "listens")
        assert had or "logging" not in sys.modules
        assert had or not log.tells
        print("done")
        """
    )
    assert told == "done\n"


def test_get_shows_progress_in_a_log(
    data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    for name in ("a.npy", "a.npz", "a.raw"):
        assert main(["get", str(data), "-o", str(tmp_path / name)]) == 0
        assert "reading: 4096 of 4096 values" in capfd.readouterr().err
        assert main(["get", str(data), "-o", str(tmp_path / name), "-q"]) == 0
        assert capfd.readouterr().err == ""
