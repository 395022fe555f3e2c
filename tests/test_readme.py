"""The README's code runs, and what it says about codecs is true."""

import re
import runpy
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import zvcore
from tests.processes import PATIENCE
from zvcore.commands import cli, shell_scripts
from zvcore.format import _plugins

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


# tests/thirdparty runs the code of write-a-codec.md, tests/stores that of object-stores.md.
# The code of the others takes long, or is for checkouts.
ELSEWHERE = {
    "api",
    "architecture",
    "write-a-codec",
    "build",
    "fuzzing",
    "guarantees",
    "interop",
    "benchmarks",
    "glossary",
    "README",
    "object-stores",
    "shared-state",
}
PAGES = ["README.md", *sorted(f"docs/{page.name}" for page in ROOT.glob("docs/*.md") if page.stem not in ELSEWHERE)]


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.filterwarnings("ignore:Endian.big is deprecated:DeprecationWarning")  # zarr-n5's, with newer zarr-python
def test_the_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str) -> None:
    """Python and the lines of `zvcore`, in the order of the page, in one folder."""
    monkeypatch.chdir(tmp_path)
    # What a page registers is its own, and what is made of it.
    monkeypatch.setattr(_plugins, "_registered", {**_plugins._registered})
    monkeypatch.setattr(_plugins, "_derived", {})
    blocks = re.findall(r"```(python|sh)\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert blocks
    names: dict[str, object] = {"__name__": "__main__"}
    # Commands may stand before the code that makes their data, as on a page's first screen.
    commands: list[str] = []
    for language, block in blocks:
        if language == "python":
            exec(compile(block, page, "exec"), names)
        else:
            commands += [line for line in block.splitlines() if line.startswith("zvcore ")]
        if names.keys() - {"__name__"}:
            for command in commands:
                run_command(command)
            commands = []
    for command in commands:
        run_command(command)


def run_command(line: str) -> None:
    """A line as a user types it. Its comment says so where it ends with another status than 0."""
    command, _, comment = line.partition(" #")
    expected = re.search(r"exit status (\d)", comment)
    arguments = shlex.split(command)[1:]
    if any(re.match("[A-Z]{3,}", argument) for argument in arguments):
        return  # a synopsis
    if arguments[0] == "serve":
        program = [sys.executable, "-m", "zvcore", *arguments, "--port", "0"]
        with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            assert server.stdout.readline().startswith("http://127.0.0.1:")
            server.send_signal(signal.SIGINT)
            assert server.wait(PATIENCE) == 0
        return
    try:
        status = cli.main(arguments)
    except SystemExit as stopped:
        status = int(stopped.code or 0)
    assert status == int(expected[1] if expected else 0), line


def test_code_is_on_the_first_screen() -> None:
    assert README[: README.index("```python")].count("\n") < 10


@pytest.mark.parametrize("page", ["README.md", *sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/*.md"))])
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text()
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (ROOT / page).parent.joinpath(target).exists(), target


def test_links_and_pictures_lead_somewhere_from_pypi_too() -> None:
    absolute = runpy.run_path(str(ROOT / ".ci/readme_for_pypi.py"))["absolute"]
    text = absolute(README, "https://example.org/us/it", "v1")
    targets = dict.fromkeys(re.findall(r"\]\(([^)]+)\)", text))
    assert all(target.startswith("https://") for target in targets), targets
    assert "https://example.org/us/it/raw/v1/docs/preview-image.png" in targets
    assert "https://example.org/us/it/blob/v1/docs/dask.md#arrays" in targets
    assert absolute(text, "https://example.org/us/it", "v1") == text
    # No other way of linking, which would be left as it is.
    assert not re.search(r"<img|<a |^\[[^\]]+\]: ", README, re.MULTILINE)


def test_the_codec_table_is_that_of_the_build() -> None:
    packages = re.findall(r'"(lib\w+-dev)"', (ROOT / "setup.py").read_text())
    assert len(packages) >= 6
    for package in packages:
        assert f"`{package}`" in README


def test_every_page_has_a_place_on_the_site() -> None:
    told = re.findall(r"^ +- ([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(told) == sorted(page.name for page in ROOT.glob("docs/*.md"))


def test_the_page_of_commands_says_which_print_json() -> None:
    said = re.search(r"All commands but (.+) print JSON", (ROOT / "docs/cli.md").read_text())
    assert said is not None
    _, words = shell_scripts.describe(cli.make_parser())
    flags = {word.name: {flag for option in word.options for flag in option.flags} for word in words}
    without = {name for name, known in flags.items() if "--json" not in known}
    assert {*re.findall("`([a-z]+)`", said[1])} == without


def test_what_to_cite_is_this_version() -> None:
    assert f"version: {zvcore.__version__}\n" in (ROOT / "CITATION.cff").read_text()
