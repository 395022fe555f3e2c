"""What all commands have in common: the parser, options, exit status, completion, and how long a start takes."""

import argparse
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import zvcore
from tests.processes import PATIENCE
from zvcore import commands, wording
from zvcore.commands import cli, shell_scripts, terminal

HEAVY = {"numpy", "zarr", "dask", "distributed", "numcodecs", "fsspec", "obstore", "tqdm", "matplotlib", "aiohttp"}


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
        timeout=PATIENCE,
    )


def modules_after(*arguments: str) -> set[str]:
    code = (
        "import sys, zvcore.commands.cli\n"
        "try: zvcore.commands.cli.main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print('MODULES', *sys.modules)"
    )
    answer = python("-c", code, *arguments)
    assert answer.returncode == 0, answer.stderr
    return set(answer.stdout.rpartition("MODULES ")[2].split())


def test_the_version_imports_neither_numpy_nor_partners() -> None:
    loaded = {name.partition(".")[0] for name in modules_after("--version")}
    assert "zvcore" in loaded
    assert not loaded & HEAVY


def test_the_parser_imports_nothing_but_the_standard_library() -> None:
    """A start pays for numpy only when a command works with arrays."""
    for arguments in (["--help"], ["codecs", "--help"], ["completion", "bash"]):
        loaded = {name.partition(".")[0] for name in modules_after(*arguments)}
        assert loaded - sys.stdlib_module_names <= {"zvcore", "__main__", "sitecustomize"} | editable_finders(loaded)


def editable_finders(loaded: set[str]) -> set[str]:
    """What an installation of this or that distribution from a checkout puts into every Python."""
    return {name for name in loaded if name.startswith(("__editable__", "_virtualenv", "_distutils_hack", "google"))}


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "arguments", [["--version"], ["--help"], ["info", "--help"], ["codecs"], ["completion", "bash"]]
)
def test_a_reader_that_is_gone_is_not_complained_of(arguments: list[str], unbuffered: str) -> None:
    """`zvcore --version | head -0`."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        answer = subprocess.run(
            [sys.executable, "-m", "zvcore", *arguments],
            stdout=closed,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            check=False,
            timeout=PATIENCE,
        )
    assert answer.stderr == b""
    assert answer.returncode == 1


@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
@pytest.mark.parametrize("arguments", ["--version", "codecs", "completion bash"])
def test_no_stdout_at_all_is_no_error(arguments: str) -> None:
    answer = subprocess.run(
        ["sh", "-c", f'exec "$0" -m zvcore {arguments} >&-', sys.executable],
        stderr=subprocess.PIPE,
        check=False,
        timeout=PATIENCE,
    )
    assert (answer.returncode, answer.stderr) == (0, b"")


@pytest.mark.parametrize("name", commands.COMMANDS)
def test_each_command_has_a_module_and_a_parser(name: str) -> None:
    module = importlib.import_module(f"zvcore.commands.{name}")
    assert callable(module.run)
    common = argparse.ArgumentParser(add_help=False)
    subparsers = argparse.ArgumentParser().add_subparsers()
    parser = module.add_parser(subparsers, common)
    assert parser.description, "`--help` of a command says what it is for"
    assert name in subparsers.choices


@pytest.mark.parametrize("before", [[], ["--threads", "3", "-q", "--debug"]])
@pytest.mark.parametrize("after", [[], ["--threads", "3", "-q", "--debug"]])
def test_common_options_may_stand_before_and_after_the_command(
    before: list[str], after: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[argparse.Namespace] = []
    monkeypatch.setattr("zvcore.commands.codecs.run", lambda options: seen.append(options) or 0)
    assert cli.main([*before, "codecs", *after]) == 0
    (options,) = seen
    given = bool(before or after)
    assert (options.threads, options.quiet, options.debug, options.verbose) == (
        3 if given else None, given, given, False,
    )  # fmt: skip


@pytest.mark.parametrize("count", ["0", "-1", "two", "1e3", "5000", "٣"])
def test_a_wrong_number_of_threads_is_status_2(count: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        cli.main(["codecs", f"--threads={count}"])
    assert leaving.value.code == 2
    assert "a number of threads" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (commands.UsageError("no such thing"), 2, "zvcore codecs: no such thing\n"),
        (KeyboardInterrupt(), 130, ""),
        (OSError("disk full"), 1, "zvcore: OSError: disk full\n"),
    ],
)
def test_the_exit_status_of_errors(
    error: BaseException,
    status: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(options: argparse.Namespace) -> int:
        raise error

    monkeypatch.setattr("zvcore.commands.codecs.run", fail)
    assert cli.main(["codecs"]) == status
    told = capsys.readouterr()
    assert told.err == words
    assert told.out == ""
    if status != 130:
        with pytest.raises(type(error)):
            cli.main(["codecs", "--debug"])


def test_a_table_lines_up() -> None:
    assert list(wording.table([("a", 1), ("long", 200)], " r")) == ["a       1", "long  200"]
    assert list(wording.table([])) == []


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1048575, "1.0 MiB"),
        (1536 << 20, "1.5 GiB"),
        (2**80, "1073741824.0 PiB"),
    ],
)
def test_sizes_for_people(count: int, text: str) -> None:
    assert wording.human_size(count) == text


def test_plain_values_are_json() -> None:
    import numpy as np

    value = {"a": np.float32(1.5), "b": np.arange(3), 4: (b"x\xff", float("nan"), None, np.bool_(True)), "c": {1}}
    found = json.loads(json.dumps(terminal.plain(value), allow_nan=False))
    assert found == {"a": 1.5, "b": [0, 1, 2], "4": ["x\\xff", "nan", None, True], "c": [1]}


# --- completion


def completed_by_bash(*words: str) -> list[str]:
    program = (
        f"{shell_scripts.script(cli.make_parser(), 'bash')}\n"
        'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _zvcore; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    answer = subprocess.run(
        ["bash", "-c", program, "bash", *words], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert answer.stderr == ""
    return answer.stdout.split()


def test_bash_completes_commands_options_and_paths(tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("volume.zarr", "other"):
        os.mkdir(name)
    assert set(commands.COMMANDS) <= set(completed_by_bash("zvcore", ""))
    assert completed_by_bash("zvcore", "code") == ["codecs"]
    assert "--version" in completed_by_bash("zvcore", "--")
    assert completed_by_bash("zvcore", "codecs", "--js") == ["--json"]
    assert completed_by_bash("zvcore", "-q", "codecs", "--thr") == ["--threads"]
    assert completed_by_bash("zvcore", "completion", "z") == ["zsh"]
    assert completed_by_bash("zvcore", "codecs", "vol") == ["volume.zarr"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_command_and_option(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", shell]) == 0
    text = capsys.readouterr().out
    _, words = shell_scripts.describe(cli.make_parser())
    assert [word.name for word in words] == list(commands.COMMANDS)
    for word in words:
        assert word.name in text
        for option in word.options:
            for flag in option.flags:
                assert (flag if shell != "fish" else flag.lstrip("-")) in text


def test_bash_can_read_its_script() -> None:
    text = shell_scripts.script(cli.make_parser(), "bash")
    assert subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False).stderr == ""


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("there is a file already; overwrite=True replaces it", "there is a file already; --overwrite replaces it"),
        ("N5 has no booleans; convert with dtype='uint8'", "N5 has no booleans; convert with --dtype uint8"),
        ("(skip_unsupported=True leaves them out)", "(--skip-unsupported leaves them out)"),
        ("choose one with image=: there are two", "choose one with --image: there are two"),
        ("consolidate=True makes one document", "--consolidate makes one document"),
        ("values are kept approximately; lossless=True keeps them",
         "values are kept approximately; --set lossless=true keeps them"),
        ("resume=False, careful=True and ome=False are no options here", None),
        ("/data/name=True-colours/image=1 is a path", None),
    ],
)  # fmt: skip
def test_errors_advise_in_the_words_of_the_command(said: str, told: str | None) -> None:
    parser = cli.make_parser().parse_args(["convert", "a", "b"]).parser
    assert cli.in_options(said, parser) == (told or said)


def test_errors_are_called_by_a_name_that_can_be_looked_up() -> None:
    class _CutOffError(zvcore.errors.StoreError):
        pass

    assert wording.kind_of(_CutOffError("short")) == "StoreError"
    assert wording.kind_of(zvcore.errors.MetadataError("wrong")) == "MetadataError"
    assert wording.kind_of(KeyError("x")) == "KeyError"


def test_names_of_files_are_told_as_text(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Python shows a name that it was given as bytes as b'...'."""

    def refused(_: object) -> int:
        raise PermissionError(13, "Permission denied", os.fsencode("/data/größe"))

    monkeypatch.setattr("zvcore.commands.codecs.run", refused)
    assert cli.main(["codecs"]) == 1
    assert capsys.readouterr().err == "zvcore: PermissionError: [Errno 13] Permission denied: '/data/größe'\n"


@pytest.mark.parametrize("command", ["cat n5", "ls n5", "get n5 -o x.npy", "refs n5 -o x.json", "info n5", "verify n5"])
def test_formats_are_advised_as_an_option(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the command has none, as that of one that has."""
    monkeypatch.chdir(tmp_path)
    zvcore.create("n5/a/b", format="n5", shape=(4,), dtype="u1", chunks=(4,))
    (tmp_path / "n5/attributes.json").unlink(missing_ok=True)
    cli.main(command.split())
    told = "".join(capsys.readouterr())
    assert "format='" not in told
    if command.split()[0] in ("info", "verify"):
        assert "opened with --format n5" in told
    elif not command.startswith("ls"):
        assert "opened with zvcore info --format n5" in told
