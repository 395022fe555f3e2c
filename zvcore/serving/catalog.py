"""Which data sets lie below a folder, found without looking into their chunks."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from zvcore.errors import ZvcoreError
from zvcore.pictures.pyramids import Pyramid, pyramid_of
from zvcore.serving.paths import is_shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zvcore.serving.paths import Root

__all__ = ["Catalog", "Dataset", "find_datasets", "open_dataset", "stored_size"]

_DEEPEST = 12
_MOST_FOLDERS = 20_000
_MOST_DATASETS = 500
_SECONDS = 5.0
_MARKS = {b"info", b"attributes.json", b"zarr.json", b".zarray", b".zgroup"}
_LARGEST_DOCUMENT = 16 << 20


@dataclass
class Dataset:
    """Something that can be shown, or that should be and is broken.

    names     the way to it from the root; `path` is the same as text
    format    "zarr3", "zarr2", "n5", "precomputed", "zvf"
    kind      what it is, in a word or two
    """

    names: list[bytes]
    folder: bytes
    format: str
    kind: str
    node: Any = None
    pyramid: Pyramid | None = None
    error: str | None = None

    @property
    def path(self) -> str:
        return b"/".join(self.names).decode("utf-8", "backslashreplace")

    @property
    def title(self) -> str:
        name = self.names[-1] if self.names else os.path.basename(self.folder)
        return name.decode("utf-8", "backslashreplace")

    @property
    def labels(self) -> bool:
        from zvcore.pictures.planes import holds_labels

        if self.pyramid is None:
            return False
        said = self.pyramid.labels
        return holds_labels(self.pyramid.arrays[0]) if said is None else said


@dataclass
class Catalog:
    """All data sets that were found; `cut` says what was left out, if something was."""

    datasets: list[Dataset] = field(default_factory=list)
    cut: str | None = None


def find_datasets(root: Root) -> Catalog:
    """Every array, pyramid, volume and Zarr Vectors store below the root, sorted by path."""
    catalog = Catalog()
    deadline = time.monotonic() + _SECONDS
    seen = 0
    pending: list[list[bytes]] = [[]]
    while pending:
        names = pending.pop()
        seen += 1
        if seen > _MOST_FOLDERS or time.monotonic() > deadline or len(catalog.datasets) >= _MOST_DATASETS:
            catalog.cut = f"The search ended after {seen} folders; serve a smaller folder to see the rest."
            break
        # What links lead to is listed where it is.
        if root.locate(names) != names:
            continue
        folder = b"/".join([root.path, *names])
        folders, files = [], set()
        try:
            with os.scandir(folder) as listing:
                for entry in listing:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.name)
                    else:
                        files.add(entry.name)
        except OSError:
            continue
        if files & _MARKS:
            found = open_dataset(folder, names, files)
            if found is not None:
                catalog.datasets.append(found)
                if found.kind != "group":
                    continue
                catalog.datasets.pop()
        if len(names) < _DEEPEST:
            pending += [[*names, name] for name in sorted(folders, reverse=True) if is_shown(name)]
    catalog.datasets.sort(key=lambda dataset: dataset.names)
    return catalog


def open_dataset(folder: bytes, names: list[bytes], files: set[bytes]) -> Dataset | None:
    """What the documents in this folder describe; None if they describe nothing that is known."""
    import zvcore

    if files & {b".zarray", b".zgroup"} and not files & {b"zarr.json", b"attributes.json"}:
        if b".zarray" not in files:
            return Dataset(names, folder, "zarr2", "group")
        return Dataset(names, folder, "zarr2", "array", error="Zarr v2: Neuroglancer reads it, zvcore does not")
    if b"info" in files and not files & {b"zarr.json", b"attributes.json"}:
        return _open_info(folder, names)
    try:
        node = zvcore.open(os.fsdecode(folder))
    except (ZvcoreError, ValueError, OSError, RecursionError) as error:
        format = "n5" if b"attributes.json" in files else "zarr3"
        return Dataset(names, folder, format, "broken", error=f"{type(error).__name__}: {error}")
    if hasattr(node, "geometry_types"):
        return Dataset(names, folder, "zvf", ", ".join(node.geometry_types) or "vectors", node)
    pyramid = pyramid_of(node)
    format = "n5" if b"attributes.json" in files else "zarr3"
    if pyramid is None:
        return Dataset(names, folder, format, "group")
    return Dataset(names, folder, format, "array" if not pyramid.convention else "pyramid", node, pyramid)


def _open_info(folder: bytes, names: list[bytes]) -> Dataset | None:
    from zvcore.precomputed import Volume

    try:
        with open(os.path.join(folder, b"info"), "rb") as file:
            document = json.loads(file.read(_LARGEST_DOCUMENT))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    kinds = {
        "neuroglancer_skeletons": "skeletons",
        "neuroglancer_multilod_draco": "meshes",
        "neuroglancer_legacy_mesh": "meshes",
        "neuroglancer_annotations_v1": "annotations",
        "neuroglancer_segment_properties": "segment properties",
    }
    kind = kinds.get(str(document.get("@type")))
    if kind is not None:
        return Dataset(names, folder, "precomputed", kind)
    if "scales" not in document:
        return None
    try:
        volume = Volume(os.fsdecode(folder))
        return Dataset(names, folder, "precomputed", volume.type, volume, pyramid_of(volume))
    except (ZvcoreError, ValueError, OSError) as error:
        return Dataset(names, folder, "precomputed", "broken", error=f"{type(error).__name__}: {error}")


def stored_size(folder: bytes, seconds: float) -> tuple[int, int, bool]:
    """(bytes, files, whether all were counted in time) below a folder."""
    deadline = time.monotonic() + seconds
    size = count = 0
    for entry in _files(folder):
        if entry is None:
            if time.monotonic() > deadline:
                return size, count, False
            continue
        try:
            size += entry.stat(follow_symlinks=False).st_size
            count += 1
        except OSError:
            continue
    return size, count, True


def _files(folder: bytes) -> Iterator[os.DirEntry[bytes] | None]:
    """All files, and None now and then."""
    pending = [folder]
    while pending:
        yield None
        try:
            with os.scandir(pending.pop()) as listing:
                for place, entry in enumerate(listing):
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    else:
                        yield entry
                    if place % 1000 == 999:
                        yield None
        except OSError:
            continue
