"""Chunk encodings of third parties: found, used through the same path as ours, and told apart when two claim a name."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pytest

import zvcore
from zvcore import codecs
from zvcore.errors import CodecConflictError, CodecNotFoundError, MetadataError
from zvcore.precomputed import encodings
from zvcore.precomputed.encodings import ChunkEncoding, get_encoding, register_encoding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from zvcore.codecs import Codec


class Packed(ChunkEncoding):
    """Zstandard, as no precomputed volume has it."""

    name = "packed"
    members = ("packed_level",)
    defaults: ClassVar[Mapping[str, Any]] = {"packed_level": 3}

    def __init__(self, level: int) -> None:
        self.level = level

    @classmethod
    def from_scale(cls, scale: Mapping[str, Any]) -> Self:
        return cls(scale["packed_level"])

    def to_scale(self) -> dict[str, Any]:
        return {"packed_level": self.level}

    def check(self, dtype: np.dtype[Any], channels: int) -> None:
        if channels > 2:
            raise MetadataError("too many channels")

    def codecs(self, shape: tuple[int, int, int, int], dtype: np.dtype[Any]) -> Sequence[Codec]:
        return (codecs.get("zstd", level=self.level),)


@pytest.fixture
def registered() -> Iterator[None]:
    register_encoding("packed", Packed)
    yield
    encodings.encodings.unregister("packed")


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("sharding", [None, "advise"])
def test_an_encoding_of_ones_own(tmp_path: Path, sharding: str | None) -> None:
    a = zvcore.create(
        tmp_path, format="precomputed", shape=(30, 20, 10, 2), dtype="uint16", chunks=(16, 16, 16), encoding="packed",
        packed_level=5, sharding=sharding,
    )  # fmt: skip
    values = np.random.default_rng(0).integers(0, 9, a.shape).astype("u2")
    a[...] = values
    b = zvcore.open(tmp_path, format="precomputed", scale=0)
    assert b.encoding.level == 5
    np.testing.assert_array_equal(b[...], values)
    with pytest.raises(MetadataError, match="channels"):
        zvcore.create(tmp_path / "x", format="precomputed", shape=(3, 3, 3, 3), dtype="uint8", encoding="packed")


def points(monkeypatch: pytest.MonkeyPatch, *values: str) -> None:
    found = [metadata.EntryPoint("made_up", value, encodings.GROUP) for value in values]

    def entry_points(group: str) -> list[metadata.EntryPoint]:
        assert group == encodings.GROUP
        return found

    monkeypatch.setattr(metadata, "entry_points", entry_points)
    encodings.encodings.rescan()


@pytest.fixture
def looked_at_again() -> Iterator[None]:
    yield
    encodings.encodings.rescan()


@pytest.mark.usefixtures("looked_at_again")
def test_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    points(monkeypatch, f"{__name__}:Packed")
    assert get_encoding("made_up").name == "packed"
    with pytest.raises(CodecNotFoundError, match=r"no installed chunk encoding.*installed: made_up"):
        get_encoding("other", where="info")
    with pytest.raises(CodecNotFoundError, match=r"zvcore\[images\]"):
        get_encoding("jxl")


@pytest.mark.usefixtures("looked_at_again")
@pytest.mark.parametrize(
    ("values", "error", "text"),
    [
        (("a:B", "c:D"), CodecConflictError, "a:B.*c:D|c:D.*a:B"),
        (("no_such_module:B",), CodecNotFoundError, "cannot be loaded"),
        (("json:loads",), CodecNotFoundError, "is not a chunk encoding"),
    ],
)
def test_entry_points_that_are_wrong(
    monkeypatch: pytest.MonkeyPatch, values: tuple[str, ...], error: type[Exception], text: str
) -> None:
    points(monkeypatch, *values)
    with pytest.raises(error, match=text):
        get_encoding("made_up")


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [(1, 1, 1), (1, 64, 64), (2, 9, 17), (4, 64, 64)], ids=str)
def test_noise_in_narrow_pictures(tmp_path: Path, dtype: Any, channels: int, size: tuple[int, int, int]) -> None:
    """A line of a PNG has a byte of its own, which is much beside the few of a chunk at the end of a volume."""
    volume = zvcore.create(
        tmp_path, format="precomputed", shape=(*size, channels), dtype=dtype, chunks=size, encoding="png"
    )
    values = np.random.default_rng(0).integers(0, np.iinfo(dtype).max, volume.shape).astype(dtype)
    volume[...] = values
    np.testing.assert_array_equal(zvcore.open(tmp_path)[0][...], values)
