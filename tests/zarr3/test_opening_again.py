"""What an array's document said is not worked out again for whoever opens the array, or its equal, once more."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.zarr3.metadata import ArrayMetadata

if TYPE_CHECKING:
    from pathlib import Path

VALUES = np.arange(24, dtype="u2").reshape(4, 6)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    # No other test has opened one with these words.
    attrs = {"list": [1, {"x": 2}], "here": str(tmp_path)}
    zvcore.create(tmp_path / "a", format="zarr3", data=VALUES, chunks=(2, 3), attrs=attrs)
    time.sleep(0.05)  # a document that may have been changed within the same tick of the clock is read again
    return tmp_path / "a"


def test_the_same_document_is_looked_through_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zvcore.open(path)
    monkeypatch.setattr(ArrayMetadata, "parse", None)
    np.testing.assert_array_equal(zvcore.open(path)[...], VALUES)
    monkeypatch.undo()
    # Another one is another: also where Python takes the values for equal.
    document = json.loads((path / "zarr.json").read_text())
    document["attributes"]["list"][0] = True
    (path / "zarr.json").write_text(json.dumps(document))
    assert zvcore.open(path).attrs["list"][0] is True


def test_nobody_sees_what_another_does_with_a_document(path: Path) -> None:
    first, second = zvcore.open(path, mode="r+"), zvcore.open(path)
    first.metadata.document["attributes"]["list"][1]["x"] = 3
    first.metadata.attributes["more"] = 4
    codecs = [codec for codec in first.metadata.document["codecs"] if codec["name"] != "bytes"]
    codecs[0]["name"] = "gzip"
    np.testing.assert_array_equal(zvcore.open(path)[...], VALUES)
    codecs[0]["name"] = "zstd"
    assert second.attrs["list"] == [1, {"x": 2}] == zvcore.open(path).attrs["list"]
    assert "more" not in second.metadata.attributes and "more" not in zvcore.open(path).metadata.attributes
    first.resize((4, 7))
    assert second.shape == (4, 6) and zvcore.open(path).shape == (4, 7)


def test_what_is_refused_is_refused_again(path: Path) -> None:
    text = (path / "zarr.json").read_text()
    (path / "zarr.json").write_text(text.replace('"zstd"', '"nobody\'s"'))
    for _ in range(2):
        with pytest.raises(zvcore.errors.CodecNotFoundError, match="nobody's"):
            zvcore.open(path)[...]
    (path / "zarr.json").write_text(text)
    np.testing.assert_array_equal(zvcore.open(path)[...], VALUES)


def test_codecs_that_are_registered_later_count(path: Path) -> None:
    real: Any = zvcore.open(path).codec
    asked: list[int] = []

    class Counting(type(real)):  # type: ignore[misc]
        __zv_codec__ = zvcore.codecs.Codec.__zv_codec__

        def _decode(self, data: memoryview, max_size: int) -> bytes:
            asked.append(len(data))
            return bytes(real.decode(data))

    zvcore.codecs.register(real.name, Counting)
    try:
        np.testing.assert_array_equal(zvcore.open(path)[...], VALUES)
        assert len(asked) == 4
    finally:
        zvcore.codecs.unregister(real.name)
    np.testing.assert_array_equal(zvcore.open(path)[...], VALUES)
    assert len(asked) == 4
