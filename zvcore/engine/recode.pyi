from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from zvcore.codecs.chain import CodecChain
from zvcore.engine.buffers import Buffers, Keys
from zvcore.engine.form import Form
from zvcore.engine.packer import Packer
from zvcore.engine.selection import Selection
from zvcore.engine.sources import Sources

def recode_chunks(
    source_form: Form,
    source_selection: Selection,
    source_positions: npt.NDArray[np.int64],
    sources: Sources,
    source_chains: Sequence[CodecChain],
    target_form: Form,
    target_selection: Selection,
    target_positions: npt.NDArray[np.int64],
    target_chain: npt.NDArray[np.uint8] | None,
    target_chains: Sequence[CodecChain],
    axis_of: npt.NDArray[np.int64],
    begin: npt.NDArray[np.int64],
    extent: npt.NDArray[np.int64],
    source_first: npt.NDArray[np.int64],
    target_first: npt.NDArray[np.int64],
    single: bool,
    *,
    source_root: bytes | None = None,
    keys: Keys | None = None,
    packer: Packer | None = None,
    root: bytes | None = None,
    sync: bool = False,
    store_empty: bool = False,
    threads: int | None = None,
    source_names: Callable[[int], str] | None = None,
    target_names: Callable[[int], str] | None = None,
) -> tuple[Buffers | None, int]: ...
