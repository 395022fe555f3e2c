"""Where the blocks of an N5 dataset live: one object each, `x/y/z` below the dataset."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from zvcore.engine import Keys, Sources
from zvcore.errors import ZvcoreError
from zvcore.layout import ChunkForm, Layout, StoredObject
from zvcore.n5._framing import framing, parse_header
from zvcore.placement import OneChunkPerObject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zvcore.codecs import Codec, CodecChain
    from zvcore.n5.metadata import DatasetMetadata
    from zvcore.stores import Store

__all__ = ["BlockLayout"]

_BLOCK_KEY = re.compile(r"(?:0|[1-9][0-9]*)(?:/(?:0|[1-9][0-9]*))*")
_FRAMINGS = {"F": framing(), "C": framing(reverse=True)}


class BlockLayout(Layout):
    """Blocks that say themselves how large they are.

    With order "F", axes stand as in attributes.json, the fastest first. Order "C" is the reversed view of the same
    bytes: axes, grid positions and shapes the other way round.
    """

    def __init__(
        self,
        store: Store,
        metadata: DatasetMetadata,
        order: str = "F",
        pad_edges: bool = False,
        strict: bool = True,
        write_empty_blocks: bool = False,
    ) -> None:
        if order not in _FRAMINGS:
            raise ValueError(f"order is 'F' (as N5 has the axes) or 'C' (reversed), not {order!r}")
        self.store = store
        self.metadata = metadata
        self.shared = metadata.shared
        self.order = order
        self.store_empty = write_empty_blocks
        self.fill_value = metadata.dtype.type(0)
        self.shape = self.turned(metadata.dimensions)
        axes = tuple(range(len(self.shape)))
        self.form = ChunkForm(
            self.turned(metadata.block_size),
            metadata.dtype,
            swapped=bool(np.little_endian),
            axes=axes if order == "C" else axes[::-1],
            edge="framed",
            padded=pad_edges,
            trailing=not strict,
        )
        self.framing = _FRAMINGS[order]

    def turned(self, values: tuple[int, ...]) -> tuple[int, ...]:
        """From N5's order of axes to that of the array, or back."""
        return values[::-1] if self.order == "C" else values

    @property
    def codec(self) -> Codec:
        """The compression."""
        return self.metadata.compressor.codec

    @property
    def chains(self) -> tuple[CodecChain, ...]:
        return self.metadata.compressor.chains

    def __getstate__(self) -> dict[str, object]:
        without = ("prepared", "framing")
        return {name: value for name, value in vars(self).items() if name not in without}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self.framing = _FRAMINGS[self.order]

    def unframed(self, data: memoryview, position: tuple[int, ...]) -> tuple[tuple[int, ...], memoryview] | None:
        try:
            mode, dimensions, _, start = parse_header(data, len(self.shape))
        except ZvcoreError as error:
            raise error.located(key=self.chunk_name(position), chunk=position)
        return (self.turned(dimensions), data[start:]) if mode == 0 else None

    def framed(self, payload: memoryview, position: tuple[int, ...]) -> bytes:
        shape = self.turned(self.block_shape(position))
        header = np.array([len(shape), *shape], ">u4").tobytes()
        # Two bytes of mode, which is 0, and two of the number of axes.
        return b"".join([header, payload])

    @property
    def placement(self) -> OneChunkPerObject:
        return OneChunkPerObject(self.store, self.keys)

    def keys(self, positions: npt.NDArray[np.int64]) -> Keys:
        ndim = len(self.shape)
        if ndim == 0:
            # As tensorstore has it; the specification has no dataset without axes.
            return Keys.of(["0"] * len(positions))
        if self.order == "C":
            positions = positions[:, ::-1]
        return Keys.format(positions, ["", *["/"] * (ndim - 1), ""])

    def locate(self, positions: npt.NDArray[np.int64]) -> Sources:
        return Sources(keys=self.keys(positions))

    def chunk_name(self, position: tuple[int, ...]) -> str:
        return self.keys(np.array([position], np.int64).reshape(1, len(self.shape)))[0]

    def stored_objects(self) -> Iterator[StoredObject]:
        ndim = len(self.shape)
        for key in self.store.list():
            if _BLOCK_KEY.fullmatch(key) is None:
                continue
            place = tuple(int(name) for name in key.split("/"))
            if len(place) == max(1, ndim):
                yield StoredObject(key, self.turned(place) if ndim else ())
