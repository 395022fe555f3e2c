"""What Windows would compile: all headers of ours, by a cross compiler where one is installed (docs/platforms.md)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
COMPILER = shutil.which("x86_64-w64-mingw32-gcc")
# Parts of other headers, which include them; and those that need headers of Python, or of a library, for Windows.
NOT_ALONE = {
    "zv_blocks_loops.h",
    "zv_md5_lanes.h",
    "zv_crc32c_arm.h",
    "zv_crc32c_x86.h",
    "zv_files_windows.h",
    "zv_interpreter.h",
    "zv_jpeg.h",
    "zv_manifest_lists.h",
    "zv_manifest_objects.h",
    "zv_small_deflate.h",
    "zv_two_frames.h",
    "zv_two_streams.h",
}
HEADERS = sorted(
    path for room in ("zvcore", "plugins") for path in (ROOT / room).rglob("*.h") if path.name not in NOT_ALONE
)


@pytest.mark.skipif(COMPILER is None, reason="needs gcc-mingw-w64-x86-64")
@pytest.mark.parametrize("header", HEADERS, ids=lambda path: path.name)
def test_every_header_compiles_for_windows(header: Path, tmp_path: Path) -> None:
    source = tmp_path / "one.c"
    source.write_text(f'#include "{header}"\nint main(void) {{ return 0; }}\n')
    folders = [
        f"-I{ROOT / folder}" for folder in ("zvcore/kernels", "zvcore/system", "zvcore/include", "zvcore/engine")
    ]
    command = [COMPILER, "-std=c11", "-O2", "-Wall", "-Werror", "-Wno-unused-function", *folders, "-c", str(source)]
    done = subprocess.run([*command, "-o", str(tmp_path / "one.o")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
