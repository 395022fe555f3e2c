"""The front door: `zvcore.open` and `zvcore.create` find the format and hand over to it."""

from __future__ import annotations

import os
import warnings
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Literal

from zvcore.choices import AUTO
from zvcore.converting.note import KEY as NOTE
from zvcore.converting.note import unfinished_above, unfinished_at
from zvcore.errors import MetadataError, NotFoundError, UnfinishedConversionWarning, UnsupportedError, ZvcoreError
from zvcore.format import Format, all_marks, file_endings, formats, get_format
from zvcore.logs import Log
from zvcore.stores import Store
from zvcore.stores.opening import ARCHIVE_ENDINGS, above_in_chain, open_beside, open_matching, open_store
from zvcore.undoing import Before, going_again

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence, Set
    from contextlib import AbstractContextManager

    from zvcore.array import Array

__all__ = ["create", "detect", "may_be_dataset", "nothing_known", "open", "store_at", "unknown_file", "unreadable"]

_log = Log("opening")

# Or what another library has for one of these: see `zvcore.stores.objects`.
Path = str | os.PathLike[str] | Store | Any
Mode = Literal["r", "r+", "w"]


def detect(store: Store, marked: Set[str] | None = None) -> Format | None:
    """Which format lies at the root of this store, or None.

    `marked` are the documents that tell formats which are there, for callers that have looked for all of them.
    """
    if marked is None and store.file is None:
        with store.looking_at(*all_marks()):
            return _detected(store, store.present(_every_mark()))
    return _detected(store, marked)


def _detected(store: Store, marked: Set[str] | None) -> Format | None:
    asked = _those_marked(marked)
    if store.file is not None:
        return next((one for one in asked if one.names_file(str(store.file)) and one.detect(store)), None)
    for one in asked:
        # What is marked need not be asked again whether it is, where that is all it looks at.
        if (marked is not None and type(one).detect is Format.detect and one.marks) or one.detect(store):
            _log.info("%s: the format is %s", store.root, one.name)
            return one
    found = next((one for one in formats().values() if one.adopts(store)), None)
    _log.info("%s: %s", store.root, "no format is known" if found is None else f"taken for {found.name}")
    return found


def _every_mark() -> tuple[str, ...]:
    likely, others = all_marks()
    return (*likely, *others)


def _those_marked(marked: Set[str] | None) -> Collection[Format]:
    """The formats of which one of these documents is there, and those that have none; all of them, if it is None."""
    asked = formats().values()
    if marked is None:
        return asked
    return [one for one in asked if not one.marks or not marked.isdisjoint(one.marks)]


def may_be_dataset(name: str) -> bool:
    """Whether a file may be a dataset by its name, or an archive that has one in it."""
    return name.lower().endswith((*ARCHIVE_ENDINGS, *file_endings()))


def store_at(
    path: Path,
    mode: str = "r",
    storage_options: Mapping[str, Any] | None = None,
    format: str | None = None,
    around: Sequence[str] = (),
) -> Store:
    """The store at a path or URL: over a single file, where that is what datasets of the format are; else a folder.

    `around`: what is looked for beside a file that is opened right away.
    """
    if not isinstance(path, str | os.PathLike):
        return open_store(path, mode, storage_options)
    text = os.fsdecode(path)
    found = open_matching(text, mode, storage_options)
    if found is not None:
        return found
    meant = None if format is None else get_format(format)
    text, inside = _file_and_inside(text, meant)
    name = (above_in_chain(text) or text.rpartition("/"))[-1].lower()
    endings = file_endings() if meant is None else tuple(meant.suffixes)
    # Of formats that have files and folders, what is not called like a file is a folder.
    folders = meant is not None and bool(meant.marks)
    if endings and ((meant is not None and not folders) or name.endswith(endings)):
        if mode == "w" and meant is not None and not name.endswith(endings):
            raise ValueError(f"{format} datasets are files, whose names end with {' or '.join(endings)}, not {text!r}")
        file = open_beside(text, mode, storage_options)
        if file is not None:
            file = file if inside is None else file.within(inside)
            if mode == "w" or (file.is_there(around) if around else file.exists(file.file)):
                return file
    if inside is not None:
        raise NotFoundError("there is no such file", key=text)
    try:
        return open_store(path, mode, storage_options)
    except NotFoundError:
        within = named_within(text)
        if within is None:
            raise
        raise NotFoundError(f"there is nothing here: what lies in a file is named {within}", key=text) from None
    except UnsupportedError:
        if "://" not in text and os.path.isfile(text):
            raise unknown_file(text) from None
        raise


def _file_and_inside(text: str, meant: Format | None) -> tuple[str, str | None]:
    """(a file, what in it is meant) of `file.ending:/path`, where a format knows such files; else (all, None)."""
    if meant is None:
        endings = file_endings(inside=True)
    else:
        endings = tuple(meant.suffixes) if meant.inner_paths else ()
    at = text.find(":/") if endings else -1
    while at >= 0:
        if text[:at].lower().endswith(endings):
            return text[:at], text[at + 2 :]
        at = text.find(":/", at + 1)
    return text, None


def named_within(text: str) -> str | None:
    """How something in a file is named, for a path that leads into the file as into a folder; None for others."""
    endings = file_endings(inside=True)
    parts = text.split("/")
    for number in range(1, len(parts)):
        above = "/".join(parts[:number])
        if above.lower().endswith(endings) and "://" not in above and os.path.isfile(above):
            return f"{above}:/{'/'.join(parts[number:])}"
    return None


def unknown_file(text: str) -> UnsupportedError:
    """The error for a file that is no dataset by its name, and part of none."""
    known = [f"{suffix} ({one.title})" for one in formats().values() for suffix in one.suffixes]
    what = "this is a file, of no format that zvcore knows by its name"
    if text.endswith(".json"):
        what += f"; references of kerchunk are opened as reference://, with the storage option fo={text}"
    return UnsupportedError(
        what,
        key=text,
        expected=f"a folder, or a file whose name ends with {', '.join(known)}" if known else "a folder",
    )


def open(
    path: Path,
    mode: Mode = "r",
    format: str | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    fsync: bool | None = None,
    durability: str | None = None,
    cache: int | None = None,
    **options: Any,
) -> Any:
    """Open the data at a path or URL: an `Array`, or a mapping of them (a group, a volume, a Zarr Vectors store).

    path             may also be a store of zvcore, zarr-python or obstore, a session of Icechunk, or a file system or
                     mapper of fsspec

    mode             "r" to read only, "r+" to read and write, "w" to create an empty group (needs `format`)
    format           one of `zvcore.formats()`; detected if it is not given
    storage_options  for object stores: `endpoint`, `region`, `access_key_id`, `secret_access_key`, `allow_http`, ...
    fsync            every write to a folder is durable before it returns, file and folders; None: if ZVCORE_FSYNC=1
                     stands in the environment
    durability       for folders: "none", "late" (the default), "rename" or "fsync", see docs/guarantees.md; `fsync` is
                     the last
    cache            for folders: how many bytes of decoded chunks of Zarr shards are kept for reads of single chunks
                     and parts of them, until their file changes; None: as many as ZVCORE_CACHE says, none by default
    options          options of the format, such as `scale=` for precomputed volumes and `order="C"` for N5

    The destination of a conversion that has not ended, and what lies in one, is opened with an
    `UnfinishedConversionWarning`. (In object stores, up to eight folders above the place are asked, all at once.)
    """
    if mode not in ("r", "r+", "w"):
        raise ValueError(f"mode must be 'r', 'r+' or 'w', not {mode!r}")
    if mode == "w" and format is None:
        raise ValueError("mode 'w' needs a format")
    begun = get_format(str(format)) if mode == "w" else None
    if begun is not None and not begun.begins_groups:
        raise UnsupportedError(f"{begun.name} has no empty groups that mode 'w' could create", key=str(path))
    store = store_at(path, mode, storage_options, format, (NOTE,)).durable(fsync, durability)
    if cache is not None:
        store = store.caching(cache)
    if begun is not None:
        return _opened(begun, store, mode, options)
    with _looking(store, format, (NOTE,)):
        opened = open_silently(store, mode, format, **options)
        unfinished = unfinished_at(store) or unfinished_above(store)
    if unfinished is not None:
        warnings.warn(f"{unfinished.place}: {unfinished}", UnfinishedConversionWarning, stacklevel=2)
    return opened


def open_silently(store: Store, mode: Mode = "r", format: str | None = None, **options: Any) -> Any:
    """`open`, for a caller that knows of unfinished conversions, or tells of them itself."""
    with _looking(store, format):
        found = detect(store) if format is None else get_format(format)
        if found is not None:
            opened = _opened(found, store, mode, options, detected=format is None)
            _log.info("opened %s: %s %s, mode %s", store.root, found.name, getattr(opened, "kind", "array"), mode)
            return opened
    raise _nothing_at(store)


def _looking(store: Store, format: str | None, around: Sequence[str] = ()) -> AbstractContextManager[None]:
    """Ask a remote store for what tells the format, if that is not known, and for what lies `around`, at once."""
    if format is None:
        return store.looking_at(*all_marks(), around=around)
    return store.looking_at((), around=around) if around else nullcontext()


def _opened(format: Format, store: Store, mode: str, options: Mapping[str, Any], *, detected: bool = False) -> Any:
    unknown = sorted(options.keys() - set(format.open_options))
    if unknown:
        has = f"it has {', '.join(format.open_options)}" if format.open_options else "it has none"
        raise TypeError(f"{format.name} has no option {unknown[0]!r} for opening; {has}")
    return (format.open_detected if detected else format.open)(store, mode, **options)


def create(
    path: Path,
    *,
    format: str,
    shape: tuple[int, ...] | int | None = None,
    dtype: Any = None,
    data: Any = None,
    chunks: tuple[int, ...] | int | None = None,
    shards: tuple[int, ...] | int | None = None,
    codec: Any = AUTO,
    fill_value: Any = AUTO,
    attrs: dict[str, Any] | None = None,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    fsync: bool | None = None,
    durability: str | None = None,
    **format_options: Any,
) -> Array:
    """Make a new array and open it for writing.

    data              what is written to it: anything with `shape`, `dtype` and `[]`, arrays of numpy, Dask, h5py,
                      Zarr, tensorstore and xarray, read in parts that fit into memory, or what numpy makes an array of.
                      Its shape and data type are the array's, unless others are given, and so are its attributes, names
                      of axes, sizes and places of voxels, where the format has a place for them; the rest is told by a
                      `LostMetadataWarning`. Values that another data type cannot hold are an error, as in `convert`.
                      Where it cannot be written, the array goes again
    shape, chunks     lengths along the axes; of an array of one axis also a bare number
    codec             a name, {"name": ..., parameters}, a Codec, a list of these, or None for none; what the format
                      chooses (zstd, where it can) unless it is given
    fill_value        what is not stored reads as; 0, or what is nothing to the data type, unless it is given
    shards            the shape of what one object holds, for formats that have shards
    overwrite         replace what lies at the path; else that is an error
    storage_options   for object stores, and
    fsync, durability  for folders, as in `open`
    """
    saying = None
    if data is not None:
        from zvcore.borrowed.writing import array_like

        data = array_like(data)
        shape = data.shape if shape is None else shape
        dtype = data.dtype if dtype is None else dtype
    if shape is not None:
        format_options["shape"] = shape
    if dtype is not None:
        format_options["dtype"] = dtype
    if chunks is not None:
        format_options["chunks"] = chunks
    if shards is not None:
        format_options["shards"] = shards
    store = store_at(path, "w", storage_options, format).durable(fsync, durability)
    if data is not None:
        from zvcore.array import Array
        from zvcore.borrowed.saying import Saying
        from zvcore.borrowed.writing import fill, refuse_own
        from zvcore.converting.casts import casting

        refuse_own(store, data)
        if isinstance(data, Array):
            saying = Saying(data, get_format(format), format_options, attrs)
            attrs, format_options = saying.attrs or attrs, saying.options
    maker = get_format(format)
    before = None if data is None else Before.at(store, maker, overwrite)
    made = maker.create(
        store,
        codec=codec,
        fill_value=fill_value,
        attrs=attrs,
        overwrite=overwrite,
        **format_options,
    )
    if before is not None:
        with going_again(store, maker, made, before):
            if saying is not None:
                saying.warn(made)
            fill(made, data, casting(data.dtype, made.dtype))
    return made


def _nothing_at(store: Store) -> ZvcoreError:
    try:
        folders, objects = store.list_dir()
    except UnsupportedError:  # what cannot be listed
        folders, objects = [], []
    unfinished = unfinished_at(store)
    if unfinished is not None:
        return UnsupportedError(f"{unfinished}: nothing of it can be opened yet", key=store.root)
    if not folders and not objects:
        return unreadable(store) or NotFoundError("there is nothing here", key=store.root)
    return nothing_known(store, [*folders, *objects])


def unreadable(store: Store, marked: Set[str] | None = None) -> ZvcoreError | None:
    """What is wrong with a document that would tell the format, where one is there and no format is detected.

    `marked` as in `detect`.
    """
    for one in _those_marked(marked):
        error = one.unreadable(store)
        if error is not None:
            if error.key in one.marks:
                error.key = f"{store.root}/{error.key}"
            if isinstance(error, MetadataError):
                error.message = f"the document that tells the format cannot be read: {error.message}".rstrip(": ")
            return error
    return None


def nothing_known(store: Store, names: Sequence[str] = ()) -> ZvcoreError:
    """The error for a place where no format is detected: a document that cannot be read, or that there is none."""
    error = unreadable(store)
    if error is not None:
        return error
    present = [mark for some in all_marks() for mark in some if store.exists(mark)]
    usual = dict.fromkeys(one.marks[0] for one in formats().values() if one.marks)
    told = f"{', '.join(present)} describes nothing known" if present else f"there is no {', no '.join(usual)}"
    hints = [f"; {one.unmarked} can be opened with format={one.name!r}" for one in formats().values() if one.unmarked]
    hints += [f"; {left}" for one in formats().values() if (left := one.left_over(names)) is not None]
    return UnsupportedError(
        f"no format that zvcore knows: {told}{''.join(hints)}",
        key=store.root,
        found=", ".join(sorted(names)[:5]) or None,
    )
