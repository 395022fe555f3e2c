"""The tests of object stores against servers of several kinds, which `make store-emulators` installs.

python tests/stores/emulators.py [NAME ...] [-- ARGUMENTS OF PYTEST]
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "build/emulators"
# What every server must pass. The other tests of these files are about S3 alone, or about no server.
TESTS = ["tests/stores/test_remote.py", "tests/stores/test_remote_addresses.py", "tests/verify/test_anywhere.py"]
CHOSEN = "test_remote.py or between_stores or other_stores"


@dataclass(frozen=True)
class Emulator:
    name: str
    version: str
    # The program that installs it, and what that is told.
    install: tuple[str, ...]

    def made(self) -> str | None:
        """Why it could not be installed."""
        if shutil.which(self.install[0]) is None:
            return f"{self.install[0]} is not on this machine"
        FOLDER.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "GOBIN": str(FOLDER)}
        done = subprocess.run(self.install, cwd=FOLDER, env=environment, capture_output=True, text=True, check=False)
        return None if done.returncode == 0 else f"{' '.join(self.install)}: {done.stderr.strip()[-500:]}"


EMULATORS = [
    Emulator("versitygw", "1.8.0", ("go", "install", "github.com/versity/versitygw/cmd/versitygw@v1.8.0")),
    Emulator("azurite", "3.37.0", (
        "npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", ".", "azurite@3.37.0",
    )),
    Emulator("fake-gcs-server", "1.56.1", ("go", "install", "github.com/fsouza/fake-gcs-server@v1.56.1")),
]  # fmt: skip


def main(arguments: list[str]) -> int:
    names = arguments[: arguments.index("--")] if "--" in arguments else arguments
    more = arguments[arguments.index("--") + 1 :] if "--" in arguments else []
    lines = []
    for emulator in EMULATORS:
        if names and emulator.name not in names:
            continue
        problem = emulator.made()
        if problem is not None:
            lines.append((f"{emulator.name} {emulator.version}", f"NOT TRIED: {problem}", False))
            continue
        command = [sys.executable, "-m", "pytest", "-q", *TESTS, "-k", CHOSEN, *more]
        environment = {**os.environ, "ZVCORE_OBJECT_SERVER": emulator.name}
        print(f"=== {emulator.name} {emulator.version}", flush=True)
        with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
            last = ""
            for line in process.stdout or ():
                print(line, end="", flush=True)
                last = line.strip() or last
        lines.append((f"{emulator.name} {emulator.version}", last, process.returncode == 0))
    for name, outcome, _ in lines:
        print(f"{name:24} {outcome}")
    return 0 if lines and all(fine for _, _, fine in lines) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
