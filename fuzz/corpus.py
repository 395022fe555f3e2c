"""The corpus in the repository: for each target one zip archive of inputs, named by what they hold."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["FOLDER", "load", "save", "unpack"]

FOLDER = Path(__file__).with_name("corpus")
# What was once found, as <target>-<name>: kept for good, whatever else reaches the same code.
REGRESSIONS = Path(__file__).with_name("regressions")
# What makes the repository large; a longer input is rarely the only one to reach something.
LARGEST = 4096


def load(target: str) -> list[bytes]:
    """The inputs of one target: what was once found, and the corpus."""
    found = [path.read_bytes() for path in sorted(REGRESSIONS.glob(f"{target}-*"))]
    path = FOLDER / f"{target}.zip"
    if path.exists():
        with zipfile.ZipFile(path) as archive:
            found += [archive.read(name) for name in archive.namelist()]
    return found


def save(target: str, inputs: Iterable[bytes]) -> int:
    """Replace the inputs of one target. The archive is the same for the same inputs."""
    kept = sorted({data for data in inputs if len(data) <= LARGEST}, key=lambda data: (len(data), data))
    FOLDER.mkdir(exist_ok=True)
    with zipfile.ZipFile(FOLDER / f"{target}.zip", "w") as archive:
        for data in kept:
            entry = zipfile.ZipInfo(name(data), (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return len(kept)


def name(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()[:16]


def unpack(inputs: Iterable[bytes], folder: Path) -> None:
    """As a folder of files, as libFuzzer wants them."""
    folder.mkdir(parents=True, exist_ok=True)
    for data in inputs:
        (folder / name(data)).write_bytes(data)
