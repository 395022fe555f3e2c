"""`make browser-test`: Chromium looks at the server's page, and Neuroglancer at a data set of each format.

It needs Chromium and Node 20 (as root on Debian, missing packages are installed) and fetches Neuroglancer from the npm
registry. What the browser shows is compared with the stored values, pixel by pixel.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np

import zvcore
from zvcore import zvf
from zvcore.serving import make_server

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "examples"))

from everything import amiss, make_everything, view_of_everything  # noqa: E402
from objects import SCENES, make_objects, misplaced, view  # noqa: E402
from specimen import streamlines, tissue  # noqa: E402

SHAPE = (64, 192, 256)
# The folder of the things that objects.py makes.
OBJECTS = "objects/"
# What the view of a whole folder is called.
EVERYTHING = "everything in one view"
PROGRAMS = {
    "chromium": ("chromium", "chromium-browser", "google-chrome"),
    "nodejs": ("node", "nodejs"),
    "npm": ("npm",),
}


def programs() -> dict[str, str]:
    """Where the programs are; what is missing is installed if that can be done."""

    def look() -> dict[str, str]:
        found = {name: next(filter(None, map(shutil.which, names)), None) for name, names in PROGRAMS.items()}
        return {name: path for name, path in found.items() if path}

    missing = set(PROGRAMS) - set(look())
    if missing and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *sorted(missing)], check=False)
    found = look()
    if set(found) != set(PROGRAMS):
        sys.exit(f"the browser test needs {', '.join(sorted(set(PROGRAMS) - set(found)))}")
    return found


def neuroglancer(folder: Path, npm: str, node: str) -> Path:
    """A folder with Neuroglancer as a browser loads it."""
    for name in ("package.json", "bundle.mjs", "look.mjs"):
        shutil.copy(HERE / name, folder / name)
    subprocess.run(
        [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"], cwd=folder, check=True
    )
    client = folder / "client"
    shutil.rmtree(client, ignore_errors=True)
    subprocess.run([node, "bundle.mjs", str(client)], cwd=folder, check=True)
    return client


def make_data(root: Path) -> tuple[np.ndarray, np.ndarray]:
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    image, labels = tissue(SHAPE)
    wide = image.astype("uint16") * 17 + 1000
    group = zvcore.open(root / "a.n5", "w", format="n5")
    for codec in ("gzip", "zstd", "lz4"):
        a = group.create_dataset(codec, shape=SHAPE[::-1], dtype="uint16", chunks=(64, 64, 64), codec=codec)
        a[...] = wide.T
    a = zvcore.create(
        root / "a.zarr", format="zarr3", shape=SHAPE, dtype="uint8", chunks=(32, 32, 32), shards=(64, 64, 128),
        codec=["zstd", "crc32c"], dimension_names=("z", "y", "x"),
    )  # fmt: skip
    a[...] = image
    for name, values, options in (
        ("image", image, {"type": "image", "shards": None, "sharding": "advise"}),
        ("labels", labels, {"type": "segmentation", "encoding": "compressed_segmentation", "sharding": "advise"}),
    ):
        a = zvcore.create(
            root / name, format="precomputed", shape=SHAPE[::-1], dtype=values.dtype, chunks=(64, 64, 64), **options
        )
        a[...] = values.T[..., None]
    for encoding, options in (("jpeg", {"jpeg_quality": 95}), ("png", {}), ("jxl", {"lossless": True})):
        a = zvcore.create(
            root / f"image {encoding}", format="precomputed", shape=SHAPE[::-1], dtype="uint8", type="image",
            encoding=encoding, **options,
        )  # fmt: skip
        a[...] = image.T[..., None]
    # Of Zarr v2, Neuroglancer reads no filters, as a checksum is one.
    zvcore.convert(root / "a.zarr", root / "two.zarr", format="zarr2", levels=1)
    zvcore.convert(root / "a.zarr", root / "ome2.zarr", format="zarr2", levels=2, codec="zstd")
    bigdataviewer(root / "bdv.n5", image)
    zvcore.convert(root / "a.zarr", root / "ome.zarr", format="zarr3", levels=2)
    zvcore.convert(root / "image", root / "nm.zarr", format="zarr3", levels=1)
    lines, _ = streamlines(SHAPE, 100)
    zvf.write_polylines(root / "lines.zarrvectors", lines, chunk_shape=(64, 64, 64), shard_shape=2)
    points = np.concatenate(lines)[::10]
    zvf.write_points(root / "points.zarrvectors", points, chunk_shape=(64, 64, 64))
    return image, labels


def bigdataviewer(root: Path, image: np.ndarray) -> None:
    """One setup at one time, as BigDataViewer has it in N5."""
    a = zvcore.create(
        root / "setup0/timepoint0/s0", format="n5", shape=SHAPE[::-1], dtype="uint8", chunks=(64, 64, 64), codec="gzip"
    )
    a[...] = image.T
    for folder, document in (
        ("", {"n5": "4.0.0"}),
        ("setup0", {"downsamplingFactors": [[1, 1, 1]], "dataType": "uint8"}),
        ("setup0/timepoint0", {"multiScale": True, "resolution": [1, 1, 1]}),
    ):
        (root / folder / "attributes.json").write_text(json.dumps(document))


def likeness(shown: np.ndarray, expected: np.ndarray) -> float:
    """The best correlation of a plane with what lies anywhere near the middle of the picture, voxel for pixel."""
    grey = shown[..., :3].astype(np.float64).mean(2)
    height, width = expected.shape
    wanted = (expected - expected.mean()) / expected.std()
    best = -1.0
    rows, columns = (grey.shape[0] - height) // 2, (grey.shape[1] - width) // 2
    for y in range(max(0, rows - 40), min(grey.shape[0] - height, rows + 40)):
        for x in range(max(0, columns - 6), min(grey.shape[1] - width, columns + 6)):
            part = grey[y : y + height, x : x + width]
            spread = part.std()
            if spread > 0:
                best = max(best, float(((part - part.mean()) / spread * wanted).mean()))
    return best


def borders(plane: np.ndarray) -> np.ndarray:
    """Where a voxel differs from the one to the right or below."""
    values = plane if plane.ndim == 3 else plane[..., None]
    found = np.zeros(values.shape[:2], np.float64)
    found[:, :-1] += (values[:, 1:] != values[:, :-1]).any(2)
    found[:-1] += (values[1:] != values[:-1]).any(2)
    return np.repeat(np.minimum(found, 1)[..., None], 3, 2)


def coloured(shown: np.ndarray) -> int:
    """How many pixels are of a bright colour, as lines and points are; the panel is grey or black."""
    rgb = shown[30:, :, :3].astype(int)
    return int((rgb.max(2) - rgb.min(2) > 90).sum())


def views_of(facts: dict[str, Any], words: list[str]) -> dict[str, Any]:
    """What is to be looked at: the links of the page, each with the state in which a picture is taken."""
    plane = {
        "layout": "xy", "crossSectionScale": 1, "showAxisLines": False, "showScaleBar": False,
        "showDefaultAnnotations": False, "position": [SHAPE[2] / 2, SHAPE[1] / 2, SHAPE[0] / 2],
    }  # fmt: skip
    space = {"showSlices": False, "showAxisLines": False}
    views: dict[str, Any] = {}
    for path, item in facts.items():
        for key in ("neuroglancer", "neuroglancer_view"):
            if not item[key] or not all(word in path for word in words):
                continue
            if path.startswith(OBJECTS):
                if key == "neuroglancer":
                    views[f"{path}-{key}"] = view(item[key], path.removeprefix(OBJECTS))
            else:
                views[f"{path}-{key}"] = {"link": item[key], "state": space if item["format"] == "zvf" else plane}
    return views


def judged(
    path: str, item: dict[str, Any], shown: np.ndarray, panels: list[list[float]], stored: Any
) -> tuple[bool, str]:
    """Whether the picture shows what it must, and in words what it shows."""
    if path == EVERYTHING:
        wrong = amiss(shown, panels)
        return not wrong, "; ".join(wrong) or "image, labels, mesh, skeleton and annotations in one view"
    image, labels = stored
    middle = SHAPE[0] // 2
    if path.startswith(OBJECTS):
        name = path.removeprefix(OBJECTS)
        wrong = misplaced(name, shown, panels[0])
        places = len(SCENES[name].seen), len(SCENES[name].free)
        return not wrong, "; ".join(wrong) or f"red at {places[0]} places where it is, at none of {places[1]} others"
    if item["format"] == "zvf":
        amount = coloured(shown)
        return amount > 500, f"{amount} coloured pixels"
    if path == "labels":
        alike = likeness(borders(shown), borders(labels[middle])[..., 0])
    else:
        alike = likeness(shown, image[middle].astype(np.float64))
    return alike > 0.9, f"correlation {alike:.4f} with what is stored"


def faults_of_page(page: dict[str, Any], facts: dict[str, Any]) -> list[str]:
    """What the page of the server does not show."""
    failures = list(page["errors"])
    sections = {section["path"]: section for section in page["sections"]}
    if set(sections) != set(facts):
        failures.append(f"the page lists {sorted(sections)}, expected {sorted(facts)}")
    for path, item in facts.items():
        section = sections.get(path, {})
        if item["preview"] and not section.get("picture"):
            failures.append(f"the page shows no picture of {path}")
        if section.get("links") != [item[key] for key in ("neuroglancer", "neuroglancer_view") if item[key]]:
            failures.append(f"the links of {path} are not those that it should have")
    print(f"page: {len(sections)} data sets with their pictures and links")
    return failures


def main(words: list[str]) -> int:
    """Look at the data sets whose paths have all these words; at all without any."""
    work = ROOT / "build/browser"
    shots = work / "shots"
    shutil.rmtree(shots, ignore_errors=True)
    shots.mkdir(parents=True)
    found = programs()
    client = neuroglancer(work, found["npm"], found["nodejs"])
    root = work / "data"
    stored = make_data(root)
    make_objects(root / OBJECTS)
    shutil.copytree(client, root / "client")
    whole = work / "everything"
    shutil.rmtree(whole, ignore_errors=True)
    make_everything(whole)
    with make_server(root) as server, make_server(whole) as other:
        for one in (server, other):
            one.site.viewer = f"{server.url}client/index.html"
            threading.Thread(target=one.serve_forever, daemon=True).start()
        facts = {item["path"]: item for item in server.site.describe(server.url.rstrip("/"))["datasets"]}
        views = views_of(facts, words)
        if all(word in EVERYTHING for word in words):
            together = other.site.describe(other.url.rstrip("/"))
            views[f"{EVERYTHING}-neuroglancer"] = view_of_everything(together["neuroglancer"])
        command = [found["nodejs"], "look.mjs", found["chromium"], server.url, str(shots)]
        done = subprocess.run(
            command, cwd=work, input=json.dumps(views), stdout=subprocess.PIPE, text=True, check=True, timeout=1800
        )
        for one in (server, other):
            one.shutdown()
    seen = json.loads(done.stdout)
    print(f"{seen['browser']}, Neuroglancer {version(work)}")
    failures = faults_of_page(seen["page"], facts)
    missing = [name for name in SCENES if f"{OBJECTS}{name}-neuroglancer" not in views and not words]
    failures += [f"{name} has no link to Neuroglancer" for name in missing]
    for name, one in seen["views"].items():
        path = name.rpartition("-")[0]
        shown = imagecodecs.png_decode((shots / f"{name.replace('/', '_')}.png").read_bytes())
        failures += [f"{name}: {error}" for error in one["errors"]]
        good, text = judged(path, facts.get(path, {}), shown, one["panels"], stored)
        print(f"{name}: {text}, {one['seconds']:.1f} s{'' if good else '  NOT SEEN'}")
        if not good:
            failures.append(f"{name}: the data are not in the picture: {text}")
    for failure in failures:
        print(f"FAILED {failure}")
    print(f"pictures of the browser: {shots.relative_to(ROOT)}")
    return 1 if failures else 0


def version(work: Path) -> str:
    document = json.loads((work / "node_modules/neuroglancer/package.json").read_text())
    return str(document["version"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
