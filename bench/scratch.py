"""Folders for the files of one run of benchmarks."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from bench.scale import SMALL

__all__ = ["journaled", "scratch"]

_IMAGE = 6 << 30


@cache
def scratch() -> Path:
    """The same whenever it is asked for; it goes when the process ends."""
    path = Path(tempfile.mkdtemp(prefix="zvcore-bench-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


@cache
def journaled() -> Path:
    """For tasks that make and remove many small files: on an ext4 without a journal, an image of one with a journal, if
    this process may mount it.

    Without a journal, ext4 passes over every inode that was removed within the last minutes, one by one, whenever it
    makes a file: a task takes up to ten times as long, by what the tasks before it removed. Machines that people work
    on have a journal.
    """
    folder = scratch()
    if SMALL or _file_system(folder) != "ext4" or _has_journal(folder):
        return folder
    image, mounted = folder / "image", folder / "mounted"
    mounted.mkdir()
    with image.open("wb") as file:
        file.truncate(_IMAGE)
    for command in (("mkfs.ext4", "-q", "-F", str(image)), ("mount", "-o", "loop", str(image), str(mounted))):
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError:
            return folder
        if done.returncode:
            return folder
    atexit.register(subprocess.run, ["umount", "-l", str(mounted)], check=False)
    return mounted


def _file_system(path: Path) -> str:
    found = subprocess.run(["stat", "-f", "-c", "%T", str(path)], capture_output=True, text=True, check=False).stdout
    return "ext4" if found.startswith("ext2/ext3") else found.strip()


def _has_journal(path: Path) -> bool:
    """Of an ext4: whether the kernel has a thread for its journal."""
    device = os.stat(path).st_dev
    try:
        name = os.path.basename(os.readlink(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"))
    except OSError:
        return False
    return Path(f"/proc/fs/jbd2/{name}-8").exists()
