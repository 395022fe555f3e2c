"""Files of others that are replaced after they were opened: what is known of one version is not read from another."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.settling import wait_until_settled
from zvcore.errors import CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

h5py = pytest.importorskip("h5py")
tifffile = pytest.importorskip("tifffile")
OLD, NEW = np.full((200, 200), 7, "u2"), np.full((200, 200), -1, "i2")


def levels(path: Path, values: Any, **how: Any) -> None:
    with tifffile.TiffWriter(path) as file:
        file.write(values, subifds=1, photometric="minisblack", **how)
        file.write(values[::2, ::2], subfiletype=1, photometric="minisblack", **how)


def series(path: Path, values: Any, **how: Any) -> None:
    with tifffile.TiffWriter(path) as file:
        file.write(values, photometric="minisblack", metadata=None, **how)
        file.write(values[:50], photometric="minisblack", metadata=None, **how)


def datasets(path: Path, values: Any, **how: Any) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("0", data=values, **how)
        file.create_dataset("1", data=values[::2, ::2], **how)


TILES = {"tile": (64, 64), "compression": "zlib"}
CASES: list[tuple[str, Callable[..., None], dict[str, Any]]] = [
    ("a.tif", levels, {}), ("a.tif", levels, TILES), ("a.tif", series, {}), ("a.tif", series, TILES),
    ("a.tif", series, {**TILES, "compression": "lzw"}),
    ("a.h5", datasets, {}), ("a.h5", datasets, {"chunks": (32, 32), "compression": "gzip"}),
]  # fmt: skip


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize(("name", "write", "how"), CASES)
def test_parts_of_a_file_that_is_another_one_by_now(
    tmp_path: Path, name: str, write: Callable[..., None], how: dict[str, Any], before: bool
) -> None:
    """`before`: the parts, too, were opened before."""
    path = tmp_path / name
    write(path, OLD, **how)
    wait_until_settled(tmp_path)
    group = zvcore.open(path)
    known = {member: group[member] for member in group} if before else {}
    assert (group["0"][:10] == 7).all()
    write(tmp_path / f"new {name}", NEW, **how)
    os.replace(tmp_path / f"new {name}", path)
    for member in ("0", "1"):
        for key in (np.s_[...], np.s_[3], np.s_[3, 4]):
            with pytest.raises(CorruptDataError, match="another one by now"):
                (known[member] if before else group[member])[key]
    assert (zvcore.open(path)["1"][...] == -1).all()


def test_parts_that_the_library_itself_reads_are_of_the_file_that_was_opened(tmp_path: Path) -> None:
    """It keeps the file open, and so what it was."""
    datasets(tmp_path / "a.h5", OLD, chunks=(32, 32), compression="lzf")
    group = zvcore.open(tmp_path / "a.h5")
    datasets(tmp_path / "b.h5", NEW, chunks=(32, 32), compression="lzf")
    os.replace(tmp_path / "b.h5", tmp_path / "a.h5")
    assert (group["1"][...] == 7).all()
    assert (zvcore.open(tmp_path / "a.h5")["1"][...] == -1).all()
