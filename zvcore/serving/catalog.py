"""Which data sets lie below a folder, found without looking into their chunks."""

from __future__ import annotations

import itertools
import os
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from zvcore.converting.note import KEY, unfinished_at
from zvcore.errors import UnsupportedError, ZvcoreError, without_credentials
from zvcore.format import formats
from zvcore.format import marks as documents_of
from zvcore.opening import detect, open_silently, unreadable
from zvcore.pictures.preview import image_of
from zvcore.serving.paths import is_shown, may_be_asked_for, told
from zvcore.stores import open_store
from zvcore.stores.opening import ARCHIVE_ENDINGS
from zvcore.stores.single_file import SingleFileStore
from zvcore.wording import kind_of, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zvcore.format import ViewerSource
    from zvcore.images import Image
    from zvcore.serving.place import Place
    from zvcore.stores import Store

__all__ = [
    "Catalog",
    "Dataset",
    "dataset_at",
    "fault_of",
    "find_datasets",
    "is_dataset_file",
    "marks",
    "open_dataset",
]

_DEEPEST = 12
_MOST_FOLDERS = 20_000
_MOST_DATASETS = 500
_SECONDS = 5.0
# Far away, each folder takes several requests, of which some are made at once.
_SECONDS_FAR = 20.0
_AT_ONCE = 16
_NOTE = KEY.encode()
_ARCHIVE_ENDINGS = tuple(map(str.encode, ARCHIVE_ENDINGS))
_MOST_NAMED = 5


@dataclass
class Dataset:
    """Something that can be shown, or that should be and is broken.

    names     the way to it from the root; `path` is the same as text
    store     what lies there
    format    the name of its format
    kind      what it is, in a word or two
    viewer    how Neuroglancer reads it, where that is known without opening it
    unfinished  what there is to say of the conversion into this place, or one above it, that has not ended
    """

    names: list[bytes]
    store: Store
    format: str
    kind: str
    node: Any = None
    pyramid: Image | None = None
    viewer: ViewerSource | None = None
    format_title: str | None = None
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
    def is_vectors(self) -> bool:
        return self.node is not None and self.node.kind == "vectors"

    @property
    def labels(self) -> bool:
        return self.pyramid is not None and self.pyramid.labels


@dataclass
class Catalog:
    """All data sets that were found; `cut` says what was left out, if something was, in sentences."""

    datasets: list[Dataset] = field(default_factory=list)
    cut: str | None = None


def find_datasets(root: Place) -> Catalog:
    """Every array, pyramid, volume and set of vectors below the root, sorted by path."""
    catalog = Catalog()
    search = _Search(root, time.monotonic() + (_SECONDS_FAR if root.far else _SECONDS))
    seen = 0
    # A folder, and what there is to say of the unfinished conversion that it lies in.
    pending: list[_Folder] = [_Folder([], root.unfinished())]
    while pending:
        if seen >= _MOST_FOLDERS or search.is_over() or len(catalog.datasets) >= _MOST_DATASETS:
            catalog.cut = f"The search ended after {seen + 1} folders; serve a smaller folder to see the rest."
            break
        some = [pending.pop() for _ in range(min(len(pending), _AT_ONCE if root.far else 1))]
        seen += len(some)
        for datasets, below in root.each(search.visit, some):
            catalog.datasets += itertools.islice(datasets, _MOST_DATASETS - len(catalog.datasets))
            pending += below
    catalog.datasets.sort(key=lambda dataset: dataset.names)
    catalog.cut = " ".join(filter(None, [catalog.cut, *search.passed_over()])) or None
    return catalog


class _Folder(NamedTuple):
    names: list[bytes]
    unfinished: str | None


class _Search:
    """One look through a place, which ends when its time has passed."""

    def __init__(self, root: Place, deadline: float) -> None:
        self._root = root
        self._deadline = deadline
        self._known = marks()
        self._endings = suffixes()
        self._archives: list[bytes] = []
        self._nameless: list[bytes] = []
        self._closed: list[bytes] = []

    def is_over(self) -> bool:
        return time.monotonic() > self._deadline

    def visit(self, folder: _Folder) -> tuple[Iterable[Dataset], list[_Folder]]:
        """(the data sets in a folder, the folders in it where there may be more)."""
        root, (names, unfinished) = self._root, folder
        here: Dataset | None = None
        if root.far:
            # To ask for its documents is cheaper than to list what may hold a million chunks.
            here = open_dataset(root.store(names), names)
            if here is not None and here.kind != "group":
                here.unfinished = told(unfinished_at(root.store(names))) or unfinished
                return [here], []
        try:
            # What links lead to is listed where it is.
            folders, listed = root.listing(names)
        except UnsupportedError:  # what cannot be listed
            return [], []
        except OSError:
            self._closed.append(b"/".join(names) or b"all of it")
            return [], []
        self._pass_over(names, folders, listed)
        files = set(listed)
        together = not root.far and gathered(listed)
        if _NOTE in files:
            unfinished = told(unfinished_at(root.store(names)))
        named = sorted(name for name in files if name.lower().endswith(self._endings))
        found = self._files(names, named)
        if (files & self._known and not root.far) or together:
            here = open_dataset(root.store(names), names)
            if here is not None and here.kind != "group":
                here.unfinished = unfinished
                return ([here] if together else itertools.chain(found, [here])), []
        if len(names) >= _DEEPEST:
            return found, []
        return found, [_Folder([*names, name], unfinished) for name in sorted(folders, reverse=True) if is_shown(name)]

    def _pass_over(self, names: list[bytes], folders: Sequence[bytes], files: Sequence[bytes]) -> None:
        self._nameless += [name for name in (*folders, *files) if not may_be_asked_for(name)]
        archives = [name for name in files if name.lower().endswith(_ARCHIVE_ENDINGS) and is_shown(name)]
        self._archives += [b"/".join([*names, name]) for name in archives]

    def passed_over(self) -> Iterator[str]:
        """In sentences, what may be data sets and was not looked at."""
        if self._closed:
            yield f"Could not be looked into: {_some(self._closed)}."
        if self._archives:
            yield f"Archives are not looked into, but served each by itself: {_some(self._archives)}."
        if self._nameless:
            yield f"Not served for a backslash, a control character or too many letters: {_some(self._nameless)}."

    def _files(self, names: list[bytes], files: list[bytes]) -> Iterator[Dataset]:
        """Data sets that are files of a folder: there may be a stack of thousands."""
        for name in files:
            if self.is_over():
                return
            way = [*names, name]
            found = open_dataset(file_store(self._root, way), way) if is_shown(name) else None
            if found is not None:
                found.unfinished = told(unfinished_at(found.store))
                yield found


def _some(names: list[bytes]) -> str:
    """The first of these names, and how many more there are."""
    first, more = sorted(names)[:_MOST_NAMED], len(names) - _MOST_NAMED
    text = printable(", ".join(name.decode("utf-8", "backslashreplace") for name in first))
    return f"{text} and {more:,} more" if more > 0 else text


def marks() -> set[bytes]:
    """The names of the documents by which data sets are known."""
    return {mark.encode() for one in formats().values() for mark in one.marks}


def gathered(files: Sequence[bytes]) -> bool:
    """Whether files of these names, in one folder, may together be a data set."""
    names = [os.fsdecode(name) for name in files]
    return any(one.gathers(names) for one in formats().values())


def suffixes() -> tuple[bytes, ...]:
    """How the names of files end that may be datasets by themselves, in lower case."""
    return tuple(suffix.encode() for one in formats().values() for suffix in one.suffixes)


def is_dataset_file(root: Place, names: list[bytes]) -> bool:
    """Whether this is a file that may be a dataset by itself."""
    if not names or not names[-1].lower().endswith(suffixes()):
        return False
    found = root.look(names)
    return found is not None and not found.is_folder


def file_store(root: Place, names: list[bytes]) -> Store:
    """The store of a dataset that is a file."""
    return SingleFileStore(root.store(names[:-1]), os.fsdecode(names[-1]))


def dataset_at(root: Place, names: list[bytes]) -> Dataset | None:
    """The data set in a folder, or that a file is; None if there is none of either."""
    if root.far or any(root.look([*names, name]) is not None for name in marks()):
        found = open_dataset(root.store(names), names)
        if found is not None or not root.far:
            return found
    if is_dataset_file(root, names):
        return open_dataset(file_store(root, names), names)
    return open_dataset(root.store(names), names) if not root.far and _is_gathered(root, names) else None


def _is_gathered(root: Place, names: list[bytes]) -> bool:
    seen = root.look(names) if names else None
    if names and (seen is None or not seen.is_folder):
        return False
    try:
        return gathered(root.listing(names)[1])
    except (OSError, UnsupportedError):
        return False


def open_dataset(store: Store, names: list[bytes]) -> Dataset | None:
    """What the documents in this folder describe; None if they describe nothing that is known."""
    format = None
    try:
        with store.looking_at(*documents_of(formats().values())) if store.file is None else nullcontext():
            format = detect(store)
            if format is None:
                return _unreadable_file(store, names) if isinstance(store, SingleFileStore) else None
            seen = format.glimpse(store)
            if seen is not None:
                return Dataset(
                    names, store, seen.format or format.name, seen.kind, viewer=seen.viewer, format_title=seen.title,
                    error=seen.error,
                )  # fmt: skip
            node = open_silently(open_store(store), format=format.name)
    except (ZvcoreError, ValueError, OSError, RecursionError) as error:
        name = _format_that_failed(error) if format is None else format.name
        return Dataset(names, store, name, "broken", error=fault_of(error))
    if node.kind == "vectors":
        return Dataset(names, store, format.name, ", ".join(node.geometry_types) or "vectors", node)
    image = image_of(node)
    if image is None:
        return Dataset(names, store, format.name, node.kind, node)
    kind = node.kind
    if image.convention is not None and kind != "array":
        kind = (image.kind or "image") if kind == "image" else "pyramid"
    return Dataset(names, store, format.name, kind, node, image)


def _format_that_failed(error: Exception) -> str:
    """The format of the document that could not be read; of several, the one that the others are special cases of."""
    document = (getattr(error, "key", None) or "").rpartition("/")[2]
    known = formats().values()
    marked = [one for one in known if document in one.marks] or [one for one in known if one.makes_arrays]
    return min(marked, key=lambda one: one.precedence).name


def fault_of(error: Exception) -> str:
    """What clients learn of an error."""
    return without_credentials(f"{kind_of(error)}: {error}")


def _unreadable_file(store: SingleFileStore, names: list[bytes]) -> Dataset | None:
    """A file that is called as one of a format, and is none."""
    error = unreadable(store)
    if error is None:
        return None
    name = next(one.name for one in formats().values() if store.file.lower().endswith(tuple(one.suffixes) or "\0"))
    return Dataset(names, store, name, "broken", error=fault_of(error))
