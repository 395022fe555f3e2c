"""Documents of every format, each member in turn replaced by what no program writes, and all that can be asked then.

    python -m tests.bounds.hostile [--share 1] [KIND...]

Whatever is asked of such a store, errors are those of `zvcore.errors`. The rest is printed, each kind of failure once.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import zvcore
from zvcore import zvf
from zvcore.errors import ZvcoreError
from zvcore.pictures import preview
from zvcore.precomputed import Skeleton, write_skeletons

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MISSING = object()
DEEP: Any = 1
for _ in range(400):
    DEEP = [DEEP]
VALUES: list[Any] = [
    MISSING, None, True, 0, -1, 2**31, 2**62, 2**64, 10**400, 0.5, float("nan"), float("inf"), "", "x", "9" * 5000,
    "../..", "a\0b", [], [[]], [None], [-1], [2**62], ["x"], [1] * 40, {}, {"a": 1}, {"name": "x"}, DEEP,
]  # fmt: skip
# Seconds that one question may take: what is stored takes milliseconds.
PATIENCE = 60
ROOM = 2 << 30


def array(path: Path, **options: Any) -> None:
    made = zvcore.create(path, **{"shape": (8, 8, 8), "dtype": "uint8", "chunks": (4, 4, 4), **options})
    made[...] = np.arange(512).reshape(made.shape) % 251


def zarr_group(path: Path) -> None:
    zvcore.open(path, mode="w", format="zarr3")
    array(path / "a", format="zarr3", dimension_names=("z", "y", "x"))
    member = json.loads((path / "a/zarr.json").read_text())
    told = {"kind": "inline", "must_understand": False, "metadata": {"a": member}}
    (path / "zarr.json").write_text(
        json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {"n": 1}, "consolidated_metadata": told})
    )


def ome(path: Path) -> None:
    zvcore.open(path, mode="w", format="zarr3")
    array(path / "0", format="zarr3")
    changes = [{"type": "scale", "scale": [1, 1, 1]}, {"type": "translation", "translation": [0, 0, 0]}]
    axes = [{"name": name, "type": "space", "unit": "micrometer"} for name in "zyx"]
    levels = [{"path": "0", "coordinateTransformations": changes}]
    window = {"start": 0, "end": 255, "min": 0, "max": 255}
    found = {
        "version": "0.5",
        "multiscales": [{"name": "m", "axes": axes, "datasets": levels, "type": "mean", "metadata": {"a": 1}}],
        "omero": {"channels": [{"label": "c", "color": "FF0000", "window": window, "active": True}], "id": 1},
        "image-label": {"colors": [{"label-value": 1, "rgba": [1, 2, 3, 4]}], "version": "0.5"},
    }
    document = {"zarr_format": 3, "node_type": "group", "attributes": {"ome": found}}
    (path / "zarr.json").write_text(json.dumps(document))


def n5_pyramid(path: Path) -> None:
    for level in range(2):
        attrs = {"downsamplingFactors": [1 << level] * 3, "resolution": [4, 4, 4], "units": ["nm"] * 3}
        side = 8 >> level
        zvcore.create(path / f"s{level}", format="n5", shape=(side,) * 3, dtype="uint8", chunks=(4,) * 3, attrs=attrs)
    transform = {"axes": ["z", "y", "x"], "scale": [1, 1, 1], "translate": [0, 0, 0], "units": ["nm"] * 3}
    levels = [{"path": f"s{level}", "transform": transform} for level in range(2)]
    document = {
        "n5": "4.0.0",
        "multiscales": [{"name": "m", "datasets": levels}],
        "scales": [[1, 1, 1], [2, 2, 2]],
        "multiScale": True,
        "axes": ["x", "y", "z"],
        "resolution": [4, 4, 4],
        "units": ["nm"] * 3,
        "pixelResolution": {"dimensions": [4, 4, 4], "unit": "nm"},
    }
    (path / "attributes.json").write_text(json.dumps(document))


def volume_with_folders(path: Path) -> None:
    array(path, format="precomputed", dtype="uint32", type="segmentation", encoding="compressed_segmentation")
    skeleton = Skeleton(np.zeros((2, 3), "f4"), np.array([[0, 1]], "u4"))
    write_skeletons(path / "skeletons", {1: skeleton})
    for folder, document in (
        ("mesh", {"@type": "neuroglancer_multilod_draco", "vertex_quantization_bits": 10, "transform": [1.0] * 12}),
        ("props", {"@type": "neuroglancer_segment_properties", "inline": {"ids": ["1"], "properties": [
            {"id": "label", "type": "label", "values": ["a"]}]}}),
    ):  # fmt: skip
        (path / folder).mkdir()
        (path / folder / "info").write_text(json.dumps({**document, "lod_scale_multiplier": 1}))
    info = json.loads((path / "info").read_text())
    info.update(skeletons="skeletons", mesh="mesh", segment_properties="props")
    (path / "info").write_text(json.dumps(info))


def lines(path: Path) -> None:
    rng = np.random.default_rng(0)
    zvf.write_polylines(path, [(rng.random((10, 3)) * 60).astype("f4") for _ in range(3)], chunk_shape=(32.0,) * 3)


KINDS: dict[str, Callable[[Path], None]] = {
    "zarr": lambda path: array(path, format="zarr3", codec="gzip", dimension_names=("z", "y", "x")),
    "shards": lambda path: array(path, format="zarr3", codec="zstd", shards=(8, 8, 8)),
    "group": zarr_group,
    "ome": ome,
    "n5": lambda path: array(path, format="n5", codec="gzip", attrs={"resolution": [4, 4, 4], "offset": [0, 0, 0]}),
    "pyramid": n5_pyramid,
    "volume": volume_with_folders,
    "sharded volume": lambda path: array(path, format="precomputed", sharding="advise"),
    "vectors": lines,
}


def is_document(path: Path) -> bool:
    return path.name in ("zarr.json", "attributes.json", "info")


def replaced(document: Any, value: Any) -> Iterator[tuple[str, Any]]:
    """(where, the document with that member replaced), for each member at any depth."""
    if isinstance(document, dict):
        for name, old in document.items():
            rest = {other: kept for other, kept in document.items() if other != name}
            yield f".{name}", (rest if value is MISSING else {**document, name: value})
            yield from ((f".{name}{where}", {**document, name: new}) for where, new in replaced(old, value))
    elif isinstance(document, list):
        for place, old in enumerate(document[:2]):
            before, after = document[:place], document[place + 1 :]
            yield f"[{place}]", (before + after if value is MISSING else [*before, value, *after])
            yield from ((f"[{place}]{where}", [*before, new, *after]) for where, new in replaced(old, value))


def look_around(node: Any, depth: int = 0) -> None:
    repr(node)
    dict(getattr(node, "attrs", {}))
    if getattr(node, "kind", None) == "array":
        if 0 not in node.shape:
            corner = tuple(slice(0, 2) for _ in node.shape)
            node[corner]
            node.block_exists((0,) * node.ndim)
        return
    if hasattr(node, "multiscale"):
        node.multiscale()
    if depth < 3:
        for child in [*node.children().values()][:4]:
            look_around(child, depth + 1)


def read_vectors(path: Path) -> None:
    node = zvcore.open(path)
    if getattr(node, "kind", None) == "vectors":
        node.level(0).read()
        node.level(0).read_bbox([0, 0, 0], [30, 30, 30])


def convert(path: Path, format: str) -> None:
    target = path.parent / "target"
    shutil.rmtree(target, ignore_errors=True)
    zvcore.plan(path, target, format=format)
    node = zvcore.open(path)
    shape = getattr(node, "shape", (1,))
    # What is as large as it says cannot be made small; that a plan is made at all is what counts.
    if all(n <= 4096 for n in shape):
        zvcore.convert(path, target, format=format)


QUESTIONS: dict[str, Callable[[Path], Any]] = {
    "open": lambda path: look_around(zvcore.open(path)),
    "inspect": zvcore.inspect,
    "verify": zvcore.verify,
    "preview": lambda path: preview(zvcore.open(path), size=4),
    "convert to zarr3": lambda path: convert(path, "zarr3"),
    "convert to n5": lambda path: convert(path, "n5"),
    "convert to precomputed": lambda path: convert(path, "precomputed"),
    "read": read_vectors,
}


def late(*_: object) -> None:
    raise TimeoutError(f"more than {PATIENCE} seconds")


def ask(path: Path, what: str) -> BaseException | None:
    """What went wrong, unless it is an error of zvcore."""
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            QUESTIONS[what](path)
    except ZvcoreError as error:
        str(error)
    except Exception as error:
        return error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return None


def failures(kind: str, share: int, folder: Path) -> Iterator[tuple[str, BaseException]]:
    """(what was asked of which document, the error) for one in `share` of all documents."""
    path = folder / kind
    KINDS[kind](path)
    for document in sorted(filter(is_document, path.rglob("*"))):
        good = document.read_text()
        for value in VALUES:
            for where, changed in replaced(json.loads(good), value):
                shown = "missing" if value is MISSING else repr(value)[:20]
                case = f"{kind} {document.relative_to(path)} ${where} = {shown}"
                if zlib.crc32(case.encode()) % share:
                    continue
                document.write_text(json.dumps(changed))
                for what in QUESTIONS:
                    if error := ask(path, what):
                        yield f"{what}: {case}", error
        document.write_text(good)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--share", type=int, default=1, help="one in so many of the documents")
    parser.add_argument("kinds", nargs="*")
    options = parser.parse_args()
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, used + ROOM))
    signal.signal(signal.SIGALRM, late)
    seen: dict[tuple[str, str], int] = {}
    for kind in options.kinds or KINDS:
        with tempfile.TemporaryDirectory() as folder:
            for case, error in failures(kind, options.share, Path(folder)):
                frames = [
                    frame for frame in traceback.extract_tb(error.__traceback__) if "/tests/" not in frame.filename
                ]
                place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
                known = (type(error).__name__, place)
                seen[known] = seen.get(known, 0) + 1
                if seen[known] == 1:
                    way = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames[-6:]))
                    print(f"{case}\n    {type(error).__name__}: {str(error)[:150]}\n    {way}", flush=True)
    print(f"{sum(seen.values())} failures of {len(seen)} kinds")
    return 1 if seen else 0


if __name__ == "__main__":
    sys.exit(main())
