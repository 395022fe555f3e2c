"""`make test` leaves out what needs a server, another process or another implementation: is that seen?"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.needs import needs_of, needs_of_function
from tests.processes import run

HERE = Path(__file__).parent


@pytest.mark.parametrize(
    ("line", "needs"),
    [
        ("import subprocess", {"process"}),
        ("from multiprocessing import get_context", {"process"}),
        ("from tests import processes", {"process"}),
        ("from tests.processes import PATIENCE, run", {"process"}),
        ("from tests.processes import PATIENCE", set()),
        ("from zvcore.testing import processes", {"process"}),
        ("from zvcore.testing.processes import start_writer", {"process"}),
        ("from tests.convert.interrupting import killed, source", {"process"}),
        ("from tests.convert.interrupting import source", set()),
        ("check_format('n5')", {"process"}),
        ("from tests.stores.servers import S3", {"network"}),
        ("import http.server", {"network"}),
        ("from zarr.codecs import GzipCodec", {"interop"}),
        ("import zarrs", {"interop"}),
        ("from zarr_vectors import encoding", {"interop"}),
        ("zarr = pytest.importorskip(\"zarr\")", {"interop"}),
        ("import zvcore", set()),
    ],
)  # fmt: skip
def test_what_the_code_needs(line: str, needs: set[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tests.needs.__file__", str(tmp_path / "needs.py"))
    above = tmp_path / "test_above.py"
    above.write_text(f"{line}\n\ndef test_a(): ...\n")
    assert needs_of_function(above, "test_a") == needs
    within = tmp_path / "test_within.py"
    within.write_text(f"def test_a():\n    1\n    {line}\n\ndef test_b(): ...\n")
    if not line.startswith(("from tests", "from zvcore")):
        assert (needs_of_function(within, "test_a"), needs_of_function(within, "test_b")) == (needs, set())


def test_parameters_and_fixtures_are_seen(request: pytest.FixtureRequest) -> None:
    class Item:
        path = HERE / "stores" / "test_sharing.py"
        name = originalname = "test_one_of_many_creates"
        fixturenames = ("store", "tmp_path")

        class callspec:
            params = {"store": "s3"}

    assert needs_of(Item()) == {"network"}
    Item.callspec.params = {"store": "local"}
    assert needs_of(Item()) == set()
    Item.fixturenames = ("third_party", "third_party_folder")
    assert needs_of(Item()) == {"process"}
    assert "process" in needs_of(request.node)


def test_a_test_without_a_mark_starts_nothing(tmp_path: Path) -> None:
    """A socket in a folder is a kind of file, and no server that anybody could reach."""
    answer = run(
        """
        import socket, subprocess, sys
        from tests.needs import Guard
        guard = Guard()
        sys.addaudithook(guard)
        for closed in (False, True):
            guard.closed = closed
            for start in (
                lambda: subprocess.run([sys.executable, "-c", ""]),
                lambda: socket.socket().bind(("", 0)),
                lambda: socket.socket(socket.AF_UNIX).bind(f"{sys.argv[1]}/{closed}"),
            ):
                try:
                    start()
                    print("done")
                except AssertionError as error:
                    print(str(error).split(":")[0])
    """,
        tmp_path,
    )
    assert answer.split() == ["done", "done", "done", "subprocess.Popen", "socket.bind", "done"]
