"""Lets benchmarks say `from bench.data import volume`, from wherever pytest was started."""

import sys
from pathlib import Path

root = str(Path(__file__).parent.parent)
if root not in sys.path:
    sys.path.insert(0, root)
