"""Proves that a wheel stands on its own: `prove_wheel.py wheelhouse`.

It is installed into an empty virtual environment and runs the smoke test there. As root that happens with the
machine's own copies of the C libraries, and its headers, hidden; without root the smoke test still looks at
which libraries the process has loaded.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIBRARIES = ("libdeflate", "libzstd", "liblz4", "libblosc", "libbz2", "liblzma", "libxxhash", "libsnappy", "libjpeg")


def hiding() -> list[str]:
    """A command prefix that runs a program without the system's copies of the libraries; empty if that cannot be."""
    listing = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
    paths = [line.rpartition(" => ")[2] for line in listing.splitlines() if line.strip().startswith(LIBRARIES)]
    files = sorted({os.path.realpath(path) for path in paths if os.path.exists(path)})
    steps = [f"mount --bind /dev/null {shlex.quote(file)}" for file in files]
    steps.append("mount -t tmpfs none /usr/include")
    prefix = ["unshare", "--mount", "sh", "-ec", "; ".join([*steps, 'exec "$@"']), "hidden"]
    try:
        works = subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        works = False
    return prefix if works else []


def main(folder: str) -> int:
    wheels = sorted(Path(folder).glob("*.whl"))
    if len(wheels) != 1:
        sys.exit(f"expected one wheel in {folder}, found {len(wheels)}")
    prefix = hiding()
    print("the system's own libraries and headers are", "hidden" if prefix else "visible (hiding them takes root)")
    with tempfile.TemporaryDirectory() as empty:
        subprocess.run([sys.executable, "-m", "venv", empty], check=True)
        python = str(Path(empty, "bin", "python"))
        subprocess.run([python, "-m", "pip", "install", "-q", str(wheels[0].resolve())], check=True)
        environment = {"PATH": os.defpath, "HOME": empty}
        command = [*prefix, python, "-I", str(HERE / "smoke.py"), "--bundled"]
        return subprocess.run(command, cwd=empty, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
