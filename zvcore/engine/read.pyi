from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from zvcore.codecs.chain import CodecChain
from zvcore.engine.buffers import Buffers
from zvcore.engine.form import Form
from zvcore.engine.selection import Selection
from zvcore.engine.sources import Sources

class StaleSourcesError(Exception): ...

def read_chunks(
    form: Form,
    selection: Selection,
    positions: npt.NDArray[np.int64],
    sources: Sources,
    chains: Sequence[CodecChain],
    out: npt.NDArray[Any],
    root: bytes | None = None,
    rows: npt.NDArray[np.intp] | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], Any] | None = None,
    names: Callable[[int], str] | None = None,
) -> None: ...
def fetch_native(
    sources: Sources,
    count: int,
    chains: Sequence[CodecChain],
    root: bytes | None = None,
    expected: npt.NDArray[np.uint64] | None = None,
    max_size: int | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], Any] | None = None,
    names: Callable[[int], str] | None = None,
) -> Buffers: ...
