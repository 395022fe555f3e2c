"""Multi-resolution meshes: a manifest per segment, and the fragments that it lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from zvcore.errors import ConflictError, CorruptDataError, MetadataError
from zvcore.precomputed.ids import Ids, as_id
from zvcore.precomputed.metadata import write_info
from zvcore.precomputed.objects import IDENTITY, SegmentFiles, SegmentMapping, SegmentObjects
from zvcore.precomputed.shard_writer import write_sharded
from zvcore.precomputed.sharded_store import as_spec
from zvcore.stores import open_store

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from zvcore.precomputed.sharding_spec import ShardingSpec
    from zvcore.stores import Store

__all__ = ["Level", "Manifest", "Mesh", "Meshes", "write_meshes"]

MESHES_TYPE = "neuroglancer_multilod_draco"
_MANIFEST_SUFFIX = ".index"


@dataclass
class Level:
    """One level of detail.

    scale           how much coarser it is than the finest; 0: a level to pass over
    vertex_offset   float32[3], added to its vertices
    positions       uint32[n, 3], where in the grid each fragment lies, in Z order
    sizes           uint32[n], the bytes of each; 0: an empty fragment
    """

    scale: float
    vertex_offset: npt.NDArray[np.float32]
    positions: npt.NDArray[np.uint32]
    sizes: npt.NDArray[np.uint32]


@dataclass
class Manifest:
    """How a segment's mesh is cut: the shape of the finest cells, where their grid begins, the levels, finest first."""

    chunk_shape: npt.NDArray[np.float32]
    grid_origin: npt.NDArray[np.float32]
    levels: list[Level]

    @property
    def fragment_bytes(self) -> int:
        """The size of all fragments, which lie one after the other, finest level first."""
        return sum(int(level.sizes.sum(dtype=np.uint64)) for level in self.levels)

    def ranges(self, level: int) -> list[tuple[int, int]]:
        """(offset, size) of each fragment of a level, counted from the first fragment of the finest."""
        if not 0 <= level < len(self.levels):
            raise IndexError(f"there are {len(self.levels)} levels; {level} is none of them")
        start = sum(int(other.sizes.sum(dtype=np.uint64)) for other in self.levels[:level])
        ends = start + np.cumsum(self.levels[level].sizes, dtype=np.uint64)
        return [(int(end) - int(size), int(size)) for end, size in zip(ends, self.levels[level].sizes, strict=True)]

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> Manifest:
        """Decode a stored manifest; CorruptDataError when it is none."""
        if len(data) < 28:
            raise CorruptDataError("the manifest is cut off", expected="at least 28 bytes", found=len(data))
        shape = np.frombuffer(data, "<f4", 3).astype(np.float32)
        origin = np.frombuffer(data, "<f4", 3, 12).astype(np.float32)
        count = int(np.frombuffer(data, "<u4", 1, 24)[0])
        if len(data) < 28 + 20 * count:
            raise CorruptDataError(
                f"a manifest of {count} levels is cut off",
                expected=f"at least {28 + 20 * count} bytes",
                found=len(data),
            )
        scales = np.frombuffer(data, "<f4", count, 28).tolist()
        offsets = np.frombuffer(data, "<f4", 3 * count, 28 + 4 * count).reshape(-1, 3).astype(np.float32)
        fragments = np.frombuffer(data, "<u4", count, 28 + 16 * count).tolist()
        size = 28 + 20 * count + 16 * sum(fragments)
        if len(data) != size:
            text = f"a manifest of {count} levels with {sum(fragments)} fragments has another size"
            raise CorruptDataError(text, expected=f"{size} bytes", found=len(data))
        at = 28 + 20 * count
        levels = []
        for scale, offset, number in zip(scales, offsets, fragments, strict=True):
            positions = np.frombuffer(data, "<u4", 3 * number, at).reshape(3, -1).T.astype(np.uint32)
            sizes = np.frombuffer(data, "<u4", number, at + 12 * number).astype(np.uint32)
            levels.append(Level(scale, offset, positions, sizes))
            at += 16 * number
        return cls(shape, origin, levels)

    def to_bytes(self) -> bytes:
        """The stored form."""
        parts: list[bytes] = [
            _row(self.chunk_shape, "chunk_shape"),
            _row(self.grid_origin, "grid_origin"),
            np.array([len(self.levels)], "<u4").tobytes(),
            np.array([level.scale for level in self.levels], "<f4").tobytes(),
            b"".join(_row(level.vertex_offset, "vertex_offset") for level in self.levels),
            np.array([len(level.sizes) for level in self.levels], "<u4").tobytes(),
        ]
        for level in self.levels:
            positions, sizes = np.asarray(level.positions), np.asarray(level.sizes)
            if positions.shape != (len(sizes), 3) or sizes.ndim != 1:
                raise ValueError(
                    f"positions have the shape [n, 3] and sizes [n], not {positions.shape} and {sizes.shape}"
                )
            parts.append(np.ascontiguousarray(positions.T, "<u4").tobytes())
            parts.append(sizes.astype("<u4").tobytes())
        return b"".join(parts)


def _row(values: Any, name: str) -> bytes:
    row = np.asarray(values, "<f4")
    if row.shape != (3,):
        raise ValueError(f"{name} has 3 numbers, not the shape {row.shape}")
    return row.tobytes()


class Mesh:
    """One segment's mesh: its manifest, and its fragments as they are stored (Draco)."""

    def __init__(self, meshes: Meshes, id: int, manifest: Manifest) -> None:
        self._meshes = meshes
        self.id = id
        self.manifest = manifest

    def __repr__(self) -> str:
        return f"<Mesh of segment {self.id}, {len(self.manifest.levels)} levels>"

    def fragments(self, level: int = 0) -> list[bytes]:
        """The fragments of one level, which are read at once; empty ones are b""."""
        ranges = self.manifest.ranges(level)
        if not ranges:
            return []
        start, end = ranges[0][0], ranges[-1][0] + ranges[-1][1]
        data = self._meshes.fragment_data(self, start, end - start)
        return [data[offset - start : offset - start + size] for offset, size in ranges]

    def fragment(self, level: int, number: int) -> bytes:
        """One fragment."""
        offset, size = self.manifest.ranges(level)[number]
        return self._meshes.fragment_data(self, offset, size)


class Meshes(SegmentMapping[Mesh]):
    """The multi-resolution meshes of a folder by segment id, sharded or in files of their own."""

    what = "mesh"
    kind = "meshes"

    def __init__(self, path: str | os.PathLike[str] | Store, mode: str = "r") -> None:
        super().__init__(SegmentObjects(open_store(path, mode), mode, MESHES_TYPE, _MANIFEST_SUFFIX))
        self.vertex_quantization_bits = self.info.get("vertex_quantization_bits")
        if self.vertex_quantization_bits not in (10, 16):
            raise MetadataError(
                "vertex_quantization_bits is wrong", key=self._objects.where, expected="10 or 16",
                found=repr(self.vertex_quantization_bits),
            )  # fmt: skip
        self._data = SegmentFiles(self.store)

    def _parsed(self, id: int, data: bytes) -> Mesh:
        return Mesh(self, id, Manifest.from_bytes(data))

    def fragment_data(self, mesh: Mesh, start: int, size: int) -> bytes:
        """A part of the fragments of a mesh."""
        total = mesh.manifest.fragment_bytes
        if self._objects.shards is not None:
            return self._objects.shards.read_before(mesh.id, total, start, size)
        key = self._data.key(mesh.id)
        data = self.store.get(key, start, size)
        if data is None:
            whole = self._data.get(mesh.id)
            data = None if whole is None else whole[start : start + size]
        if data is None or len(data) != size:
            raise CorruptDataError(
                "the fragments are missing or cut off", key=key, chunk=mesh.id, offset=start, length=size,
                expected=f"{size} bytes", found=0 if data is None else len(data),
            )  # fmt: skip
        return bytes(data)

    def update(self, meshes: Iterable[tuple[SupportsIndex, Manifest, Sequence[bytes] | bytes]]) -> None:
        """Add meshes or replace them, from (id, manifest, fragments); fragments stand finest level first."""
        self._objects.refuse_if_read_only()
        stored = _stored(meshes)
        if self._objects.shards is not None:
            self._objects.shards.update(stored)
            return
        for id, manifest, fragments in stored:
            # The manifest last: a reader that finds it also finds its fragments.
            self._data.put(id, fragments)
            self._objects.files.put(id, manifest)

    def delete(self, ids: Ids) -> None:
        """Take meshes out; ids that have none are passed over."""
        numbers = self._objects.delete(ids)
        if self._objects.shards is None:
            for id in numbers:
                self._data.delete(id)


def _stored(
    meshes: Iterable[tuple[SupportsIndex, Manifest, Sequence[bytes] | bytes]],
) -> Iterator[tuple[SupportsIndex, bytes, bytes]]:
    for id, manifest, fragments in meshes:
        data = fragments if isinstance(fragments, (bytes, bytearray, memoryview)) else b"".join(fragments)
        if len(data) != manifest.fragment_bytes:
            raise ValueError(f"segment {id}: the manifest lists {manifest.fragment_bytes} bytes, not {len(data)}")
        yield id, manifest.to_bytes(), bytes(data)


def write_meshes(
    path: str | os.PathLike[str] | Store,
    meshes: Iterable[tuple[SupportsIndex, Manifest, Sequence[bytes] | bytes]],
    *,
    vertex_quantization_bits: int = 16,
    transform: Sequence[float] = IDENTITY,
    lod_scale_multiplier: float = 1,
    sharding: ShardingSpec | Mapping[str, Any] | str | None = None,
    attrs: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> int:
    """Make a folder of meshes with its `info`, from any number of (id, manifest, fragments); how many there were.

    Fragments are Draco, one after the other or in a list, the finest level first. In shards they lie before the
    manifest, which alone `data_encoding` applies to; CloudVolume reads such meshes only when that is "raw".
    """
    store = open_store(path, "w")
    if vertex_quantization_bits not in (10, 16):
        raise MetadataError("vertex_quantization_bits is wrong", expected="10 or 16", found=vertex_quantization_bits)
    spec = None if sharding is None else as_spec(sharding)
    document: dict[str, Any] = {
        "@type": MESHES_TYPE,
        "vertex_quantization_bits": vertex_quantization_bits,
        "transform": [float(number) for number in transform],
        "lod_scale_multiplier": lod_scale_multiplier,
        **(attrs or {}),
    }
    if spec is not None:
        document["sharding"] = spec.to_json()
    if store.exists("info") and not overwrite:
        raise ConflictError("there are meshes already; overwrite=True replaces them", key=f"{store.root}/info")
    count = 0
    if spec is not None:
        count = write_sharded(store, spec, _stored(meshes), overwrite=overwrite)
    else:
        manifests, data = SegmentFiles(store, _MANIFEST_SUFFIX), SegmentFiles(store)
        before = set(manifests.ids().tolist())
        for id, manifest, fragments in _stored(meshes):
            data.put(id, fragments)
            manifests.put(id, manifest)
            before.discard(as_id(id))
            count += 1
        for id in before:
            manifests.delete(id)
            data.delete(id)
    write_info(store, document)
    return count
