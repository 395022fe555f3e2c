"""`zvcore.downsample`: coarser levels of images and labels."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from zvcore import opening
from zvcore.boxes import lengths_of
from zvcore.converting.convert import DEFAULT_MEMORY, Path, convert
from zvcore.engine import thread_count
from zvcore.format import Node
from zvcore.stores.objects import is_place
from zvcore.stores.opening import shared_options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from distributed import Client

    from zvcore.report import ConversionReport

__all__ = ["downsample"]


def downsample(
    src: Path | Any,
    dst: Path | None = None,
    *,
    levels: int = 1,
    method: str | None = None,
    factors: Sequence[int] | None = None,
    verify: bool = False,
    progress: bool | Callable[[int, int], Any] = False,
    threads: int | None = None,
    client: Client | None = None,
    memory: int = DEFAULT_MEMORY,
    storage_options: Mapping[str, Any] | None = None,
    part: tuple[int, int] | str | None = None,
    finish: bool = False,
    fsync: bool | None = None,
    **options: Any,
) -> ConversionReport:
    """Add coarser levels to the pyramid at `src`, or with `dst` write a copy of `src` with so many levels more.

    A pyramid is a volume, or a group of N5 or Zarr whose attributes name its levels. An array alone needs a `dst`, and
    `options` are then those of `convert`. Each level is made of the one before it: method="mean" for images, "mode"
    (the most frequent value, of several the smallest) for labels. Labels are what is marked so, and where nothing says
    what values are, booleans and whole numbers of 32 and 64 bits. Boxes at odd ends hold fewer voxels and are the mean,
    or mode, of those. `part`, `finish` and `fsync` are as in `zvcore.convert`.
    """
    threads = thread_count(threads)
    if dst is not None:
        from_there, to_there = shared_options(storage_options, src, dst)
        source = opening.open(src, storage_options=from_there) if not isinstance(src, Node) and is_place(src) else src
        options.setdefault("format", _format_of(source))
        return convert(
            source, dst, levels=levels, method=method, factors=factors, verify=verify, progress=progress,
            threads=threads, client=client, memory=memory, storage_options=to_there, part=part,
            finish=finish, fsync=fsync, **options,
        )  # fmt: skip
    if options:
        raise TypeError(f"only with a destination: {', '.join(options)}")
    if levels < 1:
        raise ValueError(f"levels is how many coarser levels to make, not {levels}")
    if method not in (None, "mean", "mode"):
        raise ValueError(f"method is 'mean' or 'mode', not {method!r}")
    from zvcore.converting.growing import Growing
    from zvcore.converting.sharing import Sharing

    started = time.monotonic()
    store = src.store if isinstance(src, Node) else opening.store_at(src, "r+", storage_options)
    store = store.durable(fsync)
    source = opening.open_silently(store, "r+")
    growing = Growing(
        source, store, levels=levels, method=method, memory=int(memory),
        factors=None if factors is None else lengths_of(factors, "factors"), sharing=Sharing(store, part, finish),
    )  # fmt: skip
    report = growing.run(threads=threads, client=client, progress=progress, verify=verify)
    report.seconds = time.monotonic() - started
    return report


def _format_of(source: Any) -> str:
    from zvcore.converting.sources import finest_array

    return finest_array(source).format
