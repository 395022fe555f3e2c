"""zarr-python's own pipeline under ours, for what the engine cannot do: damaged chunks are errors there too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numcodecs
import numpy as np
import pytest
import zarr
import zarr.codecs

import zvcore.zarr3
from tests.zarr3.theirs import Theirs
from zvcore.errors import CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is not currently part in the Zarr format 3"),
    pytest.mark.filterwarnings("ignore:The data type"),
    pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3"),
]

VALUES = (np.arange(20000) // 3).astype("i4")
COMPRESSORS = {
    "blosc": numcodecs.Blosc(),
    "blosc, bits": numcodecs.Blosc("zstd", shuffle=2),
    "blosc, raw": numcodecs.Blosc("zlib", clevel=0, shuffle=0),
    "lz4": numcodecs.LZ4(),
    "zstd": numcodecs.Zstd(),
    "gzip": numcodecs.GZip(),
    "zlib": numcodecs.Zlib(),
    "bz2": numcodecs.BZ2(),
    "lzma": numcodecs.LZMA(),
}
RECORDS = np.dtype([("a", "i4"), ("b", "u1")])


@pytest.fixture(autouse=True)
def ours() -> Iterator[None]:
    with zarr.config.set({"codec_pipeline.path": "zvcore.zarr3.CodecPipeline"}):
        yield


def version_2(path: Path, native: bool = True, **options: Any) -> Any:
    array = zarr.create_array(path, shape=VALUES.shape, chunks=VALUES.shape, dtype="i4", zarr_format=2, **options)
    array[:] = VALUES
    assert zvcore.zarr3.explain(array)["native"] == native
    return array


def damages(chunk: Path) -> Iterator[str]:
    """The file with each of several damages, one after the other."""
    whole = chunk.read_bytes()
    for length in (0, 1, 3, 4, 15, 16, 17, len(whole) // 2, len(whole) - 1):
        chunk.write_bytes(whole[:length])
        yield f"cut to {length} of {len(whole)}"
    chunk.write_bytes(whole + b"\0")
    yield "longer"
    chunk.write_bytes(whole)


@pytest.mark.parametrize("name", COMPRESSORS)
@pytest.mark.parametrize("place", ["compressors", "filters"])
@pytest.mark.parametrize("fill_value", [0, None], ids=["engine", "fallback"])
def test_damaged_chunks_of_version_2_are_errors_and_say_which(
    tmp_path: Path, name: str, place: str, fill_value: Any
) -> None:
    options = {"compressors": None, "filters": None, "fill_value": fill_value, place: [COMPRESSORS[name]]}
    array = version_2(tmp_path, **options)
    np.testing.assert_array_equal(array[:], VALUES)
    array[3:5] = VALUES[3:5]
    for damage in damages(tmp_path / "0"):
        with pytest.raises(CorruptDataError, match=r"^0: ") as caught:
            array[:]
        assert caught.value.key == "0", damage
        with pytest.raises(CorruptDataError):
            array[7:9] = 1
    np.testing.assert_array_equal(array[:], VALUES)


CANNOT = pytest.mark.skipif(zarr.__version__.startswith("3.1."), reason="zarr-python 3.1 has no shards of records")


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("shards", [None, pytest.param((400,), marks=CANNOT)])
def test_damaged_chunks_of_what_is_only_in_version_3_are_errors_too(tmp_path: Path, shards: Any, native: bool) -> None:
    records = np.zeros(400, RECORDS)
    records["a"] = np.arange(400)
    array = zarr.create_array(
        tmp_path,
        shape=(400,),
        chunks=(400,),
        shards=shards,
        dtype=RECORDS,
        compressors=zarr.codecs.BloscCodec(),
        filters=None if native else [Theirs()],
    )
    array[:] = records
    assert zvcore.zarr3.explain(array)["native"] == native
    assert (array[:] == records).all()
    array[5:9] = records[5:9]
    assert (array[:] == records).all()
    if shards is None:
        for damage in damages(tmp_path / "c/0"):
            with pytest.raises(CorruptDataError, match="blosc") as caught:
                array[:]
            assert caught.value.key == "c/0", damage
    else:
        whole = (tmp_path / "c/0").read_bytes()
        # The length that the chunk's blosc header gives.
        (tmp_path / "c/0").write_bytes(whole[:12] + b"\xff\xff\xff\x7f" + whole[16:])
        with pytest.raises(CorruptDataError, match="blosc") as caught:
            array[:]
        assert caught.value.key == "c/0"


def test_other_codecs_of_version_2_stay_what_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Filters of arrays, and compressors of somebody's own."""

    class Own(numcodecs.Zlib):
        codec_id = "somebody's own"

    monkeypatch.setitem(numcodecs.registry.codec_registry, Own.codec_id, Own)
    array = version_2(tmp_path, native=False, filters=[numcodecs.Delta("i4")], compressors=Own())
    np.testing.assert_array_equal(array[:], VALUES)
    (tmp_path / "0").write_bytes(b"")
    with pytest.raises(Exception, match="incomplete"):
        array[:]


def test_what_ours_decodes_is_written_as_zarr_python_writes_it(tmp_path: Path) -> None:
    version_2(tmp_path / "ours", compressors=numcodecs.Blosc("zstd", clevel=7), filters=None)
    with zarr.config.set({"codec_pipeline.path": "zarr.core.codec_pipeline.BatchedCodecPipeline"}):
        version_2(tmp_path / "theirs", native=False, compressors=numcodecs.Blosc("zstd", clevel=7), filters=None)
    for name in ("0", ".zarray"):
        assert (tmp_path / "ours" / name).read_bytes() == (tmp_path / "theirs" / name).read_bytes()
