"""Opens, reads, failed reads and conversions again and again: memory and file handles stay where they are.

ZVCORE_FAULT_TURNS says how often: two hundred times here, ten thousand with `make leaks`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.faults.support import run

if TYPE_CHECKING:
    from pathlib import Path

TURNS = int(os.environ.get("ZVCORE_FAULT_TURNS", "200"))

WORK = {
    "opens and reads": """
        for name in stores:
            array = zvcore.open(f"{path}/{name}", **({"scale": 0} if name == "volume" else {}))
            assert int(array[...].min()) == 1
            array.read_encoded((0,) * array.ndim)
            array.attrs
        kv = ShardedStore(f"{path}/values", SPEC)
        assert len(kv.get_many(IDS)) == len(IDS)
        level = zvcore.zvf.open(f"{path}/lines").level(0)
        assert len(level.read()) == 6
    """,
    "failed reads": """
        for name in broken:
            for region in (..., (slice(0, 3),) * broken[name].ndim):
                try:
                    zvcore.open(f"{path}/{name}")[region]
                except CorruptDataError:
                    failed += 1
        for missing in ("nothing", "values"):
            try:
                zvcore.open(f"{path}/{missing}")
            except ZvcoreError:
                failed += 1
        for codec in codecs:
            for data in (b"", b"junk" * 20, codec.encode(b"x" * 500)[:-3]):
                try:
                    codec.decode(data, max_size=1000)
                except (CorruptDataError, UnsupportedError):
                    failed += 1
    """,
    "writes": """
        for name in stores:
            array = zvcore.open(f"{path}/{name}", mode="r+", **({"scale": 0} if name == "volume" else {}))
            array[:9] = 1
            array.attrs.update(turn=turn % 10) if name in ("n5", "shards") else None
        ShardedStore(f"{path}/values", SPEC, mode="r+").update({turn % 40: b"1 " * 50})
    """,
    "conversions": """
        source, target = pairs[turn % len(pairs)]
        zvcore.convert(f"{path}/from-{source}", f"{path}/to-{target}", overwrite=True, **forms[target])
        zvcore.zvf.decode_manifests(zvcore.zvf.encode_manifests([[((0, 0, 0), 5)]] * 50, 3), 3).to_csr()
    """,
}

SCRIPT = """
    import gc, itertools, os, shutil
    from pathlib import Path
    from tests.faults.support import WRITERS
    from zvcore.errors import CorruptDataError, UnsupportedError, ZvcoreError
    from zvcore.precomputed import ShardedStore

    names = {{"shards": "zarr3 shards, rewrite", "chunks": "zarr3 chunks", "n5": "n5 blocks",
              "volume": "precomputed volume", "values": "precomputed values", "lines": "zarr vectors, append"}}
    for name, writer in names.items():
        WRITERS[writer].make(Path(path, name))
    stores = ("shards", "chunks", "n5", "volume")
    broken = {{}}
    for name in ("shards", "n5"):
        shutil.copytree(Path(path, name), Path(path, f"broken-{{name}}"))
        for file in Path(path, f"broken-{{name}}").rglob("*"):
            if file.is_file() and file.suffix != ".json":
                file.write_bytes(file.read_bytes()[:-3])
        broken[f"broken-{{name}}"] = zvcore.open(Path(path, f"broken-{{name}}"))
    forms = {{
        "n5": dict(format="n5", chunks=(8, 8, 8), codec="gzip"),
        "chunks": dict(format="zarr3", chunks=(8, 8, 8), codec="zstd", shards=False),
        "shards": dict(format="zarr3", chunks=(4, 8, 8), shards=(8, 16, 16), codec="zstd"),
        "volume": dict(format="precomputed", chunks=(8, 8, 8), shards=False),
        "sharded": dict(format="precomputed", chunks=(8, 8, 8), sharding="advise"),
    }}
    pairs = [*itertools.product(forms, repeat=2)]
    if {conversions}:
        first = zvcore.create(f"{{path}}/made", format="zarr3", shape=(16, 20, 24), dtype="u1", chunks=(8, 8, 8))
        first[...] = 7
        for name, options in forms.items():
            zvcore.convert(f"{{path}}/made", f"{{path}}/from-{{name}}", **options)
    codecs = [zvcore.codecs.get(name) for name in ("gzip", "zstd", "lz4", "blosc", "bzip2", "xz")]
    failed = 0

    def resident():
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def once(turn):
        global failed
{body}

    turns = int(value[0])
    for turn in range(turns // 2):  # pools and caches fill up
        once(turn)
    memory, handles, objects = resident(), len(os.listdir("/proc/self/fd")), len(gc.get_objects())
    for turn in range(turns):
        once(turn)
    print(resident() - memory, len(os.listdir("/proc/self/fd")) - handles, len(gc.get_objects()) - objects, failed)
"""


@pytest.mark.parametrize("what", WORK)
def test_memory_and_handles_stay_flat(tmp_path: Path, what: str) -> None:
    body = "\n".join("        " + line.strip("\n") for line in WORK[what].splitlines() if line.strip())
    body = "\n".join(line.replace("        ", "", 1) for line in body.splitlines())
    out = run(SCRIPT.format(body=body, conversions=what == "conversions"), tmp_path, TURNS, patience=7200)
    memory, handles, objects, failed = map(int, out.split())
    print(f"\n{what}, {TURNS} turns: memory {memory:+} bytes, handles {handles:+}, objects {objects:+}")
    # An allocator that gives nothing back takes a little more now and then; a leak takes something every turn.
    assert memory < (2 << 20) + 256 * TURNS, f"{memory / TURNS:.0f} bytes a turn"
    assert handles <= 2
    assert objects < 200 + TURNS // 10
    assert (failed > 0) == (what == "failed reads")
