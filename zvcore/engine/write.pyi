from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from zvcore.codecs.chain import CodecChain
from zvcore.engine.buffers import Buffers, Keys
from zvcore.engine.form import Form
from zvcore.engine.packer import Packer
from zvcore.engine.selection import Selection
from zvcore.engine.sources import Sources

class ObjectNames:
    key: None
    offset: None
    length: None
    blobs: None
    stamps: None
    keys: Keys
    def __init__(self, keys: Keys) -> None: ...

def encode_chunks(
    form: Form,
    selection: Selection,
    positions: npt.NDArray[np.int64],
    covered: npt.NDArray[np.bool_],
    sources: Sources | None,
    chains: Sequence[CodecChain],
    value: npt.NDArray[Any],
    rows: npt.NDArray[np.intp] | None = None,
    chain: npt.NDArray[np.uint8] | None = None,
    store_empty: bool = False,
    keys: Keys | None = None,
    packer: Packer | None = None,
    root: bytes | None = None,
    sync: bool = False,
    threads: int | None = None,
    progress: Callable[[int, int], Any] | None = None,
    names: Callable[[int], str] | None = None,
) -> Buffers | None: ...
def encode_many(
    items: Sequence[Any],
    chain: CodecChain,
    threads: int | None = None,
    progress: Callable[[int, int], Any] | None = None,
) -> Buffers: ...
