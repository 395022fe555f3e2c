"""Arrays of other libraries as sources: of conversions, and of new arrays."""

from __future__ import annotations

import pickle
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.borrowed.wrapping import as_array
from zvcore.errors import ConflictError, CorruptDataError, ReadOnlyError, UnfitValueError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VALUES = np.random.default_rng(1).integers(0, 60000, (37, 53, 41)).astype("u2")


class Anything:
    """The least that an array needs."""

    def __init__(self, values: Any) -> None:
        self.values = values
        self.shape, self.dtype = values.shape, values.dtype
        self.read: list[int] = []
        self.inside = 0
        self.most = 0

    def __getitem__(self, region: Any) -> Any:
        self.inside += 1
        self.most = max(self.most, self.inside)
        found = self.values[region]
        self.read.append(found.nbytes)
        self.inside -= 1
        return found


def of_h5py(folder: Path) -> Any:
    h5py = pytest.importorskip("h5py")
    file = h5py.File(folder / "a.h5", "w")
    return file.create_dataset("a", data=VALUES, chunks=(16, 16, 16), compression="gzip")


def of_zarr(folder: Path, version: int = 3) -> Any:
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(
        folder / "a.zarr", shape=VALUES.shape, dtype="u2", chunks=(16, 16, 16), zarr_format=version
    )
    array[...] = VALUES
    return array


def of_zarr_version_2(folder: Path) -> Any:
    return of_zarr(folder, 2)


def of_tensorstore(folder: Path) -> Any:
    tensorstore = pytest.importorskip("tensorstore")
    spec = {
        "driver": "zarr3", "kvstore": {"driver": "file", "path": str(folder / "ts")},
        "metadata": {
            "shape": VALUES.shape, "data_type": "uint16",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [16, 16, 16]}},
        },
    }  # fmt: skip
    array = tensorstore.open(spec, create=True).result()
    array[...] = VALUES
    return array


def of_dask(folder: Path) -> Any:
    dask = pytest.importorskip("dask.array")
    return dask.from_array(VALUES, chunks=(16, 16, 16))


def of_xarray(folder: Path) -> Any:
    xarray = pytest.importorskip("xarray")
    return xarray.DataArray(VALUES, dims=("z", "y", "x"))


def of_memory_map(folder: Path) -> Any:
    np.save(folder / "a.npy", VALUES)
    return np.load(folder / "a.npy", mmap_mode="r")


OWN_CHUNKS = (of_h5py, of_zarr, of_zarr_version_2, of_tensorstore, of_dask)
SOURCES: dict[str, Callable[[Path], Any]] = {
    "numpy": lambda folder: VALUES,
    "a view of numpy's": lambda folder: VALUES[::-1].repeat(2, 0)[::-2],
    "Fortran order": lambda folder: np.asfortranarray(VALUES),
    "big-endian": lambda folder: VALUES.astype(">u2"),
    "anything": lambda folder: Anything(VALUES),
    "a memory map": of_memory_map,
    **{make.__name__.removeprefix("of_"): make for make in (*OWN_CHUNKS, of_xarray)},
}


@pytest.fixture(params=SOURCES, ids=lambda name: name.replace(" ", "-"))
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return SOURCES[request.param](tmp_path)


@pytest.mark.parametrize("format", ["zarr3", "n5", "precomputed"])
def test_any_array_is_converted(source: Any, tmp_path: Path, format: str) -> None:
    report = zvcore.convert(source, tmp_path / "out", format=format, chunks=(16, 16, 16), verify=True)
    assert report.ok
    found = zvcore.open(tmp_path / "out")
    if format == "zarr3":
        assert np.array_equal(found[...], VALUES)
    elif format == "n5":
        assert np.array_equal(found[...].T, VALUES)
    else:
        assert np.array_equal(found[0][..., 0].T, VALUES)


def test_any_array_fills_a_new_one(source: Any, tmp_path: Path) -> None:
    made = zvcore.create(tmp_path / "a", format="zarr3", data=source, chunks=(8, 8, 8), shards=(16, 32, 16))
    assert made.dtype == "u2" and np.array_equal(zvcore.open(tmp_path / "a")[...], VALUES)


@pytest.mark.filterwarnings("ignore::zvcore.errors.LostMetadataWarning")
@pytest.mark.parametrize("format", ["zarr2", "n5", "precomputed"])
def test_any_array_fills_a_new_one_with_the_same_axes(source: Any, tmp_path: Path, format: str) -> None:
    made = zvcore.create(tmp_path / "a", format=format, data=source, chunks=(16, 16, 16))
    assert made.dtype == "u2"
    found = zvcore.open(tmp_path / "a")
    assert np.array_equal(found[0][..., 0] if format == "precomputed" else found[...], VALUES)


@pytest.mark.parametrize("text", [np.array(b"a", "S3"), np.array("", "U3"), np.array(b"abc", "S3")])
def test_a_single_text_that_is_shorter_than_its_type_is_read(text: Any, tmp_path: Path) -> None:
    """numpy and h5py give it as a text of its own length, which was told to be corrupt."""
    h5py = pytest.importorskip("h5py")
    sources: list[Any] = [text]
    if text.dtype.kind == "S":
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file.create_dataset("a", data=text)
        sources += [f"{tmp_path}/a.h5:/a", h5py.File(tmp_path / "a.h5")["a"]]
    for source in sources:
        zvcore.convert(source, tmp_path / "a.zarr", format="zarr3", overwrite=True, verify=True)
        found = zvcore.open(tmp_path / "a.zarr")
        assert found.dtype == text.dtype and found[()] == text[()]


def test_parts_of_any_array_are_read_as_numpy_reads_them(source: Any) -> None:
    array = as_array(source)
    assert array.shape == VALUES.shape and array.dtype == VALUES.dtype
    for key in (np.s_[3:30:4, ::-1, 5], np.s_[...], np.s_[-1], np.s_[5:5], np.s_[:, 7, 8:9]):
        assert np.array_equal(array[key], VALUES[key])
    with pytest.raises(ReadOnlyError):
        array[0] = 1


@pytest.mark.parametrize("make", OWN_CHUNKS, ids=lambda make: make.__name__[3:])
def test_chunks_are_the_source_s_own_where_it_has_some(make: Callable[[Path], Any], tmp_path: Path) -> None:
    zvcore.convert(make(tmp_path), tmp_path / "out", format="zarr3")
    assert zvcore.open(tmp_path / "out").chunks == (16, 16, 16)


def test_a_source_is_read_in_parts_and_by_one_thread_at_a_time(tmp_path: Path) -> None:
    large = Anything(np.broadcast_to(np.arange(512, dtype="u4"), (300, 512, 512)))
    zvcore.convert(large, tmp_path / "out", format="zarr3", chunks=(64, 64, 64), shards=(64, 256, 256), threads=4)
    assert max(large.read) <= 2 << 20 and large.most == 1
    assert np.array_equal(zvcore.open(tmp_path / "out")[123, 7], np.arange(512))


def test_memory_is_read_where_it_lies() -> None:
    layout = as_array(VALUES).layout
    blob = layout.locate(np.zeros((1, 3), np.int64)).blobs[0]
    assert np.shares_memory(np.frombuffer(blob, "u1"), VALUES)


def test_axes_of_xarray_say_where_voxels_lie(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    coords = {
        "z": ("z", 10 + 2.0 * np.arange(4), {"units": "um"}), "y": ("y", np.array([1.0, 2.0, 4.0, 8.0])),
        "c": ("c", ["a", "b", "d", "e"]),
    }  # fmt: skip
    given = xarray.DataArray(
        np.ones((4, 4, 4), "u1"), coords, ("c", "z", "y"), attrs={"n": np.int64(3), "odd": object()}
    )
    report = zvcore.convert(given, tmp_path / "out", format="zarr3")
    found = zvcore.open(tmp_path / "out")
    assert found.dimension_names == ("c", "z", "y") and found.attrs["n"] == 3
    assert any("odd" in str(loss) for loss in report.losses)
    _, z, y = zvcore.formats()["zarr3"].read_axes(found)
    assert (z.scale, z.offset, z.unit) == (2, 10, "micrometer") and y.scale in (None, 1)


def test_several_variables_of_xarray_are_refused_by_name(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    with pytest.raises(UnsupportedError, match=r"dataset\[name\]"):
        zvcore.convert(xarray.Dataset({"a": ("x", [1])}), tmp_path / "out", format="zarr3")


def test_attributes_and_sizes_of_h5py_go_along(tmp_path: Path) -> None:
    dataset = of_h5py(tmp_path)
    dataset.attrs.update({"element_size_um": [4.0, 0.5, 0.5], "by": "us"})
    zvcore.convert(dataset, tmp_path / "out", format="zarr3")
    found = zvcore.open(tmp_path / "out")
    assert found.attrs["by"] == "us"
    assert [axis.scale for axis in zvcore.formats()["zarr3"].read_axes(found)] == [4, 0.5, 0.5]


def test_an_array_of_tensorstore_begins_where_its_domain_does(tmp_path: Path) -> None:
    tensorstore = pytest.importorskip("tensorstore")
    moved = of_tensorstore(tmp_path)[tensorstore.d[:].translate_to[5, -3, 100]]
    assert np.array_equal(as_array(moved)[...], VALUES)


def test_two_conversions_of_memory_are_never_taken_for_one(tmp_path: Path) -> None:
    zvcore.convert(VALUES, tmp_path / "out", format="zarr3")
    with pytest.raises(ConflictError):
        zvcore.convert(VALUES + 1, tmp_path / "out", format="zarr3")
    zvcore.convert(VALUES + 1, tmp_path / "out", format="zarr3", overwrite=True)
    assert np.array_equal(zvcore.open(tmp_path / "out")[...], VALUES + 1)


@pytest.mark.parametrize(
    "given",
    [np.array(["a", None], object), Anything(np.array(["a"], object)), 7, "nothing", [1, 2], {"a": 1}],
    ids=["objects", "objects of others", "a number", "a path", "a list", "a mapping"],
)
def test_what_is_no_array_of_numbers_is_refused(given: Any, tmp_path: Path) -> None:
    with pytest.raises((UnsupportedError, zvcore.errors.NotFoundError)):
        zvcore.convert(given, tmp_path / "out", format="zarr3")
    assert not (tmp_path / "out").exists()


def test_a_source_that_gives_something_else_than_it_says_is_found_out(tmp_path: Path) -> None:
    liar = Anything(VALUES)
    liar.shape = (37, 53, 42)
    with pytest.raises(CorruptDataError, match="not what the array says"):
        zvcore.convert(liar, tmp_path / "out", format="zarr3")
    liar = Anything(VALUES)
    liar.dtype = np.dtype("f4")
    with pytest.raises(CorruptDataError, match="float32"):
        zvcore.create(tmp_path / "a", format="zarr3", data=liar)


def test_errors_of_a_source_reach_the_caller_as_they_are(tmp_path: Path) -> None:
    class Broken(Anything):
        def __getitem__(self, region: Any) -> Any:
            raise LookupError("the tape is torn")

    with pytest.raises(LookupError, match="torn"):
        zvcore.convert(Broken(VALUES), tmp_path / "out", format="zarr3")


def test_a_wrapped_array_is_pickled_with_its_values() -> None:
    assert np.array_equal(pickle.loads(pickle.dumps(as_array(VALUES)))[...], VALUES)


def test_what_numpy_makes_an_array_of_is_data(tmp_path: Path) -> None:
    made = zvcore.create(tmp_path / "a", format="zarr3", data=[[1, 2], [3, 4]], dtype="u1")
    assert made.dtype == "u1" and made[...].tolist() == [[1, 2], [3, 4]]


def test_data_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="shape"):
        zvcore.create(tmp_path / "a", format="zarr3", data=Anything(VALUES), shape=(37, 53, 40))
    with pytest.raises(TypeError, match="without shape"):
        zvcore.create(tmp_path / "b", format="zarr3", dtype="u1")
    made = zvcore.create(tmp_path / "c", format="zarr3", data=VALUES)
    with pytest.raises(ConflictError, match="same place"):
        zvcore.create(tmp_path / "c", format="n5", data=made, overwrite=True)
    assert np.array_equal(zvcore.open(tmp_path / "c")[...], VALUES)


@pytest.mark.parametrize("shape", [(), (0, 5), (1,), (3, 1, 4)])
def test_odd_shapes_are_arrays_too(shape: tuple[int, ...], tmp_path: Path) -> None:
    values = np.arange(int(np.prod(shape)), dtype="i4").reshape(shape)
    assert np.array_equal(zvcore.create(tmp_path / "a", format="zarr3", data=Anything(values))[...], values)
    assert np.array_equal(as_array(values)[...], values)


def test_a_wrapped_array_is_read_by_many_threads() -> None:
    array, failed = as_array(Anything(VALUES)), []

    def read() -> None:
        for _ in range(5):
            if not np.array_equal(array[...], VALUES):
                failed.append(1)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_a_volume_takes_the_values_of_its_one_channel(tmp_path):
    values = np.arange(24, dtype="u2").reshape(2, 3, 4)
    volume = zvcore.create(tmp_path / "v", format="precomputed", data=values, chunks=(2, 2, 2))
    assert np.array_equal(volume[..., 0], values)


@pytest.mark.parametrize("wrapped", [False, True], ids=["numpy", "read by parts"])
def test_values_under_a_mask_are_refused(tmp_path, wrapped):
    masked = np.ma.masked_equal(np.arange(12).reshape(3, 4), 5)
    given = Anything(masked) if wrapped else masked
    with pytest.raises(UnfitValueError, match="masked"):
        zvcore.create(tmp_path / "a.zarr", format="zarr3", data=given)
    with pytest.raises(UnfitValueError, match="masked"):
        zvcore.convert(given, tmp_path / "b.zarr", format="zarr3")
    if not wrapped:  # of parts, nobody knows before they are read
        assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("wrapped", [False, True], ids=["numpy", "read by parts"])
def test_another_type_holds_the_values_or_says_that_it_does_not(tmp_path, wrapped):
    def made(values: Any, dtype: Any, name: str) -> Any:
        given = Anything(values) if wrapped else values
        return zvcore.create(tmp_path / name, format="zarr3", data=given, dtype=dtype)[...]

    assert made(np.array([1, 255], ">i8"), "u1", "a").tolist() == [1, 255]
    assert made(np.array([0.6, 2.0]), "u1", "b").tolist() == [1, 2]  # to the nearest, as a conversion has it
    for number, values in enumerate(([1, 256], [-1, 0], [1.0, np.nan], [0.0, 1e300], [1j, 0])):
        with pytest.raises(OverflowError, match="does not fit into uint8"):
            made(np.array(values), "u1", f"c{number}")
    with pytest.raises(OverflowError, match="does not fit into <U2"):
        made(np.array(["abc"]), "U2", "d")
    with pytest.raises(UnsupportedError, match="not converted"):
        made(np.array(["5"]), "u1", "e")


@pytest.mark.parametrize("shape", [(float("nan"),), (2.5,), (-3,), (None,), ("3",)], ids=repr)
def test_what_does_not_say_how_long_it_is_is_refused_in_words(tmp_path, shape):
    given = Anything(np.zeros(3, "u1"))
    given.shape = shape
    with pytest.raises(UnsupportedError, match="how long it is"):
        zvcore.create(tmp_path / "a", format="zarr3", data=given)
    with pytest.raises(UnsupportedError, match="how long it is"):
        zvcore.plan(given, tmp_path / "a", format="zarr3")


def test_chunks_of_another_rank_are_not_followed(tmp_path):
    given = Anything(np.arange(5))
    given.chunks = (2, 2)
    assert zvcore.create(tmp_path / "a", format="zarr3", data=given)[...].tolist() == [0, 1, 2, 3, 4]
