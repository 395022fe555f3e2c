"""Files of other formats on a web server, near and 5 ms away, beside the libraries that read them through fsspec.

    pytest bench/test_borrowed_far.py --benchmark-enable      times
    python -m bench.test_borrowed_far [word]                  ratios, the competitors taking turns

Everybody opens the file anew each time. The server is the small one of `test_objectstore`.
"""

from __future__ import annotations

import importlib.util
import io
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from bench.contest import Contest, entrants, run_alone
from bench.data import volume
from bench.scale import pick
from bench.test_buckets import FAR, end, upload_whole

if TYPE_CHECKING:
    from collections.abc import Callable

Calls = dict[str, "Callable[[], Any]"]
DEPTH, SIDE = pick(64, 16), pick(512, 64)
AT = DEPTH // 2
PARTS: dict[str, Any] = {"all of": ..., "a plane of": AT}
# Of each file, its name and who else reads it.
FILES = {
    "HDF5, gzip": ("gzip.h5", "h5py"), "HDF5 without chunks": ("raw.h5", "h5py"),
    "TIFF, zlib": ("zlib.tif", "tifffile"), "TIFF, raw": ("raw.tif", "tifffile"),
}  # fmt: skip
WHERE = {"on a web server": 0.0, "5 ms away": FAR}


@cache
def values() -> Any:
    tile = pick(128, SIDE)
    return np.tile(volume("em", (DEPTH, tile, tile)), (1, SIDE // tile, SIDE // tile)).astype("u2") * 16


def made(what: str) -> bytes:
    file, edge = io.BytesIO(), pick(128, 16)
    how: dict[str, Any] = {}
    if what.startswith("HDF5"):
        import h5py

        if "gzip" in what:
            how = {"chunks": (pick(16, 4), edge, edge), "compression": "gzip"}
        with h5py.File(file, "w") as made:
            made.create_dataset("d", data=values(), **how)
    else:
        import tifffile

        if "zlib" in what:
            how = {"tile": (edge, edge), "compression": "zlib"}
        tifffile.imwrite(file, values(), photometric="minisblack", **how)
    return file.getvalue()


@cache
def address(what: str, delay: float) -> str:
    return upload_whole(delay, made(what), f"files/{FILES[what][0]}")


def by_zvcore(url: str, key: Any) -> Any:
    found = zvcore.open(url)
    return (found["d"] if url.endswith(".h5") else found)[key]


def by_h5py(url: str, key: Any) -> Any:
    import fsspec
    import h5py

    with fsspec.open(url) as file, h5py.File(file) as opened:
        return opened["d"][key]


def by_tifffile(url: str, key: Any) -> Any:
    import fsspec
    import tifffile

    with fsspec.open(url) as file, tifffile.TiffFile(file) as opened:
        return opened.asarray() if key is ... else opened.asarray(key=key)


def reading(what: str, delay: float, key: Any) -> Calls:
    url, peer = address(what, delay), FILES[what][1]
    other = by_h5py if peer == "h5py" else by_tifffile
    np.testing.assert_array_equal(by_zvcore(url, key), other(url, key))
    return {"zvcore": partial(by_zvcore, url, key), peer: partial(other, url, key)}


CONTESTS = [
    Contest(f"open and read {part} {what}, {where}", ("zvcore", peer), partial(reading, what, delay, key))
    for what, (_, peer) in FILES.items()
    for part, key in PARTS.items()
    for where, delay in WHERE.items()
    if all(importlib.util.find_spec(name) for name in (peer, "fsspec", "aiohttp"))
]


@pytest.fixture(scope="module", autouse=True)
def _server_ends() -> Any:
    yield
    end()
    address.cache_clear()


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_contest(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    try:
        run_alone(CONTESTS)
    finally:
        end()
