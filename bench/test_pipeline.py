"""zarr-python's arrays with zvcore's pipeline and with its own, every codec and filter of Zarr v2 and v3.

    pytest bench/test_pipeline.py --benchmark-enable         times
    python -m bench.test_pipeline v2 delta                   ratios, both taking turns, of all cases with these words

"zvcore" is zvcore's pipeline within zarr-python, "zarr" zarr-python's own. "read" is the whole array, eight single
chunks and every second row of a plane; "write" the whole array.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numcodecs
import numpy as np
import pytest
import zarr

import zvcore.zarr3  # noqa: F401 - what the configuration below names
from bench.contest import Contest, entrants, run_alone
from bench.scale import pick

if TYPE_CHECKING:
    from collections.abc import Callable

SIDE = pick(128, 32)
CHUNK = SIDE // 4
PIPELINES = {"zvcore": "zvcore.zarr3.CodecPipeline", "zarr": "zarr.core.codec_pipeline.BatchedCodecPipeline"}
FOLDER = Path(tempfile.mkdtemp(prefix="zvcore-bench-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)


class Case(NamedTuple):
    """What `zarr.create_array` is asked for."""

    dtype: str
    options: dict[str, Any]


def v2(dtype: str, compressor: dict[str, Any] | None = None, *filters: dict[str, Any], order: str = "C") -> Case:
    made = [numcodecs.get_codec(one) for one in filters]
    keys = {"name": "v2", "configuration": {"separator": "/"}}
    options = {
        "zarr_format": 2, "order": order, "filters": made or None, "chunk_key_encoding": keys,
        "compressors": None if compressor is None else numcodecs.get_codec(compressor),
    }  # fmt: skip
    return Case(dtype, options)


def v3(dtype: str, *compressors: dict[str, Any], **options: Any) -> Case:
    return Case(dtype, {"zarr_format": 3, "compressors": compressors or None, **options})


def named(name: str, **configuration: Any) -> dict[str, Any]:
    return {"name": name, "configuration": configuration}


def blosc(cname: str, level: int, shuffle: int) -> dict[str, Any]:
    return {"id": "blosc", "cname": cname, "clevel": level, "shuffle": shuffle}


ZSTD, GZIP = {"id": "zstd", "level": 1}, {"id": "gzip", "level": 1}
DELTA, SHUFFLE = {"id": "delta", "dtype": "<u2"}, {"id": "shuffle", "elementsize": 2}
ZSTD3, TURNED = named("zstd", level=1, checksum=False), named("transpose", order=[2, 1, 0])
SHARDED = {"chunks": (CHUNK // 2,) * 3, "shards": (SIDE // 2,) * 3}


def scaled(stored: str, scale: float) -> dict[str, Any]:
    return {"id": "fixedscaleoffset", "offset": 0, "scale": scale, "dtype": "<f4", "astype": stored}


def cast(items: str, stored: str) -> dict[str, Any]:
    return {"id": "astype", "decode_dtype": items, "encode_dtype": stored}


CASES = {
    "v2 raw": v2("<u2"), "v2 raw F": v2("<u2", order="F"), "v2 raw big-endian": v2(">u2"),
    "v2 blosc": v2("<u2", blosc("lz4", 5, 1)), "v2 blosc F": v2("<u2", blosc("lz4", 5, 1), order="F"),
    "v2 blosc zstd": v2("<u2", blosc("zstd", 1, 2)), "v2 zstd": v2("<u2", ZSTD), "v2 gzip": v2("<u2", GZIP),
    "v2 zlib": v2("<u2", {"id": "zlib", "level": 1}), "v2 bz2": v2("<u2", {"id": "bz2"}),
    "v2 lzma": v2("<u2", {"id": "lzma", "preset": 0}), "v2 lz4": v2("<u2", {"id": "lz4"}),
    "v2 delta": v2("<u2", ZSTD, DELTA), "v2 delta F": v2("<u2", ZSTD, DELTA, order="F"),
    "v2 delta big-endian": v2(">u2", ZSTD, {"id": "delta", "dtype": ">u2"}),
    "v2 delta i4 as i2": v2("<i4", None, {"id": "delta", "dtype": "<i4", "astype": "<i2"}),
    "v2 shuffle": v2("<u2", ZSTD, SHUFFLE), "v2 delta shuffle": v2("<u2", ZSTD, DELTA, SHUFFLE),
    "v2 fixedscaleoffset": v2("<f4", ZSTD, scaled("<i4", 8)),
    "v2 fixedscaleoffset u2": v2("<f4", None, scaled("<u2", 10)),
    "v2 quantize": v2("<f4", ZSTD, {"id": "quantize", "digits": 2, "dtype": "<f4"}),
    "v2 bitround": v2("<f4", ZSTD, {"id": "bitround", "keepbits": 8}),
    "v2 packbits": v2("|b1", None, {"id": "packbits"}),
    "v2 astype": v2("<u2", None, cast("<u2", "<u4")), "v2 astype f4 as f8": v2("<f4", None, cast("<f4", "<f8")),
    "v2 astype u2 as f4": v2("<u2", None, cast("<u2", "<f4")),
    **{
        f"v2 {name}": v2("<u2", None, {"id": name})
        for name in ("crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3")
    },
    "v3 raw": v3("<u2"), "v3 raw big-endian": v3("<u2", serializer=named("bytes", endian="big")),
    "v3 blosc": v3("<u2", named("blosc", cname="lz4", clevel=5, shuffle="shuffle", typesize=2, blocksize=0)),
    "v3 zstd": v3("<u2", ZSTD3), "v3 gzip": v3("<u2", named("gzip", level=1)), "v3 crc32c": v3("<u2", named("crc32c")),
    "v3 transpose": v3("<u2", filters=[TURNED]), "v3 transpose zstd": v3("<u2", ZSTD3, filters=[TURNED]),
    "v3 shards": v3("<u2", **SHARDED), "v3 shards zstd": v3("<u2", ZSTD3, **SHARDED),
    "v3 delta": v3("<u2", ZSTD3, filters=[named("numcodecs.delta", dtype="<u2")]),
    "v3 fixedscaleoffset": v3(
        "<f4", filters=[named("numcodecs.fixedscaleoffset", offset=0, scale=8, dtype="<f4", astype="<i4")]
    ),
    "v3 quantize": v3("<f4", filters=[named("numcodecs.quantize", digits=2, dtype="<f4")]),
    "v3 bitround": v3("<f4", filters=[named("numcodecs.bitround", keepbits=8)]),
    "v3 packbits": v3("|b1", filters=[named("numcodecs.packbits")]),
    "v3 astype": v3("<u2", filters=[named("numcodecs.astype", encode_dtype="<u4", decode_dtype="<u2")]),
    "v3 shuffle": v3("<u2", named("numcodecs.shuffle", elementsize=2)),
    "v3 zlib": v3("<u2", named("numcodecs.zlib", level=1)), "v3 lz4": v3("<u2", named("numcodecs.lz4")),
    "v3 bz2": v3("<u2", named("numcodecs.bz2", level=1)), "v3 lzma": v3("<u2", named("numcodecs.lzma", preset=0)),
    "v3 crc32": v3("<u2", named("numcodecs.crc32")), "v3 fletcher32": v3("<u2", named("numcodecs.fletcher32")),
    "v3 cast_value": v3("<f4", filters=[named("cast_value", data_type="int32", rounding="nearest-even")]),
    "v3 scale_offset": v3("<f4", filters=[named("scale_offset", offset=0, scale=8)]),
}  # fmt: skip


def values(dtype: str) -> Any:
    """Numbers that rise and are noisy, in eighths where they are floats."""
    along = np.arange(SIDE)
    rising = np.add.outer(np.add.outer(along, along), along) * 7
    found = rising + np.random.default_rng(0).integers(0, 60, rising.shape)
    if dtype == "|b1":
        return found % 3 == 0
    return (found / 8 if dtype == "<f4" else found).astype(dtype)


def arrays(name: str) -> dict[str, Any]:
    """The same array, through both pipelines."""
    case = CASES[name]
    path = FOLDER / name.replace(" ", "-")
    options = {"chunks": (CHUNK,) * 3, "fill_value": 0, **case.options}
    # Said, because other benchmarks leave the pipeline of theirs behind.
    with zarr.config.set({"codec_pipeline.path": PIPELINES["zarr"]}):
        made = zarr.create_array(path, shape=(SIDE,) * 3, dtype=case.dtype, overwrite=True, **options)
    made[...] = values(case.dtype)
    found = {}
    for who, pipeline in PIPELINES.items():
        with zarr.config.set({"codec_pipeline.path": pipeline}):
            found[who] = zarr.open_array(path, mode="r+", zarr_format=case.options["zarr_format"])
    return found


def parts() -> list[Any]:
    corners = np.random.default_rng(1).integers(0, SIDE // CHUNK, (8, 3)) * CHUNK
    single = [tuple(slice(int(at), int(at) + CHUNK) for at in corner) for corner in corners]
    return [..., *single, (slice(None), 5, slice(None, None, 2))]


def read(array: Any, keys: list[Any]) -> Any:
    return [array[key] for key in keys]


def write(array: Any, given: Any) -> None:
    array[...] = given


def reading(name: str) -> dict[str, Callable[[], Any]]:
    made = arrays(name)
    ours, theirs = (read(array, parts()) for array in made.values())
    assert all(np.array_equal(one, other) for one, other in zip(ours, theirs, strict=True))
    return {who: partial(read, array, parts()) for who, array in made.items()}


def writing(name: str) -> dict[str, Callable[[], Any]]:
    given = values(CASES[name].dtype)
    return {who: partial(write, array, given) for who, array in arrays(name).items()}


CONTESTS = [
    *(Contest(f"read {name}", tuple(PIPELINES), partial(reading, name)) for name in CASES),
    *(Contest(f"write {name}", tuple(PIPELINES), partial(writing, name), writes=True) for name in CASES),
]


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_pipeline(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    run_alone(CONTESTS, seconds=1.0)
