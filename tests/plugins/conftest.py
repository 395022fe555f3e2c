"""What the tests of the plugins share: each plugin with and without its native part, and others' containers."""

from __future__ import annotations

import importlib
import json
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorstore

from zvcore import codecs
from zvcore.errors import ZvcoreError
from zvcore.testing.codecs import decode_two

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def noise(seed: int, size: int, spread: float) -> bytes:
    """Nothing that matches, of few or many symbols: literals and next to nothing else."""
    return np.random.default_rng(seed).normal(128, spread, size).clip(0, 255).astype(np.uint8).tobytes()


def decoded_alone(codec: codecs.Codec, stored: bytes, size: int) -> bytes | None:
    """What a codec makes of this; None where that is an error, or not so many bytes."""
    try:
        found = bytes(codec.decode(stored, max_size=size))
    except ZvcoreError:
        return None
    return found if len(found) == size else None


def has_own_libraries() -> bool:
    """Whether the codecs' libraries are those of `make native`, of which libzstd decodes two frames at once."""
    zstd = codecs.get("zstd")
    values = [noise(seed, 30_000, 20) for seed in range(2)]
    return decode_two(zstd, [bytes(zstd.encode(each)) for each in values], [30_000] * 2) is not None


@pytest.fixture(params=["native", "python"])
def part(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a test twice: with the plugins' C tables, and as if they had not been built."""
    if request.param == "python":
        for name in ("lz4", "blosc", "bzip2", "xz"):
            monkeypatch.setattr(importlib.import_module(f"zvcore_plugins.{name}"), f"_{name}", None)
    return str(request.param)


@pytest.fixture
def get(part: str) -> Callable[..., codecs.Codec]:
    """`zvcore.codecs.get`, whose codecs are native or not as `part` says."""

    def get(name: str, **parameters: Any) -> codecs.Codec:
        codec = codecs.get(name, **parameters)
        assert codec.native == (part == "native")
        return codec

    return get


def chunks(seed: int = 0) -> dict[str, bytes]:
    """Byte strings of all sorts."""
    rng = np.random.default_rng(seed)
    return {
        "nothing": b"",
        "one byte": b"\x80",
        "twelve bytes": bytes.fromhex("000100020003000400050006"),
        "zeros": bytes(70_000),
        "noise": rng.bytes(66_000),
        "few values": bytes(rng.integers(0, 20, 200_001, "u1")),
        "ramp": np.arange(40_000, dtype="<u4").tobytes(),
    }


CHUNKS = chunks()


class N5Block:
    """A dataset of one block in N5, as other implementations write and read it."""

    def __init__(self, path: Path) -> None:
        self.attributes = json.loads((path / "attributes.json").read_text())
        self.compression = self.attributes["compression"]
        self.path = path.joinpath(*("0" for _ in self.attributes["dimensions"]))

    def read(self) -> bytes:
        """The block's payload."""
        stored = self.path.read_bytes()
        mode, rank = struct.unpack(">HH", stored[:4])
        assert mode == 0
        return stored[4 + 4 * rank :]

    def write(self, payload: bytes) -> None:
        """Put another payload behind the block's header."""
        stored = self.path.read_bytes()
        self.path.write_bytes(stored[: len(stored) - len(self.read())] + payload)


def create_n5(folder: Path, writer: str, values: np.ndarray, compression: dict[str, Any]) -> Callable[[], np.ndarray]:
    """Write a dataset "a" of one block with another implementation; the answer reads it with the same one."""
    if writer == "z5py":
        z5py = pytest.importorskip("z5py")
        names = {"blockSize": "level", "preset": "level", "cname": "codec"}
        parameters = {names.get(key, key): value for key, value in compression.items()}
        kind = parameters.pop("type")
        with z5py.File(str(folder / "n5"), "w") as file:
            file.create_dataset("a", data=values, chunks=values.shape, compression=kind, **parameters)

        def read() -> np.ndarray:
            with z5py.File(str(folder / "n5"), "r") as file:
                return np.asarray(file["a"][:])

        return read
    spec = {
        "driver": "n5",
        "kvstore": {"driver": "file", "path": str(folder / "n5" / "a")},
        "metadata": {
            # Its axes are N5's own, first fastest.
            "dimensions": values.shape[::-1],
            "blockSize": values.shape[::-1],
            "dataType": values.dtype.name,
            "compression": compression,
        },
    }
    tensorstore.open(spec, create=True).result().write(values.T).result()
    return lambda: np.asarray(tensorstore.open(spec).result().read().result()).T
