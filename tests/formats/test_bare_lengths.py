"""Lengths along the only axis may be bare numbers; for several axes the error says what is expected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.errors import MetadataError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
@pytest.mark.parametrize("length", [4, np.int64(4)])
def test_a_bare_number_is_the_length_along_the_only_axis(tmp_path: Path, format: str, length: Any) -> None:
    array = zvcore.create(tmp_path / "a", format=format, shape=10, chunks=length, dtype="u1")
    assert (array.shape, array.chunks) == ((10,), (4,))
    group = zvcore.open(tmp_path / "g", "w", format=format)
    assert group.create_dataset("a", shape=10, chunks=length, dtype="u1").chunks == (4,)


def test_shards_may_be_a_bare_number(tmp_path: Path) -> None:
    array = zvcore.create(tmp_path / "a", format="zarr3", shape=10, chunks=2, shards=4, dtype="u1")
    assert (array.chunks, array.shards) == ((2,), (4,))
    assert zvcore.create(tmp_path / "b", format="zarr3", shape=10, shards=4, dtype="u1").shards == (4,)


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5", "precomputed"])
@pytest.mark.parametrize("chunks", [4, 4.5, True])
def test_for_several_axes_it_is_an_error_that_says_so(tmp_path: Path, format: str, chunks: Any) -> None:
    with pytest.raises(MetadataError, match=r"expected|for each axis"):
        zvcore.create(tmp_path / "a", format=format, shape=(10, 10, 10), chunks=chunks, dtype="u1")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "n5", "precomputed"])
@pytest.mark.parametrize("wrong", [2.5, "2", float("nan"), None])
def test_lengths_that_are_no_whole_numbers_are_not_cut(tmp_path: Path, format: str, wrong: Any) -> None:
    options: dict[str, Any] = {"shape": (4, 4, 4), "chunks": (2, 2, 2)}
    for what, given in options.items():
        with pytest.raises(MetadataError, match=what):
            zvcore.create(tmp_path / "a", format=format, dtype="u1", **options | {what: (wrong, *given[1:])})
    assert not (tmp_path / "a").exists()


def test_lengths_that_happen_to_be_floats_are_taken(tmp_path: Path) -> None:
    floats: Any = {"shape": (4.0, 6.0), "chunks": (2.0, np.int64(3))}
    array = zvcore.create(tmp_path / "a", format="zarr3", dtype="u1", **floats)
    assert (array.shape, array.chunks) == ((4, 6), (2, 3))
    for wrong in (2.5, (2.5, 2), 3):
        with pytest.raises(MetadataError, match="chunks"):
            zvcore.convert(array, tmp_path / "b", format="n5", chunks=wrong)  # type: ignore[arg-type]
    with pytest.raises(MetadataError, match="factors has whole numbers"):
        zvcore.downsample(array, factors=(2.5, 2))  # type: ignore[arg-type]
