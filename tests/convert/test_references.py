"""References to chunks where they lie: zarr-python reads every format through fsspec's reference file system."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest
import tifffile
import zarr
from zarr.storage import FsspecStore

import zvcore
from zvcore.commands import cli
from zvcore.errors import UnsupportedError, ZvcoreError

if TYPE_CHECKING:
    from pathlib import Path

DATA = np.random.default_rng(0).integers(1, 60000, (32, 48, 64), np.uint16)
CUT = DATA[:30, :41, :50]


def as_zarr(refs: Any) -> Any:
    import fsspec
    from fsspec.implementations.local import LocalFileSystem
    from fsspec.implementations.reference import LazyReferenceMapper

    is_table = isinstance(refs, str) and refs.endswith("parquet")
    fo = {"version": 1, "refs": {}} if is_table else refs
    fs = fsspec.filesystem("reference", fo=fo, remote_protocol="file", asynchronous=True, skip_instance_cache=True)
    if is_table:
        # By itself, the file system asks for fastparquet, which pandas is about to give up.
        fs.references = LazyReferenceMapper(refs, fs=LocalFileSystem(), engine="pyarrow")
    return zarr.open(FsspecStore(fs, read_only=True), mode="r", zarr_format=2)


def through_zarr(refs: Any, path: str | None = None) -> np.ndarray[Any, Any]:
    node = as_zarr(refs)
    return (node if path is None else node[path])[...]


def make(path: Path, format: str, data: np.ndarray[Any, Any], **options: Any) -> Path:
    turned = format in ("n5", "precomputed")
    shown = data.T if turned else data
    zvcore.create(path, format=format, data=shown[..., None] if format == "precomputed" else shown, chunks=(16,) * 3,
                  **options)  # fmt: skip
    return path


KINDS: list[tuple[str, dict[str, Any]]] = [
    ("n5", {"codec": "gzip"}), ("n5", {"codec": "zstd"}), ("n5", {"codec": "bzip2"}), ("n5", {"codec": "raw"}),
    ("n5", {"codec": "blosc"}), ("n5", {"codec": "xz"}),
    ("zarr3", {"codec": "zstd"}), ("zarr3", {"codec": "gzip", "shards": (32, 32, 32)}),
    ("zarr3", {"codec": ["zstd", "crc32c"], "shards": (32, 32, 32)}),
    ("zarr3", {"codec": "blosc", "shards": (32, 32, 32), "index_location": "start"}),
    ("zarr2", {"codec": "zstd"}), ("zarr2", {"codec": "zstd", "order": "F"}),
    ("precomputed", {"codec": "raw", "encoding": "raw"}), ("precomputed", {"encoding": "raw", "codec": "gzip"}),
    ("precomputed", {"encoding": "raw", "sharding": "advise"}),
]  # fmt: skip


def title(kind: Any) -> str:
    return "-".join(map(str, kind.values())) if isinstance(kind, dict) else str(kind)


@pytest.mark.parametrize(("format", "options"), KINDS, ids=title)
def test_zarr_python_reads_what_lies_in_other_formats(tmp_path: Path, format: str, options: dict[str, Any]) -> None:
    path = make(tmp_path / "a", format, DATA, **options)
    refs = zvcore.references(path)
    below = "16_16_16" if format == "precomputed" else None
    node = as_zarr(refs)
    array = node if below is None and not isinstance(node, zarr.Group) else next(iter(node.arrays()))[1]
    assert array.dtype.newbyteorder("=") == DATA.dtype
    assert np.array_equal(array[...].reshape(DATA.shape), DATA)
    assert not any(str(value).startswith("base64:") for value in refs["refs"].values())


@pytest.mark.parametrize(("format", "options"), [KINDS[0], KINDS[3], KINDS[12], KINDS[13], KINDS[14]], ids=title)
def test_chunks_that_are_cut_are_refused_or_become_part_of_the_references(
    tmp_path: Path, format: str, options: dict[str, Any]
) -> None:
    path = make(tmp_path / "a", format, CUT, **options)
    with pytest.raises(UnsupportedError, match="cut at the array's end"):
        zvcore.references(path)
    refs = zvcore.references(path, inline=True)
    node = as_zarr(refs)
    array = next(iter(node.arrays()))[1] if isinstance(node, zarr.Group) else node
    assert np.array_equal(array[...].reshape(CUT.shape), CUT)
    assert sum(str(value).startswith("base64:") for value in refs["refs"].values()) < len(refs["refs"])


@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_whole_chunks_at_the_end_are_no_trouble(tmp_path: Path, format: str) -> None:
    assert np.array_equal(through_zarr(zvcore.references(make(tmp_path / "a", format, CUT))), CUT)


def test_what_is_not_stored_is_the_fill_value(tmp_path: Path) -> None:
    array = zvcore.create(
        tmp_path / "a", format="zarr3", shape=(64, 64), dtype="f4", chunks=(16, 16), shards=(32, 32), fill_value=np.nan
    )
    array[5, 7] = 3
    refs = zvcore.references(tmp_path / "a")
    assert sum(isinstance(value, list) for value in refs["refs"].values()) == 1
    assert np.array_equal(through_zarr(refs), array[...], equal_nan=True)


@pytest.mark.parametrize("stored", [5000, 4999], ids=["all", "all but one"])
def test_zeros_are_values_to_xarray_where_every_chunk_is_stored(tmp_path: Path, stored: int) -> None:
    """Of more chunks than 4096, none were looked at, and nothing was said."""
    made = zvcore.create(
        tmp_path / "a", format="zarr3", shape=(5000,), dtype="u1", chunks=(1,), shards=(5000,), codec=None,
        dimension_names=("x",), write_empty_chunks=True,
    )  # fmt: skip
    with made.shard_writer() as writer:
        writer[:stored] = np.zeros(stored, "u1")
    losses: list[Any] = []
    found = zvcore.references(tmp_path / "a", losses=losses)["refs"]
    complete = stored == 5000
    assert sum(not key.startswith(".z") for key in found) == stored
    assert json.loads(found[".zarray"])["fill_value"] == (None if complete else 0)
    told = ["values of 0, the fill value, are missing to xarray" in str(one) for one in losses]
    assert told == ([] if complete else [True])


def test_groups_with_their_attributes(tmp_path: Path) -> None:
    group = zvcore.open(tmp_path / "c.n5", "w", format="n5")
    group.attrs["made"] = "here"
    group.create_group("a").create_dataset("b", shape=(4, 6), dtype="i4", chunks=(2, 3))[...] = 7
    refs = zvcore.references(tmp_path / "c.n5")
    node = as_zarr(refs)
    assert node.attrs["made"] == "here"
    assert (node["a/b"][...] == 7).all() and node["a/b"].shape == (6, 4)


# --- files


@pytest.mark.parametrize(
    "options",
    [
        {"chunks": (16, 16, 16), "compression": "gzip", "shuffle": True, "fletcher32": True},
        {"chunks": (16, 16, 16), "compression": "gzip"},
        {"chunks": (10, 11, 12)},
        {},
    ],
    ids=title,
)
@pytest.mark.parametrize("dtype", ["<u2", ">f4", "|S3"])
def test_hdf5(tmp_path: Path, options: dict[str, Any], dtype: str) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("g/x", data=CUT.astype(dtype), fillvalue=None, **options)
        file["g/x"].attrs["unit"] = "nm"
    refs = zvcore.references(tmp_path / "a.h5")
    assert np.array_equal(through_zarr(refs, "g/x"), CUT.astype(dtype))
    assert as_zarr(refs)["g/x"].attrs["unit"] == "nm"


def test_chunks_of_hdf5_that_skip_filters(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("x", shape=(4,), chunks=(2,), dtype="<u2", compression="gzip")
        made[...] = [1, 2, 3, 4]
        made.id.write_direct_chunk((2,), np.array([5, 6], "<u2").tobytes(), filter_mask=1)
    with pytest.raises(UnsupportedError, match="skips filters"):
        zvcore.references(tmp_path / "a.h5")
    assert through_zarr(zvcore.references(f"{tmp_path}/a.h5:/x", inline=True)).tolist() == [1, 2, 5, 6]


def test_filters_that_zarr_has_not_are_named(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=CUT, chunks=(8, 8, 8), compression="lzf")
    with pytest.raises(UnsupportedError, match="lzf"):
        zvcore.references(tmp_path / "a.h5")


@pytest.mark.parametrize(
    "options",
    [
        {"tile": (16, 32), "compression": "zlib"},
        {"tile": (16, 32)},
        {"rowsperstrip": 16, "compression": "zlib"},
        {},
        {"byteorder": ">", "tile": (16, 16)},
    ],
    ids=title,
)
def test_tiff(tmp_path: Path, options: dict[str, Any]) -> None:
    with tifffile.TiffWriter(tmp_path / "a.tif", byteorder=options.pop("byteorder", "<")) as file:
        file.write(DATA, photometric="minisblack", **options)
    assert np.array_equal(through_zarr(zvcore.references(tmp_path / "a.tif")), DATA)


def test_strips_that_are_cut_and_predictors(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", CUT, photometric="minisblack", rowsperstrip=16, compression="zlib")
    with pytest.raises(UnsupportedError, match="cut at the end"):
        zvcore.references(tmp_path / "a.tif")
    assert np.array_equal(through_zarr(zvcore.references(tmp_path / "a.tif", inline=True)), CUT)
    tifffile.imwrite(tmp_path / "b.tif", DATA, tile=(16, 16), compression="zlib", predictor=True)
    with pytest.raises(UnsupportedError, match="predictor"):
        zvcore.references(tmp_path / "b.tif")


@pytest.mark.parametrize("order", ["C", "F"])
def test_npy(tmp_path: Path, order: str) -> None:
    np.save(tmp_path / "a.npy", np.asarray(CUT, order=order))
    assert np.array_equal(through_zarr(zvcore.references(tmp_path / "a.npy")), CUT)


def test_what_cannot_be_said_is_refused_by_name(tmp_path: Path) -> None:
    make(tmp_path / "lz4.n5", "n5", DATA, codec="lz4")
    make(tmp_path / "labels", "precomputed", DATA.astype("u4"), encoding="compressed_segmentation")
    for name in ("lz4.n5", "labels"):
        with pytest.raises(UnsupportedError):
            zvcore.references(tmp_path / name)
    zvcore.copy(make(tmp_path / "z", "zarr3", DATA), tmp_path / "z.zip")
    with pytest.raises(UnsupportedError, match="archive"):
        zvcore.references(tmp_path / "z.zip")


def test_a_header_of_n5_that_lies(tmp_path: Path) -> None:
    path = make(tmp_path / "a", "n5", DATA, codec="raw")
    block = path / "0" / "0" / "0"
    for damaged in (b"", b"\0\0", b"\0\0\0\x03\0\0\0\x10", b"\xff" * 16):
        block.write_bytes(damaged)
        with pytest.raises(ZvcoreError):
            zvcore.references(path)


# --- the command


@pytest.mark.parametrize("name", ["refs.json", "refs.parquet"])
def test_the_command_writes_json_and_parquet(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow")
    path = make(tmp_path / "a", "zarr3", CUT, shards=(32, 48, 64))
    make(tmp_path / "b", "n5", CUT, codec="gzip")
    for source in (path, tmp_path / "b"):
        out = tmp_path / f"{source.name}-{name}"
        assert cli.main(["refs", str(source), "-o", str(out), "--inline"]) == 0
        assert np.array_equal(through_zarr(str(out), "data" if name.endswith("parquet") else None), CUT)
    assert "24 chunks" in capsys.readouterr().err
    assert cli.main(["refs", str(path), "-o", str(tmp_path / "refs.txt")]) == 2
    assert cli.main(["refs", str(tmp_path / "b"), "-o", str(tmp_path / "no.json")]) == 1
    assert not (tmp_path / "no.json").exists()
    assert cli.main(["refs", str(path), "-o", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["version"] == 1


def test_values_of_a_prime_length_are_few_parts(tmp_path: Path) -> None:
    data = np.zeros(16_777_259, np.uint8)
    data[-1] = 7
    np.save(tmp_path / "a.npy", data)
    found = zvcore.references(tmp_path / "a.npy")
    assert len(found["refs"]) < 10
    assert through_zarr(found)[-1] == 7


def test_references_of_others_are_an_array_and_are_taken_over_as_they_are_stored(tmp_path: Path) -> None:
    """As kerchunk writes those of an HDF5 file: chunks are (file, offset, length), small ones stand there in base64."""
    values = np.arange(1000, dtype="<i4").reshape(20, 50)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("a/b", data=values, chunks=(5, 25), compression="gzip", shuffle=True)
        chunks = [made.id.get_chunk_info(number) for number in range(made.id.get_num_chunks())]
    document = {
        "zarr_format": 2, "shape": [20, 50], "chunks": [5, 25], "dtype": "<i4", "fill_value": 0, "order": "C",
        "compressor": None, "filters": [{"id": "shuffle", "elementsize": 4}, {"id": "zlib", "level": 4}],
    }  # fmt: skip
    refs: dict[str, Any] = {
        ".zgroup": '{"zarr_format":2}', "a/.zgroup": '{"zarr_format":2}', "a/.zattrs": '{"x":1}',
        "a/b/.zarray": json.dumps(document), "a/b/.zattrs": '{"_ARRAY_DIMENSIONS":["y","x"]}',
        "t/.zarray": '{"zarr_format":2,"shape":[2],"chunks":[2],"dtype":"|u1","fill_value":0,"order":"C",'
                     '"compressor":null,"filters":null}',
        "t/0": "base64:BQY=",
    }  # fmt: skip
    for one in chunks:
        at = (one.chunk_offset[0] // 5, one.chunk_offset[1] // 25)
        refs[f"a/b/{at[0]}.{at[1]}"] = [str(tmp_path / "a.h5"), one.byte_offset, one.size]
    (tmp_path / "a.json").write_text(json.dumps({"version": 1, "refs": refs}))

    options = {"fo": str(tmp_path / "a.json")}
    group = zvcore.open("reference://", storage_options=options)
    assert (group["a"]["b"][...] == values).all() and group["t"][...].tolist() == [5, 6]
    assert zvcore.verify("reference://", storage_options=options).ok
    report = zvcore.convert(
        "reference://", tmp_path / "b", format="zarr3", storage_options=options, shards=True, verify=True
    )
    assert report.encoded == 0 and (zvcore.open(tmp_path / "b")["a"]["b"][...] == values).all()
    with pytest.raises(UnsupportedError, match="references of kerchunk are opened as reference://"):
        zvcore.open(tmp_path / "a.json")
