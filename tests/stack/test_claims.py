"""What images of a stack claim to be takes no memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import zvcore
from tests.processes import run

if TYPE_CHECKING:
    from pathlib import Path

tifffile = pytest.importorskip("tifffile")

LIMITED = """
import resource, sys
import tifffile
import zvcore
from zvcore.errors import CorruptDataError
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30),) * 2)
array = zvcore.open(sys.argv[1], format="stack")
assert array.format == "stack" and array.nbytes > 1 << 37
report = zvcore.verify(sys.argv[1], format="stack")
print(sorted({problem.where for problem in report.problems}) and report.status)
try:
    array[0, :20]
except CorruptDataError:
    print("refused")
"""


def test_images_that_claim_gigabytes_are_verified_in_pieces(tmp_path: Path) -> None:
    """A file of 500 bytes says that it has 2^32 - 1 rows: 64 GiB, of which it has the first strip."""
    for number in range(3):
        path = tmp_path / f"slice_{number}.tif"
        tifffile.imwrite(path, np.ones((16, 16), "u1"), rowsperstrip=16, metadata=None, compression="zlib")
        with tifffile.TiffFile(path) as file:
            at = file.pages[0].tags["ImageLength"].offset
        data = bytearray(path.read_bytes())
        # The tag as a whole: code, type (a number of four bytes), count, value.
        data[at + 2 : at + 12] = b"\4\0" + b"\1\0\0\0" + b"\xff\xff\xff\xff"
        path.write_bytes(data)
    assert run(LIMITED, tmp_path).split() == ["damaged", "refused"]


def test_large_images_are_verified_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        values = np.full((64, 48), number + 1, "u2")
        tifffile.imwrite(tmp_path / f"slice_{number}.tif", values, rowsperstrip=4, compression="zlib")
    monkeypatch.setattr("zvcore.stack.care._AT_ONCE", 1000)
    report = zvcore.verify(tmp_path)
    assert report.ok and report.counts["images"] == 3
    path = tmp_path / "slice_1.tif"
    with tifffile.TiffFile(path) as file:
        at, size = file.pages[0].dataoffsets[9], file.pages[0].databytecounts[9]
    data = bytearray(path.read_bytes())
    data[at : at + size] = bytes(size)
    path.write_bytes(data)
    report = zvcore.verify(tmp_path)
    assert len(report.problems) == 1 and report.status == "damaged" and "slice_1.tif" in report.problems[0].where
