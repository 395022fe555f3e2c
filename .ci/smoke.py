"""Whether an installed zvcore works: every codec there and back, by its C library (`--bundled`: by the wheel's copy);
every format written, converted and verified.

Needs nothing but zvcore itself.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

import numpy as np

import zvcore
from zvcore import codecs, kernels, zvf
from zvcore.codecs import registry

NATIVE = {
    "gzip": "libdeflate",
    "zstd": "libzstd",
    "lz4": "liblz4",
    "blosc": "libblosc",
    "bzip2": "libbz2",
    "xz": "liblzma",
}


def check_codecs(native: bool) -> None:
    labels = np.repeat(np.random.default_rng(5).integers(0, 50, 4096, dtype=np.uint32), 64)
    payload = labels.tobytes()
    found = codecs.available()
    assert {"raw", *NATIVE} <= found.keys(), found
    for name, info in sorted(found.items()):
        assert info.error is None, info
        assert info.native == native or name not in NATIVE, info
        plugin = registry.find_plugin(name)
        if plugin.kind != "bytes" or plugin.of_items:  # these must be told what arrays or items they work on
            continue
        codec = codecs.get(name)
        stored = codec.encode(payload)
        assert bytes(codec.decode(stored, max_size=len(payload))) == payload, name
        assert name not in NATIVE or len(stored) < len(payload) // 2, name
        what = info.library or ("no library" if info.native else "in Python")
        print(f"{name:6} {len(payload) / len(stored):6.1f} : 1  {what}")


def check_formats(folder: Path, native: bool) -> None:
    values = np.random.default_rng(7).integers(0, 200, (20, 30, 40), dtype=np.uint16)
    zvcore.create(folder / "n5", format="n5", shape=values.shape, dtype="u2", chunks=(8, 8, 8), codec="lz4")[...] = (
        values
    )
    zvcore.convert(folder / "n5", folder / "zarr", format="zarr3", chunks=(8, 8, 8), shards=(16, 16, 16), verify=True)
    zvcore.convert(folder / "zarr", folder / "precomputed", format="precomputed", sharding="advise", verify=True)
    assert np.array_equal(zvcore.open(folder / "zarr")[...], values.T)
    assert np.array_equal(zvcore.open(folder / "precomputed")[0][..., 0], values)
    zvf.write_points(folder / "zvf", values[0, :, :3].astype("f4"), chunk_shape=(50.0,) * 3, shard_shape=2)
    assert len(zvf.open(folder / "zvf").level(0).read().positions) == len(values[0])
    pictures = np.add.outer(np.arange(40), np.arange(30)).astype("u1").reshape(40, 30, 1, 1)
    for encoding in ("jpeg", "png") if native else ():
        place = folder / encoding
        zvcore.create(place, format="precomputed", shape=pictures.shape, dtype="u1", encoding=encoding)[...] = pictures
        assert abs(zvcore.open(place)[0][...].astype(int) - pictures).max() < 8, encoding
    for name in ("n5", "zarr", "precomputed", "zvf"):
        report = zvcore.verify(folder / name)
        assert report.ok, str(report)
        print(f"{name}: {report}")


def check_bundled() -> None:
    """Linux: no C library of the system's is used: they are linked into the modules, or lie beside the package."""
    package = Path(zvcore.__file__).parent
    bundled = package.with_name("zvcore.libs")
    maps = Path("/proc/self/maps").read_text()
    loaded = sorted({match[0] for match in re.finditer(r"/\S+\.so\S*", maps)})
    for library in NATIVE.values():
        copies = [path for path in loaded if Path(path).name.startswith(library)]
        others = [path for path in copies if Path(path).parent != bundled]
        assert not others, f"{library} is loaded from {others}"
        print(library, *(copies or ["linked into its module"]))
    for module in [*package.rglob("*.so"), *package.with_name("zvcore_plugins").rglob("*.so")]:
        assert b"-march=native" not in module.read_bytes(), module


if __name__ == "__main__":
    print(f"zvcore {zvcore.__version__} from {Path(zvcore.__file__).parent}")
    assert kernels.crc32c(b"123456789") == 0xE3069283
    native = "--fallback" not in sys.argv
    check_codecs(native)
    if "--bundled" in sys.argv:
        check_bundled()
    with tempfile.TemporaryDirectory() as temporary:
        check_formats(Path(temporary), native)
    assert Path(zvcore.get_include(), "zv_codec.h").is_file()
    print("all well")
