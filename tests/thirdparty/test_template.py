"""`examples/codec-template` builds against a zvcore that was installed from a wheel, far from any checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy
import pytest

from tests.processes import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this checkout, with the modules that are built here."""
    source = tmp_path_factory.mktemp("source")
    ignored = shutil.ignore_patterns("__pycache__", "*.c")
    for name in ("zvcore", "plugins"):
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    return build(sys.executable, source, source, ZVCORE_PREBUILT="1")


def build(python: str | Path, source: Path, cwd: Path, **environment: str) -> Path:
    command = [python, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "--no-index", "-w", "dist"]
    subprocess.run([*command, str(source)], check=True, cwd=cwd, timeout=PATIENCE, env={**os.environ, **environment})
    (made,) = (cwd / "dist").glob("*.whl")
    return made


@pytest.fixture
def python(tmp_path: Path, wheel: Path) -> Path:
    """Of an environment of its own with that wheel; what others have written it takes from here."""
    home = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    made = home / "bin" / "python"
    own = sysconfig.get_path("purelib", vars={"base": str(home)})
    # A line of a .pth file names a folder whose own .pth files, as that of an editable zvcore, are not read.
    Path(own, "others.pth").write_text(str(Path(numpy.__file__).parents[1]))
    install(made, wheel)
    return made


def install(python: Path, wheel: Path) -> None:
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([*command, "--ignore-installed", str(wheel)], check=True)


@pytest.mark.slow
def test_the_template_builds_against_an_installed_wheel_and_passes_its_tests(tmp_path: Path, python: Path) -> None:
    show = "import zvcore; print(zvcore.__file__); print(zvcore.get_include())"
    shown = subprocess.run(
        [python, "-c", show], capture_output=True, text=True, check=True, cwd=tmp_path, timeout=PATIENCE
    ).stdout
    assert all(line.startswith(str(tmp_path / "venv")) for line in shown.splitlines()), shown
    source = tmp_path / "template"
    shutil.copytree(ROOT / "examples" / "codec-template", source)
    made = build(python, source, tmp_path)
    assert made.name.startswith("zvcore_zeros-0.1-cp"), "it has a part in C"
    install(python, made)
    done = subprocess.run(
        # A folder of its own: in the common one pytest removes at its end what runs before this one have left there,
        # which takes minutes when these were many.
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", str(tmp_path / "own"), "tests"],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        cwd=source,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout
