from collections.abc import Callable, Iterable, Sequence
from typing import final

from zvcore.codecs.chain import CodecChain
from zvcore.engine.form import Form

@final
class Chains:
    chains: tuple[CodecChain, ...]
    def __new__(cls, chains: Iterable[CodecChain]) -> Chains: ...
    def __len__(self) -> int: ...

@final
class Prepared:
    form: Form
    chains: Chains
    root: bytes | None
    durability: int
    def __new__(
        cls,
        form: Form | None,
        chains: Chains | Iterable[CodecChain],
        root: bytes | None = None,
        durability: int = 1,
        name_of: Callable[[tuple[int, ...]], str | None] | None = None,
    ) -> Prepared: ...
    def with_form(self, form: Form) -> Prepared: ...
    def with_root(self, root: bytes) -> Prepared: ...
    def name(self, position: Sequence[int]) -> str | None: ...
