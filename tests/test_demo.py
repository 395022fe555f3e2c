"""`make demo` does what it says, here on a small volume."""

import subprocess
import sys
from pathlib import Path

import imagecodecs

import zvcore
from tests.processes import PATIENCE

ROOT = Path(__file__).resolve().parent.parent


def test_the_demo(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, str(ROOT / "examples/demo.py"), str(out), "--small"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert "every voxel came through all of them as it was" in done.stdout
    assert "exit status 1, the byte was found" in done.stdout
    assert not zvcore.verify(out / "broken.zarr").ok
    for name in ("tissue.n5", "tissue.zarr", "image.precomputed", "labels.precomputed", "tracts.zarrvectors"):
        assert zvcore.verify(out / name).ok
    assert len(zvcore.open(out / "labels.precomputed")) == 3
    height, width, _ = imagecodecs.png_decode((out / "preview.png").read_bytes()).shape
    assert (height, width) == (96, 3 * 96 + 20)


def test_the_demo_needs_no_other_package(tmp_path: Path) -> None:
    """As in an environment that has numpy alone."""
    code = (
        "import sys, runpy\n"
        "class Refuse:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in OTHERS: raise ImportError(name)\n"
        "OTHERS = {'zarr', 'numcodecs', 'tqdm', 'dask', 'distributed', 'fsspec', 'obstore', 'typing_extensions'}\n"
        "sys.meta_path.insert(0, Refuse())\n"
        f"sys.argv = ['demo.py', {str(tmp_path / 'out')!r}, '--small']\n"
        f"sys.path.insert(0, {str(ROOT / 'examples')!r})\n"
        f"runpy.run_path({str(ROOT / 'examples/demo.py')!r}, run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "without zarr-python" in done.stdout
