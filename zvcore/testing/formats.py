"""`check_format`, for the tests of format plugins."""

from __future__ import annotations

import inspect
import itertools
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import zvcore
from zvcore.array import Array
from zvcore.errors import ConflictError, MetadataError, ReadOnlyError, UnsupportedError, ZvcoreError
from zvcore.format import Format, Node, get_format
from zvcore.opening import detect, store_at
from zvcore.testing.processes import regions, start_writer, wait_for
from zvcore.testing.raising import refuses

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["check_format"]

DTYPES = ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")
# Chunks do not divide the shape.
SHAPE, CHUNKS = (9, 10, 7), (4, 4, 4)
KILLS = 4
ATTRIBUTES = {"zvcore_test": [1, {"a": "ü"}]}
NO_OPTION = "zvcore_no_such_option"


def check_format(format: str | Format, *, checksums: bool = False, **options: Any) -> None:
    """Raise AssertionError, saying what is wrong, unless a format that makes arrays does all that zvcore relies on.

    `format` is installed or registered. `options` go to `zvcore.create`. With `checksums=True` a byte that was changed
    in the middle of an object must be noticed; without it, other values may be read: only a checksum would tell.
    """
    name = format if isinstance(format, str) else format.name
    found = get_format(name)
    if isinstance(format, Format):
        assert type(found) is type(format), f"{name}: another format has this name: register_format has to come first"
    if not found.makes_arrays:
        raise TypeError(f"{name} makes no arrays; check_format is for formats that do")
    with tempfile.TemporaryDirectory() as folder:
        trial = _Trial(found, Path(folder), options)
        try:
            _check_all(trial, checksums)
        except ZvcoreError as error:
            raise AssertionError(f"{name}: what must work raises {error!r}") from error


def _check_all(trial: _Trial, checksums: bool) -> None:
    dtype = _check_dtypes(trial)
    _check_node(trial, dtype)
    _check_parts(trial, dtype)
    _check_attributes(trial, dtype)
    _check_options(trial, dtype)
    _check_reading_only(trial, dtype)
    _check_conflicts(trial, dtype)
    _check_writers(trial, dtype)
    _check_processes(trial, dtype)
    _check_kills(trial, dtype)
    _check_damage(trial, dtype, checksums)


@dataclass
class _Trial:
    """Arrays of one format, each at a place of its own in a folder."""

    format: Format
    folder: Path
    options: dict[str, Any]

    def __post_init__(self) -> None:
        self.options = {"shape": SHAPE, **self.options}
        if self._takes_chunks():
            self.options.setdefault("chunks", CHUNKS)

    @property
    def name(self) -> str:
        return self.format.name

    def _takes_chunks(self) -> bool:
        overridden = type(self.format).create is not Format.create
        parameters = inspect.signature(self.format.create if overridden else self.format.creator()).parameters
        return "chunks" in parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values())

    def place(self, name: str) -> str:
        return str(self.folder / f"{name}{next(iter(self.format.suffixes), '')}")

    def create(self, place: str, dtype: str, **options: Any) -> Array:
        array = zvcore.create(self.place(place), format=self.name, **{"dtype": dtype, **self.options, **options})
        assert isinstance(array, Array), f"{self.name}: create must give an Array, not {type(array).__name__}"
        assert not array.read_only, f"{self.name}: what create gives must be open for writing"
        return array

    def filled(self, place: str, dtype: str) -> np.ndarray[Any, Any]:
        """The values of a new array."""
        array = self.create(place, dtype)
        values = _sample(array.shape, dtype)
        array[...] = values
        return values

    def open(self, place: str, mode: Any = "r", **options: Any) -> Array:
        return self.find(place, mode, **options)[0]

    def find(self, place: str, mode: Any = "r", **options: Any) -> tuple[Array, list[str]]:
        """The array at a place, and the names by which it is found there."""
        node = zvcore.open(self.place(place), mode, **options)
        names = []
        while node.kind != "array":
            members = node.children()
            assert members, f"{self.name}: what was created is opened as {node!r}, in which no array lies"
            names.append(next(iter(members)))
            node = members[names[-1]]
        assert isinstance(node, Array), f"{self.name}: what calls itself an array must be an Array, not {node!r}"
        return node, names

    def start_writer(self, place: str, part: slice, turns: int, first: int = 1) -> Any:
        names = self.find(place)[1]
        return start_writer(self.format, self.place(place), "\n".join(names), part, turns, first)


def _sample(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """Values without zeros, which is what absent chunks read as."""
    return np.random.default_rng(7).integers(1, 100, shape).astype(dtype)


def _same(array: Array, values: np.ndarray[Any, Any], what: str) -> None:
    read = array[...]
    assert read.dtype == values.dtype, f"{what}: the data type is {read.dtype}, not {values.dtype}"
    assert read.shape == values.shape, f"{what}: the shape is {read.shape}, not {values.shape}"
    different = np.argwhere(read != values)
    assert not len(different), f"{what}: {len(different)} values are wrong, the first at {tuple(different[0].tolist())}"


def _check_dtypes(trial: _Trial) -> str:
    """Round trips of every data type that the format takes; returns one of these."""
    taken: dict[str, None] = {}
    refused: dict[str, ZvcoreError] = {}
    for dtype in (trial.options["dtype"],) if "dtype" in trial.options else DTYPES:
        place = f"dtype{np.dtype(dtype).name}"
        try:
            array = trial.create(place, dtype)
        except (MetadataError, UnsupportedError) as error:
            refused[dtype] = error
            continue
        values = _sample(array.shape, dtype)
        array[...] = values
        _same(array, values, f"{trial.name}, {dtype}, as written")
        _same(trial.open(place), values, f"{trial.name}, {dtype}, opened again")
        report = zvcore.verify(trial.place(place))
        assert report.ok, f"{trial.name}, {dtype}: verify finds fault with sound data: {report.problems}"
        taken[dtype] = None
    assert taken, f"{trial.name}: no data type can be written: {refused}"
    return "u2" if "u2" in taken else next(iter(taken))


def _check_node(trial: _Trial, dtype: str) -> None:
    trial.filled("node", dtype)
    found = detect(store_at(trial.place("node")))
    assert found is not None, f"{trial.name}: detect does not find what create made"
    assert found.name == trial.name, f"{trial.name}: what create made is taken for {found.name}"
    _check_protocol(trial, zvcore.open(trial.place("node")), store_at(trial.place("node")).root)
    array = trial.open("node")
    assert not array.children(), f"{trial.name}: an array has no children"
    assert len(array.chunks) == array.ndim, f"{trial.name}: chunks {array.chunks} of an array of shape {array.shape}"


def _check_protocol(trial: _Trial, node: Any, root: str) -> None:
    assert isinstance(node, Node), f"{trial.name}: {node!r} is no zvcore.format.Node"
    assert isinstance(node.kind, str) and node.kind, f"{trial.name}: kind must be a word, not {node.kind!r}"
    assert node.format == trial.name, f"{trial.name}: the format of {node!r} is {node.format!r}"
    assert isinstance(node.path, str), f"{trial.name}: path must be text, not {node.path!r}"
    assert node.store.root == root, f"{trial.name}: the store of {node!r} lies at {node.store.root}, not {root}"
    for name, member in node.children().items():
        assert isinstance(name, str), f"{trial.name}: children() must be named by text, not {name!r}"
        assert member.path != node.path, f"{trial.name}: {name!r} has the path of what it lies in"
        _check_protocol(trial, member, root)


def _check_parts(trial: _Trial, dtype: str) -> None:
    """Writing and reading parts, across the borders of chunks and up to the array's end."""
    array = trial.create("parts", dtype)
    expected = np.full(array.shape, 0 if array.fill_value is None else array.fill_value, np.dtype(dtype))
    _same(array, expected, f"{trial.name}, before anything is written")
    regions: list[tuple[Any, ...]] = [
        tuple(slice(max(0, n // 3), n) for n in array.shape),
        tuple(slice(n // 2, n // 2 + 1) for n in array.shape),
        (array.shape[0] - 1, ...),
        (slice(0, array.shape[0] // 2), ...),
    ]
    for seed, region in enumerate(regions):
        values = (np.arange(expected[region].size).reshape(expected[region].shape) % 50 + seed + 1).astype(dtype)
        array[region] = expected[region] = values
        _same(array, expected, f"{trial.name}, after writing {region}")
    array = trial.open("parts")
    _same(array, expected, f"{trial.name}, written in parts and opened again")
    for region in (*regions, (slice(1, None, 2), ...), (slice(0, 0), ...), (0,) * array.ndim):
        assert np.array_equal(array[region], expected[region]), f"{trial.name}: reading {region} gives other values"


def _check_attributes(trial: _Trial, dtype: str) -> None:
    """Attributes that were given are there afterwards, even after the array was enlarged."""
    attributes = ATTRIBUTES
    try:
        array = trial.create("attributes", dtype, attrs=attributes)
    except (MetadataError, UnsupportedError):  # a format without attributes
        attributes = {}
        array = trial.create("attributes", dtype, overwrite=True)
    values = _sample(array.shape, dtype)
    array[...] = values
    _has_attributes(trial, attributes, "create(attrs=...)")
    larger = (array.shape[0] + 5, *array.shape[1:])
    try:
        array.resize(larger)
    except UnsupportedError:
        return
    _has_attributes(trial, attributes, "resize")
    grown = trial.open("attributes")
    assert grown.shape == array.shape == larger, f"{trial.name}: resize({larger}) gives {array.shape}, {grown.shape}"
    assert np.array_equal(grown[: len(values)], values), f"{trial.name}: resize to a larger shape has changed values"
    assert (grown[len(values) :] == grown.fill_value).all(), f"{trial.name}: what resize adds is not the fill value"


def _has_attributes(trial: _Trial, attributes: dict[str, Any], what: str) -> None:
    found = trial.open("attributes").attrs
    for key, value in attributes.items():
        assert key in found, f"{trial.name}: after {what} the attribute {key!r} is not there"
        assert found[key] == value, f"{trial.name}: after {what} the attribute {key!r} is {found[key]!r}, not {value!r}"


def _check_options(trial: _Trial, dtype: str) -> None:
    trial.filled("options", dtype)
    unknown = {NO_OPTION: 1}
    calls: dict[str, Callable[[], Any]] = {
        "create": lambda: trial.create("refused", dtype, **unknown),
        "open": lambda: trial.open("options", **unknown),
    }
    for what, call in calls.items():
        text = str(refuses(TypeError, call, f"{trial.name}: {what} with the option {NO_OPTION!r}"))
        for word in (trial.name, NO_OPTION):
            assert word.lower() in text.lower(), f"{trial.name}: {what} must name {word!r}, and only says: {text}"
    assert not Path(trial.place("refused")).exists(), f"{trial.name}: create has refused an option and left something"


def _check_reading_only(trial: _Trial, dtype: str) -> None:
    values = trial.filled("reading", dtype)
    array = trial.open("reading")
    assert array.read_only, f"{trial.name}: what mode 'r' opens must be read_only"

    def write() -> None:
        array[...] = values[::-1]

    refuses(ReadOnlyError, write, f"{trial.name}: writing to what mode 'r' has opened")
    _same(trial.open("reading"), values, f"{trial.name}, after a write that was refused")
    changed = trial.open("reading", "r+")
    changed[...] = values[::-1]
    _same(trial.open("reading"), values[::-1], f"{trial.name}, changed in mode 'r+'")


def _check_conflicts(trial: _Trial, dtype: str) -> None:
    values = trial.filled("conflicts", dtype)
    refuses(ConflictError, lambda: trial.create("conflicts", dtype), f"{trial.name}: create where an array is")
    _same(trial.open("conflicts"), values, f"{trial.name}, after a create that was refused")
    trial.create("conflicts", dtype, overwrite=True)
    array = trial.open("conflicts")
    assert array.shape == values.shape, f"{trial.name}: overwrite=True gives the shape {array.shape}"
    assert not np.array_equal(array[...], values), f"{trial.name}: overwrite=True has kept the old values"


def _check_writers(trial: _Trial, dtype: str) -> None:
    """Two threads, each with an array of its own, write every other chunk."""
    array = trial.create("writers", dtype)
    values = _sample(array.shape, dtype)
    positions = list(itertools.product(*map(range, array.grid)))
    errors: list[BaseException] = []
    begin = threading.Barrier(2)

    def write(first: int) -> None:
        try:
            mine = trial.open("writers", "r+")
            begin.wait()
            for position in positions[first::2]:
                region = tuple(slice(i * n, (i + 1) * n) for i, n in zip(position, array.chunks, strict=True))
                mine[region] = values[region]
        except BaseException as error:
            begin.abort()
            errors.append(error)

    threads = [threading.Thread(target=write, args=(first,)) for first in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise AssertionError(f"{trial.name}: two threads that write different chunks: {errors[0]!r}") from errors[0]
    _same(trial.open("writers"), values, f"{trial.name}, different chunks written by two threads")


def _check_processes(trial: _Trial, dtype: str) -> None:
    """Two processes write every other chunk, at the same time."""
    trial.create("processes", dtype)
    writers = [trial.start_writer("processes", slice(first, None, 2), turns=2, first=first) for first in range(2)]
    if None in writers:  # the format exists in this process alone
        return
    for said in [wait_for(writer) for writer in writers]:
        assert not said, f"{trial.name}: two processes that write different chunks: {said}"
    array = trial.open("processes")
    for number, region in enumerate(regions(array)):
        assert (array[region] == 2 + number % 2).all(), (
            f"{trial.name}: {region}, written by one of two processes, is lost"
        )


def _check_kills(trial: _Trial, dtype: str) -> None:
    """A writer that is killed leaves each chunk as it was or as it was to be, and the next one continues from there."""
    trial.create("kills", dtype)
    for kill in range(KILLS):
        writer = trial.start_writer("kills", slice(None), turns=1000, first=kill)
        if writer is None:
            return
        for _ in range(3 * kill + 1):
            writer.stdout.readline()
        writer.kill()
        writer.wait()
        said = writer.stderr.read()
        assert writer.returncode < 0, f"{trial.name}: a process that writes one chunk after the other: {said}"
        writer.stdout.close()
        writer.stderr.close()
        array = trial.open("kills")
        for region in regions(array):
            found = np.unique(array[region])
            assert len(found) == 1, f"{trial.name}: a writer was killed, and {region} holds {found}: old and new"
        report = zvcore.verify(trial.place("kills"))
        assert report.ok, f"{trial.name}: a writer was killed, and verify finds {report.problems}"


def _check_damage(trial: _Trial, dtype: str, checksums: bool) -> None:
    """Every object cut off, and every object with another byte in its middle."""
    values = trial.filled("damage", dtype)
    store = store_at(trial.place("damage"), "r+", format=trial.name)
    for key in list(store.list()):
        sound = bytes(store.get(key) or b"")
        half = len(sound) // 2
        if not sound:
            continue
        store.put(key, sound[:half])
        _check_damaged(trial, values, key, "cut off after half of it", strict=True)
        store.put(key, sound[:half] + bytes([sound[half] ^ 0xFF]) + sound[half + 1 :])
        _check_damaged(trial, values, key, f"with another byte {half}", strict=checksums)
        store.put(key, sound)
    _same(trial.open("damage"), values, f"{trial.name}, with all objects whole again")


def _check_damaged(trial: _Trial, values: np.ndarray[Any, Any], key: str, how: str, *, strict: bool) -> None:
    what = f"{trial.name}: {key} {how}"
    failed: ZvcoreError | None = None
    try:
        # By its name: the broken object may be the document that identifies the format.
        read = trial.open("damage", format=trial.name)[...]
    except ZvcoreError as error:
        failed = error
    except Exception as error:
        raise AssertionError(f"{what}: reading raises {type(error).__name__}, no error of zvcore: {error}") from error
    else:
        assert not strict or np.array_equal(read, values), f"{what}: reading gives other values instead of an error"
    try:
        report = zvcore.verify(trial.place("damage"), format=trial.name)
    except ZvcoreError as error:
        raise AssertionError(f"{what}: verify raises {error!r} instead of reporting it") from error
    except Exception as error:
        raise AssertionError(f"{what}: verify raises {type(error).__name__}, no error of zvcore: {error}") from error
    if failed is not None:
        assert not report.ok, f"{what}: verify finds nothing, and reading raises {failed!r}"
        told = "; ".join(map(str, report.problems))
        assert key in told, f"{what}: verify does not name the object, it says: {told}"
