"""Which data sets lie below a folder, found without looking into their chunks."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from zvcore.conversion_note import KEY, UnfinishedConversion, unfinished_around, unfinished_at
from zvcore.errors import ZvcoreError
from zvcore.opening import open_silently
from zvcore.pictures.preview import image_of
from zvcore.serving.paths import is_shown
from zvcore.stores import open_store

if TYPE_CHECKING:
    from zvcore.images import Image
    from zvcore.serving.paths import Root
    from zvcore.stores.confined import ConfinedStore

__all__ = ["Catalog", "Dataset", "find_datasets", "open_dataset", "stored_size"]

_DEEPEST = 12
_MOST_FOLDERS = 20_000
_MOST_DATASETS = 500
_SECONDS = 5.0
MARKS = {b"info", b"attributes.json", b"zarr.json", b".zarray", b".zgroup"}
_NOTE = KEY.encode()
_LARGEST_DOCUMENT = 16 << 20


@dataclass
class Dataset:
    """Something that can be shown, or that should be and is broken.

    names     the way to it from the root; `path` is the same as text
    store     what lies there
    format    "zarr3", "zarr2", "n5", "precomputed", "zvf"
    kind      what it is, in a word or two
    unfinished  what there is to say of the conversion into this place, or one above it, that has not ended
    """

    names: list[bytes]
    store: ConfinedStore
    format: str
    kind: str
    node: Any = None
    pyramid: Image | None = None
    error: str | None = None
    unfinished: str | None = None

    @property
    def path(self) -> str:
        return b"/".join(self.names).decode("utf-8", "backslashreplace")

    @property
    def title(self) -> str:
        name = self.names[-1] if self.names else os.path.basename(os.fsencode(self.store.root))
        return name.decode("utf-8", "backslashreplace")

    @property
    def labels(self) -> bool:
        return self.pyramid is not None and self.pyramid.labels


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
    # A folder, and what there is to say of the unfinished conversion that it lies in.
    pending: list[tuple[list[bytes], str | None]] = [([], _told(unfinished_around(os.fsdecode(root.path))))]
    while pending:
        names, unfinished = pending.pop()
        seen += 1
        if seen > _MOST_FOLDERS or time.monotonic() > deadline or len(catalog.datasets) >= _MOST_DATASETS:
            catalog.cut = f"The search ended after {seen} folders; serve a smaller folder to see the rest."
            break
        folders: list[bytes] = []
        files: set[bytes] = set()
        try:
            # What links lead to is listed where it is.
            for entry in root.entries(names):
                (folders.append if entry.is_dir(follow_symlinks=False) else files.add)(os.fsencode(entry.name))
        except OSError:
            continue
        if _NOTE in files:
            unfinished = _told(unfinished_at(root.store(names)))
        if files & MARKS:
            found = open_dataset(root.store(names), names, files)
            if found is not None:
                found.unfinished = unfinished
                catalog.datasets.append(found)
                if found.kind != "group":
                    continue
                catalog.datasets.pop()
        if len(names) < _DEEPEST:
            pending += [([*names, name], unfinished) for name in sorted(folders, reverse=True) if is_shown(name)]
    catalog.datasets.sort(key=lambda dataset: dataset.names)
    return catalog


def _told(found: UnfinishedConversion | None) -> str | None:
    """Not why it failed: that may name what lies elsewhere on this machine."""
    return None if found is None else str(replace(found, failed=None))


def open_dataset(store: ConfinedStore, names: list[bytes], files: set[bytes]) -> Dataset | None:
    """What the documents in this folder describe; None if they describe nothing that is known."""
    if files & {b".zarray", b".zgroup"} and not files & {b"zarr.json", b"attributes.json"}:
        if b".zarray" not in files:
            return Dataset(names, store, "zarr2", "group")
        return Dataset(names, store, "zarr2", "array", error="Zarr v2: Neuroglancer reads it, zvcore does not")
    if b"info" in files and not files & {b"zarr.json", b"attributes.json"}:
        return _open_info(store, names)
    try:
        node = open_silently(open_store(store))
    except (ZvcoreError, ValueError, OSError, RecursionError) as error:
        format = "n5" if b"attributes.json" in files else "zarr3"
        return Dataset(names, store, format, "broken", error=f"{type(error).__name__}: {error}")
    if getattr(node, "kind", None) == "vectors":
        return Dataset(names, store, "zvf", ", ".join(node.geometry_types) or "vectors", node)
    pyramid = image_of(node)
    format = "n5" if b"attributes.json" in files else "zarr3"
    if pyramid is None:
        return Dataset(names, store, format, "group")
    return Dataset(names, store, format, "array" if not pyramid.convention else "pyramid", node, pyramid)


def _open_info(store: ConfinedStore, names: list[bytes]) -> Dataset | None:
    from zvcore.precomputed import Volume

    try:
        document = json.loads(bytes(store.get("info", 0, _LARGEST_DOCUMENT) or b""))
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
        return Dataset(names, store, "precomputed", kind)
    if "scales" not in document:
        return None
    try:
        volume = Volume(store)
        return Dataset(names, store, "precomputed", volume.type, volume, image_of(volume))
    except (ZvcoreError, ValueError, OSError) as error:
        return Dataset(names, store, "precomputed", "broken", error=f"{type(error).__name__}: {error}")


def stored_size(root: Root, names: list[bytes], seconds: float) -> tuple[int, int, bool]:
    """(bytes, files, whether all were counted in time) below a folder; links are not followed."""
    deadline = time.monotonic() + seconds
    size = count = 0
    pending = [names]
    while pending:
        folder = pending.pop()
        try:
            for place, entry in enumerate(root.entries(folder)):
                if entry.is_dir(follow_symlinks=False):
                    pending.append([*folder, os.fsencode(entry.name)])
                else:
                    with suppress(FileNotFoundError):
                        size += entry.stat(follow_symlinks=False).st_size
                        count += 1
                if place % 1000 == 999 and time.monotonic() > deadline:
                    return size, count, False
        except OSError:
            continue
        if pending and time.monotonic() > deadline:
            return size, count, False
    return size, count, True
