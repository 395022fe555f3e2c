"""What `zvcore.copy` and `zvcore.sync` are asked: the parameters that they share, and those of each."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["CopyQuestion", "MirrorQuestion", "SyncQuestion"]


@dataclass(frozen=True)
class MirrorQuestion:
    """The parameters of both, which the docstring of `zvcore.copy` explains."""

    src: Any
    dst: Any
    _: KW_ONLY
    verify: bool = False
    dry_run: bool = False
    threads: int | None = None
    progress: bool | Callable[[int, int], Any] = False
    storage_options: Mapping[str, Any] | None = None
    source_options: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class CopyQuestion(MirrorQuestion):
    overwrite: bool = False


@dataclass(frozen=True, kw_only=True)
class SyncQuestion(MirrorQuestion):
    delete: bool = False
    size_only: bool = False
