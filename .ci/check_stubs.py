"""Types beyond what plain `mypy` sees: the plugins, and whether the stubs say what the compiled modules really have.

The plugins lie in `plugins/` and are installed as `zvcore_plugins`; mypy finds them through a link of that name.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
LINKS = ROOT / "build" / "types"
PACKAGES = {"zvcore": "zvcore", "plugins": "zvcore_plugins"}


def mypy(*arguments: str) -> int:
    environment = {**os.environ, "MYPYPATH": str(LINKS)}
    return subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, env=environment, check=False).returncode


def stubbed_modules() -> list[str]:
    modules = []
    for folder, package in PACKAGES.items():
        for source in sorted(ROOT.glob(f"{folder}/**/*.pyx")):
            if not source.with_suffix(".pyi").exists():
                sys.exit(f"{source.relative_to(ROOT)} has no stub beside it")
            parts = source.relative_to(ROOT / folder).with_suffix("").parts
            modules.append(".".join([package, *parts]))
    return modules


def main() -> int:
    modules = stubbed_modules()
    LINKS.mkdir(parents=True, exist_ok=True)
    link = LINKS / "zvcore_plugins"
    if not link.is_symlink():
        link.symlink_to(ROOT / "plugins")
    # Whether a class can be a base beside others is nothing that a stub of ours promises.
    options = ["--allowlist", str(HERE / "stubtest-allowlist.txt"), "--ignore-disjoint-bases"]
    options += ["--mypy-config-file", str(ROOT / "pyproject.toml")]
    return mypy("mypy", "--package", "zvcore_plugins") or mypy("mypy.stubtest", *modules, *options)


if __name__ == "__main__":
    sys.exit(main())
