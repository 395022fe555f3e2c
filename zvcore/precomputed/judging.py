"""Checking the values of shards: chunks of a grid, skeletons, manifests of meshes."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from zvcore import kernels
from zvcore.errors import CorruptDataError
from zvcore.exchange.line_positions import count_nowhere, nowhere
from zvcore.precomputed.draco import has_draco
from zvcore.precomputed.manifests import Manifest
from zvcore.precomputed.mesh_checking import check_fragments, check_numbers, oddities
from zvcore.precomputed.reading_ahead import ReadingAhead
from zvcore.precomputed.shard_check import Judge
from zvcore.precomputed.shard_reader import ShardReader
from zvcore.precomputed.skeletons import Skeleton, Skeletons
from zvcore.report import Problem

if TYPE_CHECKING:
    from typing import Self

    import numpy.typing as npt

    from zvcore.codecs import CodecChain
    from zvcore.precomputed.entries import U64
    from zvcore.precomputed.layout import ScaleLayout, ShardedLayout
    from zvcore.precomputed.meshes import Meshes
    from zvcore.precomputed.shard_reader import ShardFile

__all__ = ["ChunkJudge", "ManifestJudge", "SkeletonJudge", "chunk_columns"]


class ChunkJudge(Judge):
    """Chunks of a volume: of the grid, and decoded to the bytes of their shape."""

    def __init__(self, layout: ShardedLayout, threads: int | None = None) -> None:
        super().__init__(layout.reader, threads)
        self.layout = layout

    def chains(self) -> tuple[CodecChain, ...]:
        return self.layout.chains

    def unwanted(self, ids: U64) -> npt.NDArray[np.bool_]:
        return ~kernels.compressed_morton_valid(ids, self.layout.grid)

    def columns(self, ids: U64) -> tuple[npt.NDArray[np.uint8] | None, U64]:
        return chunk_columns(self.layout, kernels.compressed_morton_inverse(ids, self.layout.grid))


def chunk_columns(layout: ScaleLayout, positions: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.uint8] | None, U64]:
    """Which chain decodes the chunks at these places, and to how many bytes."""
    return layout.chain_column(positions), layout.chunk_sizes(positions).astype(np.uint64)


class SkeletonJudge(Judge):
    """Skeletons: decoded with the attributes that `info` declares."""

    looks = True

    def __init__(self, skeletons: Skeletons, threads: int | None = None) -> None:
        assert skeletons.sharding is not None
        super().__init__(ShardReader(skeletons.store, skeletons.sharding), threads)
        self.skeletons = skeletons

    def look(self, id: int, value: memoryview, file: ShardFile, start: int) -> None:
        skeleton = Skeleton.from_bytes(value, self.skeletons.vertex_attributes)
        odd = count_nowhere(skeleton.vertices)
        if odd:
            # Not an error: the value can be read, and a repair shall keep it.
            self.odd.append(Problem(file.data_key, nowhere(odd), id))


class ManifestJudge(Judge):
    """Mesh manifests: decoded, with their fragments before them, which are decoded too where DracoPy is installed."""

    looks = True

    def __init__(self, meshes: Meshes, threads: int | None = None) -> None:
        assert meshes.sharding is not None
        super().__init__(ShardReader(meshes.store, meshes.sharding), threads)
        self.bits = meshes.vertex_quantization_bits
        self.decodes = has_draco()
        self._fragments = ReadingAhead(meshes.store)

    def alone(self) -> Self:
        one = super().alone()
        one._fragments = ReadingAhead(self.reader.store)
        return one

    def look(self, id: int, value: memoryview, file: ShardFile, start: int) -> None:
        manifest = Manifest.from_bytes(value)
        wanted = manifest.fragment_bytes
        if wanted > start - file.base:
            raise CorruptDataError(
                "the fragments that the manifest speaks of are not before it", expected=f"{wanted} bytes",
                found=start - file.base,
            )  # fmt: skip
        check_numbers(manifest)
        if self.decodes and manifest.levels:
            self._check_levels(manifest, file, start - wanted)
        self.odd += [Problem(file.data_key, text, id, fatal=False) for text in oddities(manifest)]

    def _check_levels(self, manifest: Manifest, file: ShardFile, begin: int) -> None:
        """Decode the fragments, which lie one level behind the other from `begin` on."""
        ends = np.cumsum([level.sizes.sum(dtype=np.uint64) for level in manifest.levels], dtype=np.uint64).tolist()
        data = self._fragments.get(file, begin, ends[-1])
        for lod, (first, last) in enumerate(itertools.pairwise([0, *ends])):
            check_fragments(manifest, lod, bytes(data[first:last]), self.bits)
