"""What `zvcore.mesh` and `zvcore.skeletonize` are asked: the parameters that they share, and those of each."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from zvcore.engine import thread_count
from zvcore.forging.forge import Manner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from distributed import Client

    from zvcore.forging.destination import Path
    from zvcore.precomputed.sharding_spec import ShardingSpec

__all__ = ["MeshQuestion", "Question", "SkeletonQuestion"]

KINDS = ("multires", "legacy")


@dataclass(frozen=True)
class Question:
    """The parameters of both, which the docstring of `zvcore.mesh` explains."""

    src: Path | Any
    dst: Path | None = None
    _: KW_ONLY
    ids: Iterable[int] | None = None
    dust: int = 0
    level: int = 0
    image: str | None = None
    voxel_size: str | Sequence[float] | None = None
    box: Sequence[int] = (256, 256, 256)
    sharding: ShardingSpec | Mapping[str, Any] | str | None = "advise"
    memory: int = 4 << 30
    overwrite: bool = False
    resume: bool = True
    dry_run: bool = False
    progress: bool | Callable[[int, int], Any] = False
    threads: int | None = None
    client: Client | None = None
    part: tuple[int, int] | str | None = None
    finish: bool = False
    storage_options: Mapping[str, Any] | None = None
    fsync: bool | None = None
    durability: str | None = None

    @property
    def files(self) -> bool:
        """Whether objects lie in files of their own."""
        return self.sharding is None

    @property
    def manner(self) -> Manner:
        return Manner(
            int(self.memory), self.overwrite, self.resume, thread_count(self.threads), self.client, self.progress,
            self.part, self.finish,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class MeshQuestion(Question):
    kind: str = "multires"
    lods: int = 3
    simplify: int = 100
    max_error: float | None = None
    vertex_quantization_bits: int = 16

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"there are meshes of the kinds {' and '.join(map(repr, KINDS))}, not {self.kind!r}")
        if self.lods < 1 or self.simplify < 0 or self.dust < 0:
            raise ValueError(
                f"lods is at least 1, simplify and dust at least 0, not {self.lods}, {self.simplify} and {self.dust}"
            )
        if self.max_error is not None and not self.max_error >= 0:
            raise ValueError(f"max_error is a length in nanometers, not {self.max_error}")
        if self.vertex_quantization_bits not in (10, 16):
            raise ValueError(f"vertex_quantization_bits is 10 or 16, not {self.vertex_quantization_bits}")
        if self.legacy and self.sharding not in ("advise", None):
            raise ValueError("legacy meshes are not sharded")

    @property
    def legacy(self) -> bool:
        return self.kind == "legacy"


@dataclass(frozen=True, kw_only=True)
class SkeletonQuestion(Question):
    scale: float = 1.5
    const: float = 300
    teasar: Mapping[str, Any] | None = None
    length: float = 0
    ticks: float = 0
    dust: int = 1000
    box: Sequence[int] = (512, 512, 512)

    def __post_init__(self) -> None:
        lengths = (self.scale, self.const, self.length, self.ticks)
        if self.dust < 0 or not all(one >= 0 for one in lengths):
            told = ", ".join(map(str, (*lengths, self.dust)))
            raise ValueError(f"scale, const, length, ticks and dust are at least 0: {told}")
