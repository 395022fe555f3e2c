"""Parts of large chunks: no more is read or decoded than is wanted, and nobody can tell but by what is damaged."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import zvcore
from tests.plugins.conftest import has_own_libraries
from zvcore.errors import CorruptDataError
from zvcore.stores.late_writes import settle

if TYPE_CHECKING:
    from collections.abc import Callable

SHAPE, CHUNK = (50, 60, 300), (40, 48, 256)
ITEM = 2
NBYTES = int(np.prod(CHUNK)) * ITEM
_noise = np.random.default_rng(7).integers(0, 40, SHAPE)
VALUES = (np.add.outer(np.add.outer(np.arange(50), np.arange(60)), np.arange(300)) * 16 + _noise).astype("<u2")

ZSTD = {"name": "zstd", "level": 1}
BLOSC = {"name": "blosc", "cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 2, "blocksize": 65536}
CODECS: dict[str, Any] = {
    "raw": None,
    "zstd": ZSTD,
    "zstd, checked": {**ZSTD, "checksum": True},
    "blosc": BLOSC,
    "blosc zstd": {**BLOSC, "cname": "zstd", "shuffle": "bitshuffle"},
    "gzip": {"name": "gzip", "level": 1},
    "raw, checked": ["crc32c"],
    "zstd, then checked": [ZSTD, "crc32c"],
}
LAYOUTS: dict[str, dict[str, Any]] = {
    "zarr3": {"format": "zarr3"},
    "shards": {"format": "zarr3", "shards": (80, 96, 512)},
    "transposed": {"format": "zarr3", "filters": [{"name": "transpose", "configuration": {"order": [2, 0, 1]}}]},
    "big-endian": {"format": "zarr3", "endian": "big"},
    "zarr2": {"format": "zarr2", "order": "F"},
    "n5": {"format": "n5"},
}


def made(path: Path, layout: str, codec: str) -> Any:
    array = zvcore.create(path, shape=SHAPE, dtype="<u2", chunks=CHUNK, codec=CODECS[codec], **LAYOUTS[layout])
    array[...] = VALUES
    return zvcore.open(path)


def along(length: int) -> st.SearchStrategy[Any]:
    ends = st.integers(-length, length)
    steps = st.sampled_from([None, None, None, 1, 2, 7, 41, -1, -3])
    return st.integers(-length, length - 1) | st.builds(slice, ends | st.none(), ends | st.none(), steps)


REGIONS = st.tuples(*map(along, SHAPE))
PLACES = st.lists(st.tuples(*(st.integers(0, n - 1) for n in SHAPE)), min_size=1, max_size=6)
COMBINED = [
    (layout, codec)
    for layout, codec in itertools.product(LAYOUTS, CODECS)
    if "checked" not in codec or LAYOUTS[layout]["format"] == "zarr3"
]


@pytest.fixture(scope="module", params=COMBINED, ids=[f"{layout}, {codec}" for layout, codec in COMBINED])
def array(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return made(tmp_path_factory.mktemp("part") / "a", *request.param)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(region=REGIONS, places=PLACES, lists=st.lists(st.integers(0, 49), min_size=1, max_size=4))
def test_what_is_read_is_what_was_written(array: Any, region: Any, places: Any, lists: list[int]) -> None:
    np.testing.assert_array_equal(array[region], VALUES[region])
    points = tuple(map(list, zip(*places, strict=True)))
    np.testing.assert_array_equal(array.vindex[points], VALUES[points])
    np.testing.assert_array_equal(array.oindex[lists, :, 5], VALUES[lists, :, 5])


def chunk_file(array: Any) -> Path:
    """That of the first chunk, or of the shard that holds it."""
    files = [path for path in Path(array.store.root).rglob("*") if path.is_file() and path.suffix != ".json"]
    return min(path for path in files if not path.name.startswith("."))


FIRST, LAST = (0, slice(0, 48), slice(0, 256)), (39, slice(0, 48), slice(0, 256))


@pytest.mark.parametrize("codec", ["raw", "zstd", "blosc"])
@pytest.mark.parametrize("layout", ["zarr3", "shards"])
def test_what_is_damaged_behind_what_is_wanted_is_told_to_those_who_want_it(
    tmp_path: Path, layout: str, codec: str
) -> None:
    if codec == "zstd" and not has_own_libraries():
        pytest.skip("the system's libzstd decodes all of a frame, and may write other blocks")
    array = made(tmp_path / "a", layout, codec)
    length = len(array.read_encoded((0, 0, 0)))
    file = chunk_file(array)
    raw = bytearray(file.read_bytes())
    # Of raw bytes nobody can tell; of the others, the last block is no block any more.
    raw[length - 4000 : length - 2000] = b"\xff" * 2000
    file.write_bytes(raw)
    array = zvcore.open(tmp_path / "a")
    np.testing.assert_array_equal(array[FIRST], VALUES[FIRST])
    assert array[3, 4, 5] == VALUES[3, 4, 5]
    if codec == "raw":
        assert not np.array_equal(array[LAST], VALUES[LAST])
        return
    for region in (LAST, (slice(0, 40), slice(0, 48), slice(0, 256))):
        with pytest.raises(CorruptDataError):
            array[region]
    assert not zvcore.verify(tmp_path / "a").ok


@pytest.mark.parametrize("codec", ["zstd, checked", "gzip", "raw, checked", "zstd, then checked"])
def test_what_has_a_checksum_is_checked_whatever_is_wanted(tmp_path: Path, codec: str) -> None:
    array = made(tmp_path / "a", "zarr3", codec)
    file = chunk_file(array)
    raw = bytearray(file.read_bytes())
    raw[-1] ^= 1
    file.write_bytes(raw)
    with pytest.raises(CorruptDataError):
        zvcore.open(tmp_path / "a")[FIRST]


@pytest.mark.parametrize("size", [NBYTES - 1, NBYTES + 1, NBYTES // 2, 0])
@pytest.mark.parametrize("layout", ["zarr3", "zarr2"])
def test_a_raw_chunk_of_another_size_is_refused_whatever_is_wanted(tmp_path: Path, layout: str, size: int) -> None:
    array = made(tmp_path / "a", layout, "raw")
    file = chunk_file(array)
    file.write_bytes((file.read_bytes() + b"\0")[:size])
    for region in (FIRST, LAST, (3, 4, 5)):
        with pytest.raises(CorruptDataError):
            zvcore.open(tmp_path / "a")[region]


def test_a_shard_that_ends_before_its_chunk_does_is_refused(tmp_path: Path) -> None:
    array = zvcore.create(
        tmp_path / "a", format="zarr3", shape=SHAPE, dtype="<u2", chunks=CHUNK, shards=(80, 96, 512), codec=None,
        index_location="start",
    )  # fmt: skip
    array[...] = VALUES
    zvcore.open(tmp_path / "a")[FIRST]
    file = chunk_file(array)
    # The last chunk in the file lacks its end; its beginning is all there.
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(CorruptDataError):
        zvcore.open(tmp_path / "a")[40, 48, 256]


def test_no_more_of_a_raw_chunk_is_read_than_is_wanted(tmp_path: Path) -> None:
    """A chunk of 64 GiB, nearly all of it a hole."""
    side = 1 << 12
    array = zvcore.create(tmp_path / "a", format="zarr3", shape=(side,) * 3, dtype="u1", chunks=(side,) * 3, codec=None)
    file = tmp_path / "a" / "c/0/0/0"
    file.parent.mkdir(parents=True)
    with file.open("wb") as made:
        made.truncate(side**3)
        made.seek(7 * side**2 + 5 * side)
        made.write(bytes(range(1, 100)))
    array = zvcore.open(tmp_path / "a")
    np.testing.assert_array_equal(array[7, 5, :101], [*range(1, 100), 0, 0])
    assert array[7, 5, 3] == 4


def bytes_read_by(read: Callable[[], Any]) -> int:
    """How many bytes this process has asked files for meanwhile."""
    counts = Path("/proc/self/io")
    if not counts.exists():
        pytest.skip("the system does not count what a process reads")

    def count() -> int:
        return int(counts.read_text().split()[1])

    before = count()
    nothing = count() - before
    before = count()
    read()
    return count() - before - nothing


def test_a_codec_that_no_chunk_has_does_not_make_them_read_whole(tmp_path: Path) -> None:
    """Files of volumes may be packed: that two packed ones are decoded in less time together is nothing to others."""
    values = np.arange(32 * 64 * 128, dtype="<u4").reshape(32, 64, 128, 1)
    for codec in (None, "gzip"):
        zvcore.create(
            tmp_path / str(codec), format="precomputed", shape=values.shape, dtype="<u4", chunks=(32, 32, 32),
            codec=codec,
        )[...] = values  # fmt: skip
    settle()
    plain = zvcore.open(tmp_path / "None", scale=0)
    lines = (slice(None), slice(None, None, 32), slice(None, None, 32), 0)
    plain[lines]
    assert bytes_read_by(lambda: plain[lines]) < 32 * 32 * 32 * 4
    # Some of the files are packed, and are decoded all the same.
    for packed in sorted((tmp_path / "gzip" / "1_1_1").iterdir())[1:5]:
        target = tmp_path / "None" / "1_1_1" / packed.name
        packed.rename(target)
        target.with_suffix("").unlink()
    mixed = zvcore.open(tmp_path / "None", scale=0)
    np.testing.assert_array_equal(mixed[lines], values[lines])
    np.testing.assert_array_equal(mixed[...], values)
