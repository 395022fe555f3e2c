"""One class of a codec, one line of packaging: zarr-python and numcodecs find it where zvcore does."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numcodecs.registry
import numpy as np
import pytest
import zarr
import zarr.registry

import zvcore
from zvcore import codecs
from zvcore.errors import CorruptDataError, MetadataError, UnsupportedError

VALUES = np.repeat(np.arange(50, dtype="<u2"), 60).reshape(50, 60)
FORMATS = ("zarr2", "zarr3")


def registered_with_zarr():
    """What zarr-python 3.1 keeps under another name than 3.2 and later."""
    kept = vars(zarr.registry)
    return kept["_codec_registries" if "_codec_registries" in kept else "__codec_registries"]


@pytest.fixture
def installed(third_party: Any) -> Any:
    """The registries read the environment when they are imported: they look again, and forget it afterwards."""
    numcodecs.registry.run_entrypoints()
    zarr.registry._collect_entrypoints()
    yield third_party
    third_party.remove()
    for name in third_party.names:
        numcodecs.registry.codec_registry.pop(name, None)
        registered_with_zarr().pop(name, None)
    numcodecs.registry.run_entrypoints()


@pytest.mark.parametrize("pipeline", ["zarr.core.codec_pipeline.BatchedCodecPipeline", "zvcore.zarr3.CodecPipeline"])
@pytest.mark.parametrize("name", ["runs", "cruns"])
@pytest.mark.parametrize("format", FORMATS)
def test_zarr_python_reads_and_writes_what_zvcore_does(installed, tmp_path, format, name, pipeline):
    zvcore.create(tmp_path, format=format, data=VALUES, chunks=(20, 30), codec={"name": name, "longest": 200})
    with zarr.config.set({"codec_pipeline.path": pipeline}):
        array = zarr.open_array(tmp_path, mode="r+")
        assert np.array_equal(array[...], VALUES)
        array[3:17, 5:40] = 7
        assert (array[3:17, 5:40] == 7).all()
    assert (zvcore.open(tmp_path)[3:17, 5:40] == 7).all()
    assert zvcore.verify(tmp_path).ok


def test_zarr_python_makes_arrays_with_it(installed, tmp_path):
    runs = codecs.get("runs").__class__.for_zarr_python
    for number, given in enumerate((runs(longest=9), {"name": "runs", "configuration": {"longest": 9}})):
        zarr.create_array(tmp_path / str(number), data=VALUES, chunks=(20, 30), compressors=[given])
        array = zvcore.open(tmp_path / str(number))
        assert array.codec == codecs.get("runs", longest=9)
        assert np.array_equal(array[...], VALUES)


def test_shards_of_zarr_python_hold_it(installed, tmp_path):
    given = {"name": "cruns", "configuration": {"longest": 9}}
    zarr.create_array(tmp_path, data=VALUES[:40], chunks=(10, 15), shards=(20, 30), compressors=[given])
    assert np.array_equal(zvcore.open(tmp_path)[...], VALUES[:40])


def test_arrays_in_fortran_order_keep_their_values(installed, tmp_path):
    compressor = numcodecs.registry.get_codec({"id": "runs", "longest": 9})
    made = zarr.create_array(
        tmp_path, shape=(50, 60), dtype="<u2", chunks=(20, 30), zarr_format=2, order="F", compressors=compressor
    )
    made[...] = VALUES
    assert np.array_equal(zvcore.open(tmp_path)[...], VALUES)


def test_its_classes_are_values(installed):
    cls = type(codecs.get("runs"))
    assert cls.for_zarr_python is cls.for_zarr_python
    for offered in (cls.for_zarr_python(longest=9), cls.for_numcodecs(longest=9)):
        assert pickle.loads(pickle.dumps(offered)) == copy.deepcopy(offered) == offered
        assert len({offered, copy.copy(offered), type(offered)(longest=8)}) == 2
        assert "longest=9" in repr(offered)
    assert cls.for_numcodecs(longest=9).get_config() == {"id": "runs", "longest": 9}
    assert pickle.loads(pickle.dumps(cls.for_zarr_python)) is cls.for_zarr_python


def test_wrong_parameters_and_chunks_are_named(installed, tmp_path):
    cls = type(codecs.get("runs"))
    with pytest.raises(MetadataError, match="from 1 to 255"):
        cls.for_zarr_python.from_dict({"name": "runs", "configuration": {"longest": 256}})
    with pytest.raises(MetadataError, match="from 1 to 255"):
        cls.for_numcodecs.from_config({"longest": 256})
    with pytest.raises(CorruptDataError, match="cut off or empty"):
        cls.for_numcodecs().decode(b"\x00a")
    zvcore.create(tmp_path, format="zarr3", data=VALUES, chunks=(20, 30), codec="runs")
    (tmp_path / "c/0/0").write_bytes(b"\x00a")
    with pytest.raises(CorruptDataError, match="cut off or empty"):
        zarr.open_array(tmp_path, mode="r")[:5, :5]


def test_numcodecs_fills_what_it_is_given(installed):
    codec = type(codecs.get("cruns")).for_numcodecs()
    out = np.empty((50, 60), "<u2", order="F")
    assert codec.decode(codec.encode(np.asfortranarray(VALUES)), out) is out
    assert np.array_equal(out, VALUES)


class Unpacked(codecs.Codec):
    name = "unpacked"

    def _encode(self, data):
        return bytes(data)

    def _decode(self, data, max_size):
        return bytes(data)


class OfArrays(Unpacked):
    name = "of_arrays"
    kind = "array"


def test_a_program_offers_what_its_author_did_not(tmp_path):
    codecs.register("unpacked", Unpacked)
    codecs.register("of_arrays", OfArrays)
    try:
        assert codecs.offer("unpacked", "of_arrays", "gzip") == ["unpacked"]
        for format in FORMATS:
            zvcore.create(tmp_path / format, format=format, data=VALUES, codec="unpacked")
            assert np.array_equal(zarr.open_array(tmp_path / format, mode="r")[...], VALUES)
        assert codecs.offer("unpacked") == [], "what they have stays"
        assert "gzip" not in codecs.offer()
        with pytest.raises(UnsupportedError, match="only codecs of bytes"):
            OfArrays.for_zarr_python
    finally:
        for name in ("unpacked", "of_arrays"):
            codecs.unregister(name)
        numcodecs.registry.codec_registry.pop("unpacked", None)
        registered_with_zarr().pop("unpacked", None)
