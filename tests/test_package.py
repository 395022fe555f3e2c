"""What `import zvcore` promises, before any format is involved."""

import ast
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import zvcore
import zvcore.versions
from tests.processes import PATIENCE


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        check=False,
        timeout=PATIENCE,
    )


def names_for_type_checkers() -> dict[str, str]:
    """Name -> module of the imports under `if TYPE_CHECKING`."""
    tree = ast.parse(inspect.getsource(zvcore))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    found = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            assert alias.asname == alias.name, "only `import x as x` is public"
            found[alias.name] = node.module
    return found


def test_the_names_for_type_checkers_and_for_python_are_the_same() -> None:
    assert names_for_type_checkers() == zvcore._ORIGINS
    assert set(zvcore.__all__) == {"__version__", *zvcore._ORIGINS}


@pytest.mark.parametrize("name", sorted(zvcore._ORIGINS))
def test_every_public_name_can_be_used(name: str) -> None:
    assert name in dir(zvcore)
    assert isinstance(getattr(zvcore, name), ModuleType) == (zvcore._ORIGINS[name] == "zvcore")


def test_functions_are_not_hidden_by_modules_of_the_same_name() -> None:
    for name, origin in zvcore._ORIGINS.items():
        if origin == f"zvcore.{name}":
            answer = python("-c", f"import zvcore.{name}; import zvcore; print(callable(zvcore.{name}))")
            assert answer.stdout == "True\n", answer.stderr


def test_a_submodule_does_not_replace_a_public_function() -> None:
    package = type(zvcore)("zvcore")
    package.get_include = "the function"
    package.get_include = ModuleType("zvcore.get_include")
    assert package.get_include == "the function"
    package.codecs = ModuleType("zvcore.codecs")
    assert isinstance(package.codecs, ModuleType)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_thing"):
        zvcore.no_such_thing


def test_importing_zvcore_imports_nothing_heavy() -> None:
    code = "import sys; before = set(sys.modules); import zvcore; print(*sorted(set(sys.modules) - before))"
    loaded = {name.partition(".")[0] for name in python("-c", code).stdout.split()}
    assert loaded - sys.stdlib_module_names == {"zvcore"}


def test_the_formats_need_no_partner() -> None:
    code = (
        "import sys, zvcore; [getattr(zvcore, name) for name in zvcore.__all__]; "
        "loaded = {name.partition('.')[0] for name in sys.modules}; "
        "print(*(loaded & {'zarr', 'dask', 'numcodecs', 'distributed', 'tqdm'}))"
    )
    answer = python("-c", code)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.strip() == ""


@pytest.mark.parametrize("format", ["zarr3", "n5", "precomputed", "zvf"])
def test_opening_imports_no_other_format(tmp_path: Path, format: str) -> None:
    """Also not to find out which it is. Zarr Vectors stand on Zarr."""
    if format == "zvf":
        zvcore.zvf.write_points(tmp_path / "it", np.random.default_rng(0).random((9, 3)), chunk_shape=(1.0, 1.0, 1.0))
    else:
        zvcore.create(tmp_path / "it", format=format, shape=(8, 8, 8), dtype="u1", chunks=(4, 4, 4))
    code = (
        "import sys, zvcore; zvcore.open(sys.argv[1]); "
        "print(*sorted(name for name in sys.modules if name.startswith('zvcore.') and name.count('.') > 1))"
    )
    answer = python("-c", code, str(tmp_path / "it"))
    # Of each format, the module that says how it is found out.
    modules = [name.split(".") for name in answer.stdout.split() if not name.endswith(".format")]
    loaded = {name[1] for name in modules} & {"zarr3", "n5", "precomputed", "zvf"}
    assert loaded == ({"zvf", "zarr3"} if format == "zvf" else {format}), answer.stderr


def test_nothing_is_distinguished_from_a_group_without_attributes(tmp_path: Path) -> None:
    container = zvcore.open(tmp_path / "container", "w", format="n5")
    container.create_group("a/b")
    for path in tmp_path.rglob("b/attributes.json"):
        path.unlink()
    assert isinstance(zvcore.open(tmp_path / "container/a/b"), zvcore.n5.N5Group)
    (tmp_path / "other").mkdir()
    with pytest.raises(zvcore.errors.NotFoundError):
        zvcore.open(tmp_path / "other")
    (tmp_path / "other" / "info").write_text("words")
    with pytest.raises(zvcore.errors.MetadataError, match="not JSON"):
        zvcore.open(tmp_path / "other")


def test_get_include_has_the_codec_header() -> None:
    assert Path(zvcore.get_include(), "zv_codec.h").is_file()


def test_show_versions_tells_what_bug_reports_need(capsys: pytest.CaptureFixture[str]) -> None:
    zvcore.show_versions()
    text = capsys.readouterr().out
    facts = zvcore.versions.versions()
    assert text.startswith(f"zvcore {zvcore.__version__} (")
    for fact in (facts["python"], facts["numpy"], facts["simd"]["path"], facts["build"]["cython"]):
        assert fact in text
    for row in facts["codecs"]:
        assert row["name"] in text
    json.dumps(facts)


def test_the_module_and_the_script_print_the_versions() -> None:
    answer = python("-m", "zvcore", "--version")
    assert answer.returncode == 0
    assert answer.stdout.startswith(f"zvcore {zvcore.__version__} (")
    assert "raw" in answer.stdout
    assert answer.stderr == ""


def test_codecs_lists_what_is_installed() -> None:
    answer = python("-m", "zvcore", "codecs", "--json")
    rows = {row["name"]: row for row in json.loads(answer.stdout)}
    assert {"raw", "gzip", "bzip2", "lz4", "xz", "blosc", "zstd"} <= rows.keys()
    assert rows["gzip"]["distribution"] == "zvcore"
    assert answer.returncode == any(row["error"] for row in rows.values())
    table = python("-m", "zvcore", "codecs").stdout
    for name, row in rows.items():
        (line,) = [line for line in table.splitlines() if line.startswith(f"{name} ")]
        assert ("broken" if row["error"] else row["library"] or "-") in line


def test_a_wrong_command_line_is_status_2() -> None:
    for arguments in ([], ["no-such-command"], ["codecs", "--no-such-option"]):
        answer = python("-m", "zvcore", *arguments)
        assert answer.returncode == 2
        assert answer.stdout == ""
        assert answer.stderr.startswith("usage: zvcore")


def test_a_closed_pipe_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        answer = subprocess.run(
            [sys.executable, "-m", "zvcore", "codecs"], stdout=pipe, stderr=subprocess.PIPE, text=True, check=False
        )
    assert answer.returncode == 1
    assert answer.stderr == ""
