"""What a format is to the rest of zvcore: one object, found by an entry point of the group `zvcore.formats`.

Opening, converting, verifying, showing and serving data ask `formats()`; no module outside a format's own package knows
it by name. `docs/write-a-format.md` shows how one is written.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from zvcore.choices import refuse_texts
from zvcore.errors import NotFoundError, PluginError, UnsupportedError, ZvcoreError
from zvcore.plugins import Plugins

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import BinaryIO

    from zvcore.array import Array
    from zvcore.exchange import Exchange
    from zvcore.exchange.lines import Lines
    from zvcore.exchange.rows import Rows
    from zvcore.exchange.virtual import Virtual
    from zvcore.images import Axes, Image
    from zvcore.images.whole import WholeImage
    from zvcore.report import Report
    from zvcore.stores import Store
    from zvcore.undoing import Before

__all__ = ["Care", "Format", "Glimpse", "Node", "ViewerSource", "formats", "get_format", "register_format"]


@runtime_checkable
class Node(Protocol):
    """What opening gives: an array, a group, an image, a set of lines.

    kind      "array", "group", "image" (levels of one array), "vectors", or a word of the format's own
    format    the name of its format
    store     where it lies, and
    path      where in that store; "" is its root
    """

    @property
    def kind(self) -> str: ...

    @property
    def format(self) -> str: ...

    @property
    def store(self) -> Store: ...

    @property
    def path(self) -> str: ...

    def children(self) -> Mapping[str, Node]:
        """What lies directly in it, by name, in order, and opened when it is looked up; nothing for arrays."""
        ...


@dataclass(frozen=True)
class ViewerSource:
    """How Neuroglancer reads something by itself, or why it does not.

    scheme   what stands before the address: "n5://"; None where Neuroglancer cannot read it
    why      the reason then
    """

    scheme: str | None
    why: str = ""


@dataclass(frozen=True)
class Glimpse:
    """What a list of data sets says of something that it need not open, or that zvcore cannot open.

    kind     in a word or two, such as "skeletons"
    viewer   how Neuroglancer reads it
    format   and
    title    where it is not of the format that found it, but of one that zvcore knows by sight only
    error    why it cannot be opened
    """

    kind: str
    viewer: ViewerSource
    format: str | None = None
    title: str | None = None
    error: str | None = None


class Care(Protocol):
    """Verifying and repairing data at the root of a store: the same four questions to every format.

    `only` has the keys of objects, or of folders, when not all of the dataset is meant (for `inspect`, one key); an
    empty one means its documents. `watch` is told how many more objects have been looked at.
    """

    def verify(
        self,
        store: Store,
        *,
        only: Sequence[str] | None = None,
        fast: bool = False,
        threads: int | None = None,
        watch: Callable[[int], Any] | None = None,
    ) -> Report: ...

    def repair(
        self, store: Store, out: Store | None = None, *, only: Sequence[str] | None = None, threads: int | None = None
    ) -> Report: ...

    def compact(self, store: Store, *, only: Sequence[str] | None = None, threads: int | None = None) -> Report: ...

    def inspect(self, store: Store, *, only: str | None = None, threads: int | None = None) -> dict[str, Any]: ...


class Format(ABC):
    """One format. Its module is imported to find out which format lies at a place, so it imports the rest of its
    package only where that is used.

    name          as `format=` has it
    title         for people
    marks         names of documents; at the root of a dataset stands at least one of them
    suffixes      for formats whose datasets are single files: how their names end, such as ".nrrd". Their stores have
                  one object, whose key is `store.file`
    folder_endings  for formats whose datasets are folders or archives: how their names end by convention, such as ".n5"
    inner_paths   whether `file.ending:/path` names what lies in a file: `store.inside` is that path
    precedence    which is asked first, when several formats have the same marks: a special case of another has the
                  higher number
    open_options  what only this format's `open` takes
    inner_options options of the creating function that are not for users
    makes_arrays  whether `create` works: then `creator` gives the function that does it
    takes_arrays  whether conversions write it all the same where `create` does not
    family        what several formats are versions of, if it is one of them, and
    version       which: documents of a newer version can stand beside those of an older one
    takes_rows    whether it holds annotations or points: then `write_rows` makes them
    takes_lines   whether it holds lines: then `write_lines` makes them
    takes_images  whether files of it are written as a whole: then `write_image` makes them
    begins_groups whether mode "w" begins an empty group
    at_paths      whether data of it lie at paths: not what only programs have in memory
    unmarked      what of it has no marks, in words, for the error that no format is known at a place
    tensorstore_driver  what tensorstore calls it, and
    zarr_python   whether zarr-python reads it: for comparisons of speed
    """

    name: ClassVar[str]
    title: ClassVar[str]
    marks: ClassVar[tuple[str, ...]] = ()
    suffixes: ClassVar[tuple[str, ...]] = ()
    folder_endings: ClassVar[tuple[str, ...]] = ()
    inner_paths: ClassVar[bool] = False
    unmarked: ClassVar[str | None] = None
    precedence: ClassVar[int] = 0
    family: ClassVar[str | None] = None
    version: ClassVar[int] = 0
    open_options: ClassVar[tuple[str, ...]] = ()
    inner_options: ClassVar[tuple[str, ...]] = ()
    makes_arrays: ClassVar[bool] = True
    takes_arrays: ClassVar[bool] = False
    takes_rows: ClassVar[bool] = False
    takes_lines: ClassVar[bool] = False
    takes_images: ClassVar[bool] = False
    begins_groups: ClassVar[bool] = False
    at_paths: ClassVar[bool] = True
    tensorstore_driver: ClassVar[str | None] = None
    zarr_python: ClassVar[bool] = False

    def __repr__(self) -> str:
        return f"<zvcore.Format {self.name}>"

    # --- finding

    def detect(self, store: Store) -> bool:
        """Whether a dataset of this format lies at the root of the store, as its documents tell.

        Of a single file, only the formats that have such a suffix are asked.
        """
        if store.file is not None:
            return self.names_file(store.file) and store.exists(store.file)
        return any(store.exists(mark) for mark in self.marks)

    def removed(self, store: Store) -> None:
        """What lay at the root of the store has been removed: documents elsewhere must not tell of it any longer."""

    def unreadable(self, store: Store) -> ZvcoreError | None:
        """Why a document that marks this format is there and tells nothing. Asked where no format detects anything.

        This reads the marks as JSON; a format that has others, and looks into them to detect itself, says so itself.
        """
        from zvcore import documents

        for mark in self.marks if store.file is None else ():
            try:
                documents.read(store, mark)
            except ZvcoreError as error:
                return error
        return None

    def refuse_unreadable(self, store: Store) -> None:
        """Raise that there is no file, or why the one that is there is `unreadable`: for formats of single files."""
        if store.file is None or not store.exists(store.file):
            raise NotFoundError("there is no file here", key=store.root)
        wrong = self.unreadable(store)
        if wrong is not None:
            raise wrong

    def names_file(self, name: str) -> bool:
        """Whether a file of this name may be a dataset of this format."""
        return bool(self.suffixes) and name.lower().endswith(self.suffixes)

    def names_folder(self, name: str) -> bool:
        """Whether datasets of this format are called so by convention, where they are folders or archives."""
        return bool(self.folder_endings) and name.rstrip("/").lower().endswith(self.folder_endings)

    def names_written(self, name: str) -> bool:
        """Whether `write_image` makes files of this name."""
        return self.names_file(name)

    def options_for(self, name: str) -> dict[str, Any]:
        """The options of `write_image` that a file's name stands for."""
        return {}

    def adopts(self, store: Store) -> bool:
        """Whether a folder without any document is part of a dataset of this format. Asked when none detects one."""
        return False

    def left_over(self, names: Iterable[str]) -> str | None:
        """In words, of what a killed writer may have left files or folders of these names, where no document is."""
        return None

    def gathers(self, names: Iterable[str]) -> bool:
        """Whether the files of a folder, by their names alone, may together be a dataset of this format."""
        return False

    # --- opening and making

    @abstractmethod
    def open(self, store: Store, mode: str = "r", **options: Any) -> Any:
        """The node at the root of the store. Mode "w" begins an empty group, where the format has groups."""

    def open_detected(self, store: Store, mode: str = "r", **options: Any) -> Any:
        """`open`, for a caller that has just asked `detect`: what that has seen need not be looked at again."""
        return self.open(store, mode, **options)

    def create(self, store: Store, **options: Any) -> Array:
        """Make an array at the root of the store; the arguments are those of `zvcore.create`."""
        if not self.makes_arrays:
            raise UnsupportedError(f"arrays cannot be written as {self.name!r}", key=store.root)
        self.check_creation(options)
        return self.creator()(store, **options)

    def take_back(self, array: Array, before: Before) -> None:
        """Remove an array that `create` has just made, and could not be filled: what was there stays."""
        before.put_back(array.store, self)

    def creator(self) -> Callable[..., Array]:
        """The function that makes arrays; its parameters by keyword are what `create` takes."""
        raise NotImplementedError

    def check_creation(self, options: Mapping[str, Any]) -> None:
        """TypeError, in words for users, for options that `create` and the groups' `create_dataset` do not take."""
        known = _options_of(self.creator())
        refuse_texts(options, known.flags)
        if known.others:
            return  # it tells its options apart itself
        taken = [name for name in known.taken if name not in self.inner_options]
        unknown = sorted(options.keys() - set(taken))
        if unknown:
            raise TypeError(f"{self.name} has no option {unknown[0]!r} for creating; it has {', '.join(taken)}")
        missing = [name for name in taken if name in known.needed and name not in options]
        if missing:
            raise TypeError(f"an array of {self.name} is not created without {' and '.join(missing)}")

    # --- images

    def read_axes(self, array: Array) -> Axes:
        """What is known of an array's axes, in its own order of them."""
        from zvcore.images import Axis

        return (Axis(),) * array.ndim

    def places(self, array: Array) -> tuple[Axes, Axes]:
        """(an array's axes, those of the finest level of the image that it is part of): of one alone, twice the same.

        What lies around an array may say more of it than it does itself.
        """
        axes = self.read_axes(array)
        return axes, axes

    def read_image(self, node: Any) -> Image | None:
        """The image that a node is; None where nothing describes its members as the levels of one.

        Raises an error of zvcore where a description is there and wrong.
        """
        from zvcore.array import Array
        from zvcore.images import Image, Level

        if not isinstance(node, Array):
            return None
        taken = self.exchange().placing.intersection(node.attrs)
        return Image("", [Level("", node, self.read_axes(node), taken)])

    def untold(self, node: Any) -> Sequence[str]:
        """What a group that is no image holds besides attributes and members, in words, for conversions to tell."""
        return ()

    def described_levels(self, attributes: Mapping[str, Any]) -> list[tuple[str, Axes]]:
        """(path, axes) of the levels that the attributes of a group describe, for callers that show only those."""
        return []

    def fastest_first(self, array: Array) -> bool:
        """Whether the first axis is the one along which neighbours lie beside each other, called x by convention."""
        return False

    def axis_names(self, array: Array) -> list[str]:
        """What axes are called: by their names, those of an image around them, or x, y, z, t from the fastest on."""
        names = [axis.name for axis in self.places(array)[0]]
        if all(names):
            return [str(name) for name in names]
        usual = ["x", "y", "z", "t"][: array.ndim] + [f"d{axis}" for axis in range(4, array.ndim)]
        return usual if self.fastest_first(array) else usual[::-1]

    # --- converting

    def exchange(self) -> Exchange:
        """What conversions ask: which attributes and codecs go along from here, what arrays and images are made here.

        This one is enough for a format of single arrays in C order, whose `create` takes `shape`, `dtype`, `chunks`.
        """
        from zvcore.exchange import Exchange

        return Exchange(self)

    def virtual(self, array: Array) -> Virtual:
        """Where an array's chunks lie, for readers of Zarr alone; UnsupportedError where those cannot read them."""
        from zvcore.exchange.virtual import of_layout

        return of_layout(array, self)

    def read_rows(self, node: Any) -> Rows | None:
        """The annotations or points that a node holds; None where it holds arrays."""
        return None

    def refuse_rows(self, store: Store, rows: Rows, options: Mapping[str, Any], overwrite: bool) -> None:
        """Raise what `write_rows` would, as far as that is known before anything is read or written."""

    def write_rows(self, store: Store, rows: Rows, options: Mapping[str, Any], overwrite: bool) -> Report:
        """Write annotations or points to the root of a store; only where `takes_rows`."""
        raise UnsupportedError(f"{self.title} holds no annotations and no points", key=store.root)

    def rows_lost(self, rows: Rows) -> Report:
        """What `write_rows` will report as lost, as far as that is known before the rows are read."""
        from zvcore.report import Report

        return Report()

    def read_lines(self, node: Any) -> Lines | None:
        """The lines of something open, for conversions; None where it holds none."""
        return None

    def refuse_lines(self, store: Store, options: Mapping[str, Any], overwrite: bool) -> None:
        """Raise what `write_lines` would, as far as that is known before anything is read or written."""

    def lines_lost(self, lines: Lines) -> Report:
        """What `write_lines` will report as lost, as far as that is known before the lines are read."""
        from zvcore.report import Report

        return Report()

    def write_lines(self, store: Store, lines: Lines, options: Mapping[str, Any], overwrite: bool) -> Report:
        """Write lines that another format gives. `options` are those of the function that makes such data."""
        raise UnsupportedError(f"{self.title} takes no lines", key=store.root)

    def write_image(self, file: BinaryIO, image: WholeImage, options: Mapping[str, Any]) -> Report:
        """Write an array, or an image with its levels, into an empty file; only where `takes_images`.

        The report tells what the file has no place for. Options that there are not are a TypeError.
        """
        raise UnsupportedError(f"{self.title} is read here, and not written")

    def image_lost(self, image: WholeImage) -> Report:
        """What of an image `write_image` has no place for, as far as it can be known before; for plans."""
        from zvcore.report import Report

        return Report()

    # --- looking after data

    def care(self) -> Care:
        """The object that verifies and repairs data of this format; it may be a module.

        This one reads everything once, which is enough for files that are verified and described, but not repaired.
        """
        from zvcore.borrowed.care import ReadingCare

        return ReadingCare(self)

    # --- showing

    def glimpse(self, store: Store) -> Glimpse | None:
        """What there is to say, without opening it, of what lies at the root of the store; None: open it."""
        return None

    def viewer_axes(self, image: Image) -> dict[str, tuple[float, str]] | None:
        """{name: (size, unit)} of an image's axes in the order that a viewer needs; None: it needs none."""
        return None

    def stored_value(self, store: Store, sharding: Any, id: int) -> bytes | None:
        """The value of an id in the shards at the root of a store, of which `inspect` tells the `sharding`."""
        raise UnsupportedError(f"{self.title}: nothing here is stored by id", key=store.root)

    def viewer_folder(self, image: Image) -> str:
        """Which folder of an image Neuroglancer opens; "" for all of it."""
        return ""

    def first_segments(self, store: Store, count: int) -> list[str]:
        """Ids of segments to select first, so that a viewer shows their meshes and skeletons; none: there are none."""
        return []

    def annotations_in(self, store: Store) -> dict[str, list[str]]:
        """Folders of annotations in the folder of an image, which viewers show with it, and their relationships."""
        return {}

    def object_file(
        self, store: Store, inside: str | None, id: int, suffix: str, lod: int = 0
    ) -> tuple[bytes, list[str]] | None:
        """What has this id in a store, or in a folder `inside` it, as a file whose name ends with `suffix`, and what it
        has no place for, in words.

        `lod` is the level of detail, if there are several. None: nothing here is written as such a file.
        """
        return None

    def viewer_source(self, node: Any) -> ViewerSource:
        """How Neuroglancer reads this node by itself."""
        return ViewerSource(None, f"Neuroglancer has no reader for {self.title}")


_plugins: Plugins[Any] = Plugins("zvcore.formats", "format", "zvcore.format.register_format(format)")
_made: dict[Any, Format] = {}


def formats() -> dict[str, Format]:
    """All formats that are installed or registered, those that are special cases of others before these.

    One that cannot be loaded is left out: it must not break the others. Asking for it by its name says what is wrong.
    """
    return dict(_plugins.derived(_formats))


class _Options(NamedTuple):
    """The parameters by keyword of a function that makes arrays: all, those that must be given, those that are True or
    False; and whether it takes any others.
    """

    taken: tuple[str, ...]
    needed: frozenset[str]
    flags: tuple[str, ...]
    others: bool


# To ask a function takes as long as to make the array. Formats are few, and so are their functions.
@lru_cache(maxsize=64)
def _options_of(creator: Callable[..., Array]) -> _Options:
    parameters = inspect.signature(creator).parameters.values()
    taken = [one for one in parameters if one.kind is one.KEYWORD_ONLY]
    return _Options(
        tuple(one.name for one in taken),
        frozenset(one.name for one in taken if one.default is one.empty),
        tuple(one.name for one in parameters if isinstance(one.default, bool)),
        any(one.kind is one.VAR_KEYWORD for one in parameters),
    )


def file_endings(inside: bool = False) -> tuple[str, ...]:
    """What the names of files of all formats end with; `inside`: of those in which something can be named."""
    return _plugins.derived(_endings_inside if inside else _endings)


def _endings() -> tuple[str, ...]:
    return tuple(suffix for one in formats().values() for suffix in one.suffixes)


def _endings_inside() -> tuple[str, ...]:
    return tuple(suffix for one in formats().values() if one.inner_paths for suffix in one.suffixes)


def all_marks() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The `marks` of all formats."""
    return _plugins.derived(_all_marks)


def _all_marks() -> tuple[tuple[str, ...], tuple[str, ...]]:
    return marks(formats().values())


def _formats() -> dict[str, Format]:
    found = {}
    for name in _plugins.names():
        try:
            found[name] = get_format(name)
        except PluginError:
            continue
    return dict(sorted(found.items(), key=lambda item: (-item[1].precedence, item[0])))


def get_format(name: str) -> Format:
    """The format of this name; ValueError if there is none."""
    found = _plugins.find(name) if isinstance(name, str) else None
    if found is None:
        raise ValueError(f"format must be one of {', '.join(_plugins.names())}, not {name!r}")
    if isinstance(found, Format):
        return found
    made = _made.get(found)
    if made is None:
        if not (isinstance(found, type) and issubclass(found, Format)):
            raise PluginError(f"the format {name!r} is not a zvcore.format.Format", found=repr(found))
        if found.name != name:
            raise PluginError(f"the format {name!r} calls itself {found.name!r}")
        made = _made.setdefault(found, found())
    return made


def register_format(found: type[Format] | Format) -> None:
    """Use a format that no installed distribution names, or instead of the one that does."""
    _plugins.register(found.name, found)


def marks(asked: Iterable[Format]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The documents by which formats are told apart, each once: those to look for first, and the others, of formats
    that are read alone.
    """
    known = [one for one in asked if one.marks]
    likely = dict.fromkeys(mark for one in known if one.makes_arrays or one.begins_groups for mark in one.marks)
    return tuple(likely), tuple(dict.fromkeys(mark for one in known for mark in one.marks if mark not in likely))
