"""Chunk encodings of other libraries: values come back, damage ends no process of ours, and what is lost is told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.processes import PATIENCE
from zvcore.errors import CodecNotFoundError, CorruptDataError, MetadataError, UnsupportedError
from zvcore.precomputed import Volume, decoding_helper, encodings, guarded
from zvcore.precomputed.encodings import get_encoding

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SHAPE = (37, 30, 20)
CASES = [
    ("compresso", "uint8", 1, {}), ("compresso", "uint64", 1, {}), ("crackle", "uint16", 1, {}),
    ("crackle", "uint64", 1, {}), ("fpzip", "float32", 1, {}), ("fpzip", "float32", 2, {}), ("zfpc", "float32", 1, {}),
    ("zfpc", "float32", 2, {"zfpc_correlated_dims": [True, True, True, False]}),
    ("jxl", "uint8", 1, {"jxl_quality": 100}), ("jxl", "uint8", 3, {"lossless": True}),
    ("jxl", "uint8", 4, {"lossless": True, "jxl_effort": 3, "jxl_decodingspeed": 1}),
]  # fmt: skip
# (2, 2, 2, 1) float32 0 to 7, and (4, 4, 2) uint64, as the facts have them.
VECTORS = {
    "fpzip": "66707929870ef0ff0001fe000001fe000001fe000000ff00814f9c4f33b3bb310003da440cc0ebeb0e627f4000",
    "kempressed": "66707929870ef0ff0001fe000001fe000000ff000001fe00f727e0000d464e00d4e02b43da440cc162067b2030eba201bf20"
    "c000",
    "zfpc": "7a667063002b020000000200000002000000010000000f270000000000000018000000000000007a6670050e000110000100"
    "88091289011c06080218000000",
    "compresso": "6370736f01080400040002000404010300000000000000020000000000000000000000040000000000000000050000000000"
    "00000000000000010000000022220200030002010000",
    "crackle": "63726b6c018f000400000004000000020000001f25000000000000005b0a0000000500000055d70cfa030000000000000000"
    "00000000000000050000000000000000000000000100000201000102040000000100010202080100000000226acd4b0e8e95"
    "ce67ebc803",
}  # fmt: skip


def values(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return generator.normal(size=shape).astype(dtype)
    blocks = generator.integers(0, 200, tuple(-(-n // 5) for n in shape[:3]) + shape[3:])
    whole = blocks.repeat(5, 0).repeat(5, 1).repeat(5, 2)[: shape[0], : shape[1], : shape[2]]
    return whole.astype(dtype)


def create(path: Path, encoding: str, dtype: str, channels: int = 1, **options: Any) -> Any:
    return zvcore.create(
        path, format="precomputed", shape=(*SHAPE, channels), dtype=dtype, chunks=(16, 16, 16), encoding=encoding,
        **options,
    )  # fmt: skip


@pytest.mark.parametrize("sharding", [None, "advise"])
@pytest.mark.parametrize(("encoding", "dtype", "channels", "options"), CASES)
def test_values_come_back(
    encoding: str, dtype: str, channels: int, options: dict[str, Any], sharding: Any, tmp_path: Path
) -> None:
    a = create(tmp_path, encoding, dtype, channels, sharding=sharding, **options)
    written = values(a.shape, dtype)
    a[...] = written
    found = zvcore.open(tmp_path, scale=0)
    np.testing.assert_array_equal(found[...], written)
    assert found.encoding.name == encoding and not found.encoding.lossy
    assert zvcore.verify(tmp_path).ok


@pytest.mark.parametrize("encoding", VECTORS)
def test_vectors_of_the_facts(encoding: str) -> None:
    data = bytes.fromhex(VECTORS[encoding])
    if encoding in ("compresso", "crackle"):
        wanted = np.zeros((4, 4, 2, 1), "u8")
        wanted[2:, :, 0], wanted[:, :, 1] = 5, 2**40
    else:
        wanted = np.arange(8, dtype="f4").reshape((2, 2, 2, 1), order="F")
    [codec] = get_encoding(encoding)().codecs(wanted.shape, wanted.dtype) if encoding != "zfpc" else get_encoding(
        encoding
    ).from_scale({}).codecs(wanted.shape, wanted.dtype)  # fmt: skip
    np.testing.assert_allclose(np.frombuffer(codec.decode(data), wanted.dtype), wanted.ravel("F"), atol=1e-6)
    again = codec.decode(codec.encode(wanted.tobytes("F")))
    np.testing.assert_allclose(np.frombuffer(again, wanted.dtype), wanted.ravel("F"), atol=1e-6)


@pytest.mark.parametrize(("encoding", "dtype", "channels", "options"), [CASES[i] for i in (1, 3, 4, 6, 9)])
def test_any_damage_is_an_error_that_names_the_chunk(
    encoding: str, dtype: str, channels: int, options: dict[str, Any], tmp_path: Path
) -> None:
    a = create(tmp_path, encoding, dtype, channels, codec="raw", **options)
    a[...] = values(a.shape, dtype)
    [chunk] = (tmp_path / "1_1_1").glob("0-16_0-16_0-16")
    sound = chunk.read_bytes()
    generator = np.random.default_rng(3)
    told: list[str] = []
    for number in range(30):
        damaged = bytearray(sound)
        for place in generator.integers(0, 24 if number < 10 else len(sound), 3):
            damaged[place] ^= int(generator.integers(1, 256))
        chunk.write_bytes(damaged)
        try:
            zvcore.open(tmp_path, scale=0)[:16, :16, :16]
        except CorruptDataError as error:
            told.append(str(error))
    assert all("0-16_0-16_0-16" in text for text in told)
    assert len(told) > (0 if encoding == "zfpc" else 5)
    # And another chunk is read as ever.
    assert zvcore.open(tmp_path, scale=0)[16:32, :16, :16].any()


# What random bytes do inside compresso depends on what lies beside them in memory: some end it in one process and not
# in the next. So the helper of this test is the real one, with a decoder that certainly dies of this ending.
_DEADLY = b"end"
_DYING_HELPER = """
import importlib.util, os, signal
spec = importlib.util.spec_from_file_location("decoding_helper", {path!r})
helper = importlib.util.module_from_spec(spec)
spec.loader.exec_module(helper)
sound = helper._DECODERS["compresso"]
def dies(data):
    if data.endswith({deadly!r}):
        os.kill(os.getpid(), signal.SIGSEGV)
    return sound(data)
helper._DECODERS["compresso"] = dies
helper.main()
"""


def test_a_decoder_that_dies_is_replaced_and_the_chunk_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "dying_helper.py"
    script.write_text(_DYING_HELPER.format(path=decoding_helper.__file__, deadly=_DEADLY))
    monkeypatch.setattr(guarded, "_SCRIPT", script)
    helpers = guarded._Helpers()
    monkeypatch.setattr(guarded, "_helpers", helpers)
    a = create(tmp_path, "compresso", "uint64", codec="raw")
    a[...] = values(a.shape, "uint64")
    wanted = a[...]
    chunk = tmp_path / "1_1_1" / "0-16_0-16_0-16"
    sound = chunk.read_bytes()
    chunk.write_bytes(sound[: -len(_DEADLY)] + _DEADLY)
    for _ in range(2):
        with pytest.raises(CorruptDataError, match=r"0-16_0-16_0-16: .*did not survive the chunk: it ended"):
            zvcore.open(tmp_path, scale=0)[:16, :16, :16]
        np.testing.assert_array_equal(zvcore.open(tmp_path, scale=0)[16:], wanted[16:])
    chunk.write_bytes(sound)
    np.testing.assert_array_equal(zvcore.open(tmp_path, scale=0)[...], wanted)
    helpers.close()


def test_a_helper_that_somebody_ended_does_not_matter() -> None:
    data = bytes.fromhex(VECTORS["fpzip"])
    wanted = guarded.decode_guarded("fpzip", data, (2, 2, 2, 1), np.dtype("f4"))
    for helper in guarded._helpers._idle:
        os.kill(helper.process.pid, signal.SIGKILL)
        helper.process.wait()
    assert guarded.decode_guarded("fpzip", data, (2, 2, 2, 1), np.dtype("f4")) == wanted


def test_each_of_several_threads_has_a_helper() -> None:
    data = bytes.fromhex(VECTORS["crackle"])
    found: list[bytes] = []

    def work() -> None:
        for _ in range(20):
            found.append(guarded.decode_guarded("crackle", data, (4, 4, 2, 1), np.dtype("u8")))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 80 and len(set(found)) == 1
    assert len(guarded._helpers._idle) <= 4 + 1


@pytest.mark.parametrize("encoding", ["compresso", "fpzip"])
def test_chunks_are_encoded_side_by_side(encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of libraries that keep Python's lock: each thread has a helper, and waits for it without the lock."""
    helpers = guarded._Helpers()
    monkeypatch.setattr(guarded, "_helpers", helpers)
    both, met = threading.Barrier(2, timeout=PATIENCE), threading.Event()
    ask = guarded._Helper.ask

    def together(self: Any, *request: Any) -> Any:
        if not met.is_set():
            both.wait()
            met.set()
        return ask(self, *request)

    monkeypatch.setattr(guarded._Helper, "ask", together)
    dtype = "f4" if encoding == "fpzip" else "u8"
    a = create(tmp_path, encoding, dtype, codec="raw")
    given = values(a.shape, dtype)
    a.write(..., given, threads=2)
    assert len(helpers._idle) == 2
    monkeypatch.setattr(guarded._Helper, "ask", ask)
    np.testing.assert_array_equal(a[...], given)
    helpers.close()


def test_what_an_encoder_refuses_is_an_error_with_its_words() -> None:
    with pytest.raises(ValueError, match="the encoder of compresso refuses the values: "):
        guarded.encode_guarded("compresso", np.zeros((2, 2, 2, 1), "f4", order="F"), {})
    assert guarded.encode_guarded("compresso", np.zeros((2, 2, 2, 1), "u4", order="F"), {})[:4] == b"cpso"


def test_an_encoder_that_dies_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "ending.py"
    script.write_text("raise SystemExit")
    monkeypatch.setattr(guarded, "_SCRIPT", script)
    monkeypatch.setattr(guarded, "_helpers", guarded._Helpers())
    with pytest.raises(UnsupportedError, match="the encoder of fpzip did not survive the values: it ended"):
        guarded.encode_guarded("fpzip", np.zeros((2, 2, 2, 1), "f4", order="F"), {})


def test_a_fork_does_not_take_the_helpers_of_its_parent() -> None:
    code = (
        "import os, sys, numpy as np\n"
        "from zvcore.precomputed.guarded import decode_guarded\n"
        f"ask = lambda: decode_guarded('fpzip', bytes.fromhex('{VECTORS['fpzip']}'), (2, 2, 2, 1), np.dtype('f4'))\n"
        "first = ask()\n"
        "pid = os.fork()\n"
        "same = ask() == first\n"
        "if pid == 0: os._exit(0 if same else 1)\n"
        "sys.exit(os.waitpid(pid, 0)[1] or not (same and ask() == first))\n"
    )
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", code], timeout=PATIENCE).returncode == 0


@pytest.mark.parametrize(
    ("encoding", "dtype", "channels"),
    [
        ("compresso", "float32", 1), ("compresso", "int32", 1), ("compresso", "uint8", 2), ("crackle", "float32", 1),
        ("crackle", "uint8", 2), ("fpzip", "uint8", 1), ("kempressed", "int32", 1), ("zfpc", "uint8", 1),
        ("zfpc", "int32", 1),
        ("jxl", "uint16", 1), ("jxl", "uint8", 2), ("jpeg", "uint64", 1),
    ],
)  # fmt: skip
def test_data_that_an_encoding_would_change_are_refused(
    encoding: str, dtype: str, channels: int, tmp_path: Path
) -> None:
    with pytest.raises(MetadataError, match=f"{encoding}.*cannot hold"):
        create(tmp_path, encoding, dtype, channels)


@pytest.mark.parametrize(
    ("encoding", "options"),
    [
        ("jxl", {"jxl_quality": -1}), ("jxl", {"jxl_effort": 11}), ("fpzip", {"fpzip_precision": "x"}),
        ("zfpc", {"zfpc_rate": True}), ("zfpc", {"zfpc_rate": 3, "zfpc_tolerance": 1}),
        ("zfpc", {"zfpc_correlated_dims": [1, 1]}),
    ],
)  # fmt: skip
def test_wrong_parameters_are_refused(encoding: str, options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(MetadataError, match=next(iter(options))[:5]):
        create(tmp_path, encoding, "uint8" if encoding == "jxl" else "float32", **options)


@pytest.mark.parametrize("encoding", ["jpeg", "kempressed"])
def test_what_always_loses_digits_refuses_to_be_lossless(encoding: str, tmp_path: Path) -> None:
    dtype = "uint8" if encoding == "jpeg" else "float32"
    with pytest.raises(MetadataError, match="loses digits"):
        create(tmp_path, encoding, dtype, lossless=True)


@pytest.mark.parametrize(
    ("encoding", "dtype", "options"),
    [
        ("jxl", "uint8", {}), ("kempressed", "float32", {}), ("fpzip", "float32", {"fpzip_precision": 24}),
        ("zfpc", "float32", {"zfpc_tolerance": 0.01}), ("jpeg", "uint8", {}),
    ],
)  # fmt: skip
def test_a_conversion_says_that_digits_are_lost(
    encoding: str, dtype: str, options: dict[str, Any], tmp_path: Path
) -> None:
    source = zvcore.create(tmp_path / "a", format="zarr3", shape=SHAPE[::-1], dtype=dtype)
    source[...] = values(SHAPE[::-1], dtype)
    report = zvcore.convert(tmp_path / "a", tmp_path / "b", format="precomputed", encoding=encoding, **options)
    assert any("approximately" in str(loss) for loss in report.losses), report.losses
    found = zvcore.open(tmp_path / "b")[0][..., 0].astype(float)
    assert np.abs(found - source[...].T.astype(float)).max() < (0.02 if dtype == "float32" else 120)


@pytest.fixture
def looked_at_again() -> Iterator[None]:
    encodings.encodings.rescan()
    yield
    encodings.encodings.rescan()


@pytest.mark.usefixtures("looked_at_again")
def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create(tmp_path, "crackle", "uint8")
    encodings.encodings.rescan()
    monkeypatch.setitem(sys.modules, "crackle", None)
    monkeypatch.delitem(sys.modules, "zvcore.precomputed.encoding_crackle", raising=False)
    with pytest.raises(CodecNotFoundError, match=r"zvcore\[crackle\]"):
        Volume(tmp_path)[0]


def test_scales_of_one_volume_may_differ_in_their_encoding(tmp_path: Path) -> None:
    a = create(tmp_path, "crackle", "uint64")
    b = zvcore.create(
        tmp_path, format="precomputed", shape=(19, 15, 10), dtype="uint64", encoding="compresso", resolution=(2, 2, 2)
    )
    a[...], b[...] = 7, 8
    assert [zvcore.open(tmp_path)[i].encoding.name for i in (0, 1)] == ["crackle", "compresso"]
    assert zvcore.verify(tmp_path).ok
    assert json.loads((tmp_path / "info").read_text())["scales"][1]["encoding"] == "compresso"
