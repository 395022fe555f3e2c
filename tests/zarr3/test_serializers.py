"""Codecs of numcodecs that make bytes of arrays of numbers: zfpy and pcodec."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr
import zarr.codecs.numcodecs as znumcodecs
from hypothesis import given
from hypothesis import strategies as st

import zvcore
from zvcore.codecs import from_zarr3
from zvcore.errors import CodecNotFoundError, CorruptDataError, UnsupportedError, ZvcoreError

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("pcodec")
pytest.importorskip("zfpy")
pytestmark = pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3")

VALUES = np.arange(130, dtype="f4").reshape(10, 13) / 4
SERIALIZERS = {
    "pcodec": {"name": "numcodecs.pcodec", "configuration": {"level": 4}},
    "zfpy": {"name": "numcodecs.zfpy", "configuration": {"mode": 4, "tolerance": 0.001}},
}


def written(path: Path, name: str, shards: Any = None, dtype: str = "f4") -> Any:
    made = {"pcodec": znumcodecs.PCodec, "zfpy": znumcodecs.ZFPY}[name](**SERIALIZERS[name]["configuration"])
    array = zarr.create_array(
        path, shape=(10, 13), chunks=(4, 5), shards=shards, dtype=dtype, serializer=made, compressors=None, fill_value=0
    )
    array[...] = VALUES.astype(dtype)
    return array


@pytest.mark.parametrize("name", SERIALIZERS)
@pytest.mark.parametrize("shards", [None, (8, 10)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"])
def test_both_ways_with_zarr_python(tmp_path: Path, name: str, shards: Any, dtype: str) -> None:
    if name == "zfpy" and dtype == "i4":
        pytest.skip("zfp rounds floats alone in this mode")
    theirs = written(tmp_path / "a", name, shards, dtype)
    expected = theirs[...]
    assert np.allclose(expected, VALUES.astype(dtype), atol=0.01)
    ours = zvcore.open(tmp_path / "a", mode="r+")
    assert (ours[...] == expected).all()
    assert (ours[3:9:2, 7] == expected[3:9:2, 7]).all()
    ours[2:7, 3:9] = 8
    assert np.allclose(theirs[2:7, 3:9], 8)
    assert np.allclose(theirs[7:], expected[7:], atol=0.01)
    assert zvcore.verify(tmp_path / "a").ok
    zvcore.convert(tmp_path / "a", tmp_path / "b", format="zarr3", codec="zstd")
    assert (zvcore.open(tmp_path / "b")[...] == ours[...]).all()


@pytest.mark.parametrize("name", SERIALIZERS)
def test_chunks_that_were_cut_or_are_others_are_errors(tmp_path: Path, name: str) -> None:
    written(tmp_path, name)
    whole = (tmp_path / "c/0/0").read_bytes()
    array = zvcore.open(tmp_path)
    others = [whole[:n] for n in (0, 1, 3, 8, 11)] + [b"x" * 40]
    if name == "pcodec":
        others += [whole[: len(whole) // 2], whole[:-1]]
    for broken in others:
        (tmp_path / "c/0/0").write_bytes(broken)
        with pytest.raises(CorruptDataError, match="c/0/0"):
            array[...]
    # Another shape, or type.
    codec = from_zarr3(SERIALIZERS[name])
    for values in (VALUES[:4, :4], VALUES[:8, :5], VALUES[:4, :5].astype("f8"), VALUES[0]):
        (tmp_path / "c/0/0").write_bytes(bytes(codec.encode_array(np.ascontiguousarray(values))))
        with pytest.raises(CorruptDataError, match="c/0/0"):
            array[...]


@given(st.sampled_from(sorted(SERIALIZERS)), st.binary(max_size=60), st.integers(0, 60), st.booleans())
def test_no_bytes_crash_them(name: str, junk: bytes, place: int, cut: bool) -> None:
    codec = from_zarr3(SERIALIZERS[name])
    whole = bytes(codec.encode_array(np.ascontiguousarray(VALUES[:4, :5])))
    broken = whole[:place] + junk + (b"" if cut else whole[place + len(junk) :])
    with contextlib.suppress(ZvcoreError):
        assert codec.decode_array(broken, np.dtype("f4"), (4, 5)).shape == (4, 5)


def test_types_that_they_cannot_hold_are_refused(tmp_path: Path) -> None:
    zvcore.create(tmp_path, format="zarr3", shape=(4,), dtype="u1", chunks=(2,), codec=None)
    document = json.loads((tmp_path / "zarr.json").read_text())
    document["codecs"] = [SERIALIZERS["zfpy"]]
    (tmp_path / "zarr.json").write_text(json.dumps(document))
    with pytest.raises(UnsupportedError, match="zfpy cannot hold"):
        zvcore.open(tmp_path, mode="r+")[...] = 1


def test_what_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import numcodecs.registry

    written(tmp_path, "zfpy")
    monkeypatch.delitem(numcodecs.registry.codec_registry, "zfpy")
    monkeypatch.setattr(numcodecs.registry, "entries", {})
    with pytest.raises(CodecNotFoundError, match=r"pip install 'numcodecs\[zfpy\]'"):
        zvcore.open(tmp_path)[...]
