"""A format from a distribution of its own, whose data sets are files: everything takes it like the first party's."""

from __future__ import annotations

import gzip
import json
import pickle
import urllib.request

import numpy as np
import pytest

import zvcore
from zvcore.commands.cli import main
from zvcore.errors import ConflictError, CorruptDataError, MetadataError, UnsupportedError
from zvcore.serving import make_server
from zvcore.testing import check_format

VALUES = np.arange(30 * 20 * 10, dtype="u2").reshape(30, 20, 10)


@pytest.fixture(autouse=True)
def nrrd(third_party):
    return third_party


@pytest.fixture(params=["raw", "gzip"])
def file(request, tmp_path):
    path = tmp_path / "a.raster"
    codec = None if request.param == "raw" else "gzip"
    array = zvcore.create(
        path, format="raster", shape=VALUES.shape, dtype="u2", codec=codec, attrs={"by": "us", "n": 3}
    )
    array[...] = VALUES
    return path


@pytest.mark.parametrize(("codec", "checksums"), [("gzip", True), (None, False)])
def test_it_does_all_that_zvcore_relies_on(codec, checksums):
    check_format("raster", codec=codec, checksums=checksums)


def test_made_opened_changed_and_pickled(file):
    array = zvcore.open(file, "r+")
    assert (array.format, array.shape, array.dtype, dict(array.attrs)) == (
        "raster", VALUES.shape, np.dtype("u2"), {"by": "us", "n": 3},
    )  # fmt: skip
    assert (array[...] == VALUES).all()
    array[3:17, 5, 4:] = 7
    array.attrs.update({"kinds": "domain domain domain", "more": ["a\nb", 1]})
    expected = VALUES.copy()
    expected[3:17, 5, 4:] = 7
    assert (array[...] == expected).all()
    found = pickle.loads(pickle.dumps(zvcore.open(file)))
    assert (found[...] == expected).all()
    assert dict(found.attrs) == {"by": "us", "n": 3, "more": ["a\nb", 1], "kinds": "domain domain domain"}
    with pytest.raises(ConflictError, match="overwrite=True"):
        zvcore.create(file, format="raster", shape=(1,), dtype="u1")


def test_attributes_whose_write_fails_are_as_they_were(file, monkeypatch):
    array = zvcore.open(file, "r+")

    def change(key, make):
        make(file.read_bytes())
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(array.store, "change", change)
        with pytest.raises(OSError, match="No space"):
            array.attrs["by"] = "others"
    assert array.attrs["by"] == "us"
    array.attrs["n"] = 4
    assert dict(zvcore.open(file).attrs) == dict(array.attrs) == {"by": "us", "n": 4}


@pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow")  # pynrrd's
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"])
@pytest.mark.parametrize("encoding", ["raw", "gzip"])
def test_pynrrd_reads_what_is_written_and_the_other_way_round(tmp_path, dtype, encoding):
    nrrd = pytest.importorskip("nrrd")
    values = (np.arange(60).reshape(3, 4, 5) - 5 * (dtype[0] != "u")).astype(dtype)
    ours = zvcore.create(tmp_path / "a.raster", format="raster", shape=(3, 4, 5), dtype=dtype, codec=encoding)
    ours[...] = values
    ours.attrs["key"] = "value"
    read, header = nrrd.read(str(tmp_path / "a.raster"))
    assert read.dtype == values.dtype
    assert (read == values).all()
    assert (header["key"], header["encoding"], list(header["sizes"])) == ("value", encoding, [3, 4, 5])
    written = {
        "encoding": encoding, "space": "left-posterior-superior", "space units": ["um", "um", "um"],
        "space directions": [[0.5, 0, 0], [0, 0.5, 0], [0, 0, 2]], "space origin": [1, 2, 3], "kinds": ["domain"] * 3,
        "endian": "big",
    }  # fmt: skip
    nrrd.write(str(tmp_path / "b.raster"), values.astype(np.dtype(dtype).newbyteorder(">")), written)
    found = zvcore.open(tmp_path / "b.raster")
    assert (found[...] == values).all()
    assert [(a.scale, a.unit, a.offset) for a in zvcore.format.get_format("raster").read_axes(found)] == [
        (0.5, "um", 1.0), (0.5, "um", 2.0), (2.0, "um", 3.0),
    ]  # fmt: skip
    assert zvcore.verify(tmp_path / "b.raster").ok


@pytest.mark.parametrize(("format", "back"), [("zarr3", (10, 20, 30)), ("n5", (30, 20, 10))])
def test_conversions_there_and_back(file, tmp_path, format, back):
    there = zvcore.convert(file, tmp_path / "x", format=format, chunks=tuple(max(1, n // 2) for n in back), verify=True)
    assert there.verified
    assert zvcore.open(tmp_path / "x").shape == back
    assert zvcore.convert(tmp_path / "x", tmp_path / "b.raster", format="raster", verify=True).verified
    assert (zvcore.open(tmp_path / "b.raster")[...] == VALUES).all()
    assert zvcore.open(tmp_path / "b.raster").attrs["by"] == "us"
    assert not [*tmp_path.glob(".zvcore-convert.json*")], "the note of a conversion goes when it ends"
    with pytest.raises(ConflictError):
        zvcore.convert(tmp_path / "x", file, format="raster")
    assert zvcore.convert(tmp_path / "x", file, format="raster", overwrite=True, verify=True).verified


def test_where_voxels_lie_goes_along_to_precomputed_and_back(file, tmp_path):
    with zvcore.open(file, "r+").store.lock("a.raster"):
        pass
    zvcore.open(file, "r+").attrs.update({"spacings": "4 4 40", "units": '"nm" "nm" "nm"'})
    assert zvcore.convert(file, tmp_path / "p", format="precomputed", chunks=(16, 16, 8, 1), verify=True).verified
    assert zvcore.open(tmp_path / "p").info["scales"][0]["resolution"] == [4, 4, 40]
    assert zvcore.convert(tmp_path / "p", tmp_path / "b.raster", format="raster", verify=True).verified
    found = zvcore.open(tmp_path / "b.raster")
    assert (found[...] == VALUES).all()
    assert [(a.scale, a.unit) for a in zvcore.format.get_format("raster").read_axes(found)] == [
        (4.0, "nm"), (4.0, "nm"), (40.0, "nm"),
    ]  # fmt: skip


def test_damage_is_reported_with_its_bytes(file):
    sound = file.read_bytes()
    start = sound.index(b"\n\n") + 2
    assert zvcore.verify(file).ok
    file.write_bytes(sound[:-100])
    report = zvcore.verify(file)
    assert not report.ok
    assert (report.problems[0].where, report.problems[0].offset) == ("a.raster", start)
    with pytest.raises(CorruptDataError, match=r"a\.raster"):
        zvcore.open(file)[...]
    file.write_bytes(sound.replace(b"dimension: 3", b"dimension: 4"))
    problem = zvcore.verify(file).problems[0]
    assert (problem.where, problem.expected) == ("a.raster", 3)
    if b"encoding: gzip" in sound:
        file.write_bytes(sound[: start + 40] + bytes([sound[start + 40] ^ 255]) + sound[start + 41 :])
        assert zvcore.verify(file).problems[0].offset is not None


HOSTILE = [
    b"", b"NRRD", b"NRRD0004\n", b"NRRD0004\ntype: float\n\n", b"NRRD0009\n\n", b"NRRD0004\nnothing\n\n",
    b"NRRD0004\ntype: uint8\ndimension: 1\nsizes: 0\nencoding: raw\n\n",
    b"NRRD0004\ntype: uint8\ndimension: 1\nsizes: -1\nencoding: raw\n\n",
    b"NRRD0004\ntype: uint8\ndimension: 3\nsizes: 9999999999999 9999999999999 99\nencoding: raw\n\n",
    b"NRRD0004\ntype: uint16\ndimension: 1\nsizes: 1\nencoding: raw\n\n\0\0",
    b"NRRD0004\ntype: uint8\ntype: uint8\ndimension: 1\nsizes: 1\nencoding: raw\n\n\0\0",
    b"NRRD0004\ntype: uint8\ndimension: 1\nsizes: 1\nencoding: raw\ndata file: /etc/passwd\n\n",
    b"NRRD0004\ntype: block\ndimension: 1\nsizes: 1\nencoding: raw\n\n\0", b"NRRD0004\n" + b"a" * 200_000,
]  # fmt: skip


@pytest.mark.parametrize("raw", HOSTILE, ids=range(len(HOSTILE)))
def test_headers_that_lie_are_errors_of_ours(tmp_path, raw):
    (tmp_path / "x.raster").write_bytes(raw)
    with pytest.raises((MetadataError, UnsupportedError)):
        zvcore.open(tmp_path / "x.raster")
    assert not zvcore.verify(tmp_path / "x.raster").ok


def test_a_size_that_only_the_header_claims_costs_nothing_until_it_is_read(tmp_path):
    header = b"NRRD0004\ntype: uint8\ndimension: 2\nsizes: 1000000 1000000\nencoding: raw\n\n"
    (tmp_path / "x.raster").write_bytes(header + b"\1\2")
    assert zvcore.open(tmp_path / "x.raster").shape == (1_000_000, 1_000_000)
    problem = zvcore.verify(tmp_path / "x.raster").problems[0]
    assert (problem.offset, problem.expected, problem.found) == (len(header), 10**12, 2)
    (tmp_path / "y.raster").write_bytes(header.replace(b"raw", b"gzip") + gzip.compress(b"\1\2"))
    assert not zvcore.verify(tmp_path / "y.raster", fast=False).ok


def test_commands_take_it(file, tmp_path, capsys):
    assert main(["info", str(file)]) == 0
    assert "raster array" in capsys.readouterr().out
    assert main(["ls", str(file)]) == main(["tree", str(file)]) == main(["verify", str(file)]) == 0
    capsys.readouterr()
    assert main(["get", str(file), "0:2,0,0", "-o", str(tmp_path / "x.npy")]) == 0
    assert (np.load(tmp_path / "x.npy") == VALUES[0:2, 0, 0]).all()
    assert main(["preview", str(file), "-o", str(tmp_path / "x.png")]) == 0
    assert (tmp_path / "x.png").stat().st_size > 100
    assert main(["convert", str(file), str(tmp_path / "c"), "--format", "zarr3", "--chunks", "5,5,5"]) == 0
    assert main(["convert", str(tmp_path / "c"), str(tmp_path / "c.raster"), "--format", "raster"]) == 0
    assert (zvcore.open(tmp_path / "c.raster")[...] == VALUES).all()


def test_the_server_lists_shows_and_hands_it_out(file, tmp_path):
    with make_server(tmp_path, "127.0.0.1", 0) as server:
        import threading

        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:

            def get(path):
                with urllib.request.urlopen(f"{server.url.rstrip('/')}{path}") as answer:
                    return answer.read()

            found = json.loads(get("/.zvcore/datasets.json"))["datasets"]
            assert [(one["path"], one["format"], one["shape"]) for one in found] == [
                ("a.raster", "raster", [30, 20, 10])
            ]
            assert found[0]["stored_bytes"] == file.stat().st_size
            assert get(found[0]["preview"])[:4] == b"\x89PNG"
            assert get("/a.raster") == file.read_bytes()
            assert json.loads(get("/.zvcore/view/a.raster/-/info"))["data_type"] == "uint16"
        finally:
            server.shutdown()
            thread.join()


def test_it_is_missed_by_its_name_when_it_is_not_installed(file, nrrd):
    nrrd.remove()
    with pytest.raises(UnsupportedError, match="this is a file, of no format that zvcore knows by its name"):
        zvcore.open(file)
    with pytest.raises(ValueError, match="format must be one of"):
        zvcore.open(file, format="raster")
