"""Looking after legacy meshes: for each a file `ID:LOD`, the manifest, and the files of fragments that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zvcore.care.refusals import refusal
from zvcore.errors import NotFoundError, ZvcoreError
from zvcore.exchange.line_positions import count_nowhere, nowhere
from zvcore.precomputed.content_encoding import begins_packed, stored_file
from zvcore.precomputed.legacy_meshes import MANIFEST_NAME, check_size, fragment_names, parse_fragment
from zvcore.precomputed.part import FilePart
from zvcore.report import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zvcore.care.rewriting import Patient
    from zvcore.report import Report
    from zvcore.stores import Store

__all__ = ["LegacyMeshFiles"]


class LegacyMeshFiles(FilePart):
    """Every manifest can be read, and each fragment that it names is there and as long as its vertices require.

    Other files in the folder belong to other programs, and are ignored.
    """

    def verify(self, report: Report, only: Sequence[str] | None, fast: bool) -> None:
        meshes = 0
        # A fragment that several manifests name is checked once.
        seen: set[str] = set()

        def look(item: tuple[str, str]) -> list[Problem]:
            manifest, name = item
            return self._fragment(manifest, f"{self.prefix}{name}", fast)

        def fresh() -> Iterator[tuple[str, str]]:
            nonlocal meshes
            for manifest, named, problem in self._of_each(self._named, self._manifests(only)):
                meshes += 1
                report.looked_at()
                if problem is not None:
                    report.tell(problem)
                new = [name for name in dict.fromkeys(named) if name not in seen]
                seen.update(new)
                yield from ((manifest, name) for name in new)

        fragments = self.look_at_each(fresh(), look, report)
        for name in only or ():
            if MANIFEST_NAME.fullmatch(name) is None:
                fragments += self.look_at_each([("", name.removesuffix(".gz"))], look, report)
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
            match = MANIFEST_NAME.fullmatch(name)
            if match is not None:
                plain = name.removesuffix(".gz")
                if plain == name or not self.store.exists(f"{self.prefix}{plain}"):
                    yield plain

    def _named(self, name: str) -> tuple[str, tuple[str, ...], Problem | None]:
        """(key, fragments, what is wrong) of a manifest."""
        key = f"{self.prefix}{name}"
        try:
            data = stored_file(self.store, key)
            if data is None:
                raise NotFoundError("the manifest was removed meanwhile", key=key)
            return key, fragment_names(data, key), None
        except (ZvcoreError, OSError) as error:
            return key, (), Problem.of(refusal(error, self.store.root))

    def _fragment(self, manifest: str, key: str, fast: bool) -> list[Problem]:
        """Check the bytes of a fragment: vertices of three floats each, then triangles of three vertex numbers each."""
        size = self.store.size(key) if fast else None
        data = None if size is None else self.store.get(key, 0, 4)
        if data is None or begins_packed(data):
            size, data = None, stored_file(self.store, key)
        if data is None:
            raise NotFoundError("the mesh names a fragment that is not there", key=manifest or key, found=key)
        if size is not None:
            check_size(bytes(data), size, key)
            return []
        odd = count_nowhere(parse_fragment(bytes(data), key).vertices)
        return [Problem(key, nowhere(odd))] if odd else []
