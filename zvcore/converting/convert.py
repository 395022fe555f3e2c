"""`zvcore.convert`: from any array format to any other, and between layouts of one. `zvcore.plan`: what it would do."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zvcore import opening
from zvcore.borrowed.wrapping import as_array
from zvcore.boxes import given_lengths, lengths_of
from zvcore.choices import refuse_texts
from zvcore.converting.asked import Asked
from zvcore.converting.casts import item_type
from zvcore.converting.converting import Converting
from zvcore.converting.lacking import lacking
from zvcore.converting.lines import lines_of
from zvcore.converting.naming import Chosen, chosen_format
from zvcore.converting.one_piece import OnePiece
from zvcore.converting.overlapping import refuse_overlap
from zvcore.converting.planning import Request
from zvcore.converting.rows import is_table, rows_of, table_format
from zvcore.converting.sharing import Sharing
from zvcore.converting.sources import refuse_all_but_arrays
from zvcore.converting.surroundings import surroundings
from zvcore.converting.table_reading import read_table
from zvcore.converting.whole import whole_image
from zvcore.engine import thread_count
from zvcore.errors import ConflictError, UnsupportedError
from zvcore.exchange import Target
from zvcore.exchange.rows import Rows
from zvcore.format import Format, Node, formats, get_format
from zvcore.logs import Log
from zvcore.report import Problem
from zvcore.signatures import asked_like
from zvcore.stores import Store
from zvcore.stores.durability import chosen_durability
from zvcore.stores.objects import is_place
from zvcore.stores.opening import shared_options, takes_options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt
    from distributed import Client

    from zvcore.converting.plan import Plan
    from zvcore.exchange.lines import Lines
    from zvcore.images.whole import WholeImage
    from zvcore.options import Codecs
    from zvcore.report import ConversionReport
    from zvcore.typed import Region

__all__ = ["convert", "plan"]

_log = Log("converting")

# How much memory values and encoded chunks may take together by default.
DEFAULT_MEMORY = 1 << 30

# Or what another library has for one of these: see `zvcore.stores.objects`.
Path = str | os.PathLike[str] | Store | Any
# What only arrays have a use for.
_OF_ARRAYS = (
    "chunks", "shards", "codec", "levels", "region", "dtype", "clip", "method", "factors", "image", "ome", "voxel_size",
    "unit", "axes", "channels", "name", "consolidate", "verify", "manifest", "part", "finish",
)  # fmt: skip
_YES_OR_NO = (
    "verify", "clip", "overwrite", "resume", "strict", "skip_unsupported", "consolidate", "manifest", "finish",
)  # fmt: skip


def convert(
    src: Path | Any,
    dst: Path,
    *,
    format: str | None = None,
    chunks: Sequence[int] | None = None,
    shards: Sequence[int] | bool | None = None,
    codec: Codecs = None,
    levels: int | None = None,
    region: Region | None = None,
    verify: bool = False,
    progress: bool | Callable[[int, int], Any] = False,
    threads: int | None = None,
    client: Client | None = None,
    sharding: Any = None,
    dtype: npt.DTypeLike | None = None,
    clip: bool = False,
    method: str | None = None,
    factors: Sequence[int] | None = None,
    memory: int = DEFAULT_MEMORY,
    overwrite: bool = False,
    resume: bool = True,
    strict: bool = False,
    image: str | None = None,
    ome: bool | str | None = None,
    voxel_size: str | Sequence[float] | None = None,
    unit: str | None = None,
    axes: str | Sequence[str] | None = None,
    channels: str | Sequence[str | Mapping[str, Any]] | None = None,
    name: str | None = None,
    skip_unsupported: bool = False,
    consolidate: bool | None = None,
    manifest: bool = False,
    part: tuple[int, int] | str | None = None,
    finish: bool = False,
    fsync: bool | None = None,
    source_options: dict[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    durability: str | None = None,
    **format_options: Any,
) -> ConversionReport:
    """Write what lies at `src` (an array, a group, a multiscale set; a path, URL, or an opened one) to `dst`.

    `src` may also be an array of another library: of numpy, in memory or mapped, Dask, h5py, Zarr, tensorstore, xarray,
    or anything else with `shape`, `dtype` and `[]`. It is read in parts that fit into memory.

    Options that are not given are taken from the source. The memory order stays the same: N5 (x, y, z) becomes Zarr
    (z, y, x).

    format      one of `zvcore.formats()` that makes arrays; for annotations and points also "zvf", "csv" and "parquet";
                None: as the name ends, such as .trx, .csv or .n5, or else that of what `dst` lies in
    chunks      the shape of chunks, and
    shards      of shards, in the destination's order of axes; shards=False: none, True: of a suitable size
    sharding    for precomputed volumes a specification or "advise"; for Zarr "advise"
    codec       a name, {"name": ..., parameters}, a Codec, or a list of these
    levels      how many coarser levels to add, which makes a pyramid
    method      "mean" or "mode" (the most frequent value, for labels), by which they are made
    factors     how much coarser each level is along each axis of the destination; by default 2 along x, y and z, of
                which those whose voxels are twice as long as others wait until these have caught up
    region      what would stand in the brackets of `src[...]`: integers and slices
    dtype       another data type; values that it cannot hold are an error, or with `clip` the nearest that it can
    verify      read both sides back at the end and compare their checksums
    progress    True for a bar (in a log: lines), or a function that is called with (done, total) bytes of values
    client      a dask.distributed Client, to work on a cluster
    memory      how many bytes values and encoded chunks may take at once; one shard is the least
    overwrite   replace all that is at `dst`; otherwise only a group that is there gets further members, and anything
                that exists already is an error
    resume      resume a conversion that was interrupted, if it is the same
    strict      what would be lost is an error that names all of it, before anything is written
    image       the path of one image among several, "" for that of the group itself
    ome         True, or the version of OME-Zarr: an array becomes an image too; False: an image of one level an array
    voxel_size  (0.5, 0.1, 0.1), or "0.5,0.1,0.1um": along the axes in space, or along all axes, and
    unit        of these; like `axes` from the slowest axis in memory to the fastest
    axes        names of the axes, such as "tczyx"
    channels    names of the channels ("DAPI", or "DAPI:00FF00" with a colour), or what `omero` has of each; the range
                of values to show is taken from the data
    name        what the image is called
    skip_unsupported  what of a group cannot be converted is left out, and told as a loss; otherwise it is an error
                      that names all of it, before anything is written
    consolidate  whether a Zarr group tells of all that lies in it (consolidated metadata); None: if the source's does
    manifest    leave a checksum of every object (`.zvcore-manifest.jsonl`), by which `verify` checks any copy later
    part        (3, 64), or "3/64": do only this part, counted from 1; other processes do the others, in any order. The
                last one closes the conversion, and does what needs the parts of the others
    finish      close a conversion of which all parts are done, if the last one has died; names those that are missing
    fsync       every write to the destination is durable before the next begins, as in `zvcore.open`
    source_options   for opening the source, as `zvcore.open` takes them
    storage_options  for whichever of the two lies in an object store, as in `zvcore.open`
    durability  of what is written into folders, as in `zvcore.open`
    format_options  options of the destination's format, as in `zvcore.create`
    """
    threads = thread_count(threads)
    given, started = locals(), time.monotonic()
    given["format"], _ = _chosen(given)
    source, to_there = _source(given)
    one = _in_one_piece(source, to_there, given)
    if one is not None:
        report = one.run()
    else:
        conversion = _conversion(source, to_there, given)
        report = conversion.run(threads=threads, client=client, progress=progress, verify=verify)
    report.seconds = time.monotonic() - started
    return report


@asked_like(convert)
def plan(given: Mapping[str, Any]) -> Plan:
    """What `convert` would do if it were asked the same: which arrays it would make, how it would fill them, and what
    would be lost. Nothing is written or created, and of the source only metadata are read (and what `channels` needs).

    What `convert` refuses is refused here too. `print(plan)` shows it; `plan.to_json()` is for programs.
    """
    format, why = _chosen(given)
    given = {**given, "format": format, "threads": thread_count(given["threads"])}
    source, to_there = _source(given)
    one = _in_one_piece(source, to_there, given)
    plan = _conversion(source, to_there, given).plan() if one is None else one.plan()
    return replace(plan, notes=[Problem("", why, fatal=False), *plan.notes]) if why else plan


# What `given` stands for below: the arguments of `convert`, by name.


def _chosen(given: Mapping[str, Any]) -> Chosen:
    refuse_texts(given, _YES_OR_NO)
    dst, format = given["dst"], given["format"]
    options = given["storage_options"]
    takes = isinstance(dst, str | os.PathLike) and bool(options) and takes_options(dst)
    chosen = chosen_format(format, dst, options if takes else None)
    if chosen.why:
        _log.info("%s: %s", dst, chosen.why)
    if isinstance(dst, str | os.PathLike) and "://" not in os.fsdecode(dst):
        above, _, in_array = surroundings(os.fsdecode(dst), None)
        if in_array:
            raise ConflictError("this lies among the chunks of an array: name another place", key=str(dst), found=above)
    return chosen


def _source(given: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any] | None]:
    """(the source, opened: arrays, or `Rows`, storage options of the destination).

    Options that say what the columns of a table are, are taken out of `format_options`.
    """
    src, format = given["src"], given["format"]
    from_there, to_there = shared_options(given["storage_options"], src, given["dst"])
    if is_table(src):
        return read_table(str(src), given["format_options"]), to_there
    source = src
    if not isinstance(src, Node) and is_place(src):
        source = opening.open(src, **{"storage_options": from_there, **(given["source_options"] or {})})
    elif not isinstance(src, Node):
        source = as_array(src)
    if table_format(format) is not None or get_format(format).takes_rows:
        rows = rows_of(source)
        if rows is None and table_format(format) is not None:
            refuse_all_but_arrays(source)
            raise UnsupportedError(f"{format} is for annotations and points, not for arrays")
        if rows is not None and table_format(format) is None:
            where = _destination(to_there, given).root
            if where == source.store.root:
                raise ConflictError("points are not written where they are read from", key=where)
        if rows is not None:
            rows.losses.extend(told for _, told in lacking(source))
        return rows or source, to_there
    return source, to_there


def _in_one_piece(source: Any, to_there: Mapping[str, Any] | None, given: Mapping[str, Any]) -> OnePiece | None:
    """The conversion of what is not arrays: rows and lines; None for arrays."""
    format = given["format"]
    what: Rows | Lines | WholeImage | None = source if isinstance(source, Rows) else lines_of(source, format)
    whole = what is None and table_format(format) is None and get_format(format).takes_images
    if what is None and not whole:
        return None
    of_arrays = [name for name in _OF_ARRAYS if given[name] is not None and given[name] is not False]
    if of_arrays and whole:
        raise UnsupportedError(f"files of {format} are written as a whole: no {', '.join(of_arrays)} can be asked for")
    if of_arrays:
        raise UnsupportedError(f"only conversions of arrays take {', '.join(of_arrays)}, not those of points and lines")
    sharding = {} if given["sharding"] is None else {"sharding": given["sharding"]}
    options = {**given["format_options"], **sharding}
    store = None
    if table_format(format) is None:
        get_format(format)  # says what is wrong with its name
        store = _destination(to_there, given)
    read = source.source if isinstance(source, Rows) else source.store
    if read is not None:
        refuse_overlap(read, os.fsdecode(given["dst"]) if store is None else store)
    fsync = chosen_durability(given["durability"], given["fsync"]) == "fsync"
    if what is None:
        what = replace(whole_image(source), threads=given["threads"])
    if not isinstance(source, Rows):
        what.losses.extend(told for _, told in lacking(source))
    return OnePiece(what, given["dst"], store, format, options, given["overwrite"], given["strict"], fsync)


def _destination(to_there: Mapping[str, Any] | None, given: Mapping[str, Any]) -> Store:
    return opening.store_at(given["dst"], "w", to_there, given["format"]).durable(given["fsync"], given["durability"])


def _conversion(source: Any, to_there: Mapping[str, Any] | None, given: Mapping[str, Any]) -> Converting:
    """The conversion of arrays that was asked for."""
    refuse_all_but_arrays(source)
    shards, dtype = given["shards"], given["dtype"]
    target = Target(
        writable(given["format"]),
        _lengths(given["chunks"], "chunks"),
        shards if shards is None or isinstance(shards, bool) else _lengths(shards, "shards"),
        given["codec"],
        given["sharding"],
        dict(given["format_options"]),
    )
    said = {name: given[name] for name in ("ome", "voxel_size", "unit", "axes", "channels", "name")}
    request = Request(
        target, given["region"], None if dtype is None else item_type(dtype), given["clip"], given["levels"] or 0,
        given["method"], _lengths(given["factors"], "factors"), given["image"], Asked.of(**said),
    )  # fmt: skip
    store = _destination(to_there, given)
    conversion = Converting(
        source, store, request, memory=int(given["memory"]), overwrite=given["overwrite"],
        resume=given["resume"], skip=given["skip_unsupported"], consolidate=given["consolidate"],
        sharing=Sharing(store, given["part"], given["finish"], given["overwrite"]),
    )  # fmt: skip
    conversion.manifest = given["manifest"]
    if given["strict"]:
        conversion.refuse_losses()
    return conversion


def _lengths(given: Sequence[int] | None, what: str) -> tuple[int, ...] | None:
    if given is None:
        return None
    if any(isinstance(one, list | tuple) for one in given_lengths(given, what)):
        raise UnsupportedError(
            "a conversion makes chunks of one size: make the array with create(chunks=...), and write into it",
            expected="a length for each axis", found=given,
        )  # fmt: skip
    return lengths_of(given, what)


def writable(format: str) -> Format:
    """The format of this name, whose arrays can be made."""
    found = get_format(format)
    if not (found.makes_arrays or found.takes_arrays):
        known = ", ".join(name for name, one in formats().items() if one.makes_arrays or one.takes_arrays)
        raise UnsupportedError(f"arrays cannot be written as {format!r}", expected=known)
    return found
