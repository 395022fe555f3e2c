"""Looking after legacy meshes: for each a file `ID:LOD`, the manifest, and the files of fragments that it names."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

import numpy as np

from zvcore import documents
from zvcore.care.checking import WrongSizeError
from zvcore.documents.members import Items, Member, Place, Table, Text
from zvcore.errors import CorruptDataError, MetadataError, NotFoundError, ZvcoreError
from zvcore.precomputed.part import FilePart, stored_file
from zvcore.report import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zvcore.care.rewriting import Patient
    from zvcore.report import Report
    from zvcore.stores import Store

__all__ = ["LegacyMeshes"]

_MANIFEST_NAME = re.compile(r"([0-9]{1,20}:[0-9]{1,9})(\.gz)?")
_MANIFEST = Table(Member("fragments", Items(Text())))
_VERTEX = 12


class LegacyMeshes(FilePart):
    """Every manifest can be read, and each fragment that it names is there and as long as its vertices require.

    Other files in the folder belong to other programs, and are ignored.
    """

    def verify(self, report: Report, only: Sequence[str] | None, fast: bool) -> None:
        meshes = fragments = 0
        # A fragment that several manifests name is checked once.
        seen: set[str] = set()

        def look(item: tuple[str, str]) -> None:
            nonlocal fragments
            manifest, name = item
            fragments += 1
            self._fragment(manifest, f"{self.prefix}{name}", fast)

        for name in self._manifests(only):
            meshes += 1
            try:
                named = self._named(f"{self.prefix}{name}")
            except ZvcoreError as error:
                report.problems.append(Problem.of(error))
                report.looked_at()
                continue
            fresh = [one for one in dict.fromkeys(named) if one not in seen]
            seen.update(fresh)
            report.looked_at()
            self.look_at_each(((f"{self.prefix}{name}", one) for one in fresh), look, report)
        for name in only or ():
            if _MANIFEST_NAME.fullmatch(name) is None:
                self.look_at_each([("", name.removesuffix(".gz"))], look, report)
        report.count("meshes", meshes)
        report.count("fragments", fragments)

    def repair(self, patient: Patient, original: Store, report: Report, only: Sequence[str] | None) -> None:
        """Nothing is removed: a mesh that lacks a fragment is not sound either, and manifests are documents."""
        self.verify(report, only, fast=False)

    def count(self) -> int:
        """How many manifests there are."""
        return sum(1 for _ in self._manifests(None))

    def _manifests(self, only: Sequence[str] | None) -> Iterator[str]:
        for name in self.names(only):
            match = _MANIFEST_NAME.fullmatch(name)
            if match is not None and (match[2] is None or not self.store.exists(f"{self.prefix}{match[1]}")):
                yield match[1]

    def _named(self, key: str) -> tuple[str, ...]:
        """The fragments that a manifest names."""
        data = stored_file(self.store, key)
        if data is None:
            raise NotFoundError("the manifest was removed meanwhile", key=key)
        names: tuple[str, ...] = _MANIFEST.load(documents.parse(data, key), Place(key))["fragments"]
        for number, name in enumerate(names):
            parts = name.split("/")
            if not name or ".." in parts or parts[0] == "" or "\\" in name or "\0" in name:
                place = Place(key, "$.fragments").item(number)
                raise MetadataError(
                    "the fragment is not one of the folder", key=key, member=place.path, found=repr(name)[:200]
                )
        return names

    def _fragment(self, manifest: str, key: str, fast: bool) -> None:
        """Check the bytes of a fragment: vertices of three floats each, then triangles of three vertex numbers each."""
        size = self.store.size(key) if fast else None
        data = stored_file(self.store, key) if size is None else self.store.get(key, 0, 4)
        if data is None:
            raise NotFoundError("the mesh names a fragment that is not there", key=manifest or key, found=key)
        length = len(data) if size is None else size
        if length < 4:
            raise WrongSizeError(
                "the fragment is cut off", key=key, offset=0, length=length, expected="at least 4 bytes", found=length
            )
        (vertices,) = struct.unpack_from("<I", data)
        rest = length - 4 - _VERTEX * vertices
        if rest < 0 or rest % _VERTEX:
            raise WrongSizeError(
                f"the fragment has not the length of {vertices} vertices and a number of triangles", key=key, offset=0,
                length=length, expected=f"{4 + _VERTEX * vertices} bytes and 12 for each triangle", found=length,
            )  # fmt: skip
        if size is None and rest:
            corners = np.frombuffer(data, "<u4", rest // 4, 4 + _VERTEX * vertices)
            if int(corners.max()) >= vertices:
                raise CorruptDataError(
                    "a triangle has a vertex that is not there", key=key, offset=4 + _VERTEX * vertices, length=rest,
                    expected=f"less than {vertices}", found=int(corners.max()),
                )  # fmt: skip
