"""The switches of setup.py, without compiling anything."""

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent


def setup(**environment: str) -> subprocess.CompletedProcess[str]:
    # LD_PRELOAD: the compiler that setup.py runs need not be sanitized when the tests are.
    inherited = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    code = "import setup; print(*(e.name for e in setup.extensions()))"
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**inherited, "PYTHONSAFEPATH": "", "ZVCORE_REQUIRE_NATIVE": "", **environment},
        check=False,
    )


def test_a_missing_library_costs_one_native_codec() -> None:
    answer = setup(ZVCORE_WITHOUT="libzstd,libdeflate")
    assert answer.returncode == 0, answer.stderr
    built = answer.stdout.split()
    assert "zvcore_plugins._zstd" not in built
    assert "zvcore_plugins._gzip" not in built
    assert {"zvcore_plugins._raw", "zvcore.kernels.crc32c"} <= set(built)
    assert "libdeflate for gzip: Debian package libdeflate-dev" in answer.stderr


def test_a_missing_library_is_an_error_that_names_the_package_when_native_is_required() -> None:
    answer = setup(ZVCORE_WITHOUT="libdeflate", ZVCORE_REQUIRE_NATIVE="1")
    assert answer.returncode == 1
    assert "libdeflate-dev" in answer.stderr
    assert answer.stdout == ""


def test_nothing_is_missing_here() -> None:
    answer = setup(ZVCORE_REQUIRE_NATIVE="1")
    assert answer.returncode == 0, answer.stderr
    assert {"zvcore_plugins._gzip"} <= set(answer.stdout.split())


def test_a_misspelt_library_is_an_error() -> None:
    answer = setup(ZVCORE_WITHOUT="zstd")
    assert answer.returncode == 1
    assert "libzstd" in answer.stderr


def test_no_flag_depends_on_the_processor_of_the_builder() -> None:
    text = (ROOT / "setup.py").read_text()
    assert "-march" not in text
    assert "-mtune" not in text


def test_a_source_of_another_content_is_newer_than_what_was_built_whatever_its_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = importlib.util.spec_from_file_location("zvcore_setup", ROOT / "setup.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "zvcore_setup", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "BUILT_FROM", tmp_path / "contents.json")
    sources = [tmp_path / "zvcore" / "engine" / name for name in ("same.pyx", "other.pxd", "new.h")]
    sources[0].parent.mkdir(parents=True)
    for source in sources[:2]:
        source.write_text("cdef int a")
    (tmp_path / "contents.json").write_text(json.dumps(module.contents()))
    sources[1].write_text("cdef int b")
    sources[2].write_text("int c;")
    for source in sources:
        os.utime(source, (1, 1))
    module.date_by_content()
    assert [source.stat().st_mtime > 1 for source in sources] == [False, True, True]


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`native/build.py`, which finds what lies beside it when it is run."""
    monkeypatch.syspath_prepend(str(ROOT / "native"))
    spec = importlib.util.spec_from_file_location("native_build", ROOT / "native" / "build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Its data classes ask for the module that they are of.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("text", ["int other;\n", "int one;\nint one;\n"])
def test_a_library_that_does_not_hold_what_is_to_be_changed_is_not_built(
    build: ModuleType, tmp_path: Path, text: str
) -> None:
    library = replace(build.LIBRARIES[0], changes=(sys.modules["libraries"].Change("a.c", "int one;", "int ours;"),))
    source = tmp_path / library.crate / library.folder / "a.c"
    source.parent.mkdir(parents=True)
    source.write_text(text)
    with pytest.raises(SystemExit, match="expected once"):
        build.change(tmp_path, library)
    assert source.read_text() == text


def test_a_change_takes_the_place_of_what_the_library_holds(build: ModuleType, tmp_path: Path) -> None:
    library = replace(build.LIBRARIES[0], changes=(sys.modules["libraries"].Change("a.c", "int one;", "int ours;"),))
    source = tmp_path / library.crate / library.folder / "a.c"
    source.parent.mkdir(parents=True)
    source.write_text("int one;\nint two;\n")
    build.change(tmp_path, library)
    assert source.read_text() == "int ours;\nint two;\n"
