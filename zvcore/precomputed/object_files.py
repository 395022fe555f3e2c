"""Looking after skeletons and meshes in files of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zvcore.errors import NotFoundError, ZvcoreError
from zvcore.exchange.line_positions import count_nowhere, nowhere
from zvcore.precomputed.draco import has_draco
from zvcore.precomputed.mesh_checking import check_fragments, check_numbers, oddities
from zvcore.precomputed.meshes import Mesh, Meshes
from zvcore.precomputed.part import FilePart
from zvcore.precomputed.skeletons import Skeleton, Skeletons
from zvcore.report import Problem, What
from zvcore.stores.copying import is_backup

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zvcore.report import Report

__all__ = ["ObjectFiles"]


class ObjectFiles(FilePart):
    """The skeletons or the meshes of a folder, each in a file, or in two: a manifest and the fragments."""

    loss = "the object is left out"

    def __init__(self, objects: Skeletons | Meshes, threads: int | None = None) -> None:
        super().__init__(objects.store, "", threads)
        self.objects = objects
        self._decodes = has_draco()

    def verify(self, report: Report, only: Sequence[str] | None, fast: bool) -> None:
        ids = self.objects.ids().tolist() if only is None else self._meant(only, report)
        report.count("values", self.look_at_each(ids, lambda id: self._look(id, fast), report))
        if only is None and isinstance(self.objects, Meshes):
            for id in sorted(self.objects.nameless().difference(ids)):
                what = "the fragments of a mesh without its manifest: whoever replaced it did not end"
                report.add(self._files(id)[0], what, chunk=id)

    def _look(self, id: int, fast: bool) -> list[Problem]:
        """What is odd about an object."""
        if fast and isinstance(self.objects, Skeletons):
            return []
        try:
            found = self.objects[id]
            if fast:
                return []
            return self._look_at_mesh(found) if isinstance(found, Mesh) else self._look_at_skeleton(id, found)
        except NotFoundError:
            raise NotFoundError("the file was removed meanwhile", key=self._files(id)[0], chunk=id) from None
        except ZvcoreError as error:
            error.chunk = id
            if error.key == self.store.root:
                error.key = next(iter(self._files(id)), str(id))
            raise

    def _look_at_skeleton(self, id: int, skeleton: Skeleton) -> list[Problem]:
        odd = count_nowhere(skeleton.vertices)
        # Without `chunk`, by which a repair finds the files that cannot be read: this one can, and stays.
        return [Problem(self._files(id)[0], nowhere(odd))] if odd else []

    def _look_at_mesh(self, mesh: Mesh) -> list[Problem]:
        check_numbers(mesh.manifest)
        for level in range(mesh.lods):
            data = b"".join(mesh.fragments(level))
            if self._decodes:
                check_fragments(mesh.manifest, level, data, mesh.quantization_bits)
        return [Problem(f"{mesh.id}.index", text, mesh.id, fatal=False) for text in oddities(mesh.manifest)]

    def _meant(self, only: Sequence[str], report: Report) -> Iterable[int]:
        """The ids of the objects that these files hold."""
        found = {}
        for name in only:
            stem = name.removesuffix(".gz").removesuffix(".index")
            if stem.isdecimal() and int(stem) in self.objects:
                found[int(stem)] = True
            elif not is_backup(name):
                report.add(name, "not the name of an object", fatal=False, kind=What.STRAY)
        return found

    def _files(self, id: int) -> list[str]:
        """The files of an object that are there, the one that names the others first."""
        names = [f"{id}.index", f"{id}.index.gz", f"{id}", f"{id}.gz"]
        return [name for name in names if self.store.exists(name)]

    def files_of(self, problem: Problem) -> Sequence[str]:
        return self._files(problem.chunk) if isinstance(problem.chunk, int) else []
