"""Formats that are single files, and documents of XML: what zvcore reads of them itself or through libraries of others.

Where such a library says what the values are, too, they are compared. HDF5's own library takes hostile files apart in C
that zvcore does not answer for: of HDF5 the chunks are fuzzed, and what an index may say of them.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import warnings
import zipfile
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

import zvcore
from fuzz.harness import REFUSALS, ROOM, look_at, target
from zvcore.borrowed.stored import ChunkIndex, StoredLayout
from zvcore.documents.xml import parse_xml
from zvcore.stores import MemoryStore
from zvcore.stores.single_file import SingleFileStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


def values(*shape: int, dtype: str = "<u2") -> Any:
    return (np.arange(np.prod(shape)) % 251).reshape(shape).astype(dtype)


def file_store(name: str, data: bytes) -> SingleFileStore:
    folder = MemoryStore()
    folder.put(name, data)
    return SingleFileStore(folder, name)


def arrays_of(node: Any, depth: int = 3) -> Iterator[Any]:
    """The first arrays of what is opened; groups are described on the way."""
    repr(node)
    dict(node.attrs)
    if hasattr(node, "shape"):
        yield node
    elif depth and hasattr(node, "keys"):
        for name in list(node)[:3]:
            with contextlib.suppress(REFUSALS):
                yield from arrays_of(node[name], depth - 1)


def read_small(array: Any) -> Any:
    """All values if there are few, else only those of the first corner."""
    look_at(array)
    nbytes = array.dtype.itemsize * int(np.prod(array.shape, dtype=object))
    return np.asarray(array.read(threads=1)) if nbytes <= ROOM else None


def file_target(
    name: str,
    file: str,
    seeds: Callable[[], Iterable[bytes]],
    theirs: Callable[[bytes], Any] | None = None,
    needs: str = "",
) -> None:
    """Opens such a file and reads what it has; `theirs` says which values another library reads from it."""

    def run(data: bytes) -> None:
        opened = zvcore.open(file_store(file, data))
        for array in arrays_of(opened):
            found = read_small(array)
            if found is not None and theirs is not None and array is opened:
                try:
                    expected = np.asarray(theirs(data))
                except Exception:  # what zvcore takes and they refuse is no fault
                    continue
                assert found.shape == expected.shape, f"{found.shape} is not {expected.shape}"
                assert_equal(found, expected.astype(found.dtype))

    target(name, seeds, needs)(run)


def assert_equal(ours: Any, theirs: Any) -> None:
    """All bytes, but for the sign of zeros and the payload of NaN where values were computed."""
    if ours.tobytes() != theirs.tobytes():
        assert ours.dtype.kind in "fc" and np.array_equal(ours, theirs, equal_nan=True), f"{ours} is not {theirs}"


# --- .npy and .npz


def npy_files() -> list[bytes]:
    found = []
    for one in (values(3, 4), np.asfortranarray(values(2, 3, dtype=">f4")), values(5, dtype="S3"), np.float64(2.5)):
        file = io.BytesIO()
        np.save(file, one)
        found.append(file.getvalue())
    pairs = io.BytesIO()
    np.save(pairs, np.zeros(3, [("a", "<i2"), ("b", "f8", (2,))]))
    return [*found, pairs.getvalue()]


def npz_files() -> list[bytes]:
    found = []
    for save in (np.savez, np.savez_compressed):
        file = io.BytesIO()
        save(file, a=values(3, 4), **{"deep/b": values(4, dtype="<f8")})
        found.append(file.getvalue())
    return found


file_target("npy", "a.npy", npy_files, lambda data: np.load(io.BytesIO(data), allow_pickle=False))
file_target("npz", "a.npz", npz_files)


# --- NIfTI and MRC


def nifti_files() -> list[bytes]:
    import nibabel

    plain = nibabel.Nifti1Image(values(4, 3, 2, dtype="<i2"), np.diag([2, 2, 3, 1]))
    scaled = nibabel.Nifti1Image(values(3, 2, 2, 2, dtype="<u1"), np.eye(4))
    scaled.header.set_slope_inter(2, 1)
    large = nibabel.Nifti2Image(values(2, 3, dtype="<f4"), np.eye(4))
    return [one.to_bytes() for one in (plain, scaled, large)]


def read_by_nibabel(data: bytes) -> Any:
    import nibabel

    return nibabel.Nifti1Image.from_bytes(data).dataobj


def mrc_files() -> list[bytes]:
    return [an_mrc(one) for one in (values(2, 3, 4, dtype="i2"), values(1, 2, 3, dtype="f4"))]


def an_mrc(volume: Any) -> bytes:
    import mrcfile

    found = mrcfile.mrcinterpreter.MrcInterpreter()
    found._iostream = io.BytesIO()
    found._permissive, found._read_only = False, False
    found._create_default_attributes()
    found.set_data(volume)
    found.flush()
    return bytes(found._iostream.getvalue())


file_target("nifti", "a.nii", nifti_files, read_by_nibabel, needs="nibabel")
file_target(
    "nifti_packed", "a.nii.gz", lambda: [gzip.compress(one, mtime=0) for one in nifti_files()[:2]], needs="nibabel"
)
file_target("mrc", "a.mrc", mrc_files, needs="mrcfile")


# --- NRRD


def nrrd_files() -> list[bytes]:
    import nrrd

    found = []
    place = {"space directions": np.diag([1, 1, 2.5]), "space origin": [4, 0, 0], "space units": ["mm"] * 3}
    for encoding, dtype in (("raw", "<u2"), ("gzip", ">i2")):
        file = io.BytesIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pynrrd's own
            nrrd.write(file, values(4, 3, 2, dtype=dtype), {"encoding": encoding, "space dimension": 3, **place})
        found.append(file.getvalue())
    return found


file_target("nrrd", "a.nrrd", nrrd_files, needs="nrrd")


# --- TIFF


def tiff_files() -> list[bytes]:
    import tifffile

    found = []
    for one, options in (
        (values(16, 16, dtype="u1"), {}),
        (values(2, 16, 20), {"tile": (16, 16), "compression": "zlib", "predictor": True, "byteorder": ">"}),
        (values(20, 18, 3, dtype="u1"), {"rowsperstrip": 7, "compression": "zlib", "photometric": "rgb"}),
        (values(3, 16, 16), {"imagej": True, "metadata": {"axes": "ZYX", "spacing": 2.0, "unit": "um"}}),
        (values(2, 16, 16), {"ome": True, "bigtiff": True, "metadata": {"axes": "CYX", "PhysicalSizeX": 0.5,
                             "PhysicalSizeXUnit": "nm", "Channel": {"Name": ["a", "b"]}}}),
    ):  # fmt: skip
        file = io.BytesIO()
        tifffile.imwrite(file, one, **options)
        found.append(file.getvalue())
    return found


def read_by_tifffile(data: bytes) -> Any:
    import tifffile

    with tifffile.TiffFile(io.BytesIO(data), _multifile=False) as file:
        series = next(one for one in file.series if 0 not in one.shape)
        # Of what is not stored tifffile reads what it just finds.
        assert all(all(page.dataoffsets) for page in series.pages)
        found = series.asarray()
        # It gives something even where that is not what it has announced.
        assert found.shape == series.shape
        return found


file_target("tiff", "a.tif", tiff_files, read_by_tifffile, needs="tifffile")


def ome_documents() -> list[bytes]:
    import tifffile

    with tifffile.TiffFile(io.BytesIO(tiff_files()[-1])) as file:
        return [str(file.ome_metadata).encode()]


@target("ome_words", ome_documents, "tifffile")
def run_ome_words(data: bytes) -> None:
    from zvcore.tiff.words import _of_ome

    for words in _of_ome(data.decode("utf-8", "replace")):
        assert isinstance(words.attrs, dict) and isinstance(words.ome, dict)


# --- streamlines


@cache
def lines() -> list[Any]:
    return [np.arange(12, dtype="f4").reshape(4, 3), np.ones((2, 3), "f4"), np.zeros((3, 3), "f4")]


def tractograms(kind: str) -> list[bytes]:
    from nibabel import streamlines

    named = {"s": [np.ones((len(one), 1), "f4") for one in lines()]} if kind == "TrkFile" else None
    found = []
    for given in (lines(), []):
        file = io.BytesIO()
        tractogram = streamlines.Tractogram(given, data_per_point=named if given else None, affine_to_rasmm=np.eye(4))
        getattr(streamlines, kind)(tractogram).save(file)
        found.append(file.getvalue())
    return found


def trx_files() -> list[bytes]:
    found = []
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", method) as archive:
            header = {"DIMENSIONS": [4, 4, 4], "VOXEL_TO_RASMM": np.eye(4).tolist(), "NB_VERTICES": 9}
            archive.writestr("header.json", json.dumps({**header, "NB_STREAMLINES": 3}))
            archive.writestr("positions.3.float32", np.concatenate(lines()).tobytes())
            archive.writestr("offsets.uint32", np.array([0, 4, 6, 9], "<u4").tobytes())
            archive.writestr("dpv/s.float16", np.ones(9, "<f2").tobytes())
            archive.writestr("dps/w.2.int8", np.ones((3, 2), "i1").tobytes())
            archive.writestr("groups/g.int32", np.array([0, 2], "<i4").tobytes())
            archive.writestr("dpg/g/m.uint8", b"\5")
        found.append(file.getvalue())
    return found


def lines_target(kind: str, seeds: Callable[[], Iterable[bytes]], needs: str = "") -> None:
    @target(kind, seeds, needs)
    def run(data: bytes) -> None:
        opened = zvcore.open(file_store(f"a.{kind}", data))
        repr(opened)
        json.dumps(opened.attrs)
        read = opened.lines()
        count = 0
        for batch in read.batches():
            assert len(batch.offsets) == len(batch.ids) + 1 and batch.offsets[-1] == len(batch.positions)
            assert all(len(one) == len(batch.positions) for one in batch.attributes.values())
            count += len(batch.ids)
        assert count == read.count
        assert all(len(one) == count for one in read.of_objects.values())
        assert all(not len(one) or 0 <= one.min() <= one.max() < count for one in read.groups.values())


lines_target("trk", lambda: tractograms("TrkFile"), "nibabel")
lines_target("tck", lambda: tractograms("TckFile"), "nibabel")
lines_target("trx", trx_files)


# --- HDF5


@cache
def hdf5_file() -> tuple[bytes, dict[str, tuple[int, int]]]:
    """(a file, where the first chunk of each of its data sets lies)."""
    import h5py

    forms = {
        "a": {"compression": "gzip", "shuffle": True}, "b": {"fletcher32": True, "scaleoffset": None}, "c": {},
        "d": {"compression": "gzip", "fletcher32": True, "shuffle": True},
    }  # fmt: skip
    file = io.BytesIO()
    places = {}
    with h5py.File(file, "w") as made:
        for name, form in forms.items():
            one = made.create_dataset(name, data=values(8, 8), chunks=(4, 4), **form)
            found = one.id.get_chunk_info(0)
            places[name] = (int(found.byte_offset), int(found.size))
    return file.getvalue(), places


def hdf5_chunks() -> list[bytes]:
    data, places = hdf5_file()
    return [bytes([number]) + data[at : at + size] for number, (at, size) in enumerate(places.values())]


@target("hdf5_chunk", hdf5_chunks, "h5py")
def run_hdf5_chunk(data: bytes) -> None:
    if not data:
        return
    whole, places = hdf5_file()
    name = list(places)[data[0] % len(places)]
    at, size = places[name]
    stored = data[1 : size + 1].ljust(size, b"\0")
    array = zvcore.open(file_store("a.h5", whole[:at] + stored + whole[at + size :]))[name]
    assert array.read((slice(4, 8), slice(0, 8)), threads=1).tobytes() == values(8, 8)[4:].tobytes()
    array.read(threads=1)


def chunk_indexes() -> list[bytes]:
    """A byte for whether there is a second codec, which the rows then skip, and the rows."""
    return [
        bytes([second])
        + np.array([[0, 0, 32, 2 * second], [1, 32, 32, 2 * second + 1], [3, 64, 32, 2]], "<i8").tobytes()
        for second in (1, 0)
    ]


@target("chunk_index", chunk_indexes)
def run_chunk_index(data: bytes) -> None:
    """What any index may say of where chunks lie, and of which codecs they skip."""
    if not data:
        return
    body = data[1 : 1 + (len(data) - 1) // 32 * 32]
    rows = np.frombuffer(body, "<i8").reshape(-1, 4)
    numbers, first = np.unique(np.clip(rows[:, 0], 0, 3), return_index=True)
    index = ChunkIndex(numbers, rows[first, 1].astype(np.uint64), rows[first, 2].astype(np.uint64), rows[first, 3] & 3)
    place = file_store("a.h5", bytes(range(256)))
    codecs = [zvcore.codecs.get(name, **given) for name, given in (("shuffle", {"elementsize": 2}), ("gzip", {}))]
    given = codecs[: 1 + data[0] % 2]
    layout = StoredLayout(place, (8, 8), (4, 4), np.dtype("<u2"), 0, given, lambda: index)
    from zvcore.borrowed.array import BorrowedArray

    array = BorrowedArray(layout, format="hdf5", store=place)
    for at in ((0, 0), (0, 4), (4, 0), (4, 4)):
        with contextlib.suppress(REFUSALS):
            array.read(tuple(slice(n, n + 4) for n in at), threads=1)
    array.read(threads=1)


# --- XML


def spim_documents() -> list[bytes]:
    from zvcore.bdv.spim_data import Setup, SpimData, spim_data_text

    setups = [Setup(0, "s", (8, 8, 4), (1.0, 1.0, 2.0), "um", {"channel": 1}), Setup(1, "t", (8, 8, 4))]
    affine = (1.0, 0.0, 0.0, 5.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0)
    views = {(time, setup): affine for time in range(2) for setup in range(2)}
    return [spim_data_text(SpimData("bdv.n5", "dataset.n5", setups, [0, 1], frozenset(), views, {"channel": {1: "a"}}))]


@cache
def spim_blocks() -> dict[str, bytes]:
    block = MemoryStore()
    zvcore.create(block, format="n5", shape=(8, 8, 4), dtype="u2", chunks=(8, 8, 4))[...] = values(8, 8, 4)
    found = {}
    for setup in range(2):
        below = f"dataset.n5/setup{setup}"
        found[f"{below}/attributes.json"] = b'{"downsamplingFactors": [[1, 1, 1]], "dataType": "uint16"}'
        for time in range(2):
            found |= {f"{below}/timepoint{time}/s0/{key}": bytes(block.get(key) or b"") for key in block.list()}
    return found


@target("bdv", spim_documents)
def run_bdv(data: bytes) -> None:
    folder = MemoryStore()
    for key, stored in spim_blocks().items():
        folder.put(key, stored)
    folder.put("dataset.xml", data)
    for array in arrays_of(zvcore.open(folder, format="bdv")):
        read_small(array)


@target("xml", lambda: [b"<?xml version='1.0' encoding='latin-1'?><a b='c'>\xe9<d/></a>", *spim_documents()])
def run_xml(data: bytes) -> None:
    parse_xml(data, "x")
    parse_xml(data.decode("latin-1"), "x")


# --- stacks of images


@cache
def images() -> list[bytes]:
    """Images of one shape in each kind that a stack may be of, and one in another type."""
    import imagecodecs
    import simplejpeg

    wide = values(6, 7, dtype="u2")
    gray, color = values(6, 7, dtype="u1"), values(6, 7, 3, dtype="u1")
    png = [imagecodecs.png_encode(one) for one in (gray, wide, color)]
    jpeg = [
        simplejpeg.encode_jpeg(np.ascontiguousarray(one), colorspace=space, colorsubsampling=sampling)
        for one, space, sampling in ((gray[..., None], "GRAY", "Gray"), (color, "RGB", "444"))
    ]
    return [bytes(one) for one in (*png, *jpeg, tiff_files()[0])]


# What the files of a stack are called: in the order of their numbers, with gaps, twice the same, and not numbered.
STACK_NAMES = [
    ("a1", "a2", "a10"), ("s_01", "s_03", "s_11"), ("s1", "s01", "s2"), ("a1b1", "a1b2", "a2b1"), ("x", "y", "z"),
    ("t" + "9" * 40, "t1", "t2"),
]  # fmt: skip
STACK_ENDINGS = (".png", ".jpg", ".tif", ".PNG", ".jpeg", ".tiff")


def stacks() -> list[bytes]:
    """A byte each for the names and the ending, and the length of the first image, two images, of which the second
    comes twice.
    """
    found = []
    for number, one in enumerate(images()):
        ending = 2 if number == 5 else 1 if number > 2 else 0
        found.append(bytes([0, ending]) + len(one).to_bytes(2, "big") + one + one)
    other = images()[0] + images()[1]
    return [*found, bytes([1, 0]) + len(images()[0]).to_bytes(2, "big") + other]


@target("stack", stacks, "imagecodecs")
def run_stack(data: bytes) -> None:
    """A folder of files: what its names say, and what each image does, of which the first says what all are like."""
    names, ending = (data[0] if data else 0), (data[1] if len(data) > 1 else 0)
    cut = 4 + int.from_bytes(data[2:4], "big")
    folder = MemoryStore()
    for name, stored in zip(STACK_NAMES[names % len(STACK_NAMES)], (data[4:cut], data[cut:], data[cut:]), strict=True):
        folder.put(name + STACK_ENDINGS[ending % len(STACK_ENDINGS)], stored)
    report = zvcore.verify(folder, format="stack")
    array = zvcore.open(folder, format="stack")
    found = read_small(array)
    # What can be read is sound, and nothing else is.
    assert found is None or report.ok, report
    with contextlib.suppress(REFUSALS):
        json.dumps(zvcore.inspect(folder, format="stack"), default=str)
