"""Neuroglancer precomputed as a format among others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.format import Format, Glimpse, ViewerSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from zvcore.array import Array
    from zvcore.errors import ZvcoreError
    from zvcore.exchange import Exchange
    from zvcore.exchange.lines import Lines
    from zvcore.exchange.rows import Rows
    from zvcore.format import Care
    from zvcore.images import Axes, Image
    from zvcore.report import Report
    from zvcore.stores import Store
    from zvcore.undoing import Before

__all__ = ["Precomputed"]

# The chunk encodings that Neuroglancer itself knows.
_VIEWER_ENCODINGS = ("raw", "jpeg", "png", "compressed_segmentation", "compresso", "jxl")


class Precomputed(Format):
    name = "precomputed"
    title = "precomputed"
    marks = ("info",)
    folder_endings = (".precomputed",)
    takes_rows = True
    # Many programs call a file "info": formats whose document has a clearer name are asked first.
    precedence = -10
    tensorstore_driver = "neuroglancer_precomputed"
    takes_lines = True
    open_options = ("scale", "threads", "write_empty_chunks")

    def detect(self, store: Store) -> bool:
        if not store.exists("info"):
            return False
        from zvcore import precomputed

        return precomputed.detect(store)

    def left_over(self, names: Iterable[str]) -> str | None:
        from zvcore.precomputed.replacing import left_over

        return left_over(names)

    def unreadable(self, store: Store) -> ZvcoreError | None:
        error = super().unreadable(store)
        if error is not None or not store.exists("info"):
            return error
        from zvcore.errors import ZvcoreError
        from zvcore.precomputed.metadata import VolumeInfo, read_info

        # Many programs call a file "info": only one that speaks of a volume is meant to be ours.
        info = read_info(store)
        if "scales" in info or "num_channels" in info:
            try:
                VolumeInfo.from_json(info)
            except ZvcoreError as wrong:
                return wrong
        return None

    def open(self, store: Store, mode: str = "r", **options: Any) -> Any:
        from zvcore import precomputed

        return precomputed.open(store, mode, **options)

    def creator(self) -> Callable[..., Array]:
        from zvcore.precomputed.creating import create_volume

        return create_volume

    def take_back(self, array: Array, before: Before) -> None:
        from zvcore.precomputed.array import ScaleArray
        from zvcore.precomputed.removing import remove_scale

        assert isinstance(array, ScaleArray)
        remove_scale(array)
        before.remove_folder(array.store)

    def read_axes(self, array: Array) -> Axes:
        from zvcore.precomputed.array import ScaleArray
        from zvcore.precomputed.image import read_axes

        assert isinstance(array, ScaleArray)
        return read_axes(array)

    def read_image(self, node: Any) -> Image | None:
        from zvcore.precomputed.array import ScaleArray
        from zvcore.precomputed.group import Volume
        from zvcore.precomputed.image import read_image, read_scale

        if isinstance(node, Volume):
            return read_image(node)
        return read_scale(node) if isinstance(node, ScaleArray) else None

    def fastest_first(self, array: Array) -> bool:
        return True

    def exchange(self) -> Exchange:
        from zvcore.precomputed.exchange import VolumeExchange

        return VolumeExchange(self)

    def read_rows(self, node: Any) -> Rows | None:
        from zvcore.precomputed.kinds import ANNOTATIONS

        if getattr(node, "kind", None) != ANNOTATIONS:
            return None
        from zvcore.precomputed.annotation_exchange import read_rows

        return read_rows(node)

    def refuse_rows(self, store: Store, rows: Rows, options: Mapping[str, Any], overwrite: bool) -> None:
        from zvcore.precomputed.annotation_exchange import refuse_rows

        refuse_rows(store, rows, options, overwrite)

    def write_rows(self, store: Store, rows: Rows, options: Mapping[str, Any], overwrite: bool) -> Report:
        from zvcore.precomputed.annotation_exchange import write_rows

        return write_rows(store, rows, options, overwrite)

    def care(self) -> Care:
        from zvcore.precomputed import care

        return care

    def glimpse(self, store: Store) -> Glimpse | None:
        from zvcore.errors import ZvcoreError
        from zvcore.precomputed.kinds import VOLUME, kind_of
        from zvcore.precomputed.metadata import INFO, read_info

        try:
            kind = kind_of(read_info(store), INFO)
        except ZvcoreError:
            return None
        return None if kind == VOLUME else Glimpse(kind, ViewerSource("precomputed://"))

    def stored_value(self, store: Store, sharding: Any, id: int) -> bytes | None:
        from zvcore.precomputed import ShardedStore, ShardingSpec

        return ShardedStore(store, ShardingSpec.from_json(sharding)).get(id)

    def read_lines(self, node: Any) -> Lines | None:
        from zvcore.precomputed.line_exchange import read_lines
        from zvcore.precomputed.skeletons import Skeletons

        return read_lines(node) if isinstance(node, Skeletons) else None

    def refuse_lines(self, store: Store, options: Mapping[str, Any], overwrite: bool) -> None:
        from zvcore.precomputed.line_exchange import refuse_lines

        refuse_lines(store, options, overwrite)

    def lines_lost(self, lines: Lines) -> Report:
        from zvcore.precomputed.line_exchange import lines_lost

        return lines_lost(lines)

    def write_lines(self, store: Store, lines: Lines, options: Mapping[str, Any], overwrite: bool) -> Report:
        from zvcore.precomputed.line_exchange import write_lines

        return write_lines(store, lines, options, overwrite)

    def first_segments(self, store: Store, count: int) -> list[str]:
        from zvcore.precomputed.exporting import first_segments

        return first_segments(store, count)

    def annotations_in(self, store: Store) -> dict[str, list[str]]:
        from zvcore.precomputed.beside import annotations_in

        return annotations_in(store)

    def object_file(
        self, store: Store, inside: str | None, id: int, suffix: str, lod: int = 0
    ) -> tuple[bytes, list[str]] | None:
        from zvcore.precomputed.exporting import object_file

        return object_file(store, inside, id, suffix, lod)

    def viewer_source(self, node: Any) -> ViewerSource:
        encoding = getattr(getattr(node, "encoding", None), "name", "raw")
        if encoding not in _VIEWER_ENCODINGS:
            return ViewerSource(None, f"Neuroglancer does not read {encoding}")
        return ViewerSource("precomputed://")
