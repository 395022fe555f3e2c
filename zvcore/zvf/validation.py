"""Whether a store is what its format says: structure, metadata, content, geometry, pyramid.

The levels of strictness and the shape of the result are those of the `zarr-vectors` package. What is checked is what
its documentation promises; every finding names the array, the cell and the object that it is about.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from zvcore.errors import MetadataError, ZvcoreError
from zvcore.report import Problem, Report
from zvcore.zvf.consistency import check_level
from zvcore.zvf.nodes import Column, read_node
from zvcore.zvf.objects import DENSE, LEGACY, V1, V2, open_objects
from zvcore.zvf.vector_store import VectorStore, open

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from zvcore.zvf.vector_store import Level

__all__ = ["Finding", "ValidationResult", "validate"]

LINKS = ("explicit", "implicit_sequential", "implicit_sequential_with_branches")
OBJECT_INDEX = ("standard", "identity")
CROSS_CHUNK = ("explicit_links", "boundary_deduplication", "both")
# The links convention that a kind of geometry needs.
NEEDS: dict[str, tuple[str, ...]] = {
    "point_cloud": (),
    "line": ("implicit_sequential",),
    "polyline": ("implicit_sequential",),
    "streamline": ("implicit_sequential",),
    "graph": ("explicit",),
    "skeleton": ("implicit_sequential_with_branches", "explicit"),
    "mesh": ("explicit",),
}


@dataclass(frozen=True)
class Finding(Problem):
    """Something that is wrong with a store, or may be: where it is (array, cell), and which object it concerns."""

    object_id: int | None = None

    @property
    def array(self) -> str | None:
        return self.where or None

    @property
    def cell(self) -> Any:
        return self.chunk

    @property
    def message(self) -> str:
        return self.what

    def __contains__(self, text: str) -> bool:
        return text in str(self)

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "object_id": self.object_id}

    def __str__(self) -> str:
        parts = [
            self.where,
            "" if self.chunk is None else f"chunk {self.chunk}",
            "" if self.object_id is None else f"object {self.object_id}",
        ]
        return ": ".join(filter(None, [", ".join(filter(None, parts)), self.what]))


@dataclass
class ValidationResult(Report):
    """What a validation found; `problems` holds errors and warnings alike, in the order of finding.

    level   how strict it was
    passed  what is as it should be
    """

    level: int = 3
    passed: list[str] = field(default_factory=list)

    @property
    def errors(self) -> list[Problem]:
        return [finding for finding in self.problems if finding.fatal]

    @property
    def warnings(self) -> list[Problem]:
        return [finding for finding in self.problems if not finding.fatal]

    def error(self, message: str, array: str = "", cell: Any = None, object_id: int | None = None) -> None:
        self.tell(Finding(array, message, cell, object_id=object_id))

    def warn(self, message: str, array: str = "", cell: Any = None) -> None:
        self.tell(Finding(array, message, cell, fatal=False))

    def caught(self, error: ZvcoreError, array: str = "") -> None:
        """An error met while reading."""
        self.tell(Finding.of(error, array))

    def check(self, fine: bool, message: str, array: str = "") -> bool:
        if fine:
            self.passed.append(f"{array}: {message}" if array else message)
        else:
            self.error(f"not so: {message}", array)
        return fine

    def summary(self) -> str:
        lines = [
            f"Level {self.level} validation: {'PASS' if self.ok else 'FAIL'}",
            f"  {len(self.passed)} passed, {len(self.warnings)} warnings, {len(self.errors)} errors",
            *(f"  ERROR: {finding}" for finding in self.errors),
            *(f"  WARN:  {finding}" for finding in self.warnings),
        ]
        return "\n".join(lines)


def validate(
    store_path: str | os.PathLike[str] | VectorStore,
    *,
    level: int = 3,
    progress: Callable[[int, int], Any] | None = None,
) -> ValidationResult:
    """Validate a store up to a level of strictness from 1 (structure) to 5 (pyramid).

    A store that fails the first level is not looked at further, nor one that fails the second beyond it. Memory does
    not grow with the number of vertices.
    """
    if isinstance(level, bool) or not 1 <= level <= 5:
        raise ValueError(f"Conformance level must be 1-5, got {level}")
    result = ValidationResult(level=level)
    try:
        store = store_path if isinstance(store_path, VectorStore) else open(store_path)
    except ZvcoreError as error:
        result.caught(error)
        return result
    result.passed.append("the store opens")
    levels = _structure(store, result)
    if level >= 2 and result.ok:
        _metadata(store, levels, result)
    if level >= 3 and result.ok:
        for each in levels:
            check_level(each, result, progress)
    if level >= 4 and result.ok:
        _geometry(store, levels, result)
    if level >= 5 and result.ok:
        _pyramid(levels, result)
    return result


# --- 1: what must be there ------------------------------------------------------------------------------------------


def _structure(store: VectorStore, result: ValidationResult) -> list[Level]:
    try:
        numbers = store.levels
    except ZvcoreError as error:
        result.caught(error)
        return []
    if not result.check(bool(numbers), "there are resolution levels"):
        return []
    levels = []
    discrete = any(kind != "point_cloud" for kind in store.geometry_types)
    for number in numbers:
        path = str(number)
        try:
            level = store.level(number)
        except ZvcoreError as error:
            result.caught(error, path)
            continue
        levels.append(level)
        result.check(read_node(store.store, f"{path}/vertices") is not None, "there are vertices", path)
        if read_node(store.store, f"{path}/vertex_fragments") is None:
            result.warn("there are no vertex_fragments", path)
        if not level.metadata:
            result.warn("the level has no zarr_vectors_level block", path)
        _object_index(level, discrete, result)
    return levels


def _object_index(level: Level, discrete: bool, result: ValidationResult) -> None:
    path = f"{level.path}/object_index"
    try:
        objects = open_objects(level.store, level.path)
        if objects is None:
            if discrete:
                result.error("geometry of discrete objects needs an object index", path)
            return
        folders = set(level.store.list_dir(path)[0])
        legacy = bool({"data", "offsets"} & folders)
        if objects.layout in (V1, V2):
            result.check("manifests" in folders, f"layout {objects.layout} has its manifests", path)
        if objects.layout != LEGACY and legacy:
            result.error(f"layout {objects.layout} and the legacy data and offsets are both there", path)
        result.check(objects.sid_ndim >= 0 and objects.declared >= 0, "num_objects and sid_ndim are stated", path)
    except ZvcoreError as error:
        result.caught(error, path)


# --- 2: what metadata must say --------------------------------------------------------------------------------------


def _metadata(store: VectorStore, levels: list[Level], result: ValidationResult) -> None:
    meta, key = store.metadata, "zarr.json"
    try:
        shape = store.chunk_shape
    except MetadataError as error:
        result.caught(error, key)
        return
    ndim = len(shape)
    result.passed.append(f"chunk_shape has {ndim} positive sides")
    try:
        bounds = store.bounds
    except MetadataError:
        result.check(False, f"bounds are two corners of {ndim} coordinates", key)
        bounds = None
    if bounds is not None:
        ordered = all(low <= high for low, high in zip(*bounds, strict=True))
        result.check(ordered, "the lower bound is below the upper one", key)
    for name, known in (
        ("links_convention", LINKS), ("object_index_convention", OBJECT_INDEX), ("cross_chunk_strategy", CROSS_CHUNK)
    ):  # fmt: skip
        value = meta.get(name)
        result.check(not value or value in known, f"{name} is one of {', '.join(known)}", key)
    try:
        if not store.geometry_types:
            result.warn("no geometry_types are stated", key)
    except MetadataError as error:
        result.caught(error, key)
    if meta.get("base_bin_shape") is not None:
        _divides(meta["base_bin_shape"], shape, "base_bin_shape", key, result)
    for level in levels:
        try:
            _level_metadata(level, shape, result)
        except ZvcoreError as error:
            result.caught(error, level.path)


def _divides(bins: Any, shape: tuple[float, ...], name: str, key: str, result: ValidationResult) -> None:
    fine = isinstance(bins, list) and len(bins) == len(shape) and all(
        isinstance(side, (int, float)) and side > 0 for side in bins
    )  # fmt: skip
    if result.check(fine, f"{name} has {len(shape)} positive sides", key):
        ratios = [side / edge for side, edge in zip(shape, bins, strict=True)]
        result.check(all(abs(r - round(r)) <= 1e-9 for r in ratios), f"{name} divides chunk_shape", key)


def _level_metadata(level: Level, root_shape: tuple[float, ...], result: ValidationResult) -> None:
    meta, key = level.metadata, level.path
    count = meta.get("vertex_count")
    if count is not None:
        fine = isinstance(count, int) and not isinstance(count, bool) and count >= 0
        result.check(fine, "vertex_count is a count", key)
    ratios = [own / root for own, root in zip(level.chunk_shape, root_shape, strict=True)]
    whole = all(round(r) >= 1 and abs(r - round(r)) <= 1e-9 for r in ratios)
    result.check(whole, "chunk_shape is a whole multiple of the store's", key)
    bins = meta.get("bin_shape", meta.get("bin_size"))
    if bins is not None:
        _divides(bins, level.chunk_shape, "bin_shape", key, result)
    ratio = meta.get("bin_ratio")
    if ratio is not None:
        fine = isinstance(ratio, list) and len(ratio) == level.ndim and all(
            isinstance(r, (int, float)) and r >= 1 for r in ratio
        )  # fmt: skip
        result.check(fine, "bin_ratio has a number of at least 1 per axis", key)
    sparsity = meta.get("object_sparsity", 1.0)
    result.check(isinstance(sparsity, (int, float)) and 0 < sparsity <= 1, "object_sparsity is within (0, 1]", key)
    _object_metadata(level, result)


def _object_metadata(level: Level, result: ValidationResult) -> None:
    objects = level.objects
    if objects is None:
        return
    path = objects.path
    result.check(objects.sid_ndim == level.grid_ndim, "manifests have the rank of the chunk grid", path)
    if objects.layout in (V1, V2):
        node = read_node(level.store, f"{path}/manifests")
        rows = isinstance(node, Column) and node.is_rows and node.ndim == 1
        if result.check(rows, "manifests are one-dimensional byte strings", path) and isinstance(node, Column):
            result.check(node.shape == (objects.declared,), "there is a manifest for each of num_objects", path)
    if objects.layout in (LEGACY, DENSE):
        objects.table()
        result.passed.append(f"{path}: {objects.layout} is well formed")
    if objects.layout in (V2, DENSE) and result.check(
        len(objects.ids) == len(objects), "there is an id for each object", path
    ):
        ids = objects.ids
        result.check(len(set(ids.tolist())) == len(ids), "no id occurs twice", path)
        if objects.node.attrs.get("object_ids_sorted") is True:
            result.check(bool((ids[1:] >= ids[:-1]).all()), "ids are in order, as stated", path)


# --- 4 and 5 --------------------------------------------------------------------------------------------------------


def _geometry(store: VectorStore, levels: list[Level], result: ValidationResult) -> None:
    convention = store.metadata.get("links_convention")
    for kind in store.geometry_types:
        needs = NEEDS.get(kind)
        if needs is None:
            result.warn(f"unknown geometry type {kind!r}", "zarr.json")
        elif needs:
            result.check(convention in needs, f"{kind} has its links_convention, {' or '.join(needs)}", "zarr.json")
    level = next((level for level in levels if level.number == 0), None)
    if level is None:
        result.warn("there is no level 0")
        return
    family = read_node(level.store, f"{level.path}/links/0")
    width = None if family is None else family.attrs.get("link_width")
    if "mesh" in store.geometry_types:
        if width is None:
            result.warn("a mesh without links", f"{level.path}/links/0")
        else:
            result.check(isinstance(width, int) and width >= 3, "faces have 3 corners or more", f"{level.path}/links/0")
    if store.geometry_types == ["point_cloud"] and family is not None:
        result.warn("points with links", f"{level.path}/links/0")


def _pyramid(levels: list[Level], result: ValidationResult) -> None:
    numbers = [level.number for level in levels]
    result.check(numbers == list(range(len(numbers))), "levels are numbered without gaps")
    for fine, coarse in itertools.pairwise(levels):
        _coarser(fine, coarse, result)


def _coarser(fine: Level, coarse: Level, result: ValidationResult) -> None:
    key = coarse.path
    if fine.vertex_count is not None and coarse.vertex_count is not None:
        fewer = coarse.vertex_count <= fine.vertex_count
        result.check(fewer, "has no more vertices than the level before", key)
    volumes = [prod(map(int, level.metadata.get("bin_ratio") or ())) for level in (fine, coarse)]
    if coarse.metadata.get("bin_ratio") is not None:
        result.check(volumes[1] >= volumes[0], "has bins no smaller than the level before", key)
    parent = coarse.metadata.get("parent_level")
    if parent is not None:
        result.check(isinstance(parent, int) and 0 <= parent < coarse.number, "parent_level is a finer level", key)
    if coarse.metadata.get("preserves_object_ids"):
        try:
            if fine.objects is not None and coarse.objects is not None:
                same = len(coarse.objects) == len(fine.objects)
                result.check(same, "keeps a row for every object of the level before", key)
        except ZvcoreError as error:
            result.caught(error, key)
