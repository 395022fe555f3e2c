"""Names and words in others' data: they neither speak to the terminal nor begin lines of their own."""

from __future__ import annotations

import ast
import json
import logging
from pathlib import Path

import pytest

import zvcore
from zvcore import commands
from zvcore.commands import cli
from zvcore.report import ConversionReport, Problem, Report

EVIL = "\x1b[2J\x1b]0;owned\x07\nzvcore: all is well\x9b1m"


def said(capfd: pytest.CaptureFixture[str], *arguments: object) -> list[str]:
    """The lines of stdout and stderr."""
    cli.main(list(map(str, arguments)))
    out, err = capfd.readouterr()
    return [*out.split("\n"), *err.split("\n")]


@pytest.fixture
def strange(tmp_path: Path) -> Path:
    """A group with a member that calls itself so, an array with a damaged chunk and one that nobody can read."""
    root = zvcore.open(tmp_path / "g", "w", format="zarr3")
    array = root.create_array(EVIL, shape=(4, 4), chunks=(2, 2), dtype="u1", codec="gzip")
    array[...] = 1
    (tmp_path / "g" / EVIL / "c" / "0" / "0").write_bytes(b"\x1b[31mno gzip")
    (tmp_path / "g" / EVIL / "c" / EVIL).write_bytes(b"what is this")
    lost = root.create_array("other", shape=(4, 4), chunks=(2, 2), dtype="u1")
    document = tmp_path / "g" / "other" / "zarr.json"
    found = json.loads(document.read_bytes())
    found["codecs"] = [{"name": EVIL}]
    document.write_text(json.dumps(found))
    assert lost.shape == (4, 4)
    return tmp_path / "g"


COMMANDS = [
    ["verify"], ["verify", "--fast"], ["-vv", "verify"], ["ls"], ["ls", "-l"], ["tree"], ["info", "--attributes"],
    ["compact"], ["manifest"], ["migrate", "--in-place", "--format", "zarr2"], ["repair", "-o", "OUT"],
    ["bench", "--seconds", "0.01"],
    ["get", "-o", "OUT.npy"], ["cat"], ["preview", "-o", "OUT.png"], ["refs", "-o", "OUT.json"],
    ["convert", "OUT.n5"], ["convert", "OUT.n5", "--skip-unsupported", "--dry-run"],
    ["convert", "OUT.n5", "--skip-unsupported"], ["cp", "OUT"], ["sync", "OUT"],
]  # fmt: skip


@pytest.mark.parametrize("within", ["", EVIL, "other", f"{EVIL}/none"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_lets_names_speak_to_the_terminal(
    strange: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], command: list[str], within: str
) -> None:
    options = [one.replace("OUT", str(tmp_path / "out")) for one in command]
    first = options.index(next(one for one in options if not one.startswith("-"))) + 1
    lines = said(capfd, *options[:first], strange / within, *options[first:])
    assert all(line.isprintable() for line in lines), lines
    assert not any(line.startswith("zvcore: all is well") for line in lines), lines


def test_reports_that_python_prints_are_as_careful() -> None:
    problem = Problem(EVIL, EVIL, EVIL)
    for report in (Report([problem]), ConversionReport([problem], losses=[problem])):
        lines = str(report).split("\n")
        assert all(line.isprintable() for line in lines) and not any(line.startswith("zvcore:") for line in lines)


def test_what_is_logged_and_warned_of_is_as_careful(capfd: pytest.CaptureFixture[str]) -> None:
    with cli.telling(1):
        logging.getLogger("zvcore.here").info("found %s", EVIL)
    with cli.warning():
        import warnings

        warnings.showwarning(zvcore.errors.LostMetadataWarning(EVIL), zvcore.errors.LostMetadataWarning, "x.py", 1)
    lines = capfd.readouterr().err.split("\n")
    assert all(line.isprintable() for line in lines) and not any(line.startswith("zvcore: all") for line in lines)


def test_commands_print_in_one_place() -> None:
    """What is printed elsewhere would not be looked at: `terminal.put` and `say` are for all of them."""
    folder = Path(commands.__file__).parent
    places = {
        path.name
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    }
    # A script for a shell, which has none but our own words in it, is printed as it is.
    assert places == {"terminal.py", "completion.py"}


def test_names_that_are_no_utf_8_are_shown_with_their_bytes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    try:
        zvcore.create(tmp_path / "caf\udce9.zarr", format="zarr3", shape=(4,), dtype="u1")
    except OSError:
        pytest.skip("this file system takes only Unicode names")
    for command in ("ls", "verify", "tree"):
        out = "\n".join(said(capfd, command, tmp_path))
        assert "caf\\xe9.zarr" in out
        assert "dce9" not in out
