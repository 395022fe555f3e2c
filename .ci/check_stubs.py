"""Runs mypy's stubtest on every module that has a stub: the `.pyi` files say what the compiled modules really have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


def main() -> int:
    modules = [".".join(stub.relative_to(ROOT).with_suffix("").parts) for stub in sorted(ROOT.glob("zvcore/**/*.pyi"))]
    unstubbed = [
        str(source.relative_to(ROOT))
        for source in sorted(ROOT.glob("zvcore/**/*.pyx"))
        if not source.with_suffix(".pyi").exists()
    ]
    if unstubbed:
        print("Cython modules without a stub:", *unstubbed, file=sys.stderr)
        return 1
    command = [sys.executable, "-m", "mypy.stubtest", *modules]
    command += ["--allowlist", str(HERE / "stubtest-allowlist.txt"), "--mypy-config-file", str(ROOT / "pyproject.toml")]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
