"""What `make demo` runs: a volume goes through all four formats, is verified, broken, and shown.

    python examples/demo.py [FOLDER] [--small]

Needs nothing but zvcore. Where zarr-python is installed, its times stand beside ours.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from specimen import streamlines, tissue

import zvcore
from zvcore import zvf
from zvcore.commands import cli
from zvcore.pictures import png_bytes, preview
from zvcore.wording import human_size, table

if TYPE_CHECKING:
    from collections.abc import Callable

# zstd, and a checksum behind it: without one, some broken bytes would decode to wrong values.
CODEC = [{"name": "zstd", "level": 3}, "crc32c"]


class Demo:
    def __init__(self, folder: Path, shape: tuple[int, int, int], lines: int) -> None:
        self.folder = folder
        self.shape = shape
        self.count = lines
        self.started = time.perf_counter()
        self.rows: list[tuple[str, ...]] = []

    def say(self, text: str) -> None:
        print(f"[{time.perf_counter() - self.started:5.1f} s] {text}", flush=True)

    def run(self) -> int:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.make()
        self.convert()
        self.vectors()
        sound = self.verify()
        found = self.break_one_byte()
        self.measure()
        self.picture()
        self.say(f"all of it lies in {self.folder}/; look at it with: zvcore serve {self.folder}")
        return 0 if sound and found else 1

    def make(self) -> None:
        self.image, self.labels = tissue(self.shape)
        size = " x ".join(map(str, self.shape[::-1]))
        self.say(f"made up {size} voxels: an image (uint8), {len(np.unique(self.labels)) - 1:,} cells in it (uint64)")
        container = zvcore.open(self.folder / "tissue.n5", "w", format="n5")
        for name, values in (("image", self.image), ("labels", self.labels)):
            dataset = container.create_dataset(
                name, shape=values.T.shape, dtype=values.dtype, chunks=(64, 64, 64), codec="lz4",
                attrs={"resolution": [8, 8, 8], "units": ["nm", "nm", "nm"], "axes": ["x", "y", "z"]},
            )  # fmt: skip
            dataset[...] = values.T
        self.say("N5, lz4:        tissue.n5/image, tissue.n5/labels")

    def convert(self) -> None:
        report = zvcore.convert(
            self.folder / "tissue.n5", self.folder / "tissue.zarr", format="zarr3",
            chunks=(32, 32, 32), shards=(64, 128, 128), codec=CODEC, verify=True,
        )  # fmt: skip
        self.say(f"Zarr v3:        tissue.zarr, sharded: {converted(report)}, both sides compared")
        for name, options in (
            ("image", {"type": "image"}),
            ("labels", {"type": "segmentation", "encoding": "compressed_segmentation"}),
        ):
            report = zvcore.convert(
                self.folder / "tissue.zarr" / name, self.folder / f"{name}.precomputed", format="precomputed",
                chunks=(64, 64, 64), sharding="advise", levels=2, **options,
            )  # fmt: skip
            scales = ", ".join(zvcore.open(self.folder / f"{name}.precomputed"))
            self.say(f"precomputed:    {name}.precomputed, sharded, scales {scales}: {converted(report)}")

    def vectors(self) -> None:
        lines, values = streamlines(self.shape, self.count)
        path = self.folder / "tracts.zarrvectors"
        zvf.write_polylines(path, lines, chunk_shape=(48, 48, 48), vertex_attributes={"fa": values}, compressor="zstd",
                            shard_shape=4)  # fmt: skip
        back = zvf.open(path).level(0).read_object(len(lines) // 2)
        assert np.array_equal(back, lines[len(lines) // 2])
        self.say(f"Zarr Vectors:   tracts.zarrvectors, sharded: {len(lines)} lines, {sum(map(len, lines)):,} vertices")

    def stores(self) -> list[str]:
        return ["tissue.n5", "tissue.zarr", "image.precomputed", "labels.precomputed",
                "tracts.zarrvectors"]  # fmt: skip

    def verify(self) -> bool:
        sound = True
        for name in self.stores():
            report = zvcore.verify(self.folder / name)
            sound &= report.ok
            self.say(f"zvcore verify {name}: {str(report).splitlines()[-1]}")
            for problem in report.problems:
                self.say(f"    {problem}")
        assert np.array_equal(zvcore.open(self.folder / "tissue.zarr/labels")[...], self.labels)
        finest = zvcore.open(self.folder / "image.precomputed")[0]
        assert np.array_equal(finest[..., 0], self.image.T)
        self.say("every voxel came through all of them as it was" if sound else "something is NOT sound")
        return sound

    def break_one_byte(self) -> bool:
        """Flip one bit in a copy of a shard: verify has to find it, and to say where."""
        copy = self.folder / "broken.zarr"
        shutil.copytree(self.folder / "tissue.zarr/image", copy)
        shard = max(file for file in copy.rglob("*") if file.is_file() and file.name != "zarr.json")
        data = bytearray(shard.read_bytes())
        place = len(data) // 3
        data[place] ^= 1
        shard.write_bytes(data)
        self.say(f"broke one bit of a copy: byte {place} of {shard.relative_to(self.folder)}")
        words = io.StringIO()
        with contextlib.redirect_stdout(words), contextlib.redirect_stderr(words):
            status = cli.main(["verify", str(copy)])
        for line in words.getvalue().splitlines():
            self.say(f"    {line}")
        problems = zvcore.verify(copy).problems
        found = status == 1 and any(
            problem.offset is not None and problem.offset <= place < problem.offset + (problem.length or 0)
            for problem in problems
        )
        self.say(f"zvcore verify broken.zarr: exit status {status}, the byte was {'found' if found else 'NOT found'}")
        return found

    # --- sizes and speeds

    def measure(self) -> None:
        image, labels = self.image, self.labels
        scratch = self.folder / "scratch"
        zarr = zarr_python()
        cases: list[tuple[str, np.ndarray, str, dict[str, Any]]] = [
            ("N5, lz4", image.T, "n5", {"chunks": (64, 64, 64), "codec": "lz4"}),
            ("Zarr v3 in shards, zstd", image, "zarr3",
             {"chunks": (32, 32, 32), "shards": (64, 128, 128), "codec": CODEC}),
            ("precomputed in shards, gzip", image.T[..., None], "precomputed",
             {"chunks": (64, 64, 64), "sharding": "advise"}),
            ("Zarr v3 in shards, zstd, labels", labels, "zarr3",
             {"chunks": (32, 32, 32), "shards": (64, 128, 128), "codec": CODEC}),
        ]  # fmt: skip
        rows = [("", "files", "stored", "ratio", "write MB/s", "read MB/s", "zarr-python write", "read")]
        for title, values, format, options in cases:
            shutil.rmtree(scratch, ignore_errors=True)
            array = zvcore.create(scratch, format=format, shape=values.shape, dtype=values.dtype, **options)
            writing = seconds(lambda array=array, values=values: array.__setitem__(..., values))
            array = zvcore.open(scratch)
            array = array if format != "precomputed" else array[0]
            reading = min(seconds(lambda array=array: array[...]) for _ in range(2))
            size, files = stored(scratch)
            row = [title, f"{files}", human_size(size), f"{values.nbytes / size:.1f}"]
            row += [f"{values.nbytes / 1e6 / writing:.0f}", f"{values.nbytes / 1e6 / reading:.0f}"]
            row += ["", ""]
            if zarr is not None and format == "zarr3":
                others = zarr.open_array(str(scratch), mode="r+")
                reading = min(seconds(lambda others=others: others[...]) for _ in range(1))
                writing = seconds(lambda others=others, values=values: others.__setitem__(..., values))
                row[-2:] = [f"{values.nbytes / 1e6 / writing:.0f}", f"{values.nbytes / 1e6 / reading:.0f}"]
            rows.append(tuple(row))
        shutil.rmtree(scratch, ignore_errors=True)
        lines = zvf.open(self.folder / "tracts.zarrvectors").level(0)
        reading = seconds(lines.read)
        size, files = stored(self.folder / "tracts.zarrvectors")
        plain = lines.read().positions.nbytes
        rows.append(("Zarr Vectors in shards, zstd", f"{files}", human_size(size), f"{plain / size:.1f}", "",
                     f"{plain / 1e6 / reading:.0f}", "", ""))  # fmt: skip
        self.say(f"sizes and speeds, {'beside' if zarr else 'without'} zarr-python {getattr(zarr, '__version__', '')}:")
        print("\n".join(table(rows, " rrrrrrr")))

    def picture(self) -> None:
        image = preview(zvcore.open(self.folder / "image.precomputed"), level=0)
        cells = preview(zvcore.open(self.folder / "tissue.zarr/labels"))
        grey = np.repeat(image[..., None], 3, 2)
        mixed = (grey * 0.6 + cells * 0.4).astype(np.uint8)
        tracts = preview(zvcore.open(self.folder / "tracts.zarrvectors"), size=max(image.shape))
        sheet = np.zeros((image.shape[0], 3 * image.shape[1] + 20, 3), np.uint8)
        for place, part in enumerate((grey, mixed, tracts[: image.shape[0], : image.shape[1]])):
            left = place * (image.shape[1] + 10)
            sheet[: part.shape[0], left : left + part.shape[1]] = part
        (self.folder / "preview.png").write_bytes(png_bytes(sheet))
        self.say(f"a picture: {self.folder}/preview.png")


def converted(report: Any) -> str:
    return f"{human_size(report.values)} of values to {human_size(report.bytes_out)} in {report.seconds:.1f} s"


def seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def stored(folder: Path) -> tuple[int, int]:
    sizes = [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
    return sum(sizes), len(sizes)


def zarr_python() -> Any:
    try:
        import zarr
    except ImportError:
        return None
    return zarr


def main() -> int:
    parser = argparse.ArgumentParser(description="Take a volume through all four formats.")
    parser.add_argument(
        "folder", nargs="?", default="demo-out", type=Path, help="where to leave it (default: demo-out)"
    )
    parser.add_argument("--small", action="store_true", help="a volume of 96 x 96 x 64 voxels")
    options = parser.parse_args()
    shape, lines = ((64, 96, 96), 40) if options.small else ((192, 320, 384), 600)
    return Demo(options.folder, shape, lines).run()


if __name__ == "__main__":
    sys.exit(main())
