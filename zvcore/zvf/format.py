"""Zarr Vectors as a format among others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.format import Format

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zvcore.exchange.lines import Lines
    from zvcore.exchange.rows import Rows
    from zvcore.format import Care
    from zvcore.report import Report
    from zvcore.stores import Store

__all__ = ["ZarrVectors"]

# The attribute without which a Zarr group is no Zarr Vectors store.
_ATTRIBUTE = b"zarr_vectors"


class ZarrVectors(Format):
    name = "zvf"
    title = "Zarr Vectors"
    marks = ("zarr.json",)
    folder_endings = (".zarrvectors", ".zvf")
    # Such a store is a Zarr group too.
    precedence = 20
    makes_arrays = False
    takes_rows = True
    takes_lines = True

    def detect(self, store: Store) -> bool:
        if _ATTRIBUTE not in bytes(store.get("zarr.json") or b""):
            return False
        from zvcore import zvf

        return zvf.detect(store)

    def open(self, store: Store, mode: str = "r", **options: Any) -> Any:
        from zvcore import zvf

        return zvf.open(store, mode, **options)

    def read_rows(self, node: Any) -> Rows | None:
        from zvcore.zvf.rows import read_rows
        from zvcore.zvf.vector_store import VectorStore

        return read_rows(node) if isinstance(node, VectorStore) else None

    def refuse_rows(self, store: Store, rows: Rows, options: Mapping[str, Any], overwrite: bool) -> None:
        from zvcore.zvf.rows import refuse_rows

        refuse_rows(store, rows, options, overwrite)

    def write_rows(self, store: Store, rows: Rows, options: Mapping[str, Any], overwrite: bool) -> Report:
        from zvcore.zvf.rows import write_rows

        return write_rows(store, rows, options, overwrite)

    def rows_lost(self, rows: Rows) -> Report:
        from zvcore.zvf.rows import rows_lost

        return rows_lost(rows)

    def read_lines(self, node: Any) -> Lines | None:
        from zvcore.zvf.lines import read_lines
        from zvcore.zvf.vector_store import VectorStore

        return read_lines(node) if isinstance(node, VectorStore) else None

    def refuse_lines(self, store: Store, options: Mapping[str, Any], overwrite: bool) -> None:
        from zvcore.zvf.lines import refuse_lines

        refuse_lines(store, options, overwrite)

    def lines_lost(self, lines: Lines) -> Report:
        from zvcore.zvf.lines import lines_lost

        return lines_lost(lines)

    def write_lines(self, store: Store, lines: Lines, options: Mapping[str, Any], overwrite: bool) -> Report:
        from zvcore.zvf.lines import write_lines

        return write_lines(store, lines, options, overwrite)

    def care(self) -> Care:
        from zvcore.zvf import care

        return care
