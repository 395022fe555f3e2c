"""What a codec must do (`check_codec`), and that everybody reads what anybody writes."""

from pathlib import Path

import numpy as np
import zarr

import zvcore
from zvcore.testing import check_codec

VALUES = np.arange(60 * 70, dtype="<u2").reshape(60, 70) // 100


def test_it_keeps_the_rules() -> None:
    for longest in (1, 7, 255):
        check_codec(zvcore.codecs.get("zeros", longest=longest))


def test_it_runs_without_the_gil() -> None:
    assert zvcore.codecs.available()["zeros"].native


def test_zarr_python_reads_what_zvcore_writes(tmp_path: Path) -> None:
    for format in ("zarr2", "zarr3"):
        path = tmp_path / format
        zvcore.create(path, format=format, data=VALUES, chunks=(20, 30), codec="zeros")
        assert np.array_equal(zarr.open_array(path, mode="r")[...], VALUES)


def test_zvcore_reads_what_zarr_python_writes(tmp_path: Path) -> None:
    codec = {"name": "zeros", "configuration": {"longest": 9}}
    zarr.create_array(tmp_path, data=VALUES, chunks=(20, 30), compressors=[codec])
    array = zvcore.open(tmp_path)
    assert np.array_equal(array[...], VALUES)
    assert array.codec == zvcore.codecs.get("zeros", longest=9)
