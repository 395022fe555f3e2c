"""Programs of others in environments of their own: what does not go together with what the tests need themselves.

An environment is made once, in build/peers. Where that cannot be (no such Python, no network), tests are skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
# Of each: the Python that it needs (None: ours), and what is installed.
ENVIRONMENTS: dict[str, tuple[str | None, list[str]]] = {
    "zarr2": ("3.11", ["zarr==2.18.7", "numcodecs==0.15.1", "numpy<2.3"]),
    "images": (None, ["zarr==3.4.2", "xarray==2026.9.0", "ome-zarr==0.21.0", "ngff-zarr==0.50.0"]),
}


def _python(version: str | None) -> str:
    if version is None or version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    found = subprocess.run([ROOT / ".ci/find-python", version], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        pytest.skip(f"there is no Python {version}")
    return found.stdout.strip()


@cache
def environment(name: str) -> Path:
    """The Python of an environment."""
    version, packages = ENVIRONMENTS[name]
    folder = ROOT / "build" / "peers" / name
    python = folder / "bin" / "python"
    done = folder / "installed.json"
    if not done.exists() or json.loads(done.read_text()) != packages:
        subprocess.run([_python(version), "-m", "venv", "--clear", folder], check=True, capture_output=True)
        command = [python, "-m", "pip", "install", "-q", "--retries", "1", *packages]
        made = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
        if made.returncode != 0:
            pytest.skip(f"pip cannot install {', '.join(packages)}: {made.stderr.strip()[-300:]}")
        done.write_text(json.dumps(packages))
    return python


def ask(name: str, script: str, *arguments: object) -> Any:
    """What a script prints as JSON in an environment; the arguments are in sys.argv."""
    command = [environment(name), "-W", "ignore", "-c", textwrap.dedent(script), *map(str, arguments)]
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "ZARR"))}
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=clean)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return json.loads(ran.stdout or "null")
