"""What can be asked of a conversion, what is copied as it is, what the report and the comparison find."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest

import zvcore
from tests.processes import PATIENCE
from zvcore.errors import (
    ConflictError,
    CorruptDataError,
    MetadataError,
    UnfinishedConversionWarning,
    UnsupportedError,
)
from zvcore.precomputed import ShardingSpec


def volume(dtype="uint8", shape=(40, 50, 60)):
    return np.random.default_rng(1).integers(1, 250, shape).astype(dtype)


def n5(path, values, **options):
    given = {"chunks": (16, 16, 16), "codec": "gzip", **options}
    array = zvcore.create(path, format="n5", shape=values.T.shape, dtype=values.dtype, **given)
    array[...] = values.T
    return array


def zarr(path, values, **options):
    given = {"chunks": (16, 16, 16), **options}
    array = zvcore.create(path, format="zarr3", shape=values.shape, dtype=values.dtype, **given)
    array[...] = values
    return array


# --- what is copied


def test_chunks_are_copied_as_they_are(tmp_path):
    values = volume(shape=(32, 48, 64))
    n5(tmp_path / "src", values, codec={"name": "gzip", "level": 1})
    source = zvcore.open(tmp_path / "src")
    report = zvcore.convert(tmp_path / "src", tmp_path / "zarr", format="zarr3", shards=(32, 48, 64))
    assert (report.copied, report.encoded) == (24, 0)
    made = zvcore.open(tmp_path / "zarr")
    payload = source.read_encoded((3, 2, 1))[16:]
    assert made.read_encoded((1, 2, 3)) == payload
    report = zvcore.convert(tmp_path / "zarr", tmp_path / "volume", format="precomputed", sharding="advise")
    assert (report.copied, report.encoded) == (24, 0)
    assert zvcore.open(tmp_path / "volume")[0].read_encoded((3, 2, 1, 0)) == payload
    report = zvcore.convert(tmp_path / "volume", tmp_path / "n5", format="n5")
    assert (report.copied, report.encoded) == (24, 0)
    level = zvcore.open(tmp_path / "n5")["s0"]
    assert level.read_encoded((3, 2, 1))[16:] == payload
    assert np.array_equal(level[...], values.T)


def test_only_where_the_bytes_allow(tmp_path):
    n5(tmp_path / "src", volume(shape=(32, 32, 32)))
    n5(tmp_path / "wide", volume("uint16", (32, 32, 32)))

    def copied(name, **options):
        return zvcore.convert(tmp_path / name, tmp_path / "dst", overwrite=True, verify=True, **options).copied

    assert copied("src", format="zarr3") == 8
    assert copied("src", format="zarr3", codec="gzip") == 8
    assert copied("src", format="zarr3", codec={"name": "gzip", "level": 9}) == 0  # another effort was asked for
    assert copied("src", format="zarr3", codec="zstd") == 0
    assert copied("src", format="zarr3", chunks=(16, 16, 32)) == 0
    assert copied("src", format="zarr3", dtype="uint16") == 0
    assert copied("src", format="zarr3", region=np.s_[16:32, 0:16, :]) == 2
    assert copied("src", format="zarr3", region=np.s_[1:17, 0:16, :]) == 0
    # N5 is big-endian, Zarr little-endian unless told.
    assert copied("wide", format="zarr3") == 0
    assert copied("wide", format="zarr3", endian="big") == 8
    assert copied("wide", format="n5") == 8


def test_several_gzip_members_are_no_neuroglancer_chunk(tmp_path):
    import gzip

    values = volume(shape=(16, 16, 16))
    source = n5(tmp_path / "src", values)
    key = tmp_path / "src" / "0" / "0" / "0"
    raw = values.tobytes()
    key.write_bytes(key.read_bytes()[:16] + gzip.compress(raw[:1000]) + gzip.compress(raw[1000:]))
    assert np.array_equal(source[...], values.T)
    report = zvcore.convert(tmp_path / "src", tmp_path / "dst", format="precomputed", sharding="advise", verify=True)
    assert (report.copied, report.encoded, report.verified) == (0, 1, True)
    report = zvcore.convert(tmp_path / "src", tmp_path / "zarr", format="zarr3", verify=True)
    assert (report.copied, report.verified) == (1, True)


def test_blocks_of_other_sizes_are_decoded(tmp_path):
    """N5 blocks say their own size; one that is not the whole chunk is no chunk of Zarr."""
    values = volume(shape=(20, 20, 20))
    n5(tmp_path / "padded", values, pad_edges=True)
    report = zvcore.convert(tmp_path / "padded", tmp_path / "dst", format="zarr3", verify=True)
    assert report.copied == 8
    n5(tmp_path / "cropped", values)
    report = zvcore.convert(tmp_path / "cropped", tmp_path / "dst2", format="zarr3", verify=True)
    assert (report.copied, report.encoded) == (1, 7)


def test_fill_values(tmp_path):
    values = volume(shape=(32, 32, 32))
    values[:16] = 7
    zarr(tmp_path / "src", values, fill_value=7, codec="gzip")
    report = zvcore.convert(tmp_path / "src", tmp_path / "zarr", format="zarr3", verify=True)
    assert (report.copied, report.encoded, report.empty) == (4, 0, 4)
    assert zvcore.open(tmp_path / "zarr").fill_value == 7
    # N5 has none but zero: what is not stored there has to be written.
    report = zvcore.convert(tmp_path / "src", tmp_path / "n5", format="n5", verify=True)
    assert (report.copied, report.encoded, report.empty) == (4, 4, 0)


def test_filters_and_strings_of_zarr(tmp_path):
    texts = np.array([["a", "bb"], ["", "ccc"]], dtype=object)
    array = zvcore.create(tmp_path / "src", format="zarr3", shape=(2, 2), dtype="T", chunks=(1, 2))
    array[...] = texts
    report = zvcore.convert(tmp_path / "src", tmp_path / "dst", format="zarr3", chunks=(2, 2), verify=True)
    assert report.verified
    assert zvcore.open(tmp_path / "dst")[...].tolist() == texts.tolist()


# --- regions and types


def test_regions(tmp_path):
    values = volume()
    n5(tmp_path / "src", values)
    for i, (region, expected) in enumerate(
        [
            (np.s_[5:33, :, 7:31], values[7:31, :, 5:33]),
            (np.s_[..., 3], values[3]),
            (np.s_[-10:, 2], values[:, 2, -10:]),
            (5, values[:, :, 5]),
        ]
    ):
        zvcore.convert(tmp_path / "src", tmp_path / str(i), format="zarr3", region=region, verify=True)
        assert np.array_equal(zvcore.open(tmp_path / str(i))[...], expected)
    zvcore.convert(tmp_path / "src", tmp_path / "volume", format="precomputed", region=np.s_[..., 3])
    assert zvcore.open(tmp_path / "volume")[0].shape == (60, 50, 1, 1)


@pytest.mark.parametrize("region", [np.s_[::2], np.s_[70:80], np.s_[5:3], (0, 0, 0, 0), 60, np.s_[..., ...]])
def test_regions_that_are_none(region, tmp_path):
    n5(tmp_path / "src", volume())
    with pytest.raises(IndexError):
        zvcore.convert(tmp_path / "src", tmp_path / "dst", format="zarr3", region=region)


def test_data_types(tmp_path):
    values = volume("float64", (8, 8, 8)) + 0.5
    values[0, 0, 0] = 2.5
    zarr(tmp_path / "src", values, chunks=(4, 4, 4))
    zvcore.convert(tmp_path / "src", tmp_path / "dst", format="n5", dtype="uint8", verify=True)
    assert np.array_equal(zvcore.open(tmp_path / "dst")[...].T, np.rint(values).astype("uint8"))
    assert zvcore.open(tmp_path / "dst")[0, 0, 0] == 2


@pytest.mark.parametrize(
    ("source", "target", "bad", "nearest"),
    [
        ("int16", "uint8", -1, 0),
        ("int16", "uint8", 256, 255),
        ("uint64", "int64", 2**63, 2**63 - 1),
        ("int64", "uint64", -1, 0),
        ("float64", "int64", 2.0**63, 2**63 - 1),
        ("float32", "uint8", float("inf"), 255),
        ("float32", "uint8", float("nan"), 0),
        ("float32", "uint64", 2.0**64, 2**64 - 1),
    ],
)
def test_values_that_do_not_fit(source, target, bad, nearest, tmp_path):
    values = np.full((4, 6), 3, source)
    values[2, 5] = bad
    zarr(tmp_path / "src", values, chunks=(2, 3))
    with pytest.raises(OverflowError, match=r"\(2, 5\)"):
        zvcore.convert(tmp_path / "src", tmp_path / "dst", format="zarr3", dtype=target)
    expected = np.full((4, 6), 3, target)
    expected[2, 5] = nearest
    zvcore.convert(tmp_path / "src", tmp_path / "clipped", format="zarr3", dtype=target, clip=True)
    assert np.array_equal(zvcore.open(tmp_path / "clipped")[...], expected)


# --- layouts


def test_shards_as_asked(tmp_path):
    values = volume()
    zarr(tmp_path / "src", values, shards=(32, 32, 32))

    def made(**options):
        zvcore.convert(tmp_path / "src", tmp_path / "dst", overwrite=True, **options)
        opened = zvcore.open(tmp_path / "dst")
        return opened if isinstance(opened, zvcore.Array) else opened[0]

    assert made(format="zarr3").shards == (32, 32, 32)
    assert made(format="zarr3", shards=False).shards is None
    assert made(format="zarr3", shards=True).shards == (48, 64, 64) or made(format="zarr3", shards=True).shards
    assert made(format="zarr3", sharding="advise").shards is not None
    assert made(format="zarr3", chunks=(20, 20, 20)).shards == (40, 40, 40)
    assert made(format="precomputed").sharding is not None
    assert made(format="precomputed", shards=False).sharding is None
    assert made(format="n5").shards is None
    with pytest.raises(TypeError, match="one of them"):
        made(format="zarr3", sharding="advise", shards=(32, 32, 32))
    with pytest.raises(UnsupportedError, match="no shards"):
        made(format="n5", shards=(32, 32, 32))
    with pytest.raises(MetadataError, match="chunks"):
        made(format="n5", chunks=(32, 32))


def test_what_cannot_be_converted(tmp_path):
    n5(tmp_path / "src", volume())
    with pytest.raises(UnsupportedError, match="n5, zarr3, zarr2, precomputed, bdv"):
        zvcore.convert(tmp_path / "src", tmp_path / "dst", format="zvf")
    for options in ({"levels": -1}, {"memory": 0}, {"levels": 1, "method": "median"}, {"levels": 1, "factors": (2, 2)}):
        with pytest.raises(ValueError):
            zvcore.convert(tmp_path / "src", tmp_path / "dst2", format="zarr3", **options)
    flags = np.zeros((4, 4), bool)
    zarr(tmp_path / "flags", flags, chunks=(2, 2))
    with pytest.raises(UnsupportedError, match="uint8"):
        zvcore.convert(tmp_path / "flags", tmp_path / "dst3", format="n5")
    zvcore.convert(tmp_path / "flags", tmp_path / "dst3", format="n5", dtype="uint8", overwrite=True)
    with pytest.raises(UnsupportedError, match="neither an array"):
        zvcore.convert({"a": 1}, tmp_path / "dst4", format="n5")


def test_a_broken_source_is_named(tmp_path):
    n5(tmp_path / "src", volume())
    key = tmp_path / "src" / "1" / "2" / "0"
    data = bytearray(key.read_bytes())
    data[40:60] = bytes(20)
    key.write_bytes(data)
    with pytest.raises(CorruptDataError, match="1/2/0"):
        zvcore.convert(tmp_path / "src", tmp_path / "dst", format="zarr3", codec="zstd")
    # Taken over as it is, it is found when both sides are read.
    report = zvcore.convert(tmp_path / "src", tmp_path / "copy", format="n5", verify=True)
    assert report.verified is False and not report.ok
    assert any("1/2/0" in problem.where for problem in report.problems)


@pytest.mark.parametrize("target", [{"format": "zarr3"}, {"format": "n5"}, {"format": "precomputed", "levels": 1}])
def test_a_planted_difference_is_found(target, tmp_path, monkeypatch):
    """One voxel is changed after the conversion, before the comparison."""
    from zvcore.converting.conversion import Conversion

    values = volume()
    n5(tmp_path / "src", values)
    original = Conversion._verify

    def planted(self, *args):
        with pytest.warns(UnfinishedConversionWarning, match="1 of 1 units|2 of 2 units"):
            made = zvcore.open(tmp_path / "dst", "r+")
        made = made if isinstance(made, zvcore.Array) else made[0]
        at = (17, 33, 5) if made.format == "zarr3" else (5, 33, 17)
        made[at] = made[at] + 1
        return original(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(Conversion, "_verify", planted)
        report = zvcore.convert(tmp_path / "src", tmp_path / "dst", verify=True, **target)
    assert report.verified is False and not report.ok
    first = report.problems[0]
    assert "1 values" in first.what and "checksums" in first.what
    assert first.chunk[:3] == ((1, 2, 0) if target["format"] == "zarr3" else (0, 2, 1))
    assert str(values[17, 33, 5]) in first.what
    # What is not the same as its source does not look as if it were.
    found = zvcore.verify(tmp_path / "dst")
    assert found.status == "unfinished" and "not what the source holds" in str(found)
    # Run again, it writes what is wrong anew: without a comparison, too, nothing wrong passes for finished.
    again = zvcore.convert(tmp_path / "src", tmp_path / "dst", **target)
    assert again.ok and again.resumed == 0 and zvcore.verify(tmp_path / "dst").ok
    made = zvcore.open(tmp_path / "dst")
    made = made if isinstance(made, zvcore.Array) else made[0][..., 0]
    assert np.array_equal(made[...], values if target["format"] == "zarr3" else values.T)


@contextmanager
def planted_difference(array, monkeypatch):
    """Before a conversion compares what it has written, one voxel of that is changed."""
    from zvcore.converting.conversion import Conversion

    original = Conversion._verify

    def planted(self, *args):
        with pytest.warns(UnfinishedConversionWarning):
            zvcore.open(array, "r+")[3, 4, 5] ^= 1
        return original(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(Conversion, "_verify", planted)
        yield


def test_of_several_arrays_the_wrong_one_is_written_again_and_what_was_made_of_it(tmp_path, monkeypatch):
    zvcore.open(tmp_path / "src", "w", format="n5").attrs["of"] = "two"
    for name in ("a", "b"):
        n5(tmp_path / "src" / name, volume())
    with planted_difference(tmp_path / "dst/b", monkeypatch):
        assert not zvcore.convert(tmp_path / "src", tmp_path / "dst", format="zarr3", verify=True).ok
    again = zvcore.convert(tmp_path / "src", tmp_path / "dst", format="zarr3")
    assert (again.resumed, again.units) == (1, 2)
    assert all(np.array_equal(zvcore.open(tmp_path / "dst")[name][...], volume()) for name in ("a", "b"))


@pytest.mark.parametrize("again", [[{"part": (1, 2)}, {"part": (2, 2)}], [{}]], ids=str)
def test_parts_whose_comparison_found_a_difference_are_all_done_again(again, tmp_path, monkeypatch):
    n5(tmp_path / "src", volume())
    options = {"format": "zarr3", "shards": False, "codec": "zstd", "memory": 1 << 16}
    with planted_difference(tmp_path / "dst", monkeypatch):
        for number in (1, 2):
            zvcore.convert(tmp_path / "src", tmp_path / "dst", part=(number, 2), verify=True, **options)
    found = str(zvcore.verify(tmp_path / "dst"))
    assert "not what the source holds" in found and "of 2 parts these are missing: 1-2/2" in found
    for one in again:
        zvcore.convert(tmp_path / "src", tmp_path / "dst", **one, **options)
    assert zvcore.verify(tmp_path / "dst").ok
    assert np.array_equal(zvcore.open(tmp_path / "dst")[...], volume())


def test_progress_is_reported(tmp_path):
    n5(tmp_path / "src", volume())
    told = []
    report = zvcore.convert(
        tmp_path / "src", tmp_path / "dst", format="zarr3", memory=1 << 18, progress=lambda *one: told.append(one)
    )
    assert told[-1] == (report.units, report.units) and len(told) > report.units // 2
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_the_report(tmp_path):
    values = volume()
    n5(tmp_path / "src", values)
    report = zvcore.convert(tmp_path / "src", tmp_path / "dst", format="zarr3", codec="zstd")
    size = sum(
        path.stat().st_size
        for path in (tmp_path / "src").rglob("*")
        if path.name != "attributes.json" and path.is_file()
    )
    out = sum(path.stat().st_size for path in (tmp_path / "dst" / "c").rglob("*") if path.is_file())
    assert (report.bytes_in, report.bytes_out, report.values) == (size, out, values.nbytes)
    assert report.ratio == values.nbytes / out and report.throughput > 0 and report.encoded == 48
    assert json.loads(json.dumps(report.to_json()))["bytes_out"] == out
    assert "0 copied as they are, 48 re-encoded" in str(report)


# --- other stores, and the command


def test_in_memory(tmp_path):
    values = volume()
    n5("memory://convert-src", values)
    zvcore.convert("memory://convert-src", "memory://convert-dst", format="zarr3", shards=(32, 32, 32), verify=True)
    report = zvcore.convert("memory://convert-dst", tmp_path / "dst", format="precomputed", levels=1, verify=True)
    assert report.bytes_in and report.bytes_out
    assert np.array_equal(zvcore.open(tmp_path / "dst")[0][..., 0].T, values)
    with pytest.raises(ConflictError):
        zvcore.convert("memory://convert-src", "memory://convert-dst", format="zarr3")


def command(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "zvcore", *map(str, arguments)], capture_output=True, text=True, check=False, cwd=cwd,
        timeout=PATIENCE,
    )  # fmt: skip


def test_the_command(tmp_path):
    values = volume()
    n5(tmp_path / "src", values)
    answer = command(
        "convert", "src", "dst", "--format", "zarr3", "--chunks", "16,16,16", "--shards", "32,32,32", "--codec",
        "zstd:level=5,checksum=true", "--region", "0:40,:,8:", "--levels", "1", "--memory", "64M", "--verify",
        "--threads", "2", cwd=tmp_path,
    )  # fmt: skip
    assert answer.returncode == 0 and answer.stdout == "" and "verified" in answer.stderr
    assert "\r" not in answer.stderr and "%" not in answer.stderr
    made = zvcore.open(tmp_path / "dst")["0"]
    assert made.shards == (32, 32, 32) and made.codec.config() == {"level": 5, "checksum": True}
    assert np.array_equal(made[...], values[8:, :, :40])
    answer = command("convert", "src", "dst", "--format", "n5", cwd=tmp_path)
    assert answer.returncode == 1 and "overwrite" in answer.stderr
    answer = command(
        "convert", "src", "dst", "--format", "n5", "--overwrite", "--json", "--codec", "none", cwd=tmp_path
    )
    assert answer.returncode == 0 and json.loads(answer.stdout)["values"] == values.nbytes
    answer = command(
        "convert", "src", "volume", "--format", "precomputed", "--set", "resolution=[8,8,40]", "--sharding", "advise",
        "-q", cwd=tmp_path,
    )  # fmt: skip
    assert answer.returncode == 0 and not answer.stderr
    assert zvcore.open(tmp_path / "volume")[0].resolution == (8, 8, 40)
    answer = command("downsample", "volume", "--levels", "2", "--verify", cwd=tmp_path)
    assert answer.returncode == 0 and len(zvcore.open(tmp_path / "volume")) == 3


@pytest.mark.parametrize(
    "arguments",
    [
        ["src", "dst"],
        ["src", "dst", "--format", "bmp"],
        ["nothing", "dst", "--format", "n5"],
        ["src", "dst", "--format", "n5", "--chunks", "1,x"],
        ["src", "dst", "--format", "n5", "--levels", "-1"],
        ["src", "dst", "--format", "n5", "--memory", "much"],
        ["src", "dst", "--format", "n5", "--codec", "zstd:level"],
        ["src", "dst", "--format", "n5", "--region", "1:2:3:4"],
        ["src", "dst", "--format", "precomputed", "--sharding", "yes"],
        ["src", "dst", "--format", "n5", "--set", "resolution"],
    ],
)
def test_wrong_command_lines(arguments, tmp_path):
    n5(tmp_path / "src", volume(shape=(4, 4, 4)))
    answer = command("convert", *arguments, cwd=tmp_path)
    assert answer.returncode == 2 and answer.stderr and "Traceback" not in answer.stderr
    assert not (tmp_path / "dst").exists()


@pytest.mark.parametrize("format", ["n5", "zarr3", "zarr2", "precomputed", "bdv"])
def test_options_that_there_are_not_are_refused_in_words_for_users(tmp_path, format):
    zarr(tmp_path / "a", volume())
    with pytest.raises(TypeError, match=f"{format} has no option 'bogus'"):
        zvcore.convert(tmp_path / "a", tmp_path / "b", format=format, bogus=1)
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("encoding", ["raw", "gzip"])
def test_a_specification_of_shards_says_itself_how_values_are_compressed(tmp_path, encoding):
    """Also of what is made from a volume whose files are not compressed, if no codec is asked for."""
    source = zvcore.create(
        tmp_path / "src", format="precomputed", shape=(8, 8, 8), dtype="u1", chunks=(4, 4, 4), codec="raw"
    )
    source[...] = 1
    spec = ShardingSpec(
        preshift_bits=1, hash="identity", minishard_bits=1, shard_bits=1, minishard_index_encoding="raw",
        data_encoding=encoding,
    )  # fmt: skip
    zvcore.convert(tmp_path / "src", tmp_path / "dst", format="precomputed", sharding=spec, verify=True)
    assert zvcore.open(tmp_path / "dst")[0].sharding.data_encoding == encoding


@pytest.mark.parametrize(("had", "asked"), [("gzip", "raw"), ("raw", "gzip")])
def test_shards_that_are_kept_are_compressed_as_is_asked_for(tmp_path, had, asked):
    spec = ShardingSpec(
        preshift_bits=1, hash="identity", minishard_bits=1, shard_bits=1, minishard_index_encoding="raw",
        data_encoding=had,
    )  # fmt: skip
    options = {"shape": (8, 8, 8), "dtype": "u1", "chunks": (4, 4, 4), "sharding": spec}
    zvcore.create(tmp_path / "src", format="precomputed", **options)[...] = 1
    zvcore.convert(tmp_path / "src", tmp_path / "dst", format="precomputed", codec=asked, verify=True)
    made = zvcore.open(tmp_path / "dst")[0].sharding
    assert made.data_encoding == asked and made.shard_bits == spec.shard_bits
