"""Sees to it that the compiler and the C libraries which zvcore links are there.

As root on a machine with apt it installs what is missing; elsewhere it says what to install. With `--wanted`, the
programs that are named, of packages of the same name, without which less is built: that they cannot be had is no error.
Run by the Makefile.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))


def missing_packages() -> list[str]:
    if shutil.which(os.environ.get("CC", "cc").split()[0]) is None:
        compiler = ["build-essential"]
        # Without a compiler nothing can be said about the libraries; apt knows which of them it has already.
        from setup import LIBRARIES

        return compiler + [library.debian for library in LIBRARIES.values()]
    from setup import LIBRARIES, find_library

    return [library.debian for name, library in LIBRARIES.items() if find_library(name) is None]


def install(packages: list[str]) -> bool:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages]
    for _ in range(2):
        if subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=False).returncode == 0:
            return True
        subprocess.run(["apt-get", "update", "-qq"], env=environment, stdin=subprocess.DEVNULL, check=False)
    return False


def is_root_with_apt() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def want(programs: list[str]) -> None:
    missing = [name for name in programs if shutil.which(name) is None]
    if missing and is_root_with_apt():
        print(f"installing system packages: {' '.join(missing)}", flush=True)
        install(missing)


def main() -> int:
    if sys.argv[1:2] == ["--wanted"]:
        want(sys.argv[2:])
        return 0
    packages = missing_packages()
    if not packages:
        return 0
    names = " ".join(packages)
    if is_root_with_apt():
        print(f"installing system packages: {names}", flush=True)
        if install(packages):
            return 0
        print(f"apt-get could not install: {names}", file=sys.stderr)
        return 1
    print(
        f"These system packages are missing (Debian names): {names}\n"
        f"Install them first, for instance: sudo apt-get install {names}",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
