"""The switches of setup.py, without compiling anything."""

import os
import subprocess
import sys
from pathlib import Path

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
