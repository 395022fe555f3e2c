"""Arrays written and read with codecs from other distributions, by the same path as with the first-party ones."""

from __future__ import annotations

import numpy as np
import pytest

import zvcore
from zvcore.errors import CodecNotFoundError

VALUES = np.repeat(np.arange(50, dtype="u2"), 60).reshape(50, 60)


@pytest.mark.parametrize("shards", [None, (20, 30)])
@pytest.mark.parametrize("name", ["runs", "cruns"])
def test_written_read_and_missed(third_party, tmp_path, name, shards):
    codec = {"name": name, "longest": 200}
    array = zvcore.create(
        tmp_path, format="zarr3", shape=(50, 60), dtype="u2", chunks=(10, 15), shards=shards, codec=codec
    )
    array[...] = VALUES
    array[3:17, 5:40] = 7
    expected = VALUES.copy()
    expected[3:17, 5:40] = 7
    assert (zvcore.open(tmp_path)[...] == expected).all()
    assert (zvcore.open(tmp_path).read(threads=3) == expected).all()
    stored = array.read_encoded((1, 1))
    third_party.remove()
    array = zvcore.open(tmp_path, "r+")
    assert array.shape == (50, 60)
    assert dict(array.attrs) == {}
    assert array.read_encoded((1, 1)) == stored
    array.write_encoded((0, 0), stored)
    with pytest.raises(CodecNotFoundError, match=name) as caught:
        array[...]
    assert "zarr.json" in str(caught.value)
    assert "gzip" in str(caught.value), "it says what is installed"
