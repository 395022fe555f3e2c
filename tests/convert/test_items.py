"""Items of all kinds: texts of any length come whole, and what cannot be made of items is refused beforehand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr

import zvcore
from zvcore.errors import MetadataError
from zvcore.stores import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path


def texts(place: Any, shape: tuple[int, ...]) -> zvcore.Array:
    array = zvcore.create(place, format="zarr3", shape=shape, dtype="string", chunks=shape)
    array[...] = np.array(["hello", "", "a longer text than any that lies in place"], np.dtypes.StringDType())[
        : shape[0]
    ]
    return array


@pytest.mark.filterwarnings("ignore:The data type")
@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_a_single_text_of_any_length(tmp_path: Path, format: str) -> None:
    source = zvcore.create(tmp_path / "s", format="zarr3", shape=(), dtype="string", chunks=())
    source[...] = "hello"
    assert zvcore.convert(source, tmp_path / "d", format=format, verify=True).verified
    assert zarr.open_array(tmp_path / "d", mode="r")[()] == "hello"
    texts(tmp_path / "s3", (3,))
    assert zvcore.convert(tmp_path / "s3", tmp_path / "d3", format=format, region=np.s_[0], verify=True).verified
    assert zarr.open_array(tmp_path / "d3", mode="r")[()] == "hello"


def test_a_volume_of_texts_is_refused_in_words(tmp_path: Path) -> None:
    zvcore.create(tmp_path / "s", format="zarr3", shape=(2, 2, 2), dtype="string", chunks=(2, 2, 2))
    with pytest.raises(MetadataError, match="volumes do not hold this data type"):
        zvcore.convert(tmp_path / "s", tmp_path / "d", format="precomputed")
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("chunks", [(2,), ((2, 1),)])
def test_texts_are_read_into_an_array_that_is_given(chunks: Any) -> None:
    source = zvcore.create(MemoryStore(), format="zarr3", shape=(3,), dtype="string", chunks=chunks)
    source[...] = np.array(["a", "bc", "def"], np.dtypes.StringDType())
    out = np.empty(3, np.dtypes.StringDType())
    assert source.read(..., out=out) is out
    assert out.tolist() == ["a", "bc", "def"]
