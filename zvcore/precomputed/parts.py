"""What is in a folder, according to its info document: the parts to check, and the folders that come next."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from zvcore.care.together import look_together
from zvcore.errors import MetadataError, UnsupportedError, ZvcoreError
from zvcore.precomputed.annotation_agreement import AnnotationAgreement, Findings, LostAnnotations
from zvcore.precomputed.annotation_care import AnnotationFiles, AnnotationJudge
from zvcore.precomputed.annotation_completeness import AnnotationCompleteness
from zvcore.precomputed.annotation_info import AnnotationInfo
from zvcore.precomputed.annotation_records import RecordForm
from zvcore.precomputed.chunk_files import ChunkFiles
from zvcore.precomputed.judging import ChunkJudge, ManifestJudge, SkeletonJudge
from zvcore.precomputed.kinds import ANNOTATIONS, LEGACY_MESHES, MESHES, SEGMENT_PROPERTIES, SKELETONS, VOLUME, kind_of
from zvcore.precomputed.layout import ShardedLayout, UnshardedLayout, layout_of
from zvcore.precomputed.legacy_mesh_files import LegacyMeshFiles
from zvcore.precomputed.legacy_meshes import LegacyMeshes
from zvcore.precomputed.meshes import Meshes
from zvcore.precomputed.metadata import INFO, VolumeInfo, resolve_key
from zvcore.precomputed.object_files import ObjectFiles
from zvcore.precomputed.part import Part
from zvcore.precomputed.repairing import compact_shard, examinations, repair_shards
from zvcore.precomputed.segment_properties import check_segment_properties
from zvcore.precomputed.shard_check import BATCH_BYTES
from zvcore.precomputed.shard_reader import ShardReader
from zvcore.precomputed.skeletons import Skeletons
from zvcore.report import Problem, Report, What

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from zvcore.care.rewriting import Patient
    from zvcore.precomputed.shard_check import Judge
    from zvcore.stores import Store

__all__ = ["Shards", "folders_of", "members_of", "parts_of"]

# The members of a volume's document that name folders, and what lies there where no document says so.
_FOLDERS = {"skeletons": SKELETONS, "mesh": LEGACY_MESHES, "segment_properties": SEGMENT_PROPERTIES}


class Shards(Part):
    """Shards in one folder."""

    def __init__(self, judge: Judge) -> None:
        super().__init__(judge.reader.store, judge.reader.prefix.rstrip("/"), judge.threads)
        self.judge = judge
        self.reader = judge.reader

    def verify(self, report: Report, only: Sequence[str] | None, fast: bool) -> None:
        stored = 0
        for found in examinations(self.reader, self.judge, fast, self.numbers(only)):
            stored += len(found.ids)
            report.extend(found.report)
            report.looked_at()
        if isinstance(self.judge, ChunkJudge) and only is None:
            report.count("chunks not stored", max(0, math.prod(self.judge.layout.grid) - stored))
        if only is None:
            self.tell_folders(report, lambda name: self.reader.spec.shard_number(name) is not None)
        for name in self.reader.store.list_dir(self.folder)[1] if only is None else only:
            if name.endswith(".shard") and self.reader.spec.shard_number(name) is None:
                what = "the name is that of no shard of this specification"
                report.add(f"{self.prefix}{name}", what, kind=What.STRAY)

    def repair(self, patient: Patient, original: Store, report: Report, only: Sequence[str] | None) -> None:
        repair_shards(self.reader, self.judge, patient, original, report, self.numbers(only))

    def compact(self, report: Report, only: Sequence[str] | None) -> None:
        """Rewrite the shards that hold bytes which belong to nothing."""
        numbers = self.numbers(only)

        def compacted(shard: int) -> Report:
            part = report.part()
            compact_shard(self.reader, self.judge, shard, part)
            return part

        shards = self.reader.shards() if numbers is None else numbers
        for part in look_together(self.reader.store, shards, compacted, BATCH_BYTES):
            report.extend(part)

    def numbers(self, only: Sequence[str] | None) -> list[int] | None:
        """The shards that files of these names are; None for all."""
        if only is None:
            return None
        return sorted({number for name in only if (number := self.reader.spec.shard_number(name)) is not None})


def parts_of(store: Store, info: Mapping[str, Any], threads: int | None, report: Report) -> Iterator[Part]:
    """The parts to check in a folder with this document. What cannot be checked is reported."""
    kind = kind_of(info, INFO)
    if kind != VOLUME and isinstance(info.get("scales"), list):
        what = f"the document has scales, but its @type is {info.get('@type')!r}, so no reader finds them"
        report.add(INFO, what, kind=What.DOCUMENT)
    if kind == SKELETONS:
        skeletons = Skeletons(store)
        sharded = skeletons.sharding is not None
        yield Shards(SkeletonJudge(skeletons, threads)) if sharded else ObjectFiles(skeletons, threads)
    elif kind == MESHES:
        meshes = Meshes(store)
        sharded = meshes.sharding is not None
        yield Shards(ManifestJudge(meshes, threads)) if sharded else ObjectFiles(meshes, threads)
    elif kind == LEGACY_MESHES:
        # Says why, where the document asks for what the format has not.
        LegacyMeshes(store)
        yield LegacyMeshFiles(store, "", threads)
    elif kind == ANNOTATIONS:
        annotations = AnnotationInfo.from_json(info, INFO)
        form = RecordForm.of(annotations)
        for index in annotations.indexes:
            if index.sharding is None:
                yield AnnotationFiles(store, form, index, threads)
            else:
                reader = ShardReader(store, index.sharding, f"{index.folder}/")
                yield Shards(AnnotationJudge(reader, form, index, threads))
        findings = Findings()
        for index in annotations.indexes[1:]:
            yield AnnotationAgreement(store, annotations, index, findings, threads)
        yield LostAnnotations(store, annotations, threads)
        for lists in [(one,) for one in annotations.relationships] + [annotations.levels]:
            if lists:
                yield AnnotationCompleteness(store, annotations, lists, findings, threads)
    elif kind == SEGMENT_PROPERTIES:
        report.count("segments", check_segment_properties(info, INFO, report))
    else:
        yield from _parts_of_volume(store, info, threads, report)


def _parts_of_volume(store: Store, info: Mapping[str, Any], threads: int | None, report: Report) -> Iterator[Part]:
    volume = VolumeInfo.from_json(info)
    for number in range(len(info["scales"])):
        try:
            layout = layout_of(store, volume.scale(number), volume.dtype, volume.channels)
        except ZvcoreError as error:
            report.tell(Problem.of(error, INFO))
            continue
        report.count("scales")
        if layout.scale.voxel_offset != layout.scale.corner:
            what = f"the scale {layout.scale.key!r} does not begin at a whole voxel: others cut the fraction off"
            places = {"expected": list(layout.scale.corner), "found": list(layout.scale.voxel_offset)}
            report.add(INFO, what, fatal=False, kind=What.DOCUMENT, **places)
        if isinstance(layout, ShardedLayout):
            yield Shards(ChunkJudge(layout, threads))
        elif isinstance(layout, UnshardedLayout):
            yield ChunkFiles(layout, threads)
    for folder, kind in folders_of(info, report).items():
        if store.exists(f"{folder}/{INFO}"):
            continue
        if next(store.list(folder), None) is None:
            report.add(INFO, f"info names the folder {folder!r}, where nothing is", fatal=False, kind=What.MISSING)
        elif kind == LEGACY_MESHES:
            yield LegacyMeshFiles(store, folder, threads)
        else:
            report.add(folder, f"the folder of {kind} has no info", kind=What.DOCUMENT)


def members_of(store: Store, info: Mapping[str, Any]) -> list[str]:
    """The folders with a document of their own that the document of a volume names."""
    return [folder for folder in folders_of(info, Report()) if store.exists(f"{folder}/{INFO}")]


def folders_of(info: Mapping[str, Any], report: Report) -> dict[str, str]:
    """The folders that the document of a volume names, with the kind of those that have no document of their own."""
    found: dict[str, str] = {}
    for name, kind in _FOLDERS.items():
        folder = info.get(name)
        if folder is None or not isinstance(info.get("scales"), list):
            continue
        try:
            found.setdefault(resolve_key(folder, INFO), kind)
        except (UnsupportedError, MetadataError) as error:
            # A path may lead elsewhere; what is there has to be checked there.
            elsewhere = isinstance(folder, str) and folder != ""
            kind_of_problem = What.UNSUPPORTED if elsewhere else What.DOCUMENT
            report.add(INFO, f"$.{name}: {error.told}", fatal=not elsewhere, kind=kind_of_problem)
    return found
